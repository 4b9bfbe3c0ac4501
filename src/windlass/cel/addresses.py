"""IP addresses and networks: Kubernetes' own additions to the language."""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass

from windlass.cel.values import NO_OVERLOAD, EvaluationError, Value

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Cidr:
    """A network, with the address that it was written with."""

    address: Address
    prefix: int

    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network((self.address, self.prefix), strict=False)


def to_ip(text: Value) -> Address:
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


def to_cidr(text: Value) -> Cidr:
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


def is_valid(parse: Callable[[Value], object]) -> Callable[[Value], bool]:
    def check(text: Value) -> bool:
        if not isinstance(text, str):
            raise EvaluationError(NO_OVERLOAD)
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return check


def is_canonical(text: Value) -> bool:
    return bool(str(to_ip(text)) == text)


def of_ip(function: Callable[[Address], Value]) -> Callable[[Value], Value]:
    def checked(address: Value) -> Value:
        if not isinstance(address, Address):
            raise EvaluationError(NO_OVERLOAD)
        return function(address)

    return checked


def is_global_unicast(address: Address) -> bool:
    """As Go has it: private addresses are global, too."""
    broadcast = isinstance(address, ipaddress.IPv4Address) and int(address) == 2**32 - 1
    return not (
        broadcast or address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    )


def is_link_local_multicast(address: Address) -> bool:
    if address.version == 6:
        return int(address) >> 120 == 0xFF and (int(address) >> 112) & 0x0F == 2
    return address in ipaddress.ip_network("224.0.0.0/24")


def of_cidr(function: Callable[..., Value]) -> Callable[..., Value]:
    def checked(cidr: Value, *others: Value) -> Value:
        if not isinstance(cidr, Cidr):
            raise EvaluationError(NO_OVERLOAD)
        return function(cidr, *others)

    return checked


def contains_ip(cidr: Cidr, other: Value) -> bool:
    address = other if isinstance(other, Address) else to_ip(other)
    return address.version == cidr.address.version and address in cidr.network()


def contains_cidr(cidr: Cidr, other: Value) -> bool:
    inner = other if isinstance(other, Cidr) else to_cidr(other)
    return cidr.prefix <= inner.prefix and contains_ip(cidr, inner.network().network_address)


def mask(cidr: Cidr) -> Cidr:
    return Cidr(cidr.network().network_address, cidr.prefix)
