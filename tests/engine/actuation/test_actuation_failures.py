"""One loop's drains of several nodes, of which some fail: what is deleted, evicted, given back, and why.

The cases are those of Cluster Autoscaler's tests of its actuator. It decides one of them otherwise: where an empty node
cannot be tainted, no node is drained (docs/deviations.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from tests.engine.actuation.drain_cluster import PEER, WINDLASS, Run, World, node, pod, with_drain
from tests.engine.actuation.test_eviction import agent
from windlass.engine.model import node_groups, plan
from windlass.engine.model.settings import Settings

behaviors = pytest.mark.parametrize("settings", [PEER, WINDLASS], ids=["cluster-autoscaler", "windlass"])


@dataclass(frozen=True)
class Case:
    """Nodes of group `g` are named by a letter, those of the atomic group by `atomic-` and a letter."""

    empty: tuple[str, ...] = ()
    occupied: tuple[str, ...] = ()
    pods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By node; `agent…` are of a DaemonSet."""
    refused: frozenset[tuple[type[plan.Instruction], str]] = frozenset()
    """Instructions that the API refuses: about nodes, and evictions of pods."""
    deleted: str = ""
    evicted: str = ""
    why: Mapping[str, str] = field(default_factory=dict)
    """Why a drain failed, by node. All others are deleted."""


CASES = {
    "empty and occupied nodes go together": Case(
        ("a", "b"), ("c", "d"), {"c": ("p", "q"), "d": ("r", "s")}, deleted="a b c d", evicted="p q r s"
    ),
    "an empty node that cannot be tainted keeps the others that were chosen as empty": Case(
        ("a", "b", "c"),
        refused=frozenset({(plan.SetTaint, "b")}),
        why={"a": "BatchFailed", "b": "MarkRefused", "c": "BatchFailed"},
    ),
    "an empty node that cannot be tainted keeps no node to be drained": Case(
        ("a", "b"), ("c",), {"c": ("p",)}, frozenset({(plan.SetTaint, "b")}),
        "c", "p", {"a": "BatchFailed", "b": "MarkRefused"},
    ),
    "an empty node of an atomic group that cannot be tainted keeps all of it": Case(
        ("atomic-a", "atomic-b", "atomic-c"),
        refused=frozenset({(plan.SetTaint, "atomic-b")}),
        why={"atomic-a": "BatchFailed", "atomic-b": "MarkRefused", "atomic-c": "BatchFailed"},
    ),
    "a node to be drained that cannot be tainted keeps the others to be drained, and their pods": Case(
        ("a", "b"), ("c", "d"), {"c": ("p",), "d": ("q",)}, frozenset({(plan.SetTaint, "c")}),
        deleted="a b", why={"c": "MarkRefused", "d": "BatchFailed"},
    ),
    "a node of an atomic group to be drained that cannot be tainted keeps all of it": Case(
        ("a", "b"), ("atomic-a", "atomic-b"), {"atomic-a": ("p",), "atomic-b": ("q",)},
        frozenset({(plan.SetTaint, "atomic-a")}),
        deleted="a b", why={"atomic-a": "MarkRefused", "atomic-b": "BatchFailed"},
    ),
    "a pod that cannot be evicted keeps its node, while the other pods of it are evicted": Case(
        (), ("a", "b", "c", "d"),
        {"a": ("a0", "a1", "a2"), "b": ("b0", "b1"), "c": ("c0", "c1", "c2"), "d": ("d0",)},
        frozenset({(plan.Evict, "a0"), (plan.Evict, "a1"), (plan.Evict, "c1")}),
        "b d", "a2 b0 b1 c0 c2 d0", {"a": "EvictionRefused", "c": "EvictionRefused"},
    ),
    "a deletion that the provider refuses concerns its node alone": Case(
        ("a", "b"), ("c", "d"), {"c": ("p",), "d": ("q",)},
        frozenset({(plan.DeleteNode, "b"), (plan.DeleteNode, "d")}),
        "a c", "p q", {"b": "DeletionRefused", "d": "DeletionRefused"},
    ),
    "pods of DaemonSets are evicted from empty nodes and keep none": Case(
        ("a", "b"), (), {"a": ("agent-0", "agent-1"), "b": ("agent-2", "agent-3")},
        frozenset({(plan.Evict, "agent-2")}), "a b", "agent-0 agent-1 agent-3",
    ),
    "pods of DaemonSets stay on nodes to be drained where the user wants it": Case(
        ("a",), ("b", "c"), {"b": ("p",), "c": ("agent-0", "agent-1")}, deleted="a b c", evicted="p"
    ),
    "nodes that were chosen as empty and are not": Case(
        ("a", "b", "atomic-a", "atomic-b"), (), {"b": ("p",), "atomic-b": ("q",)},
        deleted="a", why={"b": "NotEmpty", "atomic-a": "GroupFailed", "atomic-b": "NotEmpty"},
    ),
}  # fmt: skip


def make_world(case: Case) -> World:
    names = ("a", "b", "c", "d", "atomic-a", "atomic-b", "atomic-c")
    pods = [
        replace(agent(name, "true"), node_name=home) if name.startswith("agent") else pod(name, home, 100)
        for home, here in case.pods.items()
        for name in here
    ]
    world = World([*map(node, names), node("z")], pods)
    atomic = [name for name in names if name.startswith("atomic")]
    world.groups["atomic"] = node_groups.NodeGroup(
        "atomic", 0, 9, len(atomic), options=node_groups.GroupOptions(zero_or_max=True)
    )
    world.group_of |= dict.fromkeys(atomic, "atomic")
    world.refuse = lambda instruction: "refused" if (type(instruction), _subject(instruction)) in case.refused else None
    return world


def _subject(instruction: plan.Instruction) -> str:
    match instruction:
        case plan.Evict():
            return instruction.name
        case plan.SetTaint(node=name) | plan.DeleteNode(node=name):
            return name
    return ""


@behaviors
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_failures_of_a_loop_with_several_drains(case: Case, settings: Settings) -> None:
    options = {"daemonset_eviction_for_occupied_nodes": False, "daemonset_eviction_for_empty_nodes": True}
    world = make_world(case)
    everywhere = {one.name for one in world.pods.values()}
    run = Run(world, with_drain(settings, **options)).begin(*case.empty, is_empty=True).begin(*case.occupied)
    run.resume()
    begun = {*case.empty, *case.occupied}
    assert begun - world.nodes.keys() == set(case.deleted.split())
    assert {name: run.why(name) for name in begun if run.why(name)} == dict(case.why)
    assert {name for name in begun & world.nodes.keys() if run.is_marked(name)} == set(), "all others are given back"
    left = {one.name for one in world.pods.values()}
    ended = {name for home in case.deleted.split() for name in case.pods.get(home, ())}
    assert everywhere - left == set(case.evicted.split()) | ended
    assert {name for _, name in run.evictions()} >= set(case.evicted.split())
