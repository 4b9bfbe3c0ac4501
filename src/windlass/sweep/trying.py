"""What is to be tried: for each flag its values, as `--try` spells them.

    --expander=least-waste,price             each of these
    --expander=priority+price,price          of flags that take several names, + joins those of one value
    --scale-down-unneeded-time=1m..20m       anything between, for a random search
    --scale-down-unneeded-time=1m..20m:5     five of them, both ends included
    --balance-similar-node-groups            a bool alone: true and false

A range is spaced evenly, or by even factors where it spans a factor of ten or more; `:log` and `:linear` say otherwise.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from windlass import errors
from windlass.autoscaler import flag_names, flag_values, flags
from windlass.kube import durations

_ALSO = ("behavior", "frequent-loops-enabled")
"""Flags that a simulation depends on, beside those that a decision does."""
_JOINED = frozenset({flag_values.read_expanders, flag_values.read_names, flag_values.read_priority_graces})
"""Readers of values that have commas of their own."""
_WHOLE = frozenset({flag_values.read_int, flag_values.read_positive, flag_values.read_verbosity})
_DECADE = 10.0
_MOST_STEPS = 1000
_ZEROS = re.compile(r"(?<=m)0s$|(?<=h)0m0s$")


@dataclass(frozen=True, slots=True)
class Choices:
    """One of several values."""

    flag: str
    values: tuple[str, ...]

    @property
    def grid(self) -> tuple[str, ...]:
        return self.values

    def pick(self, share: float) -> str:
        """The value at a share of the way, 0 ≤ share < 1."""
        return self.values[int(share * len(self.values))]


@dataclass(frozen=True, slots=True)
class Range:
    """A number between two others, both included."""

    flag: str
    low: float
    high: float
    is_log: bool
    spell: Callable[[float], str]

    @property
    def grid(self) -> None:
        """It has no end of values."""

    def pick(self, share: float) -> str:
        if self.is_log:
            return self.spell(self.low * (self.high / self.low) ** share)
        return self.spell(self.low + (self.high - self.low) * share)


Axis = Choices | Range


def read(texts: Sequence[str]) -> list[Axis]:
    """All of `--try`. InvalidInput names the flag, what was found and what is accepted."""
    if not texts:
        raise errors.InvalidInput("--try: found nothing to try, accepted are flags: --try --expander=least-waste,price")
    found: dict[str, Axis] = {}
    for text in texts:
        axis = _read(text)
        if axis.flag in found:
            raise errors.InvalidInput(f"--try {text}: found --{axis.flag} a second time, accepted is each flag once")
        found[axis.flag] = axis
    return list(found.values())


def _read(text: str) -> Axis:
    spelled, equals, values = text[2:].partition("=")
    if not text.startswith("--") or not spelled:
        raise errors.InvalidInput(
            f"--try: found {text!r}, accepted is a flag with its values: --try --max-nodes-total=9,12"
        )
    name = spelled.replace("_", "-")
    read = _check_name(name)
    if not equals:
        if read not in flag_values.BOOLS:
            raise errors.InvalidInput(f"--try {text}: found no values, accepted are some: --{name}=a,b")
        return Choices(name, ("true", "false"))
    if ".." in values:
        return _read_range(text, name, read, values)
    return _read_choices(text, name, read, values)


def _check_name(name: str) -> flag_values.Reader:
    """How the flag is read, if trying it can change anything."""
    if name not in flags.READERS:
        raise errors.InvalidInput(f"--{name}: there is no such flag{flags.suggest(name)}")
    if name in flag_names.WITHOUT_EFFECT:
        raise errors.InvalidInput(f"--{name}: trying it changes nothing: {flag_names.WITHOUT_EFFECT[name].why}")
    new = {**flag_names.OLD_NAMES, **flag_names.ADDED_NAMES}.get(name)
    if new is not None:
        raise errors.InvalidInput(f"--{name}: found an old name, accepted is --{new}")
    if name not in flags.FLAGS and name not in _ALSO:
        raise errors.InvalidInput(f"--{name}: trying it changes nothing, for no decision depends on it")
    return flags.READERS[name]


def _read_choices(text: str, name: str, read: flag_values.Reader, values: str) -> Choices:
    found = [part.replace("+", ",") if read in _JOINED else part for part in values.split(",")]
    for value in found:
        if not value and read is not flag_values.read_text:
            raise errors.InvalidInput(f"--try {text}: found an empty value, accepted are values like --{name}=a,b")
        _check_value(name, read, value)
    return Choices(name, tuple(dict.fromkeys(found)))


def _check_value(name: str, read: flag_values.Reader, value: str) -> object:
    try:
        return read([value])
    except ValueError as error:
        raise errors.InvalidInput(f"--{name}: found {value!r}, expected {error}") from None


def _read_range(text: str, name: str, read: flag_values.Reader, values: str) -> Axis:
    spell = _find_speller(read)
    if spell is None:
        takes = flag_values.KINDS[read]
        raise errors.InvalidInput(f"--try {text}: found a range, accepted are single values, for it takes {takes}")
    least, _, rest = values.partition("..")
    most, *options = rest.split(":")
    low, high = (float(str(_check_value(name, read, end))) for end in (least, most))
    if not low < high:
        raise errors.InvalidInput(f"--try {text}: found {most} as the end, accepted is more than {least}")
    steps, is_log = _read_options(text, options)
    if is_log and low <= 0:
        raise errors.InvalidInput(f"--try {text}: found {least} as the beginning, accepted for log is more than 0")
    found = Range(name, low, high, low > 0 and high >= _DECADE * low if is_log is None else is_log, spell)
    if steps is None:
        return found
    return Choices(name, tuple(dict.fromkeys(found.pick(step / (steps - 1)) for step in range(steps))))


def _read_options(text: str, options: Sequence[str]) -> tuple[int | None, bool | None]:
    """Steps and scale, as far as they are said."""
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


def _find_speller(read: flag_values.Reader) -> Callable[[float], str] | None:
    """How numbers of a flag are written; None: it takes no numbers."""
    if read is flag_values.read_duration_s:
        return spell_duration
    if read in _WHOLE:
        return _spell_whole
    return _spell_number if read is flag_values.read_float else None


def spell_duration(seconds: float) -> str:
    """Whole seconds from a minute on, three figures below: `2m7s`, `10m`, `1.25s`."""
    kept = round(seconds) if seconds >= 60 else _round(seconds)
    return _ZEROS.sub("", durations.spell(kept))


def _spell_whole(number: float) -> str:
    return str(round(number))


def _spell_number(number: float) -> str:
    return f"{_round(number):g}"


def _round(number: float) -> float:
    """Three figures."""
    return round(number, 2 - math.floor(math.log10(abs(number)))) if number else 0.0
