"""Saving memory: what is read is what was written, and what cannot be read is said."""

import base64
import dataclasses
import json
import types
import typing
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass import errors
from windlass.autoscaler import memory_store
from windlass.engine.model import cluster_health, durable_memory, node_groups, scale_down_state

NAMES = st.text("abc-.\u00e9", min_size=1, max_size=4)
SCALARS: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(-5, 10**6),
    float: st.floats(0, 2e9, allow_nan=False),
    str: NAMES,
    bool: st.booleans(),
}


def any_of(wanted: Any) -> st.SearchStrategy[Any]:
    """Values of a type, found by looking at it: a field that is added is saved, or a test fails."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (item for item in arguments if item is not types.NoneType)
        return st.none() | any_of(inner)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(any_of(arguments[0]), any_of(arguments[1]), max_size=3)
    if origin in (tuple, frozenset):
        return st.lists(any_of(arguments[0]), max_size=3).map(origin)
    if dataclasses.is_dataclass(wanted):
        hints, fields = typing.get_type_hints(wanted), dataclasses.fields(wanted)
        values = {field.name: any_of(hints[field.name]) for field in fields}
        return st.builds(typing.cast("type[Any]", wanted), **values)
    return SCALARS[wanted] if wanted in SCALARS else st.sampled_from(list(wanted))


@given(any_of(durable_memory.DurableMemory))
@settings(max_examples=60, deadline=None)
def test_what_is_read_is_what_was_written(durable: durable_memory.DurableMemory) -> None:
    assert memory_store.decode_memory(memory_store.encode_memory(durable)) == durable


@given(any_of(durable_memory.DurableMemory))
@settings(max_examples=30, deadline=None)
def test_plain_memory_is_json_and_nothing_else(durable: durable_memory.DurableMemory) -> None:
    plain = durable_memory.to_plain(durable)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_equal_memories_are_written_alike_whatever_the_order_of_their_parts() -> None:
    durable = durable_memory.DurableMemory(
        scale_down=scale_down_state.ScaleDownState({"a": 1.0, "b": 2.0}, frozenset(("a", "b")))
    )
    other = durable_memory.DurableMemory(
        scale_down=scale_down_state.ScaleDownState({"b": 2.0, "a": 1.0}, frozenset(("b", "a")))
    )
    assert memory_store.encode_memory(durable) == memory_store.encode_memory(other)


def test_what_has_its_default_takes_no_room() -> None:
    assert durable_memory.to_plain(durable_memory.DurableMemory(loop=7)) == {
        "version": durable_memory.VERSION,
        "durable": {"loop": 7},
    }


def large(rechecks: int = 0) -> durable_memory.DurableMemory:
    """What a cluster of 15,000 nodes in 100 groups may have to remember, 500 of them unneeded."""
    groups = [f"MachineDeployment/clusters/production-workers-{number:03d}" for number in range(100)]
    nodes = [
        f"production-workers-{number % 100:03d}-{number * 7919 % 99991:05x}-{number:05d}" for number in range(15_000)
    ]
    now_s = 1_790_000_000.123
    since = {name: now_s - 10.25 * number for number, name in enumerate(nodes[:500])}
    error = node_groups.InstanceError("OutOfResources", "STOCKOUT", "no machines of this type are left in the zone")
    return durable_memory.DurableMemory(
        100_000,
        cluster_health.HealthMemory(
            cluster_health.ScaleRequests(
                {group: cluster_health.ScaleUpRequest(10, now_s, now_s, now_s + 900) for group in groups},
                tuple(cluster_health.ScaleDownRequest(groups[0], name, now_s, now_s + 300) for name in nodes[:100]),
            ),
            {group: cluster_health.Backoff(now_s + 300, 300, now_s, error) for group in groups},
            {f"openstack:///{name}": now_s for name in nodes[500:600]},
            {group: cluster_health.IncorrectSize(10, 12, now_s) for group in groups},
            cluster_health.KnownFailures(
                frozenset(nodes[600:700]), frozenset(nodes[700:800]), dict.fromkeys(groups, 3)
            ),
        ),
        scale_down_state.ScaleActivity(now_s, now_s, now_s),
        {group: scale_down_state.ScaleActivity(now_s, now_s, now_s) for group in groups},
        scale_down_state.ScaleDownState(
            since,
            frozenset(since),
            {name: now_s + 300 for name in nodes[:rechecks]},
            scale_down_state.LoopInterval(now_s, 10.0),
        ),
        {
            name: durable_memory.StartedDrain(
                groups[0], now_s, False, {f"{name}-{pod:036d}": nodes[pod] for pod in range(30)}
            )
            for name in nodes[:10]
        },
    )


@pytest.mark.parametrize("rechecks", [0, 15_000], ids=["windlass", "every node could not be removed lately"])
def test_the_memory_of_a_large_cluster_fits_a_config_map_many_times(rechecks: int) -> None:
    durable = large(rechecks)
    text = memory_store.encode_memory(durable)
    assert memory_store.decode_memory(text) == durable
    assert len(text) < memory_store.MAX_PART_BYTES / 4


# ── What cannot be read ──────────────────────────────────────────────────────────────────────────────────────────


def pack(plain: object) -> str:
    return base64.b64encode(zlib.compress(json.dumps(plain).encode())).decode()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no base64!", "expected base64"),
        ("é", "expected base64"),
        (base64.b64encode(b"not compressed").decode(), "expected compressed JSON"),
        ("", "expected compressed JSON"),
        (base64.b64encode(zlib.compress(b"{")).decode(), "expected compressed JSON"),
        (base64.b64encode(zlib.compress(b"{}" * 999)[:-6]).decode(), "cut off"),
        (pack([]), "expected an object"),
        (pack({}), "version: found None, expected a positive whole number"),
        (pack({"version": "1", "durable": {}}), "version: found '1'"),
        (pack({"version": True, "durable": {}}), "version: found True"),
        (pack({"version": 99, "durable": {}}), "version: found 99, expected at most 1: it was saved by a newer"),
        (pack({"version": 1}), "durable: found None, expected an object"),
        (pack({"version": 1, "durable": {"loop": 1.5}}), "durable.loop: found 1.5, expected a whole number"),
        (pack({"version": 1, "durable": {"loop": True}}), "durable.loop: found True, expected a whole number"),
        (
            pack({"version": 1, "durable": {"scale_down": {"since": {"n1": "x"}}}}),
            "durable.scale_down.since[n1]: found 'x', expected a finite number",
        ),
        (
            pack({"version": 1, "durable": {"activity": {"added_s": float("inf")}}}),
            "durable.activity.added_s: found inf, expected a finite number",
        ),
        (
            pack({"version": 1, "durable": {"scale_down": {"previous": ["n1", 2]}}}),
            "durable.scale_down.previous[1]: found 2, expected a text",
        ),
        (
            pack({"version": 1, "durable": {"drains": {"n1": {"group": "g", "is_empty": True}}}}),
            "durable.drains[n1].since_s: found None, expected a value",
        ),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_with_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        memory_store.decode_memory(text)
    assert said in str(caught.value)


KEYS = st.sampled_from(["durable", "health", "loop", "drains", "scale_down", "since", "n1"])
SCALAR = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x", float("nan")])


@given(
    st.recursive(
        SCALAR, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2), max_leaves=6
    )
)
@settings(max_examples=60, deadline=None)
def test_no_plain_value_is_met_by_anything_but_a_memory_or_a_refusal(plain: object) -> None:
    try:
        durable = durable_memory.from_plain({"version": 1, "durable": plain})
    except errors.InvalidInput:
        return
    assert isinstance(durable, durable_memory.DurableMemory)


def test_a_field_that_this_version_does_not_know_is_passed_over() -> None:
    assert durable_memory.from_plain(
        {"version": 1, "durable": {"loop": 3, "moon": "full"}}
    ) == durable_memory.DurableMemory(loop=3)


# ── Upgrades ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_old_memory_is_upgraded_version_by_version() -> None:
    upgrades = {
        1: lambda plain: {**plain, "loop": plain["turn"]},
        2: lambda plain: {**plain, "loop": plain["loop"] * 10},
    }
    assert durable_memory.upgrade({"turn": 4}, 1, 3, upgrades) == {"turn": 4, "loop": 40}


def test_a_version_without_a_way_to_the_present_one_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="version: found 2, expected one that can be upgraded to 3"):
        durable_memory.upgrade({}, 1, 3, {1: lambda plain: plain})


def test_every_version_before_the_present_one_can_be_upgraded() -> None:
    assert set(durable_memory.UPGRADES) == set(range(1, durable_memory.VERSION))
