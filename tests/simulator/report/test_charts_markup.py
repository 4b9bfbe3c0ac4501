"""Series as SVG: steps, areas between them, and where axes end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import formatting
from windlass.simulator.report import charts


def test_a_line_moves_only_where_its_value_does() -> None:
    assert charts.line_path([0, 0, 5, 5, 10], 10) == "M0 1000H2V500H4V0H4"


def test_an_area_goes_forth_above_and_back_below() -> None:
    assert charts.area_path([0, 0, 0], [5, 10, 10], 10) == "M0 500H1V0H2V1000H0Z"


def test_an_area_on_another_follows_its_steps_backwards() -> None:
    assert charts.area_path([0, 2, 4], [10, 10, 10], 10) == "M0 0H2V600H2V800H1V1000H0Z"


@given(st.floats(0.001, 1e9))
def test_an_axis_ends_above_its_values_and_not_far(value: float) -> None:
    end = charts.round_axis_end(value, 0.001)
    assert end >= value * (1 - 1e-6)
    assert end <= max(value * 2, 1.0)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0s"), (4.26, "4.3s"), (42, "42s"), (190, "3m10s"), (600, "10m"), (7500, "2h05m"), (360000, "4d04h")],
)
def test_durations_are_told_as_people_say_them(seconds: float, told: str) -> None:
    assert formatting.format_padded_duration(seconds) == told


def test_times_of_a_story_name_the_day_where_there_are_several() -> None:
    assert formatting.format_scenario_time(13.5 * 3600, 86400) == "13:30"
    assert formatting.format_scenario_time(86400 + 3600, 2 * 86400) == "day 2 01:00"
