"""What differs beyond chance is told from what does not, and who is best from who merely looks it."""

import functools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sweep import sample_plans
from windlass.simulator.scenario import loader
from windlass.sweep import comparison, sweep_report
from windlass.sweep.comparison import COST, PENDING, SettingsRow
from windlass.sweep.sweep_plan import RunOutcome, SweepPlan, SweepTask


def outcome(cost: float, pending_s: float, **changes: float) -> RunOutcome:
    totals = {**dict.fromkeys(loader.TOTAL_MEASURES, 0.0), "cost": cost, "pending_p95_s": pending_s, **changes}
    return RunOutcome(totals)


@functools.cache
def plan_of(settings: int, seeds: int) -> SweepPlan:
    return sample_plans.make_plan(f"--max-nodes-total={','.join(map(str, range(1, settings)))}", seeds=seeds)


def rows_of(*settings: list[RunOutcome]) -> list[SettingsRow]:
    plan = plan_of(len(settings), len(settings[0]))
    played = {
        SweepTask(number, seed): run_outcome
        for number, runs in enumerate(settings)
        for seed, run_outcome in zip(plan.seeds, runs, strict=True)
    }
    return comparison.make_rows(plan, played)


@pytest.mark.parametrize(
    ("freedom", "probability", "expected"),
    [(1, 0.975, 12.706), (2, 0.975, 4.303), (3, 0.9995, 12.924), (4, 0.975, 2.776), (10, 0.99, 2.764),
     (30, 0.975, 2.042)],
)  # fmt: skip
def test_quantiles_are_those_of_the_tables(freedom: int, probability: float, expected: float) -> None:
    assert comparison.student_quantile(probability, freedom) == pytest.approx(expected, abs=5e-4)


def test_a_difference_that_every_seed_shows_alike_is_beyond_chance() -> None:
    rows = rows_of([outcome(100 + 10 * i, 60) for i in range(4)], [outcome(90 + 10 * i + i / 9, 60) for i in range(4)])
    paired_difference = rows[1].differences[COST]
    assert paired_difference.is_less
    assert paired_difference.mean == pytest.approx(-10 + 1 / 6)
    assert 0 < paired_difference.margin < 1


def test_a_difference_that_seeds_disagree_on_is_not() -> None:
    rows = rows_of([outcome(100, 60)] * 4, [outcome(100 + change, 60) for change in (-20, 8, -16, 3)])
    assert not rows[1].differences[COST].is_less
    assert comparison.recommend(rows) == []


def test_one_seed_says_nothing_of_chance() -> None:
    rows = rows_of([outcome(100, 60)], [outcome(50, 30)])
    assert rows[1].differences[COST].margin == math.inf
    assert comparison.recommend(rows) == []


def test_equal_differences_of_values_that_vary_may_be_equal_by_chance() -> None:
    rows = rows_of([outcome(100, 60, evictions=count) for count in (1, 9)],
                   [outcome(100, 60, evictions=count) for count in (0, 8)])  # fmt: skip
    assert not rows[1].differences["evictions"].is_less


def test_settings_that_differ_by_nothing_but_luck_are_never_called_better() -> None:
    """Of a hundred tables with forty such settings each, about five may name one; without care every one would."""
    luck, named = random.Random(7), 0
    for _ in range(100):
        rows = rows_of(*([outcome(luck.gauss(100, 5), luck.gauss(60, 9)) for _ in range(4)] for _ in range(41)))
        named += any(row.differences[COST].is_less for row in rows[1:])
    assert named <= 15


def test_the_front_is_what_nothing_else_beats() -> None:
    rows = rows_of(*([outcome(cost, pending)] for cost, pending in ((50, 50), (40, 60), (40, 70), (60, 40), (60, 60))))
    assert [(row.mean(COST), row.mean(PENDING)) for row in comparison.pareto_front(rows)] == [
        (40, 60),
        (50, 50),
        (60, 40),
    ]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=2, max_size=12))
