"""Times as API objects spell them: UTC, to the second (`2006-01-02T15:04:05Z`) or with six digits behind."""

import datetime
import functools
import re

_TO_SECOND = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_TO_MICROSECOND = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_MICRO_DIGITS = len(".000000")
_ANY = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


@functools.lru_cache(maxsize=64)
def _spell_second(second: int) -> str:
    return datetime.datetime.fromtimestamp(second, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def spell(now_s: float) -> str:
    """A moment, to the second."""
    return _spell_second(int(now_s // 1))


def read(text: str) -> float:
    """Seconds since the epoch. ValueError if the text is no RFC 3339 time."""
    return datetime.datetime.fromisoformat(text).timestamp() if _ANY.fullmatch(text) else _refuse(text)


def canonical(text: str) -> str:
    """The same second, spelled the server's way."""
    return text if _TO_SECOND.fullmatch(text) else spell(read(text))


def canonical_micro(text: str) -> str:
    """The same microsecond, spelled the server's way. Only times with exactly six digits are read."""
    if _TO_MICROSECOND.fullmatch(text):
        return text
    found = _ANY.fullmatch(text)
    if found is None or len(found[2] or "") != _MICRO_DIGITS:
        rest = text[len(found[1]) :] if found else text
        layout, wanted = "2006-01-02T15:04:05.000000Z07:00", ".000000" if found else "2006"
        raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{wanted}"')
    moment = datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _refuse(text: str) -> float:
    layout = "2006-01-02T15:04:05Z07:00"
    raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')
