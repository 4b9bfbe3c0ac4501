"""Rebasing: moments move with the clock, durations stay, and nothing else changes."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from tests.autoscaler.test_memory_store_memory_encoding import any_of
from windlass.engine.model import cluster_health, durable_memory, node_groups, scale_down_state

BY_S = 86400.0


def leaves(plain: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(plain, dict):
        for key, item in plain.items():
            yield from leaves(item, (*path, key))
    elif isinstance(plain, list):
        for place, item in enumerate(plain):
            yield from leaves(item, (*path, str(place)))
    else:
        yield path, plain


@given(any_of(durable_memory.DurableMemory))
@settings(max_examples=60)
def test_every_moment_moves_and_nothing_else_does(durable: durable_memory.DurableMemory) -> None:
    moved = dict(leaves(durable_memory.to_plain(durable_memory.shift_memory(durable, BY_S))))
    for path, value in leaves(durable_memory.to_plain(durable)):
        is_moment = isinstance(value, float) and not durable_memory.DURATION_FIELDS & {*path}
        assert moved[path] == (value + BY_S if is_moment else value), path


@given(any_of(durable_memory.DurableMemory))
@settings(max_examples=30)
def test_what_is_latest_is_no_moment_that_may_be_still_to_come(durable: durable_memory.DurableMemory) -> None:
    past = [
        value
        for path, value in leaves(durable_memory.to_plain(durable))
        if isinstance(value, float) and not (durable_memory.DURATION_FIELDS | durable_memory.FUTURE_FIELDS) & {*path}
    ]
    # Moments at their default are not spelled, and a time of zero is none.
    assert max([durable_memory.find_latest_s(durable), 0.0]) == max([*past, 0.0])


def test_nothing_remembered_is_before_all_time() -> None:
    assert durable_memory.find_latest_s(durable_memory.DurableMemory()) == float("-inf")


@pytest.mark.parametrize("by_s", [-BY_S, BY_S])
def test_a_backoff_ends_as_late_and_lasts_as_long(by_s: float) -> None:
    failed = cluster_health.Backoff(1300.0, 300.0, 1000.0, node_groups.InstanceError("other", "Timeout", ""))
    durable = durable_memory.DurableMemory(
        health=cluster_health.HealthMemory(backoffs={"a": failed}),
        activity=scale_down_state.ScaleActivity(added_s=900.0),
        scale_down=scale_down_state.ScaleDownState(since={"n1": 800.0}, rechecks={"n2": 1200.0}),
    )
    found = durable_memory.shift_memory(durable, by_s)
    assert found.health.backoffs["a"] == cluster_health.Backoff(1300.0 + by_s, 300.0, 1000.0 + by_s, failed.error)
    assert (found.activity.added_s, found.scale_down.since["n1"]) == (900.0 + by_s, 800.0 + by_s)
    assert found.scale_down.rechecks["n2"] == 1200.0 + by_s
    assert durable_memory.find_latest_s(durable) == 1000.0
