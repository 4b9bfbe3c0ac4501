"""What is to be tried is read before anything runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import errors
from windlass.kube import time_formats
from windlass.sweep import sweep_plan


def values(text: str) -> tuple[str, ...] | None:
    (axis,) = sweep_plan.parse_axes([text])
    return axis.grid


def test_a_list_is_each_of_its_values_once() -> None:
    assert values("--expander=least-waste,price,least-waste") == ("least-waste", "price")


def test_a_plus_joins_names_that_make_one_value() -> None:
    assert values("--expander=priority+least-waste,price") == ("priority,least-waste", "price")


def test_a_bool_alone_is_both() -> None:
    assert values("--balance-similar-node-groups") == ("true", "false")


def test_underscores_are_dashes_as_for_the_autoscaler() -> None:
    (axis,) = sweep_plan.parse_axes(["--max_nodes_total=3,4"])
    assert axis.flag == "max-nodes-total"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--scale-down-unneeded-time=2m..4m:3", ("2m", "3m", "4m")),
        ("--scale-down-unneeded-time=1m..1h40m:3", ("1m", "10m", "1h40m")),
        ("--scale-down-unneeded-time=1m..1h41m:3:linear", ("1m", "51m", "1h41m")),
        ("--scale-down-unneeded-time=0s..1m:2", ("0s", "1m")),
        ("--new-pod-scale-up-delay=500ms..2s:log:3", ("500ms", "1s", "2s")),
        ("--max-nodes-total=1..3:9", ("1", "2", "3")),
        ("--scale-down-utilization-threshold=0.3..0.7:5", ("0.3", "0.4", "0.5", "0.6", "0.7")),
    ],
)
def test_a_range_with_steps_has_both_ends_and_values_that_read_well(text: str, expected: tuple[str, ...]) -> None:
    assert values(text) == expected


@given(st.integers(0, 500), st.integers(1, 50_000), st.floats(0, 1, exclude_max=True))
def test_what_is_drawn_from_a_range_lies_in_it(low: int, more: int, share: float) -> None:
    (axis,) = sweep_plan.parse_axes([f"--scale-down-unneeded-time={low}s..{low + more}s"])
    assert axis.grid is None
    assert low <= time_formats.parse_duration(axis.pick(share)) <= low + more


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], "--try: found nothing to try"),
        (["--no-such-flag=1"], "--no-such-flag: unknown flag"),
        (["--expandr=price"], "did you mean --expander?"),
        (["expander=price"], "--try: found 'expander=price', accepted is a flag with its values"),
        (["--expander"], "found no values"),
        (["--expander=price,,random"], "found an empty value"),
        (["--expander=nice"], "nice"),
        (["--expander=price", "--expander=random"], "a second time"),
        (["--scale-down-unneeded-time=20m..1m"], "found 1m as the end, accepted is more than 20m"),
        (["--scale-down-unneeded-time=5m..5m"], "accepted is more than 5m"),
        (["--scale-down-unneeded-time=1..20"], "found '1', expected a duration"),
        (["--scale-down-unneeded-time=1m..20"], "found '20', expected a duration"),
        (["--max-nodes-total=1m..20m"], "found '1m', expected a whole number"),
        (["--expander=price..random"], "found a range, accepted are single values"),
        (["--balance-similar-node-groups=true..false"], "found a range, accepted are single values"),
        (["--scale-down-unneeded-time=1m..20m:1"], "found '1' after the range"),
        (["--scale-down-unneeded-time=1m..20m:5:5"], "found '5' after the range"),
        (["--scale-down-unneeded-time=1m..20m:cubic"], "found 'cubic' after the range"),
        (["--scale-down-unneeded-time=0s..20m:5:log"], "accepted for log is more than 0"),
        (["--address=:1,:2"], "trying it changes nothing, for no decision depends on it"),
        (["--estimator=binpacking"], "trying it changes nothing: binpacking is the only estimator"),
    ],
)
def test_what_cannot_be_tried_is_refused(texts: list[str], said: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        sweep_plan.parse_axes(texts)
    assert said in str(refused.value)
