"""Nodes whose resources cannot be counted: GPUs that no template gives the number of, groups without a template."""

from dataclasses import replace

from tests.engine.loop.builders import (
    NOW_S,
    PEER,
    WINDLASS,
    at_once,
    choose,
    decide_once,
    drained,
    group,
    node,
    nodes,
    observe,
    pending,
    result,
    running,
    sizes,
)
from windlass.engine import loop
from windlass.engine.model import facts, well_known
from windlass.engine.model.decision_record import ScaleDownResult
from windlass.engine.model.scale_up_status import ScaleUpResult
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation

LABELS = {well_known.CLUSTER_API_GPU_LABEL: "l4"}


def see(stray: facts.Node) -> Observation:
    """A full node, an empty one, a pod that needs a third, and a node that belongs to no group."""
    there = nodes("g", 2)
    pods = [running("busy", "g-0", 3500), pending("p", 4500), running("other", stray.name, 3000)]
    large = group("large", template=node("large-template", cpu=8000, provider_id=""))
    return observe([group("g", there), large], [*there, stray], pods)


def test_a_gpu_node_without_a_group_and_without_gpus_ends_scaling_in_cluster_autoscaler() -> None:
    decision = decide_once(see(node("stray", labels=LABELS)), at_once(PEER))
    assert (result(decision), sizes(decision)) == (ScaleUpResult.ERROR, {})
    [proposal] = decision.story.scale_ups
    assert [alike.rows for alike in proposal.remaining] == [(1,)]
    assert (decision.story.scale_down.result, drained(decision)) == (ScaleDownResult.NO_NODE_DELETED, [])


def test_it_holds_up_nothing_in_windlass() -> None:
    observation, strict = (
        see(node("stray", labels=LABELS)),
        choose(WINDLASS, "deviations", tolerate_unknown_capacity=False),
    )
    assert sizes(decide_once(observation, at_once(WINDLASS))) == {"large": 1}
    assert result(decide_once(observation, at_once(strict))) is ScaleUpResult.ERROR


def test_a_gpu_node_without_a_group_that_has_its_gpus_is_counted() -> None:
    stray = node("stray", labels=LABELS)
    has = tuple(sorted((*stray.allocatable, ("nvidia.com/gpu", 2))))
    decision = decide_once(see(replace(stray, allocatable=has, capacity=has)), at_once(PEER))
    assert sizes(decision) == {"large": 1}
    assert drained(decision) == ["g-1"]


def test_the_template_of_its_group_tells_how_many_gpus_a_node_will_have() -> None:
    there = node("g-0", labels=LABELS)
    pods = [running("busy", "g-0", 3500), pending("p", 4500)]
    large = group("large", template=node("large-template", cpu=8000, provider_id=""))
    observation = observe([group("g", [there]), large], [there], pods)
    untold = observe([replace(group("g", [there]), template=None), large], [there], pods)
    assert sizes(decide_once(observation, PEER)) == {"large": 1}
    assert result(decide_once(untold, PEER)) is ScaleUpResult.ERROR
    assert sizes(decide_once(untold, WINDLASS)) == {"large": 1}


def test_growing_to_the_minimum_ends_with_the_same_error() -> None:
    there = node("g-0")
    short = group("short", min_size=1, template=node("short-template", provider_id=""))
    observation = observe(
        [group("g", [there]), short], [there, node("stray", labels=LABELS)], [running("busy", "g-0", 3500)]
    )
    decisions = [
        decide_once(observation, choose(settings, "scale_up", enforce_node_group_min_size=True))
        for settings in (PEER, WINDLASS)
    ]
    assert [sizes(decision) for decision in decisions] == [{}, {"short": 1}]
    assert decisions[0].story.scale_ups[-1].result is ScaleUpResult.ERROR


def lose_the_example(settings: Settings) -> loop.Decision:
    """A group is raised after the example of its only node, which vanishes; nothing tells what is on its way."""
    settings = choose(settings, "templates", node_info_cache_expire_time_s=5.0)
    there, other = node("g-0", labels={"pool": "g"}), node("h-0")
    pods = [running("busy", "g-0", 4000), running("busy-too", "h-0", 4000)]
    wants_g = pending("p", 4000, spec={"node_selector": (("pool", "g"),)})
    known, spare = replace(group("g", [there]), template=None), group("h", [other])
    first = decide_once(observe([known, spare], [there, other], [*pods, wants_g]), settings)
    assert sizes(first) == {"g": 2}
    gone = replace(known, target_size=2, instances=())
    left = observe([gone, spare], [other], [pods[1], pending("q", 4000)])
    return decide_once(left, settings, first.memory, NOW_S + 30.0)


def test_nodes_to_come_of_a_group_without_a_template_end_a_scale_up_in_cluster_autoscaler() -> None:
    decision = lose_the_example(PEER)
    assert decision.story.upcoming == {"g": 2}
    assert (result(decision), sizes(decision)) == (ScaleUpResult.ERROR, {})


def test_they_hold_up_nothing_in_windlass() -> None:
    assert sizes(lose_the_example(WINDLASS)) == {"h": 2}
