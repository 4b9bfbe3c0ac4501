"""Durations as Go spells them: `1h30m`, `500ms`, `-1.5s`. Days are not a unit, and a bare number is refused unless 0.

Seconds are floats, as everywhere in windlass; parsing and printing go through whole nanoseconds, so that what Go prints
comes back as it was.
"""

import re
from fractions import Fraction

_UNITS_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"(?=\.?\d)(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MAX_NS = 2**63 - 1
_FRACTION_DIGITS = 18
"""Of a fraction Go reads as many digits as an int64 is sure to hold, and then some if they happen to fit."""

ACCEPTED = "a duration such as 90s, 1h30m or 500ms"


def parse(text: str) -> float:
    """Seconds. ValueError if Go's time.ParseDuration would refuse the text."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits == "0":
        return 0.0
    total_ns = 0
    position = 0
    while position < len(digits):
        part = _PART.match(digits, position)
        if part is None:
            break
        total_ns += int(part[1] or 0) * _UNITS_NS[part[3]] + _fraction_ns(part[2] or "", _UNITS_NS[part[3]])
        position = part.end()
    negative = text.startswith("-")
    if not digits or position != len(digits) or total_ns > _MAX_NS + negative:
        raise ValueError(f"{text!r} is not {ACCEPTED}")
    return (-total_ns if negative else total_ns) / 10**9


def _fraction_ns(digits: str, unit_ns: int) -> int:
    """What follows the point, cut off to whole nanoseconds. Go goes through a float here, and so do we."""
    kept = digits[: _FRACTION_DIGITS + (int(digits[: _FRACTION_DIGITS + 1] or 0) <= _MAX_NS)]
    return int(int(kept or 0) * (unit_ns / 10.0 ** len(kept)))


def spell(seconds: float) -> str:
    """As Go prints it: `0s`, `1.5s`, `350ms`, `10m0s`, `1h0m0s`."""
    nanoseconds = round(abs(seconds) * 10**9)
    sign = "-" if seconds < 0 and nanoseconds else ""
    if nanoseconds == 0:
        return "0s"
    for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
        if nanoseconds < size * 1000:
            return f"{sign}{_decimal(Fraction(nanoseconds, size))}{unit}"
    minutes, rest = divmod(nanoseconds, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    tail = f"{_decimal(Fraction(rest, 10**9))}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{tail}"
    return f"{sign}{minutes}m{tail}" if minutes else f"{sign}{tail}"


def _decimal(number: Fraction) -> str:
    whole, rest = divmod(number, 1)
    digits = f"{int(rest * 10**9):09d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
