"""CEL types that Kubernetes adds: IP addresses, CIDRs, quantities and semantic versions."""

import ipaddress
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from windlass import quantity
from windlass.cel.values import INT64, NO_OVERLOAD, EvaluationError, Sum, Value, Version, parse_version
from windlass.quantity import Quantity

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
    left = part.lstrip("0")
    return left if left[:1].isdigit() else f"0{left}"


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
