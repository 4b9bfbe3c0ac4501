"""The plan is made of the arguments alone, and the current settings come first."""

import pytest

from tests.sweep import sample_plans
from windlass import errors
from windlass.simulator.scenario import model
from windlass.sweep import sweep_plan


def test_every_combination_is_played_with_every_seed() -> None:
    made = sample_plans.make_plan("--expander=price,least-nodes", "--scale-down-unneeded-time=1m..3m:3", seeds=2)
    assert len(made.settings) == 1 + 2 * 3
    assert made.settings[0] == {}
    assert made.seeds == (4, 5)
    assert len(set(made.tasks)) == 14


def test_what_decides_as_the_current_settings_do_is_not_played_twice() -> None:
    made = sample_plans.make_plan("--scale-down-unneeded-time=1m,2m,120s,3m")
    assert [dict(item) for item in made.settings] == [
        {}, {"scale-down-unneeded-time": "1m"}, {"scale-down-unneeded-time": "3m"},
    ]  # fmt: skip
    assert made.flag_value(0, "scale-down-unneeded-time") == "2m"


def test_a_flag_that_nobody_set_is_told_by_its_default() -> None:
    made = sample_plans.make_plan("--scale-down-unready-time=1m", "--expander=price", "--behavior=cluster-autoscaler")
    assert [made.flag_value(0, flag) for flag in made.tried] == ["20m", "least-waste", "windlass"]


def test_random_search_draws_as_many_different_settings_as_runs_allow() -> None:
    made = sample_plans.make_plan("--scale-down-unneeded-time=1m..20m", "--expander=price,random", seeds=4, runs=83)
    assert len(made.settings) == 20
    assert len({tuple(item.items()) for item in made.settings}) == 20
    assert {entry["expander"] for entry in made.settings[1:]} == {"price", "random"}


def test_random_search_in_a_small_space_plays_all_of_it() -> None:
    made = sample_plans.make_plan("--expander=price,random", "--max-nodes-total=5,6", runs=100)
    assert len(made.settings) == 5


def test_the_same_arguments_make_the_same_plan_and_others_another() -> None:
    def draw(**changes: int) -> sweep_plan.SweepPlan:
        return sample_plans.make_plan("--scale-down-unneeded-time=1m..20m", **{"seeds": 2, "runs": 20, **changes})

    assert draw().settings == draw().settings
    assert draw().fingerprint == draw().fingerprint
    assert len({draw().fingerprint, draw(seeds=3).fingerprint, draw(runs=30).fingerprint}) == 3


def test_what_a_world_says_is_in_the_fingerprint() -> None:
    world, axes = sweep_plan.SweepInput(sample_plans.scenario()), sweep_plan.parse_axes(["--expander=price"])
    other = sweep_plan.SweepInput(model.convert({"name": "tiny", "duration": "15m", "groups": []}))
    assert sweep_plan.input_digest(sweep_plan.deserialize(sweep_plan.serialize(world))) == sweep_plan.input_digest(
        world
    )
    assert (
        sweep_plan.make_plan(world, axes, 1, None).fingerprint != sweep_plan.make_plan(other, axes, 1, None).fingerprint
    )


@pytest.mark.parametrize(
    ("tried", "seeds", "runs", "said"),
    [
        ("--expander=price", 0, None, "--seeds: found 0, accepted is 1 or more"),
        ("--expander=price", 4, 7, "--runs: found 7, accepted is 8 or more"),
        ("--scale-down-unneeded-time=1m..2m", 1, None, "found a range without steps"),
        ("--scale-down-unneeded-time=2m", 1, None, "found nothing but the current settings"),
        ("--max-nodes-total=1..1000:1000:linear", 1000, None, "found 1,000,000 runs"),
        ("--max-nodes-total=1..1000", 1, 10**9, "--runs: found more than 100,000"),
    ],
)
def test_a_plan_that_cannot_be_played_is_refused(tried: str, seeds: int, runs: int | None, said: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        sample_plans.make_plan(tried, seeds=seeds, runs=runs)
    assert said in str(refused.value)
