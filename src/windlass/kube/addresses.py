"""Addresses that a stranger's configuration may not have us connect to. Pure.

Whoever may write a Secret could otherwise have an operator ask what only it, or the machine it runs on, can reach.
"""

import ipaddress

_METADATA = frozenset(
    map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd20:ce::254"))
)
"""Where clouds tell a machine who it is, outside of the link-local range: AWS, Alibaba, Azure, Oracle, Google."""
_THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv4 addresses as networks without IPv4 reach them."""


def explain_refusal(text: str) -> str:
    """Why an address is not connected to; empty if it may be, or if it is a name."""
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        address = _unwrap(address)
    for kind, is_it in (
        ("a metadata address", address in _METADATA),
        ("a loopback address", address.is_loopback),
        ("a link-local address", address.is_link_local),
        ("an unspecified address", address.is_unspecified or address in _THIS_NETWORK),
        ("a multicast address", address.is_multicast),
    ):
        if is_it:
            return f"{text} is {kind}, which a kubeconfig in a Secret may not lead to"
    return ""


def _unwrap(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address that it stands for, if it does."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    without_zone = ipaddress.IPv6Address(int(address))
    return address.sixtofour or without_zone
