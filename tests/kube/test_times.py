import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.kube import time_formats


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
