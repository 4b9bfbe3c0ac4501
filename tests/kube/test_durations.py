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
