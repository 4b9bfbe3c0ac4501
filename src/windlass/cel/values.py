"""Value types that Python lacks, names of types, and equality."""

import decimal
import functools
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from windlass import errors
from windlass.quantity import Quantity

Value: TypeAlias = Any
"""Any CEL value; its type is dynamic."""

Function: TypeAlias = Callable[..., Value]

INT64 = range(-(2**63), 2**63)
UINT64 = range(2**64)


class Uint(int):
    """A number without a sign. Arithmetic with other numbers is no overload; comparison is."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value, as a value."""

    name: str


TYPE_NAMES = frozenset(("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"))


class CompileError(errors.WindlassError):
    """An invalid expression. `at` is the position of the error, -1 without one."""

    def __init__(self, text: str, at: int = -1) -> None:
        super().__init__(text)
        self.at = at


class EvaluationError(errors.WindlassError):
    """An expression that fails on this input."""


class Cancelled(EvaluationError):
    """A cancelled evaluation: `&&` and `||` cannot ignore it."""


NO_OVERLOAD = "no such overload"


def as_evaluation_error(error: Exception) -> EvaluationError:
    """Any exception of an evaluation as an error of the expression."""
    if isinstance(error, EvaluationError):
        return error
    if isinstance(error, RecursionError):
        return EvaluationError("max recursion depth exceeded")
    return EvaluationError(f"internal error: {type(error).__name__}: {error}"[:300])


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing."""

    value: Value = None
    has_value: bool = False


NOTHING = Optional()


class Sum(Quantity):
    """A calculated quantity. Kubernetes compares it with other quantities, but not the reverse."""

    __slots__ = ()


class Map(Mapping[Value, Value]):
    """A map with keys of any type: `true` differs from 1, and unhashable keys equal only themselves."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[Value, Value]]) -> None:
        self._entries = {key_of(key): (key, value) for key, value in entries}

    def __getitem__(self, key: Value) -> Value:
        return self._entries[key_of(key)][1]

    def __iter__(self) -> Iterator[Value]:
        return (key for key, _ in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return repr(dict(self._entries.values()))


def key_of(value: Value) -> Hashable:
    """The key of a value in a map: the same for equal numbers, distinct for every other type."""
    if isinstance(value, bool):
        return bool, value
    if isinstance(value, str | bytes | int | float):
        return value
    return type(value), id(value)


_NUMBER = r"(0|[1-9][0-9]*)"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?", re.ASCII)


@functools.total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A semantic version. Build metadata (`+…`) is ignored."""

    major: int
    minor: int
    patch: int
    before: tuple[str, ...] = ()
    """Identifiers of a pre-release."""

    def _key(self) -> tuple[object, ...]:
        marks = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.before)
        return self.major, self.minor, self.patch, not self.before, marks

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._key() == other._key()

    def __lt__(self, other: "Version") -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def parse_version(text: str) -> Version:
    """A semantic version, strictly. ValueError if it is none."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a semantic version")
    major, minor, patch, before, _ = match.groups()
    marks = tuple(before.split(".")) if before else ()
    for number in (major, minor, patch, *marks):
        if number.isdigit() and (len(number) > 20 or int(number) >= 2**64):
            raise ValueError(f'strconv.ParseUint: parsing "{number}": value out of range')
    if any(not mark or (mark.isdigit() and len(mark) > 1 and mark[0] == "0") for mark in marks):
        raise ValueError(f"{text!r} is not a semantic version")
    return Version(int(major), int(minor), int(patch), marks)


def type_name(value: Value) -> str:
    match value:
        case bool():
            return "bool"
        case Uint():
            return "uint"
        case int():
            return "int"
        case float():
            return "double"
        case str():
            return "string"
        case bytes():
            return "bytes"
        case None:
            return "null_type"
        case list():
            return "list"
        case Quantity():
            return "kubernetes.Quantity"
        case Version():
            return "kubernetes.Semver"
        case Optional():
            return "optional_type"
        case Type():
            return "type"
        case _:
            return "map" if isinstance(value, Mapping) else "dyn"


def is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(left: Value, right: Value) -> bool:
    """Values of different types are not equal; numbers are compared as numbers.

    Quantities and versions have no equality with anything else but null.
    """
    if isinstance(left, Quantity | Version) and right is not None:
        return _equal_amounts(left, right)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if is_number(left) and is_number(right):
        return bool(left == right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return len(left) == len(right) and all(
            has_key(right, key) and equal(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, Optional) and isinstance(right, Optional):
        return left.has_value is right.has_value and equal(left.value, right.value)
    return type(left) is type(right) and bool(left == right)


def _equal_amounts(left: Quantity | Version, right: Value) -> bool:
    if isinstance(left, Quantity) and type(right) is Quantity:
        return left.nano == right.nano
    if isinstance(left, Version) and isinstance(right, Version):
        return left == right
    raise EvaluationError(NO_OVERLOAD)


def has_key(container: Mapping[Value, Value], key: Value) -> bool:
    """Is there an entry? Keys of maps from outside are strings."""
    return (type(key) is str or isinstance(container, Map)) and key in container


def print_number(number: float, largest: int = 21) -> str:
    """As in Go: the fewest exact digits, with an exponent from 10^-5 down and 10^largest up."""
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    if math.isnan(number):
        return "NaN"
    digits, exponent = f"{decimal.Decimal(repr(number)).normalize():e}".lower().split("e")
    if -5 < int(exponent) < largest:
        return f"{decimal.Decimal(repr(number)):f}".removesuffix(".0")
    return f"{digits}e{exponent[0]}{exponent[1:]:0>2}"


def print_value(value: Value) -> str:
    """A value within an error message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return print_number(value)
    return str(value)[:100] if isinstance(value, str | int | bytes) else type_name(value)
