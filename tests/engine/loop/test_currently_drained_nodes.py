"""Pods of nodes that are being drained need room elsewhere, like pending ones."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.builders import term
from tests.engine.loop.builders import (
    AGENT,
    BOTH,
    NOW_S,
    PEER,
    WINDLASS,
    at_once,
    budget,
    choose,
    decide_once,
    drained,
    group,
    node,
    observe,
    pending,
    result,
    running,
    sizes,
)
from windlass.engine import drain_loop, loop, taints
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.drains import DrainProgress, EvictionProgress
from windlass.engine.model.durable_memory import DurableMemory, StartedDrain
from windlass.engine.model.scale_up_status import ScaleUpResult
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation

behaviors = pytest.mark.parametrize("settings", BOTH, ids=["peer", "windlass"])


def mark(found: facts.Node) -> facts.Node:
    """The node as it looks while it is being drained."""
    return replace(found, taints=(taints.make_to_be_deleted(NOW_S - 10),), unschedulable=True)


def decide_beside_drain(
    settings: Settings,
    leaving: list[facts.Pod],
    others: list[facts.Pod],
    evicting: EvictionProgress | None = None,
    is_empty: bool = False,
    groups: Sequence[node_groups.NodeGroup] = (),
    **node_fields: Any,
) -> loop.Decision:
    """Decide while g-0 is being drained; `leaving` are its pods. g-1 has 2000m free."""
    nodes = [mark(node("g-0", **node_fields)), node("g-1", **node_fields)]
    busy = running("busy", "g-1", 2000, labels={"app": "busy"})
    progress = DrainProgress(asked_s=NOW_S - 10, marked_s=NOW_S - 9, evicting=evicting)
    drain = StartedDrain("g", NOW_S - 10, is_empty, {}, "uid-g-0", progress=progress)
    remembered = LoopMemory(DurableMemory(loop=5, drains={"g-0": drain}))
    return decide_once(observe([group("g", nodes), *groups], nodes, [*leaving, busy, *others]), settings, remembered)


def list_leaving(**fields: Any) -> list[facts.Pod]:
    return [running(f"leaving-{number}", "g-0", 500, **fields) for number in range(4)]


@behaviors
def test_a_node_is_ordered_for_pods_of_a_drained_node_whose_room_a_pending_pod_takes(settings: Settings) -> None:
    decision = decide_beside_drain(settings, list_leaving(), [pending("new", 2000)])
    assert (result(decision), sizes(decision)) == (ScaleUpResult.SUCCESSFUL, {"g": 3})


@behaviors
def test_the_same_holds_while_evictions_are_held_back_by_a_budget(settings: Settings) -> None:
    decision = decide_beside_drain(
        settings, list_leaving(), [pending("new", 2000)], evicting=EvictionProgress(NOW_S - 4)
    )
    assert sizes(decision) == {"g": 3}


@behaviors
def test_nothing_is_ordered_where_both_have_room(settings: Settings) -> None:
    decision = decide_beside_drain(settings, list_leaving()[:3], [pending("new", 500)])
    assert (result(decision), sizes(decision)) == (ScaleUpResult.NOT_NEEDED, {})


@behaviors
def test_pending_pods_get_room_before_those_that_still_run(settings: Settings) -> None:
    decision = decide_beside_drain(settings, list_leaving(), [pending("new", 1800)])
    helped = decision.story.scale_ups[0].helped
    assert {decision.evaluated.snapshot.pods.names[row] for row in helped} == {f"leaving-{n}" for n in range(4)}


@behaviors
def test_a_pod_of_higher_priority_comes_first_though_it_still_runs(settings: Settings) -> None:
    decision = decide_beside_drain(settings, list_leaving(spec={"priority": 10}), [pending("new", 1800)])
    helped = decision.story.scale_ups[0].helped
    assert [decision.evaluated.snapshot.pods.names[row] for row in helped] == ["new"]


@behaviors
@pytest.mark.parametrize(
    "fields",
    [
        {"deleted_s": NOW_S - 1},
        {"owner": AGENT},
        {"annotations": {"kubernetes.io/config.mirror": ""}},
        {"annotations": {"kubernetes.io/config.source": "file"}},
    ],
    ids=["terminating", "of a DaemonSet", "mirror", "static"],
)
def test_pods_that_do_not_come_back_elsewhere_need_no_room(settings: Settings, fields: dict[str, Any]) -> None:
    decision = decide_beside_drain(settings, list_leaving(**fields), [pending("new", 2000)])
    assert (result(decision), sizes(decision)) == (ScaleUpResult.NOT_NEEDED, {})


@behaviors
def test_expendable_pods_need_no_room(settings: Settings) -> None:
    decision = decide_beside_drain(settings, list_leaving(spec={"priority": -100}), [pending("new", 2000)])
    assert sizes(decision) == {}


@behaviors
def test_pods_on_a_node_that_was_chosen_empty_need_no_room(settings: Settings) -> None:
    decision = decide_beside_drain(settings, list_leaving(), [pending("new", 2000)], is_empty=True)
    assert sizes(decision) == {}


@pytest.mark.parametrize(("settings", "ordered"), [(PEER, {"h": 1}), (WINDLASS, {})], ids=["peer", "windlass"])
def test_a_pod_does_not_repel_itself_from_the_zone_that_it_leaves_its_node_in(
    settings: Settings, ordered: dict[str, int]
) -> None:
    """Cluster Autoscaler counts the pod on the node that it leaves, and as one that looks for a place."""
    leaving = running("leaving", "g-0", 500, spec={"anti_affinity": (term(facts.ZONE, app="app"),)})
    elsewhere = group("h", template=node("h-template", labels={facts.ZONE: "b"}, provider_id=""))
    decision = decide_beside_drain(settings, [leaving], [], groups=[elsewhere], labels={facts.ZONE: "a"})
    assert sizes(decision) == ordered


@behaviors
def test_a_drain_holds_the_room_of_its_pods_against_the_next(settings: Settings) -> None:
    """x-0 has room for the pod of a-0 or for that of b-0."""
    chosen = choose(at_once(settings), "scale_down", max_drain_parallelism=2)
    chosen = choose(chosen, "scale_down", unremovable_node_recheck_timeout_s=0.0)
    nodes = {name: node(name) for name in ("a-0", "b-0", "x-0")}
    pods = [
        running("pa", "a-0", 1500),
        running("pb", "b-0", 1500, labels={"app": "b"}),
        running("px", "x-0", 2400, labels={"app": "x"}),
    ]

    def observe_all() -> Observation:
        groups = [group(name[0], [nodes[name]], min_size=int(name == "x-0")) for name in nodes]
        return observe(groups, nodes.values(), pods)

    first = decide_once(observe_all(), chosen)
    (leaving,) = drained(first)
    nodes[leaving] = mark(nodes[leaving])
    remembered = drain_loop.advance(observe_all(), first.memory, chosen, NOW_S + 1).memory
    remembered = drain_loop.advance(observe_all(), remembered, chosen, NOW_S + 2).memory
    second = decide_once(observe_all(), chosen, remembered, NOW_S + 3)
    assert drained(second) == []
    assert not second.memory.durable.scale_down.since.keys() - {leaving}


def test_a_node_on_which_pods_are_only_expected_goes_as_an_empty_one_beside_the_drain() -> None:
    """Budgets and rules are asked of the pods where they run; here they only need another place."""
    nodes = [mark(node("g-0")), node("g-1"), node("g-2")]
    leaving = running("leaving", "g-0", 500)
    busy = running("busy", "g-1", 2500, labels={"app": "busy"})
    drain = StartedDrain(
        "g", NOW_S - 10, False, {"uid-leaving": "g-2"}, "uid-g-0", progress=DrainProgress(NOW_S - 10, NOW_S - 9)
    )
    observation = observe([group("g", nodes)], nodes, [leaving, busy], budgets=(budget(0),))
    decision = decide_once(observation, at_once(WINDLASS), LoopMemory(DurableMemory(loop=5, drains={"g-0": drain})))
    assert [
        (instruction.node, instruction.evict) for instruction in decision.plan if isinstance(instruction, plan.Drain)
    ] == [("g-2", ())]
    assert decision.memory.durable.drains["g-2"].is_empty
