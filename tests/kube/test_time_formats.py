"""Formats of times and durations: RFC 3339 and Go's durations."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.kube import time_formats


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0), ("0s", 0.0), ("90s", 90.0), ("1h30m", 5400.0), ("1.5h", 5400.0), ("-1.5s", -1.5), (".5m", 30.0),
        ("500ms", 0.5), ("1h0m0.5s", 3600.5), ("+3m", 180.0), ("1us", 1e-6), ("1µs", 1e-6), ("10ns", 1e-8),
        ("0.3333333333333333333h", 1200.0), ("5s.854775807ms.854775807µs", 5.000855629), ("1.9ns1.9ns", 2e-9),
    ],
)  # fmt: skip
def test_reads_what_go_reads(text: str, seconds: float) -> None:
    assert time_formats.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "1d", "1h 2m", "h", "-", "1.2.3s", " 1s", "1s ", "１s", "3000000h"])
def test_refuses_what_go_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        time_formats.parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (600, "10m0s"),
        (3600, "1h0m0s"),
        (90, "1m30s"),
        (1.5, "1.5s"),
        (0.35, "350ms"),
        (2e-6, "2µs"),
        (-90, "-1m30s"),
    ],
)
def test_prints_as_go_prints(seconds: float, text: str) -> None:
    assert time_formats.format_duration(seconds) == text


@given(st.integers(-(10**9), 10**9))
def test_what_is_printed_is_read_back(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert time_formats.parse_duration(time_formats.format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-11-15T09:07:45Z", 1794733665.0),
        ("2026-11-15T09:07:45.250Z", 1794733665.25),
        ("2026-11-15T09:07:45.213099418Z", 1794733665.213099418),
        ("2026-11-15T11:07:45+02:00", 1794733665.0),
        ("2026-11-15T03:37:45-05:30", 1794733665.0),
        ("1969-12-31T23:59:59.5Z", -0.5),
    ],
)
def test_reads_times(text: str, seconds: float) -> None:
    assert time_formats.parse_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-11-15", "2026-11-15T09:07:45", "2026-13-15T09:07:45Z", "2026-02-29T09:07:45Z",
     "2026-11-15T24:07:45Z", "2026-11-15T09:07:60Z", "2026-11-15t09:07:45z", "2026-11-15 09:07:45Z",
     "2026-11-15T09:07:45.Z", "2026-11-15T09:07:45+0200", "2026-11-15T09:07:45+24:00", "٢026-11-15T09:07:45Z"],
)  # fmt: skip
def test_refuses_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        time_formats.parse_time(text)


def test_prints_whole_seconds_and_microseconds() -> None:
    assert time_formats.format_time(1794733665.999) == "2026-11-15T09:07:45Z"
    assert time_formats.format_micro_time(1794733665.25) == "2026-11-15T09:07:45.250000Z"
    assert time_formats.format_time(-0.5) == "1969-12-31T23:59:59Z"


@given(st.integers(-(2**35), 2**37))
def test_what_is_printed_is_read_again(seconds: int) -> None:
    assert time_formats.parse_time(time_formats.format_time(seconds)) == seconds
    assert time_formats.parse_time(time_formats.format_micro_time(seconds + 0.25)) == seconds + 0.25


@given(st.datetimes(datetime.datetime(1971, 1, 1), datetime.datetime(2200, 1, 1)))
def test_agrees_with_the_calendar(moment: datetime.datetime) -> None:
    aware = moment.replace(tzinfo=datetime.UTC)

    assert time_formats.parse_time(aware.isoformat().replace("+00:00", "Z")) == pytest.approx(
        aware.timestamp(), abs=1e-6
    )
