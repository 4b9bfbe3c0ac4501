"""One loop over a recorded case, decided by `decide` as every loop is: what the loop does not use cannot conform.

What a table leaves out is filled in so that nothing else stands in the way: nodes are ready and belong to groups.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from windlass.autoscaler.options import flags
from windlass.engine import loop, loop_memory
from windlass.engine.model import durable_memory, dynamic_resources, facts, node_groups, scale_down_state, well_known
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot import cluster_snapshot

NOW_S = 1_000_000.0
PEER = flags.parse_settings({"behavior": "cluster-autoscaler"})
READY = facts.Condition("Ready", "True")
ANY_SIZE = 1_000_000


def choose(settings: Settings, part: str, **changes: Any) -> Settings:
    """The settings with some fields of one of their parts changed."""
    return replace(settings, **{part: replace(getattr(settings, part), **changes)})


def complete(node: facts.Node) -> facts.Node:
    """The node with a provider id, by which its group knows it, and a Ready condition, unless it has them."""
    is_told = any(condition.type == READY.type for condition in node.conditions)
    conditions = node.conditions if is_told else (*node.conditions, READY)
    return replace(node, provider_id=node.provider_id or f"id://{node.name}", conditions=conditions)


def disable_scale_down(node: facts.Node) -> facts.Node:
    """The node with the annotation that keeps it."""
    return replace(node, annotations={**node.annotations, well_known.SCALE_DOWN_DISABLED: "true"})


def make_group(id: str, nodes: Sequence[facts.Node], target: int | None = None, **fields: Any) -> node_groups.NodeGroup:
    """A group of these nodes and of any size; its target size is how many there are, unless it is given."""
    given = {"min_size": 0, "max_size": ANY_SIZE, "target_size": len(nodes) if target is None else target} | fields
    return node_groups.NodeGroup(id, instances=tuple(node_groups.Instance(node.provider_id) for node in nodes), **given)


def observe(
    nodes: Iterable[facts.Node],
    pods: Iterable[facts.Pod],
    groups: Iterable[node_groups.NodeGroup],
    offered: Iterable[dynamic_resources.DeviceFact] = (),
    **more: Any,
) -> Observation:
    return Observation(cluster_snapshot.build_snapshot(nodes, pods, offered=offered), tuple(groups), **more)


def run(
    observation: Observation,
    settings: Settings,
    durable: durable_memory.DurableMemory | None = None,
    now_s: float = NOW_S,
) -> loop.Decision:
    """The decision of a loop that is not the first of its process."""
    before = replace(durable_memory.DurableMemory() if durable is None else durable, loop=1)
    decision = loop.decide(observation, loop_memory.LoopMemory(before), settings, now_s)
    assert not decision.faults, decision.faults
    return decision


def probe(
    observation: Observation,
    settings: Settings,
    durable: durable_memory.DurableMemory | None = None,
    now_s: float = NOW_S,
) -> scale_down_state.CandidateEvaluation:
    """What the loop finds when it looks for unneeded nodes."""
    evaluation = run(observation, settings, durable, now_s).story.scale_down.look
    assert evaluation is not None, "the loop ended before it looked for unneeded nodes"
    return evaluation