def test_every_sound_settings_are_on_the_front_or_beaten_by_one_on_it(points: list[tuple[int, int]]) -> None:
    rows = rows_of(*([outcome(cost, pending)] for cost, pending in points))
    front = comparison.pareto_front(rows)
    for row in rows:
        assert any(
            settings_row.mean(COST) <= row.mean(COST) and settings_row.mean(PENDING) <= row.mean(PENDING)
            for settings_row in front
        )
    for row in front:
        better = [one for one in front if one is not row and one.mean(COST) <= row.mean(COST)]
        assert all(one.mean(PENDING) > row.mean(PENDING) for one in better)


def test_settings_that_breach_a_check_or_miss_more_are_not_recommended() -> None:
    now = [outcome(100, 60)] * 3
    breach = [outcome(10, 60, violations=1)] + [outcome(10, 60)] * 2
    miss = [RunOutcome(outcome(20, 60).totals, missed=("most_nodes: found 2, expected at least 4",))] * 3
    broken = [RunOutcome(failed="its process was ended by SIGKILL, 2 times")] + [outcome(30, 60)] * 2
    rows = rows_of(now, breach, miss, broken, [outcome(90, 60)] * 3)
    (advice,) = comparison.recommend(rows)
    assert advice.row.number == 4
    assert [row.number for row in comparison.pareto_front(rows)] == [4]
    assert sweep_report.describe_problems(rows[1]) == ["1 breaches of checks"]
    assert "most_nodes: found 2" in sweep_report.describe_problems(rows[2])[0]
    assert "SIGKILL" in sweep_report.describe_problems(rows[3])[0]


def test_cheaper_at_the_price_of_waiting_is_told_as_that() -> None:
    rows = rows_of([outcome(100, 60)] * 3, [outcome(80, 61)] * 3, [outcome(50, 600)] * 3, [outcome(300, 10)] * 3)
    assert [(recommendation.title, recommendation.row.number) for recommendation in comparison.recommend(rows)] == [
        ("costs less, and pods wait no longer", 1),
        ("costs less, and pods wait longer", 2),
        ("pods wait less, and it costs more", 3),
    ]
    assert list(sweep_report.describe_differences(rows[2], rows[0])) == [
        "cost: 100.00 → 50.00, −50.00 ± 0.00 (−50.0%)",
        "pending p95: 1m → 10m, +9m ± 0s (+900.0%)",
    ]


def test_where_nothing_has_a_price_node_hours_are_paid() -> None:
    rows = rows_of([outcome(0, 60, node_hours=9)] * 2, [outcome(0, 60, node_hours=5)] * 2)
    assert comparison.recommend(rows)[0].title == "takes fewer node-hours, and pods wait no longer"


def test_settings_of_which_every_run_failed_are_shown_as_such() -> None:
    plan = plan_of(2, 2)
    rows = rows_of([outcome(100, 60)] * 2, [RunOutcome(failed="RuntimeError: x (play)")] * 2)
    assert sweep_report.format_estimate(rows[1], COST) == ("–", "")
    assert "RuntimeError: x (play)" in sweep_report.render_page(plan, rows)
    assert sweep_report.encode_csv(plan, rows).splitlines()[2].startswith("1,False,False,0,0,2,,")


def test_a_page_with_nothing_played_at_all_can_be_made() -> None:
    rows = rows_of([RunOutcome(failed="x")] * 2, [RunOutcome(failed="x")] * 2)
    assert sweep_report.NO_RECOMMENDATION in sweep_report.render_page(plan_of(2, 2), rows)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9), st.booleans())
def test_every_value_lies_on_its_axis_and_there_are_a_few_ticks(values: list[float], is_time: bool) -> None:
    axis = sweep_report.make_axis(values, is_time=is_time)
    assert all(0 <= axis.place(value) <= 1 for value in values)
    assert all(axis.low <= tick <= axis.high * (1 + 1e-9) for tick in axis.ticks)
    assert 1 <= len(axis.ticks) <= 12
