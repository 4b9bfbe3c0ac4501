"""Groups of which nobody can say which node goes: while they are rolled out, and where they cannot choose."""

from dataclasses import replace
from typing import Any

import pytest

from tests.engine.actuation.drain_cluster import Run, World
from tests.engine.cluster_state.builders import NOW_S, PEER, PROVISION_S, WINDLASS, Cluster, failed, nodes, stuck
from tests.engine.scale_down.builders import group, node
from tests.engine.scale_up.test_node_templates import find
from windlass.engine.model import decision_record, facts, node_groups, settings
from windlass.engine.scale_down import candidates

LATE_S = NOW_S + PROVISION_S + 1
PRESETS = [PEER, WINDLASS]


def look_late(cluster: Cluster, **changes: Any) -> decision_record.Remediation:
    """What is repaired once a node would have had time to come, of groups that are like this."""
    cluster.groups = [replace(node_group, **changes) for node_group in cluster.groups]
    cluster.look(NOW_S)
    return cluster.look(LATE_S)[1]


# ── While a group is rolled out ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("chosen", PRESETS)
def test_no_node_of_a_group_that_is_rolled_out_is_a_candidate(chosen: settings.Settings) -> None:
    group_of = {"a": replace(group("g", 3), is_rolling_out=True), "b": group("h", 3)}
    assert candidates.filter_choosable(["a", "b"], group_of, chosen.deviations) == ["b"]


def test_d8_a_surge_machine_that_does_not_come_up_costs_a_rollout_no_machine() -> None:
    cluster = Cluster(WINDLASS).has("a", nodes("a", 3), target=3, instances=stuck("a", 1))
    planned = look_late(cluster, is_rolling_out=True)
    assert (planned.unregistered, planned.sizes["a"].target) == ((), 3)


def test_d8_a_surge_machine_that_cannot_be_created_costs_a_rollout_no_machine() -> None:
    cluster = Cluster(WINDLASS).has("a", nodes("a", 3), target=3, instances=failed("a", 1))
    planned = look_late(cluster, is_rolling_out=True)
    assert (planned.uncreated, planned.sizes["a"].target) == ((), 3)


def test_d8_no_size_is_lowered_during_a_rollout() -> None:
    cluster = Cluster(WINDLASS).has("a", nodes("a", 1), target=4).asks("a", 3, NOW_S)
    planned = look_late(cluster, is_rolling_out=True)
    assert (planned.reverts, planned.fixes, planned.sizes["a"].target) == ((), (), 4)


def test_the_peer_deletes_what_does_not_register_during_a_rollout_too() -> None:
    cluster = Cluster(PEER).has("a", nodes("a", 3), target=3, instances=stuck("a", 1))
    planned = look_late(cluster, is_rolling_out=True)
    assert [removal.instances for removal in planned.unregistered] == [("id://a-stuck-0",)]


def test_a_rollout_does_not_protect_other_groups() -> None:
    cluster = Cluster(WINDLASS).has("a", nodes("a", 3), instances=stuck("a", 1)).has("b", nodes("b", 1))
    cluster.groups[1] = replace(cluster.groups[1], is_rolling_out=True)
    assert [removal.group for removal in look_late(cluster).unregistered] == ["a"]


def test_a_drain_that_a_rollout_overtakes_is_given_back() -> None:
    world = World([node("a"), node("b")])
    world.later(2.0, lambda: world.groups.update(g=replace(world.groups["g"], is_rolling_out=True)))
    run = Run(world).begin("a", is_empty=True).resume()
    assert run.why("a") == "GroupRollsOut"
    assert run.deletions() == []
    assert not run.is_marked("a")


# ── Groups that cannot choose ────────────────────────────────────────────────────────────────────────────────────


def blind(size: int) -> node_groups.NodeGroup:
    return replace(group("g", size), can_choose=False)


@pytest.mark.parametrize(("chosen", "size", "goes"), [(WINDLASS, 2, False), (WINDLASS, 1, True), (PEER, 2, True)])
def test_d7_of_a_group_that_cannot_choose_only_the_last_node_is_a_candidate(
    chosen: settings.Settings, size: int, goes: bool
) -> None:
    found = candidates.filter_choosable(["a"], {"a": blind(size)}, chosen.deviations)
    assert found == (["a"] if goes else [])


@pytest.mark.parametrize(("there", "gone"), [(0, 2), (1, 0)])
def test_d7_what_did_not_register_goes_only_with_the_whole_group(there: int, gone: int) -> None:
    cluster = Cluster(WINDLASS).has("a", nodes("a", there), instances=stuck("a", 2))
    planned = look_late(cluster, can_choose=False)
    assert sum(len(removal.instances) for removal in planned.unregistered) == gone


def test_a_last_node_that_is_not_the_last_any_more_is_given_back() -> None:
    world = World([node("a"), node("b")])
    world.groups["g"] = replace(world.groups["g"], can_choose=False)
    run = Run(world).begin("a", is_empty=True).resume()
    assert run.why("a") == "CannotChoose"
    assert run.deletions() == []


# ── Templates ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pods_that_the_provider_says_a_new_node_starts_with_are_counted() -> None:
    proxy = facts.Pod("kube-system", "kube-proxy", spec=facts.PodSpec(requests=((facts.CPU, 100),)))
    node_group = node_groups.NodeGroup("g", 0, 9, 0, template=facts.Node("t"), template_pods=(proxy,))
    made, _ = find([node_group])
    assert made["g"].pods == (proxy,)
