"""Rebasing: moments move with the clock, durations stay, and nothing else changes."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from tests.engine.decide.test_saving_memory import any_of
from windlass.engine import backoff, facts, health, memory, memory_codec, rebasing
from windlass.engine.scale_down import cooldown, scene

BY_S = 86400.0


def leaves(plain: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(plain, dict):
        for key, each in plain.items():
            yield from leaves(each, (*path, key))
    elif isinstance(plain, list):
        for place, each in enumerate(plain):
            yield from leaves(each, (*path, str(place)))
    else:
        yield path, plain


@given(any_of(memory.Durable))
@settings(max_examples=60)
def test_every_moment_moves_and_nothing_else_does(durable: memory.Durable) -> None:
    moved = dict(leaves(memory_codec.to_plain(rebasing.rebase(durable, BY_S))))
    for path, value in leaves(memory_codec.to_plain(durable)):
        is_moment = isinstance(value, float) and not rebasing.LASTING & {*path}
        assert moved[path] == (value + BY_S if is_moment else value), path


@given(any_of(memory.Durable))
@settings(max_examples=30)
def test_what_is_latest_is_no_moment_that_may_be_still_to_come(durable: memory.Durable) -> None:
    past = [
        value
        for path, value in leaves(memory_codec.to_plain(durable))
        if isinstance(value, float) and not (rebasing.LASTING | rebasing.AHEAD) & {*path}
    ]
    # Moments at their default are not spelled, and a time of zero is none.
    assert max([rebasing.latest_s(durable), 0.0]) == max([*past, 0.0])


def test_nothing_remembered_is_before_all_time() -> None:
    assert rebasing.latest_s(memory.Durable()) == float("-inf")


@pytest.mark.parametrize("by_s", [-BY_S, BY_S])
def test_a_backoff_ends_as_late_and_lasts_as_long(by_s: float) -> None:
    failed = backoff.Backoff(1300.0, 300.0, 1000.0, facts.InstanceError("other", "Timeout", ""))
    durable = memory.Durable(
        health=health.Memory(backoffs={"a": failed}),
        activity=cooldown.Activity(added_s=900.0),
        scale_down=scene.State(since={"n1": 800.0}, rechecks={"n2": 1200.0}),
    )
    found = rebasing.rebase(durable, by_s)
    assert found.health.backoffs["a"] == backoff.Backoff(1300.0 + by_s, 300.0, 1000.0 + by_s, failed.error)
    assert (found.activity.added_s, found.scale_down.since["n1"]) == (900.0 + by_s, 800.0 + by_s)
    assert found.scale_down.rechecks["n2"] == 1200.0 + by_s
    assert rebasing.latest_s(durable) == 1000.0
