"""Groups whose size a Cluster topology applies: left alone by windlass, scaled in vain by Cluster Autoscaler."""

from dataclasses import replace
from typing import Any

import pytest

from tests.engine.actuation.drain_cluster import Run, World
from tests.engine.cluster_state.builders import Cluster, failed, stuck
from tests.engine.cluster_state.builders import nodes as cluster_nodes
from tests.engine.loop.builders import (
    NOW_S,
    PEER,
    WINDLASS,
    at_once,
    choose,
    decide_once,
    drained,
    group,
    nodes,
    observe,
    pending,
    running,
    sizes,
)
from tests.engine.scale_down.builders import node, pod
from tests.engine.scale_down.test_candidates_group_rollout import look_late
from windlass.engine.model import node_groups
from windlass.engine.model.scale_up_status import SkipReason
from windlass.engine.model.settings import Settings

OWNER = node_groups.ReplicasOwner(
    "capi-topology", "remove replicas from the topology", "cluster.x-k8s.io/v1beta2", "uid-g"
)
SCALES = choose(WINDLASS, "deviations", respect_topology_replicas=False)
IN_VAIN = (PEER, SCALES)


def owned(id: str, *given: Any, **more: Any) -> node_groups.NodeGroup:
    return replace(group(id, *given, **more), replicas_owner=OWNER)


def test_a_group_whose_replicas_the_topology_owns_is_not_raised_and_its_pods_are_told_so() -> None:
    members = nodes("g", 1)
    pods = [running("full", "g-0", 4000), pending("p", 3000)]
    decision = decide_once(observe([owned("g", members)], members, pods), WINDLASS)
    assert sizes(decision) == {}
    (proposal,) = decision.story.scale_ups
    assert proposal.skipped == {"g": (str(SkipReason.REPLICAS_OWNED),)}


@pytest.mark.parametrize("settings", IN_VAIN, ids=["cluster-autoscaler", "flag off"])
def test_without_the_deviation_such_a_group_is_raised(settings: Settings) -> None:
    members = nodes("g", 1)
    pods = [running("full", "g-0", 4000), pending("p", 3000)]
    assert sizes(decide_once(observe([owned("g", members)], members, pods), settings)) == {"g": 2}


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (WINDLASS, {}),
        (SCALES, {}),
        (choose(WINDLASS, "deviations", respect_replicas_managed_by=False), {"g": 2}),
        (PEER, {"g": 2}),
    ],
)
def test_a_pool_that_others_scale_has_a_flag_and_a_reason_of_its_own(
    settings: Settings, wanted: dict[str, int]
) -> None:
    members = nodes("g", 1)
    pods = [running("full", "g-0", 4000), pending("p", 3000)]
    pool = replace(owned("g", members), replicas_owner=replace(OWNER, is_topology=False))
    decision = decide_once(observe([pool], members, pods), settings)
    assert sizes(decision) == wanted
    if not wanted:
        (proposal,) = decision.story.scale_ups
        assert proposal.skipped == {"g": (str(SkipReason.REPLICAS_MANAGED),)}


def test_another_group_is_raised_in_its_place() -> None:
    members = [*nodes("g", 1), *nodes("h", 1)]
    pods = [running(f"full-{one.name}", one.name, 4000) for one in members] + [pending("p", 3000)]
    observation = observe([owned("g", members[:1]), group("h", members[1:])], members, pods)
    assert sizes(decide_once(observation, WINDLASS)) == {"h": 2}


@pytest.mark.parametrize(("settings", "expected"), [(WINDLASS, {}), (PEER, {"g": 3})])
def test_it_is_not_raised_to_its_minimum(settings: Settings, expected: dict[str, int]) -> None:
    members = nodes("g", 1)
    observation = observe([owned("g", members, min_size=3)], members)
    assert sizes(decide_once(observation, choose(settings, "scale_up", enforce_node_group_min_size=True))) == expected


@pytest.mark.parametrize(("settings", "expected"), [(WINDLASS, []), (SCALES, ["g-1"]), (PEER, ["g-1"])])
def test_none_of_its_nodes_is_removed(settings: Settings, expected: list[str]) -> None:
    members = nodes("g", 2)
    observation = observe([owned("g", members)], members, [running("p", "g-0", 3000)])
    assert drained(decide_once(observation, at_once(settings))) == expected


def test_its_nodes_take_pods_of_nodes_that_are_removed() -> None:
    members = [*nodes("g", 1), *nodes("h", 1)]
    observation = observe([owned("g", members[:1]), group("h", members[1:])], members, [running("p", "h-0", 500)])
    assert drained(decide_once(observation, at_once(WINDLASS))) == ["h-0"]


def test_nodes_that_the_topology_asked_for_are_awaited() -> None:
    members = nodes("g", 1)
    before = decide_once(observe([owned("g", members)], members, [running("full", "g-0", 4000)]), WINDLASS)
    coming = owned("g", members, instances=[node_groups.Instance("id://g-1", "Creating")])
    other = nodes("h", 1)
    pods = [running("full", "g-0", 4000), running("full-h", "h-0", 4000), pending("p", 3000)]
    observation = observe([coming, group("h", other)], [*members, *other], pods)
    decision = decide_once(observation, WINDLASS, before.memory, NOW_S + 10)
    assert decision.story.upcoming == {"g": 1}
    assert sizes(decision) == {}, "the pod waits for the node that the topology asked for"


@pytest.mark.parametrize("broken", [stuck, failed], ids=["never registered", "could not be created"])
def test_no_machine_of_it_is_deleted(broken: Any) -> None:
    cluster = Cluster(WINDLASS).has("a", cluster_nodes("a", 3), target=4, instances=broken("a", 1))
    planned = look_late(cluster, replicas_owner=OWNER)
    assert (planned.unregistered, planned.uncreated, planned.sizes["a"].target) == ((), (), 4)


def test_its_target_is_not_lowered() -> None:
    cluster = Cluster(WINDLASS).has("a", cluster_nodes("a", 1), target=4).asks("a", 3, NOW_S)
    planned = look_late(cluster, replicas_owner=OWNER)
    assert (planned.reverts, planned.fixes, planned.sizes["a"].target) == ((), (), 4)


def take_size(world: World, after_s: float) -> None:
    world.later(after_s, lambda: world.groups.update(g=replace(world.groups["g"], replicas_owner=OWNER)))


@pytest.mark.parametrize(("settings", "why", "evicted"), [(WINDLASS, "ReplicasOwned", []), (SCALES, "", ["p"])])
def test_a_drain_is_given_back_and_evicts_no_pod_once_the_topology_owns_the_size(
    settings: Settings, why: str, evicted: list[str]
) -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    take_size(world, 0.0)
    run = Run(world, settings).begin("a").resume()
    assert (run.why("a"), [name for _, name in run.evictions()]) == (why, evicted)
    assert bool(run.deletions()) == ("a" not in world.nodes) == (settings is SCALES)


def test_a_machine_that_was_told_to_go_is_waited_for() -> None:
    world = World([node("a"), node("b")])
    world.machine_takes_s = 60.0
    take_size(world, 40.0)
    run = Run(world).begin("a", is_empty=True).resume()
    assert run.deletions()[0][0] < 40.0, "the machine was told to go before"
    assert (run.why("a"), "a" in world.nodes) == ("", False)
