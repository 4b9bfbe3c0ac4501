"""Times as the API spells them: RFC 3339, in UTC, whole seconds or, where it says MicroTime, microseconds.

Times are seconds since the epoch, as everywhere in windlass.
"""

import datetime
import re

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII
)
ACCEPTED = "a time such as 2006-01-02T15:04:05Z"


def parse(text: str) -> float:
    """Seconds since the epoch. ValueError if it is no RFC 3339 time."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not {ACCEPTED}")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, hours, minutes = match.groups()[6:]
    try:
        moment = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError as error:
        raise ValueError(f"{text!r} is not {ACCEPTED}: {error}") from None
    offset_s = (int(hours) * 60 + int(minutes)) * 60 if sign else 0
    whole_s = int(moment.timestamp()) - (-offset_s if sign == "-" else offset_s)
    return float(f"{whole_s}.{fraction}") if fraction and whole_s >= 0 else whole_s + float(f"0.{fraction or 0}")


def spell(seconds: float) -> str:
    """Whole seconds, as most of the API has it; a fraction is cut off."""
    return f"{_moment(int(seconds // 1))}Z"


def spell_micro(seconds: float) -> str:
    """Microseconds, as leases have it."""
    micros = round(seconds * 1e6)
    return f"{_moment(micros // 10**6)}.{micros % 10**6:06d}Z"


def _moment(seconds: int) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return moment.isoformat(timespec="seconds")
