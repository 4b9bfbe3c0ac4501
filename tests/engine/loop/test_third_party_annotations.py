"""Annotations, taints and labels of other projects, in a loop: heeded by windlass, not by Cluster Autoscaler."""

import pytest

from tests.engine.loop.builders import (
    AGENT,
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
    reasons,
    running,
    sizes,
)
from windlass.engine.model import facts
from windlass.engine.model.drainability import BlockingPodReason
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.settings import Settings

DO_NOT_DISRUPT = {"karpenter.sh/do-not-disrupt": "true"}


def drain_with(settings: Settings, **pod: object) -> tuple[list[str], dict[str, UnremovableReason]]:
    """Two nodes, of which the first could go, with this pod on it."""
    members = nodes("g", 2)
    pods = [running("p", "g-0", **pod), running("big", "g-1", 3000)]  # type: ignore[arg-type]
    decision = decide_once(observe([group("g", members)], members, pods), at_once(settings))
    kept = decision.story.scale_down.look
    assert kept is not None
    blocking = {
        unremovable.removal.moves.blocking.outcome.reason
        for unremovable in kept.kept
        if unremovable.removal and unremovable.removal.moves.blocking
    }
    assert blocking <= {BlockingPodReason.DO_NOT_DISRUPT_ANNOTATION}
    return drained(decision), reasons(decision)


@pytest.mark.parametrize(
    "pod",
    [
        {"annotations": DO_NOT_DISRUPT},
        {"annotations": {**DO_NOT_DISRUPT, "cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}},
        {"annotations": DO_NOT_DISRUPT, "owner": AGENT},
    ],
    ids=["plain", "safe to evict", "of a DaemonSet"],
)
def test_a_pod_that_must_not_be_disrupted_keeps_its_node(pod: dict[str, object]) -> None:
    went, kept = drain_with(WINDLASS, **pod)
    assert (went, kept["g-0"]) == ([], UnremovableReason.BLOCKED_BY_POD)
    assert drain_with(PEER, **pod)[0] == ["g-0"]


@pytest.mark.parametrize(
    "pod",
    [
        {"annotations": {"karpenter.sh/do-not-disrupt": "false"}},
        {"annotations": DO_NOT_DISRUPT, "phase": "Succeeded"},
        {"annotations": DO_NOT_DISRUPT, "deleted_s": 1.0},
    ],
    ids=["false", "ended", "terminating"],
)
def test_a_pod_that_may_be_disrupted_or_has_ended_keeps_no_node(pod: dict[str, object]) -> None:
    assert drain_with(WINDLASS, **pod)[0] == ["g-0"]


def test_a_node_with_a_readiness_taint_is_starting_and_its_like_come_without_it() -> None:
    taint = facts.Taint("readiness.k8s.io/network-not-ready", "", "NoSchedule")
    starting = node("g-0", taints=(taint,), created_s=NOW_S - 60)
    observation = observe([group("g", [starting])], [starting], [pending("p", 3000)])
    own = decide_once(observation, WINDLASS)
    assert sizes(own) == {}, "the pod waits for the node"
    assert own.story.upcoming == {"g": 1}
    assert sizes(decide_once(observation, PEER)) == {}
    assert decide_once(observation, PEER).story.upcoming == {}, "ready, and repels the pod, as its like would"


@pytest.mark.parametrize(
    ("settings", "expected"), [(WINDLASS, {"a": 3, "b": 3}), (PEER, {"a": 5})], ids=["windlass", "peer"]
)
def test_groups_that_differ_in_the_zone_of_a_csi_driver_are_balanced(
    settings: Settings, expected: dict[str, int]
) -> None:
    """Four new nodes for two groups of one node each, whose driver has labelled them with their zones."""
    members = [node(f"{id}-0", labels={facts.ZONE: id, "topology.ebs.csi.aws.com/zone": id}) for id in "ab"]
    groups = [group(id, [member]) for id, member in zip("ab", members, strict=True)]
    pods = [running(f"full-{one.name}", one.name, 4000) for one in members]
    pods += [pending(f"p{number}", 4000) for number in range(4)]
    found = sizes(
        decide_once(observe(groups, members, pods), choose(settings, "scale_up", balance_similar_node_groups=True))
    )
    assert sorted(found.values()) == sorted(expected.values())
