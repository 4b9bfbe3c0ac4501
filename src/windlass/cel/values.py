"""Value types that Python lacks, names of types, and equality.

The types that Kubernetes adds are IP addresses, CIDRs, quantities and semantic versions.
"""

import decimal
import functools
import ipaddress
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from windlass import errors, quantity
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


Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Cidr:
    """A network, with the address that it was written with."""

    address: Address
    prefix: int

    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network((self.address, self.prefix), strict=False)


def parse_ip(text: Value) -> Address:
    if isinstance(text, Cidr):
        return text.address
    try:
        if not isinstance(text, str):
            raise EvaluationError(NO_OVERLOAD)
        return _parse_ip(text)
    except ValueError:
        raise EvaluationError(f'IP Address "{text[:60]}" parse error during conversion from string') from None


def _parse_ip(text: str) -> Address:
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and (address.scope_id or address.ipv4_mapped):
        raise ValueError(text)
    return address


def parse_cidr(text: Value) -> Cidr:
    if not isinstance(text, str):
        raise EvaluationError(NO_OVERLOAD)
    address, _, prefix = text.partition("/")
    try:
        parsed = _parse_ip(address)
        if not prefix.isascii() or not prefix.isdigit() or (prefix[0] == "0" and prefix != "0"):
            raise ValueError(text)
        if int(prefix[:4]) > parsed.max_prefixlen:
            raise ValueError(text)
    except ValueError:
        raise EvaluationError(f'network address parse error during conversion from string: "{text[:60]}"') from None
    return Cidr(parsed, int(prefix))


def can_parse(parse: Callable[[Value], object]) -> Callable[[Value], bool]:
    def check(text: Value) -> bool:
        if not isinstance(text, str):
            raise EvaluationError(NO_OVERLOAD)
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return check


def is_canonical_ip(text: Value) -> bool:
    return bool(str(parse_ip(text)) == text)


def ip_function(function: Callable[[Address], Value]) -> Callable[[Value], Value]:
    def checked(address: Value) -> Value:
        if not isinstance(address, Address):
            raise EvaluationError(NO_OVERLOAD)
        return function(address)

    return checked


def is_global_unicast(address: Address) -> bool:
    """As in Go: private addresses count as global."""
    broadcast = isinstance(address, ipaddress.IPv4Address) and int(address) == 2**32 - 1
    return not (
        broadcast or address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    )


def is_link_local_multicast(address: Address) -> bool:
    if address.version == 6:
        return int(address) >> 120 == 0xFF and (int(address) >> 112) & 0x0F == 2
    return address in ipaddress.ip_network("224.0.0.0/24")


def cidr_function(function: Callable[..., Value]) -> Callable[..., Value]:
    def checked(cidr: Value, *others: Value) -> Value:
        if not isinstance(cidr, Cidr):
            raise EvaluationError(NO_OVERLOAD)
        return function(cidr, *others)

    return checked


def cidr_contains_ip(cidr: Cidr, other: Value) -> bool:
    address = other if isinstance(other, Address) else parse_ip(other)
    return address.version == cidr.address.version and address in cidr.network()


def cidr_contains_cidr(cidr: Cidr, other: Value) -> bool:
    inner = other if isinstance(other, Cidr) else parse_cidr(other)
    return cidr.prefix <= inner.prefix and cidr_contains_ip(cidr, inner.network().network_address)


def mask_cidr(cidr: Cidr) -> Cidr:
    return Cidr(cidr.network().network_address, cidr.prefix)


Amount = TypeVar("Amount", Quantity, Version)


def cel_quantity(text: Value) -> Quantity:
    if not isinstance(text, str):
        raise EvaluationError(NO_OVERLOAD)
    try:
        return quantity.parse_quantity(text)
    except ValueError:
        raise EvaluationError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def is_quantity(text: Value) -> bool:
    try:
        cel_quantity(text)
    except EvaluationError:
        if not isinstance(text, str):
            raise
        return False
    return True


def cel_semver(text: Value, normalize: Value = False) -> Version:
    if not isinstance(text, str) or not isinstance(normalize, bool):
        raise EvaluationError(NO_OVERLOAD)
    try:
        return parse_version(_normalize(text) if normalize else text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def is_semver(text: Value, normalize: Value = False) -> bool:
    try:
        cel_semver(text, normalize)
    except EvaluationError:
        if not isinstance(text, str) or not isinstance(normalize, bool):
            raise
        return False
    return True


def _normalize(text: str) -> str:
    """Without a leading `v` and leading zeros, with what is missing of three numbers."""
    parts = text.removeprefix("v").split(".", 2)
    if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    parts += ["0"] * (3 - len(parts))
    return ".".join(_strip_zeros(part) for part in parts)


def _strip_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    remaining = part.lstrip("0")
    return remaining if remaining[:1].isdigit() else f"0{remaining}"


def compare_amounts(left: Value, right: Value) -> int:
    """-1, 0 or 1. Quantities with quantities, versions with versions."""
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return (left.nano > right.nano) - (left.nano < right.nano)
    if isinstance(left, Version) and isinstance(right, Version):
        return (left > right) - (left < right)
    raise EvaluationError(NO_OVERLOAD)


def quantity_as_integer(amount: Value) -> int:
    whole, rest = divmod(_quantity(amount).nano, quantity.NANO)
    if rest or whole not in INT64:
        raise EvaluationError("cannot convert value to integer")
    return whole


def quantity_is_integer(amount: Value) -> bool:
    whole, rest = divmod(_quantity(amount).nano, quantity.NANO)
    return not rest and whole in INT64


def quantity_as_float(amount: Value) -> float:
    nano = _quantity(amount).nano
    try:
        return nano / quantity.NANO
    except OverflowError:
        return math.copysign(math.inf, quantity_sign(amount))


def quantity_sign(amount: Value) -> int:
    nano = _quantity(amount).nano
    return (nano > 0) - (nano < 0)


def add_quantity(amount: Value, other: Value) -> Quantity:
    return Sum(_quantity(amount).nano + _nano(other), amount.family)


def subtract_quantity(amount: Value, other: Value) -> Quantity:
    return Sum(_quantity(amount).nano - _nano(other), amount.family)


def _quantity(amount: Value) -> Quantity:
    if not isinstance(amount, Quantity):
        raise EvaluationError(NO_OVERLOAD)
    return amount


def _nano(other: Value) -> int:
    if isinstance(other, int) and not isinstance(other, bool):
        return other * quantity.NANO
    return _quantity(other).nano


def version_part(name: str) -> Callable[[Value], int]:
    """`major`, `minor` or `patch` of a version."""

    def read(version: Value) -> int:
        if not isinstance(version, Version):
            raise EvaluationError(NO_OVERLOAD)
        number: int = getattr(version, name)
        return number

    return read
