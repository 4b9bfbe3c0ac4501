"""Formats of strings that CRD schemas may ask for. Those not listed are not checked, as in the real server."""

import base64
import binascii
import datetime
import ipaddress
import re
from collections.abc import Callable
from urllib import parse

_DURATION = re.compile(r"((\d+)\s*([A-Za-zµ]+))")
_GO_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_HOSTNAME = re.compile(
    r"([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(\.([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*"
)
_MAC = re.compile(r"([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}")


def _is_date(text: str) -> bool:
    return _reads(datetime.date.fromisoformat, text)


def _is_date_time(text: str) -> bool:
    return bool(_DATE_TIME.fullmatch(text)) and _reads(datetime.datetime.fromisoformat, text)


def _is_duration(text: str) -> bool:
    return bool(_GO_DURATION.fullmatch(text)) or bool(_DURATION.fullmatch(text)) or text == "0"


def _is_uri(text: str) -> bool:
    parsed = parse.urlsplit(text)
    return bool(parsed.scheme) or text.startswith("/")


def _is_base64(text: str) -> bool:
    return _reads(lambda value: base64.b64decode(value, validate=True), text)


def _reads(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except (ValueError, binascii.Error):
        return False
    return True


CHECKS: dict[str, Callable[[str], bool]] = {
    "date": _is_date,
    "date-time": _is_date_time,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "uri": _is_uri,
    "byte": _is_base64,
    "uuid": lambda text: bool(_UUID.fullmatch(text)),
    "hostname": lambda text: bool(_HOSTNAME.fullmatch(text)) and len(text) <= 255,
    "ipv4": lambda text: _reads(ipaddress.IPv4Address, text),
    "ipv6": lambda text: _reads(ipaddress.IPv6Address, text),
    "cidr": lambda text: "/" in text and _reads(lambda value: ipaddress.ip_network(value, strict=False), text),
    "mac": lambda text: bool(_MAC.fullmatch(text)),
    "email": lambda text: text.count("@") == 1 and all(text.split("@")),
}
