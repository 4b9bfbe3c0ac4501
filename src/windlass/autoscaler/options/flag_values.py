"""Flag values: parsers for flag texts, in Cluster Autoscaler's formats."""

import math
import re
from collections.abc import Callable, Mapping, Sequence

from windlass import quantity, scheduler_releases, selectors
from windlass.engine.expanders import chain
from windlass.engine.model import settings
from windlass.kube import time_formats
from windlass.observability import klog
from windlass.selectors import parse_int64

ValueReader = Callable[[Sequence[str]], object]

_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")
BOOL_TEXTS = frozenset(_TRUE + _FALSE)
_PREFIXED = re.compile(r"([+-]?)0([xXbBoO]?)((?:_?[0-9a-fA-F])+)")
"""An integer with a Go prefix; a leading zero alone means octal: 010 is 8."""

_CODE_POSITION = re.compile(r"[^:]*\.[^:]*:0*[1-9][0-9]*")


def read_bool(texts: Sequence[str]) -> bool:
    if texts[-1] not in _TRUE + _FALSE:
        raise ValueError("true or false")
    return texts[-1] in _TRUE


def read_int(texts: Sequence[str]) -> int:
    number = _parse_prefixed(texts[-1])
    if number is None:
        raise ValueError("a whole number")
    return number


def read_positive(texts: Sequence[str]) -> int:
    number = _parse_prefixed(texts[-1])
    if number is None or number < 1:
        raise ValueError("a whole number, 1 or more")
    return number


def read_float(texts: Sequence[str]) -> float:
    try:
        number = float("" if set(texts[-1]) & set(" \t\n_") else texts[-1])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("a number")
    return number


def read_duration_s(texts: Sequence[str]) -> float:
    try:
        return time_formats.parse_duration(texts[-1])
    except ValueError as error:
        raise ValueError(time_formats.ACCEPTED_DURATION) from error


def read_text(texts: Sequence[str]) -> str:
    return texts[-1]


def read_namespace(texts: Sequence[str]) -> str:
    if texts[-1] and selectors.check_dns_label(texts[-1]):
        raise ValueError("the name of a namespace: lower-case letters, digits and '-'")
    return texts[-1]


def read_object_name(texts: Sequence[str]) -> str:
    if texts[-1] and selectors.check_dns_subdomain(texts[-1]):
        raise ValueError("the name of an object: lower-case letters, digits, '-' and '.'")
    return texts[-1]


def read_array(texts: Sequence[str]) -> tuple[str, ...]:
    """Return each value unchanged."""
    return tuple(texts)


def read_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Parse names separated by commas; values of repeated flags are added."""
    return tuple(name for text in texts for name in text.split(",") if name)


def read_expanders(texts: Sequence[str]) -> tuple[str, ...]:
    """Parse the expander chain in order. InvalidInput for an invalid chain."""
    names = tuple(texts[-1].split(","))
    chain.check_names(names)
    return names


def read_estimator(texts: Sequence[str]) -> str:
    if texts[-1] != "binpacking":
        raise ValueError("binpacking, the only estimator")
    return texts[-1]


def read_provider(texts: Sequence[str]) -> str:
    if texts[-1] != "clusterapi":
        raise ValueError("clusterapi, the only provider")
    return texts[-1]


def read_lock(texts: Sequence[str]) -> str:
    if texts[-1] != "leases":
        raise ValueError("leases, the only lock")
    return texts[-1]


def read_address(texts: Sequence[str]) -> str:
    _, colon, port = texts[-1].rpartition(":")
    number = parse_int64(port)
    if not colon or number is None or not 0 <= number <= 65535:
        raise ValueError("host:port, or :port for every interface")
    return texts[-1]


SEVERITIES = ("INFO", "WARNING", "ERROR", "FATAL")
"""klog's severities by number."""


def read_severity(texts: Sequence[str]) -> str:
    text = texts[-1].upper()
    if text in SEVERITIES:
        return str(SEVERITIES.index(text))
    if text not in {str(number) for number in range(len(SEVERITIES))}:
        raise ValueError(f"0 to {len(SEVERITIES) - 1}, or {', '.join(SEVERITIES)}")
    return text


