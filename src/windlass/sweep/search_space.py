"""Search space: for each flag its values, in the notation of `--try`.

    --expander=least-waste,price             each of these
    --expander=priority+price,price          of flags that take several names, + joins those of one value
    --scale-down-unneeded-time=1m..20m       anything between, for a random search
    --scale-down-unneeded-time=1m..20m:5     five of them, both ends included
    --balance-similar-node-groups            a bool alone: true and false

A range is spaced evenly, or geometrically where it spans a factor of ten or more; `:log` and `:linear` override.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from windlass import errors
from windlass.autoscaler.options import flag_values, flags
from windlass.kube import time_formats

_SIMULATION_FLAGS = ("behavior", "frequent-loops-enabled")
"""Flags that affect a simulation, besides those that affect a decision."""
_LIST_READERS = frozenset({flag_values.read_expanders, flag_values.read_names, flag_values.read_priority_graces})
"""Readers of values with commas."""
_INTEGER_READERS = frozenset({flag_values.read_int, flag_values.read_positive, flag_values.read_verbosity})
_DECADE = 10.0
_MOST_STEPS = 1000
_ZEROS = re.compile(r"(?<=m)0s$|(?<=h)0m0s$")


@dataclass(frozen=True, slots=True)
class ChoiceAxis:
    """One of several values."""

    flag: str
    values: tuple[str, ...]

    @property
    def grid(self) -> tuple[str, ...]:
        return self.values

    def pick(self, share: float) -> str:
        """The value at a share of the axis, 0 ≤ share < 1."""
        return self.values[int(share * len(self.values))]


@dataclass(frozen=True, slots=True)
class RangeAxis:
    """A range of numbers, both ends included."""

    flag: str
    low: float
    high: float
    is_log: bool
    format_number: Callable[[float], str]

    @property
    def grid(self) -> None:
        """A range has no grid."""

    def pick(self, share: float) -> str:
        if self.is_log:
            return self.format_number(self.low * (self.high / self.low) ** share)
        return self.format_number(self.low + (self.high - self.low) * share)


SearchAxis = ChoiceAxis | RangeAxis


def parse_axes(texts: Sequence[str]) -> list[SearchAxis]:
    """Axes of all `--try` options. InvalidInput names the flag, what was found and what is accepted."""
    if not texts:
        raise errors.InvalidInput("--try: found nothing to try, accepted are flags: --try --expander=least-waste,price")
    found: dict[str, SearchAxis] = {}
    for text in texts:
        axis = _parse_axis(text)
        if axis.flag in found:
            raise errors.InvalidInput(f"--try {text}: found --{axis.flag} a second time, accepted is each flag once")
        found[axis.flag] = axis
    return list(found.values())


def _parse_axis(text: str) -> SearchAxis:
    flag, equals, values = text[2:].partition("=")
    if not text.startswith("--") or not flag:
        raise errors.InvalidInput(
            f"--try: found {text!r}, accepted is a flag with its values: --try --max-nodes-total=9,12"
        )
    name = flag.replace("_", "-")
    read = _check_flag(name)
    if not equals:
        if read not in flag_values.BOOL_READERS:
            raise errors.InvalidInput(f"--try {text}: found no values, accepted are some: --{name}=a,b")
        return ChoiceAxis(name, ("true", "false"))
    if ".." in values:
        return _parse_range(text, name, read, values)
    return _parse_choices(text, name, read, values)


def _check_flag(name: str) -> flag_values.ValueReader:
    """The reader of a flag. InvalidInput if the flag cannot change a simulation."""
    if name not in flags.READERS:
        raise errors.InvalidInput(f"--{name}: unknown flag{flags.suggest_flag(name)}")
    if name in flags.IGNORED_FLAGS:
        raise errors.InvalidInput(f"--{name}: trying it changes nothing: {flags.IGNORED_FLAGS[name].why}")
    new = {**flags.RENAMED_FLAGS, **flags.FLAG_ALIASES}.get(name)
    if new is not None:
        raise errors.InvalidInput(f"--{name}: found an old name, accepted is --{new}")
    if name not in flags.DECISION_FLAGS and name not in _SIMULATION_FLAGS:
        raise errors.InvalidInput(f"--{name}: trying it changes nothing, for no decision depends on it")
    return flags.READERS[name]


def _parse_choices(text: str, name: str, read: flag_values.ValueReader, values: str) -> ChoiceAxis:
    found = [part.replace("+", ",") if read in _LIST_READERS else part for part in values.split(",")]
    for value in found:
        if not value and read is not flag_values.read_text:
            raise errors.InvalidInput(f"--try {text}: found an empty value, accepted are values like --{name}=a,b")
        _check_value(name, read, value)
    return ChoiceAxis(name, tuple(dict.fromkeys(found)))


def _check_value(name: str, read: flag_values.ValueReader, value: str) -> object:
    try:
        return read([value])
    except ValueError as error:
        raise errors.InvalidInput(f"--{name}: found {value!r}, expected {error}") from None


def _parse_range(text: str, name: str, read: flag_values.ValueReader, values: str) -> SearchAxis:
    format_number = _find_formatter(read)
    if format_number is None:
        takes = flag_values.VALUE_KINDS[read]
        raise errors.InvalidInput(f"--try {text}: found a range, accepted are single values, for it takes {takes}")
    least, _, rest = values.partition("..")
    most, *options = rest.split(":")
    low, high = (float(str(_check_value(name, read, end))) for end in (least, most))
    if not low < high:
        raise errors.InvalidInput(f"--try {text}: found {most} as the end, accepted is more than {least}")
    steps, is_log = _parse_options(text, options)
    if is_log and low <= 0:
        raise errors.InvalidInput(f"--try {text}: found {least} as the beginning, accepted for log is more than 0")
    range_axis = RangeAxis(
        name, low, high, low > 0 and high >= _DECADE * low if is_log is None else is_log, format_number
    )
    if steps is None:
        return range_axis
    return ChoiceAxis(name, tuple(dict.fromkeys(range_axis.pick(step / (steps - 1)) for step in range(steps))))


def _parse_options(text: str, options: Sequence[str]) -> tuple[int | None, bool | None]:
    """Number of steps and scale; None where not given."""
    steps, is_log = None, None
    for option in options:
        if option in ("log", "linear") and is_log is None:
            is_log = option == "log"
        elif option.isascii() and option.isdigit() and 2 <= int(option) <= _MOST_STEPS and steps is None:
            steps = int(option)
        else:
            accepted = f"a number of steps from 2 to {_MOST_STEPS}, log or linear"
            raise errors.InvalidInput(f"--try {text}: found {option!r} after the range, accepted is {accepted}")
    return steps, is_log


def _find_formatter(read: flag_values.ValueReader) -> Callable[[float], str] | None:
    """The formatter of a flag's numbers; None: it takes no numbers."""
    if read is flag_values.read_duration_s:
        return format_flag_duration
    if read in _INTEGER_READERS:
        return _format_whole
    return _format_number if read is flag_values.read_float else None


def format_flag_duration(seconds: float) -> str:
    """Whole seconds from a minute on, three figures below: `2m7s`, `10m`, `1.25s`."""
    kept = round(seconds) if seconds >= 60 else _round(seconds)
    return _ZEROS.sub("", time_formats.format_duration(kept))


def _format_whole(number: float) -> str:
    return str(round(number))


def _format_number(number: float) -> str:
    return f"{_round(number):g}"


def _round(number: float) -> float:
    """Three figures."""
    return round(number, 2 - math.floor(math.log10(abs(number)))) if number else 0.0
