"""Quantities: `1500m`, `2Gi`, `1e3`, read exactly as Kubernetes reads them.

A quantity is an integer number of nano-units; nothing passes through a float. What is finer than a nano-unit is rounded
away from zero. A binary quantity is capped at 2^63-1, a decimal one is not. Kubernetes also accepts strings that its
documentation does not mention; they are accepted here, too.
"""

import functools
import re
from dataclasses import dataclass, field

NANO = 10**9

MILLI = 10**6
"""Nano-units per milli-unit."""

INT64_MAX = 2**63 - 1

_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([A-Za-z]*(?:[+-]?[0-9]+)?)", re.ASCII)

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}

_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}

_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}

_LARGEST_EXPONENT = 10_000
"""Exponents are clamped to this, above any real amount: a power of ten must not exhaust memory."""

_LARGEST_NANO = INT64_MAX * NANO

_MOST_DIGITS = 1000
"""Digits beyond these only scale the number: Python rejects integers of thousands of digits."""

_PRINTED_AT_ONCE = 10**_MOST_DIGITS

ACCEPTED_QUANTITY = "a quantity such as 500m, 2, 1.5Gi or 1e3"


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact amount. Amounts compare by value; the suffix family is kept for printing."""

    nano: int
    family: str = field(default="decimal", compare=False)
    """`decimal` (k, M), `binary` (Ki, Mi) or `exponent` (e3)."""

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano + other.nano, self.family if self.nano else other.family)

    def value(self) -> int:
        """Whole units, rounded away from zero; at most what an int64 holds."""
        return _within_int64(_divide_away_from_zero(self.nano, NANO))

    def milli_value(self) -> int:
        """Thousandths, rounded away from zero; at most what an int64 holds."""
        return _within_int64(_divide_away_from_zero(self.nano, MILLI))

    def __str__(self) -> str:
        """The canonical form: no fraction, and the largest suffix without loss."""
        if not self.nano:
            return "0"
        whole, fraction = divmod(self.nano, NANO)
        if self.family == "binary" and not fraction and abs(whole) >= 1024:
            return _print_binary(whole)
        return _print_decimal(self.nano, self.family == "exponent")

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"


@functools.lru_cache(maxsize=65536)
def parse_quantity(text: str) -> Quantity:
    """Parse a quantity. ValueError if it is malformed."""
    match = _NUMBER.fullmatch(text)
    if match is None or not text:
        raise ValueError(f"{text!r} is not a quantity")
    sign, whole, fraction, suffix = match.groups()
    fraction = fraction or ""
    digits, dropped = _read_digits(whole + fraction)
    if suffix in _BINARY:
        # only with these suffixes does Kubernetes require a digit
        if suffix in ("Pi", "Ei") and not whole + fraction:
            raise ValueError(f"{text!r} is not a quantity: it has no digit")
        nano = min(_round_up(digits * 2 ** _BINARY[suffix], 9 - len(fraction) + dropped), INT64_MAX * NANO)
        family = "binary"
    else:
        exponent, family = _read_exponent(text, suffix)
        if exponent < -9 and not whole + fraction:
            raise ValueError(f"{text!r} is not a quantity: it has no digit")
        nano = _round_up(digits, 9 - len(fraction) + exponent + dropped)
    return Quantity(-nano if sign == "-" else nano, family)


def read_quantity(value: object) -> Quantity:
    """The quantity of a JSON value: a string, a number, or null for zero."""
    if value is None:
        return ZERO
    if isinstance(value, str):
        return parse_quantity(value.strip())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return parse_quantity(str(value))
    raise ValueError(f"{value!r} is not a quantity")


def saturate_int64(amount: Quantity) -> Quantity:
    """The amount clamped to what Quantity.Value() returns, so that sums stay small."""
    if -_LARGEST_NANO <= amount.nano <= _LARGEST_NANO:
        return amount
    return Quantity(_LARGEST_NANO if amount.nano > 0 else -_LARGEST_NANO, amount.family)


def _read_digits(text: str) -> tuple[int, int]:
    """The number of the leading digits, and how many digits were dropped."""
    if len(text) <= _MOST_DIGITS:
        return int(text or "0"), 0
    significant = text.lstrip("0")
    dropped = max(len(significant) - _MOST_DIGITS, 0)
    kept = int(significant[:_MOST_DIGITS] or "0")
    return kept + bool(significant[_MOST_DIGITS:].strip("0")), dropped


def _read_exponent(text: str, suffix: str) -> tuple[int, str]:
    """Power of ten and family of a suffix that is not binary."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], "decimal"
    if suffix[:1] in ("e", "E") and (power := suffix[1:]).lstrip("+-").isdigit() and abs(int(power)) <= INT64_MAX:
        return max(-_LARGEST_EXPONENT, min(int(power), _LARGEST_EXPONENT)), "exponent"
    raise ValueError(f"{text!r} is not a quantity: unknown suffix {suffix!r}")


def _round_up(digits: int, exponent: int) -> int:
    """Digits × 10^exponent as an integer, rounded up."""
    power: int = 10 ** abs(exponent)
    return digits * power if exponent >= 0 else -(-digits // power)


def _divide_away_from_zero(nano: int, unit: int) -> int:
    return -(-nano // unit) if nano > 0 else nano // unit


def _within_int64(number: int) -> int:
    return max(-INT64_MAX - 1, min(number, INT64_MAX))


def _print_binary(whole: int) -> str:
    exponent = 0
    while whole % 1024 == 0 and exponent < 60:
        whole //= 1024
        exponent += 10
    return f"{_print_digits(whole)}{_BINARY_SUFFIX.get(exponent, '')}"


def _print_decimal(nano: int, as_exponent: bool) -> str:
    exponent = -9
    while nano % 1000 == 0 and (as_exponent or exponent < 18):
        nano //= 1000
        exponent += 3
    if as_exponent:
        return f"{_print_digits(nano)}e{exponent}" if exponent else _print_digits(nano)
    return f"{_print_digits(nano)}{_DECIMAL_SUFFIX[exponent]}"


def _print_digits(number: int) -> str:
    """All digits of a number, in parts: Python refuses to print thousands of them at once."""
    if number < 0:
        return f"-{_print_digits(-number)}"
    parts: list[str] = []
    while number >= _PRINTED_AT_ONCE:
        number, low = divmod(number, _PRINTED_AT_ONCE)
        parts.append(f"{low:0{_MOST_DIGITS}d}")
    return "".join((str(number), *reversed(parts)))


ZERO = Quantity(0)
