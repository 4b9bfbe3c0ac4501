"""Values come back from a file as they were written."""

import re
from dataclasses import fields, replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.autoscaler.record_replay import recorder, value_codec
from windlass.engine.expanders import priority
from windlass.engine.loop_memory import VolatileMemory
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.provisioning import Condition
from windlass.engine.model.scale_up_status import GroupTemplate
from windlass.engine.model.settings import Settings
from windlass.engine.placement import hinting
from windlass.regexp import matcher
from windlass.selectors import LabelSelector, Operator, Requirement

SELECTOR = LabelSelector((Requirement("a", Operator.IN, ("b", "c")),))
POD = facts.Pod(
    "ns",
    "p",
    spec=facts.PodSpec(
        requests=(("cpu", 100),),
        spread=(facts.SpreadConstraint("zone", 1, SELECTOR),),
        required_features=frozenset({"x", "y"}),
    ),
)


def wire(plain: value_codec.Plain) -> value_codec.Plain:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(plain))


@pytest.mark.parametrize(
    "value",
    [
        Settings(),
        Settings.cluster_autoscaler(),
        POD,
        POD.spec,
        node_groups.DaemonSet("ns", "d", "u", POD),
        node_groups.NodeGroup(
            "g", 0, 5, 2, (node_groups.Instance("i", "Creating", node_groups.InstanceError("Other", "c")),)
        ),
        facts.StorageClass("s", allowed_topologies=(((("k", ("v", "w"))),),)),
        facts.CSINode("n", (("d", None), ("e", 3)), frozenset({"p"})),
    ],
)
def test_a_value_comes_back(value: Any) -> None:
    assert value_codec.decode_value(type(value), wire(value_codec.encode_value(value))) == value


def test_a_plan_comes_back_whatever_is_in_it() -> None:
    one_of_each: list[plan.Instruction] = []
    for kind in plan.Instruction.__args__:
        samples: dict[str, Any] = {"str": "x", "int": 3, "bool": True, "tuple[str, ...]": ("a", "b")}
        named = {
            field.name: samples.get(getattr(field.type, "__name__", str(field.type)), 1.5) for field in fields(kind)
        }
        named |= {name: ("a", "b") for name in ("provider_ids", "evict", "daemonset") if name in named}
        named |= {"conditions": (Condition("T", "True", "R", "m", 1.5),)} if "conditions" in named else {}
        one_of_each.append(kind(**named))
    assert value_codec.decode_plan(wire(value_codec.encode_plan(tuple(one_of_each)))) == tuple(one_of_each)
    failed = {instruction: "no" for instruction in one_of_each}
    assert value_codec.decode_failed(wire(value_codec.encode_failed(failed))) == failed


def test_rules_come_back() -> None:
    rules = (priority.PriorityRule(10, matcher.compile("a.*")), priority.PriorityRule(1, matcher.compile("(?i)b")))
    assert value_codec.decode_rules(wire(value_codec.encode_rules(rules))) == rules


@pytest.mark.parametrize(
    ("recorded", "found", "not_found"),
    [
        (r"(?:^)gpu\-(?:[0-9])+(?:$)", "gpu-7", "gpu-"),
        (r"(?:\A)a(?!\b)(?:\Z)|(?i:b)", "xB", "a"),
        (r"[\x80-\U0010ffff]", "é", "e"),
        (r"(?:^)(?:(?:a)+)+(?:$)b", "never", "a" * 60),
    ],
)
def test_rules_of_older_files_are_read_as_python_wrote_them(recorded: str, found: str, not_found: str) -> None:
    (rule,) = value_codec.decode_rules(wire([[3, recorded, re.ASCII]]))
    assert rule.priority == 3
    assert found == "never" or rule.pattern.matches(found)
    assert not rule.pattern.matches(not_found)


def test_what_is_volatile_comes_back_but_for_what_stands() -> None:
    search = hinting.HintingState(7, hinting.PlacementHints({"u": "n"}, {"v": "m"}))
    kept = VolatileMemory({"g": GroupTemplate(facts.Node("t"), (POD,))}, search, hinting.HintingState())
    csi_node = facts.CSINode("t", (("disks.example.com", 2), ("files.example.com", None)))
    equipped = {"g": GroupTemplate(facts.Node("t", csi_node=csi_node))}
    aged = replace(kept, templates=equipped, learned_s={"g": 5.0}, began_s=3.0)
    for volatile_memory in (kept, replace(kept, booking=search), aged):
        assert value_codec.decode_volatile(wire(value_codec.encode_volatile(volatile_memory))) == volatile_memory


def test_what_was_recorded_before_templates_had_an_age_can_be_read() -> None:
    spelled = wire(value_codec.encode_volatile(VolatileMemory({"g": GroupTemplate(facts.Node("t"))})))
    del spelled["learned_s"], spelled["began_s"]
    volatile_memory = value_codec.decode_volatile(spelled)
    assert set(volatile_memory.templates) == {"g"}
    assert not volatile_memory.learned_s
    assert volatile_memory.began_s is None


INSTANCES = st.lists(
    st.builds(node_groups.Instance, st.sampled_from("abcdef"), st.sampled_from(["Running", "Creating"])),
    unique_by=lambda one: one.provider_id,
).map(tuple)
GROUPS = st.lists(
    st.builds(
        node_groups.NodeGroup, st.sampled_from("abc"), st.just(0), st.integers(1, 3), st.integers(0, 2), INSTANCES
    ),
    unique_by=lambda one: one.id,
).map(tuple)


@given(GROUPS, GROUPS)
def test_any_groups_follow_from_any_others(
    old: tuple[node_groups.NodeGroup, ...], new: tuple[node_groups.NodeGroup, ...]
) -> None:
    found = value_codec.GROUP_CODEC.find_changes(old, new)
    assert (found is None) == (old == new)
    assert value_codec.GROUP_CODEC.apply_changes(old, wire(found) if found is not None else [[0, len(old)]]) == new


def test_one_instance_more_costs_one_instance() -> None:
    many = tuple(node_groups.Instance(f"i{number}") for number in range(1000))
    old = (node_groups.NodeGroup("g", 0, 2000, 1000, many),)
    new = (replace(old[0], instances=(*many[:500], node_groups.Instance("new"), *many[500:])),)
    assert len(msgspec.msgpack.encode(value_codec.GROUP_CODEC.find_changes(old, new))) < 100


def test_digests_tell_values_apart_and_know_equal_ones() -> None:
    assert recorder.digest({"a": 1.0}) == recorder.digest({"a": 1})
    assert recorder.digest(frozenset("abcdef")) == recorder.digest(frozenset("fedcba"))
    assert recorder.digest(POD) == recorder.digest(replace(POD))
    assert recorder.digest(POD) != recorder.digest(replace(POD, name="q"))
    assert recorder.digest(np.arange(3)) != recorder.digest(np.arange(4))
    assert recorder.digest((1, 2)) != recorder.digest((2, 1))