def read_log_format(texts: Sequence[str]) -> str:
    if texts[-1] not in ("text", "json"):
        raise ValueError("text or json")
    return texts[-1]


def read_log_patterns(texts: Sequence[str]) -> str:
    klog.parse_vmodule(texts[-1])
    return texts[-1]


def read_verbosity(texts: Sequence[str]) -> int:
    number = _parse_prefixed(texts[-1])
    if number is None or number < 0:
        raise ValueError("a whole number, 0 or more")
    return number


def read_release(texts: Sequence[str]) -> str:
    """Parse a kube-scheduler release; empty: none."""
    if texts[-1] and texts[-1] not in scheduler_releases.KNOWN_RELEASES:
        raise ValueError(" or ".join(scheduler_releases.KNOWN_RELEASES))
    return texts[-1]


def read_code_position(texts: Sequence[str]) -> str:
    """Parse klog's position in the code; empty or :0: none."""
    if texts[-1] not in ("", ":0") and _CODE_POSITION.fullmatch(texts[-1]) is None:
        raise ValueError("<file>:<line>, such as loop.go:234")
    return texts[-1]


def read_gates(texts: Sequence[str]) -> tuple[tuple[str, bool], ...]:
    """Parse feature gates: pairs separated by commas; values of repeated flags are added."""
    gates: dict[str, bool] = {}
    for pair in ",".join(texts).split(","):
        if pair:
            name, equals, truth = pair.partition("=")
            if not name or not equals or truth.strip() not in _TRUE + _FALSE:
                raise ValueError("<name>=true or <name>=false, separated by commas")
            gates[name.strip()] = truth.strip() in _TRUE
    return tuple(sorted(gates.items()))


def read_quantity(texts: Sequence[str]) -> int:
    """Parse a quantity of bytes."""
    try:
        return quantity.parse_quantity(texts[-1]).value()
    except ValueError as error:
        raise ValueError("a quantity of bytes, such as 512, 1K or 2Mi") from error


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
        case [int(priority), int(grace_s)] if -(2**31) <= priority < 2**31 and grace_s >= 0:
            return settings.PriorityGrace(priority, grace_s)
    raise ValueError("<priority>:<seconds>, a whole number of 32 bits and one of at least 0; more pairs after commas")


def _parse_prefixed(text: str) -> int | None:
    """Parse an integer as Go's ParseInt(text, 0, 64) does, or return None: `0x1F`, `0b101`, `017` and `1_000` are
    valid.
    """
    match = _PREFIXED.fullmatch(text)
    if match is None:
        plain = text if re.fullmatch(r"[+-]?[0-9](_?[0-9])*", text) else ""
        return parse_int64(plain.replace("_", ""))
    base = {"x": 16, "b": 2, "o": 8, "": 8}[match[2].lower()]
    try:
        number = int(match[1] + match[3].replace("_", ""), base)
    except ValueError:
        return None
    return number if -(2**63) <= number < 2**63 else None


BOOL_READERS: frozenset[ValueReader] = frozenset({read_bool, read_locked})
"""Readers of flags that need no value."""

VALUE_KINDS: Mapping[ValueReader, str] = {
    read_address: "host:port",
    read_namespace: "text",
    read_object_name: "text",
    read_array: "text, repeatable",
    read_bool: "bool",
    read_bounds: "min:max",
    read_code_position: "file:line",
    read_duration_s: "duration",
    read_estimator: "binpacking",
    read_expanders: "names, separated by commas",
    read_float: "number",
    read_gates: "name=bool, separated by commas",
    read_gib_bounds: "min:max in GiB",
    read_gpu_bounds: "type:min:max, repeatable",
    read_int: "whole number",
    read_lock: "leases",
    read_locked: "bool",
    read_log_format: "text or json",
    read_log_patterns: "pattern=level, separated by commas",
    read_names: "names, separated by commas, repeatable",
    read_positive: "whole number",
    read_priority_graces: "priority:seconds, separated by commas",
    read_provider: "clusterapi",
    read_quantity: "quantity",
    read_severity: "severity",
    read_release: " or ".join(scheduler_releases.KNOWN_RELEASES),
    read_text: "text",
    read_verbosity: "whole number",
}
"""Kind of value of each reader, for the reference."""
