"""Nodes to come attach only so many volumes, and a node waits for the CSI drivers that its group promises."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.engine.loop.builders import NOW_S, PEER, WINDLASS, choose, decide_once, group, node, pending, running, sizes
from tests.engine.predicates.volume_builders import bound, disk, uses
from windlass.engine import loop_memory
from windlass.engine.model import facts, node_groups
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot import cluster_snapshot
from windlass.engine.snapshot.volume_usage import StorageFact

DRIVER = "disks.example.com"
AWARE = choose(PEER, "deviations", enable_csi_node_aware_scheduling=True)
aware = pytest.mark.parametrize("settings", [AWARE, WINDLASS], ids=["cluster-autoscaler", "windlass"])


def observe(
    groups: Sequence[node_groups.NodeGroup],
    nodes: Sequence[facts.Node],
    pods: Sequence[facts.Pod],
    *stored: StorageFact,
) -> Observation:
    return Observation(cluster_snapshot.build_snapshot(nodes, pods, stored=stored), tuple(groups))


def with_volumes(count: int) -> tuple[list[facts.Pod], list[StorageFact]]:
    """Pods with one volume each, eight of which fit on a node but for their volumes."""
    pods = [pending(f"p{number}", 500, spec={"volumes": (uses(f"c{number}"),)}) for number in range(count)]
    stored: list[StorageFact] = []
    for number in range(count):
        stored += [bound(f"c{number}", f"v{number}"), disk(f"v{number}")]
    return pods, stored


def template(limit: int | None) -> facts.Node:
    return replace(node("template", provider_id=""), csi_node=facts.CSINode("template", ((DRIVER, limit),)))


def decide_from_zero(settings: Settings, limit: int | None) -> dict[str, int]:
    pods, stored = with_volumes(6)
    return sizes(decide_once(observe([group("g", template=template(limit))], [], pods, *stored), settings))


@aware
@pytest.mark.parametrize(("limit", "nodes"), [(1, 6), (2, 3), (6, 1), (None, 1)])
def test_a_group_without_nodes_grows_by_what_its_template_attaches(
    settings: Settings, limit: int | None, nodes: int
) -> None:
    assert decide_from_zero(settings, limit) == {"g": nodes}


def test_without_the_flag_nodes_to_come_attach_any_number() -> None:
    assert decide_from_zero(PEER, 1) == {"g": 1}
    assert decide_from_zero(choose(WINDLASS, "deviations", enable_csi_node_aware_scheduling=False), 1) == {"g": 1}


@aware
def test_a_group_with_nodes_grows_by_what_its_nodes_attach(settings: Settings) -> None:
    full, (pods, stored) = node("g-0"), with_volumes(6)
    csi_node = facts.CSINode("g-0", ((DRIVER, 2),))
    observation = observe([group("g", [full])], [full], [running("r", "g-0", 3900), *pods], csi_node, *stored)
    assert sizes(decide_once(observation, settings)) == {"g": 4}


@aware
def test_nodes_on_their_way_attach_no_more_than_their_template(settings: Settings) -> None:
    pods, stored = with_volumes(6)
    own = group("g", template=template(2))
    first = decide_once(observe([own], [], pods, *stored), settings)
    assert sizes(first) == {"g": 3}
    coming = [node_groups.Instance(f"id://{number}", "Creating") for number in range(3)]
    grown = group("g", instances=coming, template=template(2))
    second = decide_once(observe([grown], [], pods, *stored), settings, first.memory, NOW_S + 10.0)
    assert sizes(second) == {}


@aware
@pytest.mark.parametrize("csi_node", [None, facts.CSINode("g-0"), facts.CSINode("g-0", (("other", 3),))])
def test_a_node_waits_for_its_drivers(settings: Settings, csi_node: facts.CSINode | None) -> None:
    fresh = node("g-0", created_s=NOW_S - 100.0, conditions=(facts.Condition("Ready", "True", NOW_S - 90.0),))
    stored = [] if csi_node is None else [csi_node]
    observation = observe([group("g", [fresh], template=template(2))], [fresh], [], *stored)
    readiness = decide_once(observation, settings).story.health.total
    assert (readiness.ready, readiness.not_started) == ((), ("g-0",))
    late = decide_once(observation, settings, loop_memory.LoopMemory(), NOW_S + 3600.0).story.health.total
    assert (late.unready, late.resource_unready) == (("g-0",), ("g-0",))


@aware
def test_a_node_is_ready_once_its_csi_node_lists_the_drivers(settings: Settings) -> None:
    fresh = node("g-0")
    observation = observe(
        [group("g", [fresh], template=template(2))], [fresh], [], facts.CSINode("g-0", ((DRIVER, None),))
    )
    assert decide_once(observation, settings).story.health.total.ready == ("g-0",)


def test_without_the_flag_no_driver_is_waited_for() -> None:
    fresh = node("g-0")
    observation = observe([group("g", [fresh], template=template(2))], [fresh], [])
    assert decide_once(observation, PEER).story.health.total.ready == ("g-0",)


@aware
def test_one_late_driver_orders_no_second_node(settings: Settings) -> None:
    """A node that is Ready for five minutes before its driver registers is awaited, not doubled."""
    pods, stored = with_volumes(2)
    before, ordered = loop_memory.LoopMemory(), 0
    for t in range(0, 420, 10):
        ready_s = NOW_S + 120.0
        members = [node("g-0", created_s=ready_s, conditions=(facts.Condition("Ready", "True", ready_s),))]
        is_there = t >= 120
        own = group(
            "g",
            members if is_there else (),
            instances=() if is_there or not ordered else [node_groups.Instance("id://coming", "Creating")],
            target=ordered,
            template=template(2),
        )
        csi_nodes = [facts.CSINode("g-0")] if is_there else []
        observation = observe([own], members if is_there else [], pods, *csi_nodes, *stored)
        decision = decide_once(observation, settings, before, NOW_S + t)
        before, ordered = decision.memory, sizes(decision).get("g", ordered)
    assert ordered == 1
