"""Durations, Time and MicroTime as Go and the Kubernetes API write them.

Durations (`1h30m`, `500ms`, `-1.5s`) follow Go's time.ParseDuration, to whole nanoseconds. Times are RFC 3339 in UTC,
whole seconds or, as MicroTime, microseconds. In windlass both are float seconds.
"""

import datetime
import functools
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
"""Digits of a fraction that Go always reads; it reads one more if the number still fits an int64."""

ACCEPTED_DURATION = "a duration such as 90s, 1h30m or 500ms"


def parse_duration(text: str) -> float:
    """A duration in seconds. ValueError if Go's time.ParseDuration refuses the text."""
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
        raise ValueError(f"{text!r} is not {ACCEPTED_DURATION}")
    return (-total_ns if negative else total_ns) / 10**9


def _fraction_ns(digits: str, unit_ns: int) -> int:
    """Nanoseconds of the digits after the decimal point, truncated. Goes through a float, as Go does."""
    kept = digits[: _FRACTION_DIGITS + (int(digits[: _FRACTION_DIGITS + 1] or 0) <= _MAX_NS)]
    return int(int(kept or 0) * (unit_ns / 10.0 ** len(kept)))


def format_duration(seconds: float) -> str:
    """A duration as Go prints it: `0s`, `1.5s`, `350ms`, `10m0s`, `1h0m0s`."""
    nanoseconds = round(abs(seconds) * 10**9)
    sign = "-" if seconds < 0 and nanoseconds else ""
    if nanoseconds == 0:
        return "0s"
    for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
        if nanoseconds < size * 1000:
            return f"{sign}{_format_decimal(Fraction(nanoseconds, size))}{unit}"
    minutes, rest = divmod(nanoseconds, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    tail = f"{_format_decimal(Fraction(rest, 10**9))}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{tail}"
    return f"{sign}{minutes}m{tail}" if minutes else f"{sign}{tail}"


def _format_decimal(number: Fraction) -> str:
    whole, rest = divmod(number, 1)
    digits = f"{int(rest * 10**9):09d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII
)

ACCEPTED_TIME = "a time such as 2006-01-02T15:04:05Z"


def parse_time(text: str) -> float:
    """Seconds since the epoch. ValueError if the text is no RFC 3339 time."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not {ACCEPTED_TIME}")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, hours, minutes = match.groups()[6:]
    try:
        moment = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError as error:
        raise ValueError(f"{text!r} is not {ACCEPTED_TIME}: {error}") from None
    offset_s = (int(hours) * 60 + int(minutes)) * 60 if sign else 0
    whole_s = int(moment.timestamp()) - (-offset_s if sign == "-" else offset_s)
    return float(f"{whole_s}.{fraction}") if fraction and whole_s >= 0 else whole_s + float(f"0.{fraction or 0}")


def format_time(seconds: float) -> str:
    """A metav1.Time: whole seconds, rounded down."""
    return f"{_format_second(int(seconds // 1))}Z"


def format_micro_time(seconds: float) -> str:
    """A metav1.MicroTime, as leases have it."""
    micros = round(seconds * 1e6)
    return f"{_format_second(micros // 10**6)}.{micros % 10**6:06d}Z"


@functools.lru_cache(maxsize=64)
def _format_second(second: int) -> str:
    # Cached: a server and a controller stamp many objects within one second.
    return datetime.datetime.fromtimestamp(second, datetime.UTC).replace(tzinfo=None).isoformat(timespec="seconds")


_TO_SECOND = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)

_TO_MICROSECOND = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)

_MICRO_DIGITS = len(".000000")

_ANY_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def parse_server_time(text: str) -> float:
    """Seconds since the epoch. ValueError, with the message of kube-apiserver, if the text is no RFC 3339 time."""
    return datetime.datetime.fromisoformat(text).timestamp() if _ANY_TIME.fullmatch(text) else _raise_invalid_time(text)


def canonical_time(text: str) -> str:
    """The same second in the form that kube-apiserver writes. ValueError if the text is no RFC 3339 time."""
    return text if _TO_SECOND.fullmatch(text) else format_time(parse_server_time(text))


def canonical_micro_time(text: str) -> str:
    """The same microsecond in the form that kube-apiserver writes. ValueError unless the fraction has six digits."""
    if _TO_MICROSECOND.fullmatch(text):
        return text
    match = _ANY_TIME.fullmatch(text)
    if match is None or len(match[2] or "") != _MICRO_DIGITS:
        rest = text[len(match[1]) :] if match else text
        layout, expected = "2006-01-02T15:04:05.000000Z07:00", ".000000" if match else "2006"
        raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{expected}"')
    moment = datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _raise_invalid_time(text: str) -> float:
    layout = "2006-01-02T15:04:05Z07:00"
    raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')
