"""Nodes as they are published: all of a cluster at once, from the snapshot's columns and what the loop made of them."""

from collections.abc import Iterator, Mapping

import numpy as np

from windlass.autoscaler.published.model import Node, State
from windlass.engine import dtypes, gpus, health, readiness, taints
from windlass.engine.memory import Durable
from windlass.engine.nodes import CPU_COLUMN, MEMORY_COLUMN, PODS_COLUMN
from windlass.engine.observation import Observation
from windlass.engine.snapshot import Snapshot
from windlass.engine.story import ScaleDownStory

_DIGITS = 3
"""Of shares: more would only make nodes differ that look the same."""

Shares = list[float]


def describe(
    seen: Observation,
    durable: Durable,
    found: health.Health,
    scale_down: ScaleDownStory,
    phases: Mapping[str, str],
) -> tuple[Node, ...]:
    """By name. `phases`: how far nodes on their way out are, by name."""
    nodes = [*_describe_registered(seen, durable, found, _find_reasons(scale_down), phases)]
    nodes += _describe_unregistered(seen, found)
    nodes.sort(key=lambda node: node.name)
    return tuple(nodes)


def _describe_registered(
    seen: Observation,
    durable: Durable,
    found: health.Health,
    reasons: Mapping[str, str],
    phases: Mapping[str, str],
) -> Iterator[Node]:
    table, own = seen.snapshot.nodes, _find_groups(seen)
    unready, starting = frozenset(found.total.unready), frozenset(found.total.not_started)
    since, drains = durable.scale_down.since, durable.drains
    cpu, memory = (share_of(seen.snapshot, column) for column in (CPU_COLUMN, MEMORY_COLUMN))
    gpu, pods = _share_of_gpus(seen.snapshot), (table.allocatable - table.free)[PODS_COLUMN].tolist()
    for row, alive in enumerate(table.alive.tolist()):
        if not alive:
            continue
        node = table.facts[row]
        name, state, since_s, why = node.name, State.READY, None, reasons.get(node.name, "")
        if name in drains:
            state, since_s, why = State.DRAINING, drains[name].since_s, phases.get(name, "")
        elif node.taints and taints.has(node, taints.TO_BE_DELETED):
            state, why = State.DRAINING, ""
        elif name in starting:
            state, since_s = State.BOOTING, node.created_s
        elif name in unready:
            state, (_, since_s, why) = State.UNREADY, readiness.judge(node)
        elif name in since:
            state, since_s = State.UNNEEDED, since[name]
        yield Node(
            name, own.get(node.provider_id, ""), state, since_s, cpu[row], memory[row], gpu.get(row), pods[row],
            node.unschedulable, why,
        )  # fmt: skip


def _describe_unregistered(seen: Observation, found: health.Health) -> Iterator[Node]:
    """Instances that have no node."""
    registered = {node.provider_id for node in seen.nodes}
    late, since = frozenset(found.total.long_unregistered), found.memory.unregistered_since
    for group in seen.groups:
        for one in group.instances:
            if one.provider_id in registered:
                continue
            since_s = since.get(one.provider_id)
            if one.error is not None:
                yield Node(one.provider_id, group.id, State.FAILED, since_s, why=one.error.said)
            elif one.state == "Deleting":
                yield Node(one.provider_id, group.id, State.DRAINING, since_s, why="deleting")
            elif one.provider_id in late:
                yield Node(one.provider_id, group.id, State.FAILED, since_s, why="no node came in time")
            else:
                yield Node(one.provider_id, group.id, State.BOOTING, since_s)


def share_of(snapshot: Snapshot, column: int) -> Shares:
    """What pods ask for of a resource, for every row of the nodes; 0 where a node has none of it."""
    has, free = snapshot.nodes.allocatable[column], snapshot.nodes.free[column]
    shares = np.divide(has - free, has, out=np.zeros(len(has)), where=has > 0)
    return np.round(shares, _DIGITS).tolist()  # type: ignore[no-any-return]


def total_share(snapshot: Snapshot, column: int, among: dtypes.Mask | None = None) -> float:
    """The same of all nodes that exist together."""
    alive = snapshot.nodes.alive if among is None else among
    has = int(snapshot.nodes.allocatable[column][alive].sum())
    return round(1.0 - int(snapshot.nodes.free[column][alive].sum()) / has, _DIGITS) if has > 0 else 0.0


def total_gpu_share(snapshot: Snapshot) -> float | None:
    """None where no node has GPUs."""
    for column in _gpu_columns(snapshot):
        among = snapshot.nodes.alive & (snapshot.nodes.allocatable[column] > 0)
        if among.any():
            return total_share(snapshot, column, among)
    return None


def _gpu_columns(snapshot: Snapshot) -> list[int]:
    columns = (snapshot.nodes.resources.find(name) for name in gpus.RESOURCES)
    return [column for column in columns if 0 <= column < len(snapshot.nodes.allocatable)]


def _share_of_gpus(snapshot: Snapshot) -> dict[int, float]:
    """By row, of nodes that have GPUs; the first kind that a node has counts."""
    found: dict[int, float] = {}
    for column in reversed(_gpu_columns(snapshot)):
        shares = share_of(snapshot, column)
        found |= {row: shares[row] for row in np.flatnonzero(snapshot.nodes.allocatable[column] > 0).tolist()}
    return found


def _find_groups(seen: Observation) -> dict[str, str]:
    """Group by provider id."""
    return {one.provider_id: group.id for group in seen.groups for one in group.instances if one.provider_id}


def _find_reasons(story: ScaleDownStory) -> dict[str, str]:
    """What keeps nodes, by name, in the peer's words."""
    if story.look is None:
        return {}
    judged = zip(story.look.eligibility.names, story.look.eligibility.reasons, strict=True)
    reasons = {name: str(reason) for name, reason in judged if reason is not None}
    reasons |= {one.node_name: str(one.reason) for one in story.look.trials.failed if one.reason is not None}
    if story.choice is not None:
        reasons |= {one.node_name: str(one.reason) for one in story.choice.kept}
    return reasons
