"""The text of flags, as Cluster Autoscaler spells their values.

Every reader takes all the values a flag was given, in order: of a flag that takes one, the last counts. A `ValueError`
says what is accepted; whoever calls knows the flag.
"""

import math
from collections.abc import Callable, Sequence

from windlass.engine import settings
from windlass.engine.expanders import chain
from windlass.kube import durations
from windlass.selectors import parse_int64

Reader = Callable[[Sequence[str]], object]

_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")


def read_bool(texts: Sequence[str]) -> bool:
    if texts[-1] not in _TRUE + _FALSE:
        raise ValueError("true or false")
    return texts[-1] in _TRUE


def read_int(texts: Sequence[str]) -> int:
    number = parse_int64(texts[-1])
    if number is None:
        raise ValueError("a whole number")
    return number


def read_float(texts: Sequence[str]) -> float:
    try:
        number = float(texts[-1])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("a number")
    return number


def read_duration_s(texts: Sequence[str]) -> float:
    try:
        return durations.parse(texts[-1])
    except ValueError as error:
        raise ValueError(durations.ACCEPTED) from error


def read_text(texts: Sequence[str]) -> str:
    return texts[-1]


def read_array(texts: Sequence[str]) -> tuple[str, ...]:
    """Each value as it stands."""
    return tuple(texts)


def read_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Names separated by commas; further values add to the first."""
    return tuple(name for text in texts for name in text.split(",") if name)


def read_expanders(texts: Sequence[str]) -> tuple[str, ...]:
    """Names of expanders in the order in which they are asked. InvalidInput if they make no chain."""
    names = tuple(texts[-1].split(","))
    chain.check_names(names)
    return names


def read_estimator(texts: Sequence[str]) -> str:
    if texts[-1] != "binpacking":
        raise ValueError("binpacking, the only estimator")
    return texts[-1]


def read_locked(texts: Sequence[str]) -> bool:
    if not read_bool(texts):
        raise ValueError("true; it cannot be switched off")
    return True


def read_bounds(texts: Sequence[str]) -> settings.Bounds:
    low, _, high = texts[-1].partition(":")
    minimum, maximum = parse_int64(low), parse_int64(high)
    if minimum is None or maximum is None or not 0 <= minimum <= maximum:
        raise ValueError("<min>:<max>, two whole numbers with 0 ≤ min ≤ max")
    return settings.Bounds(minimum, maximum)


def read_gib_bounds(texts: Sequence[str]) -> settings.Bounds:
    bounds = read_bounds(texts)
    return settings.Bounds(bounds.min * settings.GIB, bounds.max * settings.GIB)


def read_gpu_bounds(texts: Sequence[str]) -> tuple[settings.GpuBounds, ...]:
    return tuple(map(_read_gpu_bounds, texts))


def read_priority_graces(texts: Sequence[str]) -> tuple[settings.PriorityGrace, ...]:
    if not texts[-1]:
        return ()
    return tuple(_read_priority_grace(pair) for pair in texts[-1].split(","))


def _read_gpu_bounds(text: str) -> settings.GpuBounds:
    parts = text.split(":")
    numbers = [parse_int64(part) for part in parts[1:]]
    match numbers:
        case [int(minimum), int(maximum)] if 0 <= minimum <= maximum:
            return settings.GpuBounds(parts[0], minimum, maximum)
    raise ValueError("<gpu type>:<min>:<max>, the last two whole numbers with 0 ≤ min ≤ max")


def _read_priority_grace(pair: str) -> settings.PriorityGrace:
    match [parse_int64(part) for part in pair.split(":")]:
        case [int(priority), int(grace_s)]:
            return settings.PriorityGrace(priority, grace_s)
    raise ValueError("<priority>:<seconds>, whole numbers, and such pairs separated by commas")
