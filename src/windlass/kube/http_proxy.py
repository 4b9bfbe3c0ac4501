"""HTTP proxy of a URL from the environment, chosen as Go's golang.org/x/net/http/httpproxy does. Pure.

HTTPS_PROXY, HTTP_PROXY   the proxy for https and for http; lower case names count where these are empty
NO_PROXY                  hosts, domains and networks that are reached directly, separated by commas
"""

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib import parse

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
"""IPv4-mapped IPv6 addresses."""
_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class _Domain:
    suffix: str
    """The domain with a leading dot."""
    port: str
    counts_itself: bool
    """True if the domain itself matches too, not only its subdomains."""


@dataclass(frozen=True, slots=True)
class _Host:
    address: Address
    port: str


@dataclass(frozen=True, slots=True)
class _All:
    """`*`"""


_NoProxyRule = _Domain | _Host | _All | Network


def find_proxy(url: str, environment: Mapping[str, str]) -> str | None:
    """The proxy of a URL; None to connect directly."""
    parts = parse.urlsplit(url)
    names = {"https": "HTTPS_PROXY", "http": "HTTP_PROXY"}
    if parts.scheme not in names:
        return None
    if parts.scheme == "http" and environment.get("REQUEST_METHOD"):
        return None
    proxy = _proxy_url(_get_variable(environment, names[parts.scheme]))
    if not proxy:
        return None
    host, port = _split_netloc(parts.netloc.rpartition("@")[2])
    return proxy if _needs_proxy(_to_ascii(host), port or _PORTS[parts.scheme], environment) else None


def _needs_proxy(host: str, port: str, environment: Mapping[str, str]) -> bool:
    address = _read_address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return False
    exceptions = _read_exceptions(_get_variable(environment, "NO_PROXY"))
    return not any(_matches(item, host.strip().lower(), port, address) for item in exceptions)


def _matches(exception: _NoProxyRule, host: str, port: str, address: Address | None) -> bool:
    match exception:
        case _All():
            return True
        case _Domain(suffix, desired, counts_itself):
            is_meant = host.endswith(suffix) or (counts_itself and host == suffix[1:])
            return address is None and is_meant and desired in ("", port)
        case _Host(wanted_address, desired):
            return address == wanted_address and desired in ("", port)
    return address is not None and address.version == exception.version and address in exception


def _read_exceptions(text: str) -> Iterator[_NoProxyRule]:
    for part in text.split(","):
        entry = part.strip().lower()
        if entry == "*":
            yield _All()
        elif (network := _read_network(entry)) is not None:
            yield network
        elif entry:
            host, port = _split_entry(entry)
            if (address := _read_address(host)) is not None and "%" not in host:
                yield _Host(address, port)
            elif host:
                suffix = host.removeprefix("*") if host.startswith("*.") else host
                is_name = not suffix.startswith(".")
                yield _Domain(f".{_to_ascii(suffix.removeprefix('.'))}", port, is_name)


def _split_entry(entry: str) -> tuple[str, str]:
    """(host, port) of an entry; (entry, "") where Go's SplitHostPort fails."""
    host, colon, port = entry.rpartition(":")
    if not colon:
        return entry, ""
    if host.startswith("[") and host.endswith("]") and "]" not in host[:-1] and "[" not in host[1:]:
        return host[1:-1], port
    return (entry, "") if ":" in host or "[" in entry or "]" in entry else (host, port)


def _split_netloc(netloc: str) -> tuple[str, str]:
    """(host, port) of a URL, case preserved."""
    if netloc.startswith("["):
        host, _, rest = netloc[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = netloc.partition(":")
    return host, port


def _read_address(host: str) -> Address | None:
    """An IP address; IPv4-mapped IPv6 counts as IPv4."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _read_network(entry: str) -> Network | None:
    _, slash, length = entry.partition("/")
    try:
        network = ipaddress.ip_network(entry, strict=False) if slash and length.isdigit() else None
    except ValueError:
        return None
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        first = network.network_address.ipv4_mapped
        return ipaddress.ip_network((first or 0, network.prefixlen - _MAPPED.prefixlen))
    return network


def _to_ascii(host: str) -> str:
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host


def _get_variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.lower()) or ""


def _proxy_url(proxy: str) -> str:
    """The URL of a proxy; `host:port` means http."""
    if not proxy:
        return ""
    try:
        parts = parse.urlsplit(proxy)
    except ValueError:
        return ""
    return proxy if parts.scheme and parts.netloc else f"http://{proxy}"
