"""Status builder: the published status of an observation and a decision.

Nodes and shares are computed from the snapshot's columns; pending pods are grouped by what the loop decided for them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from windlass.engine import taints
from windlass.engine.cluster_state import readiness
from windlass.engine.loop import Decision
from windlass.engine.model import arrays, cluster_health, node_groups, well_known
from windlass.engine.model.decision_record import ScaleDownRecord
from windlass.engine.model.durable_memory import DurableMemory
from windlass.engine.model.scale_up_status import PodEquivalenceGroup, ScaleUpProposal, ScaleUpResult
from windlass.engine.observation import Observation
from windlass.engine.snapshot.node_table import CPU_COLUMN, MEMORY_COLUMN, PODS_COLUMN
from windlass.engine.snapshot.snapshot import Snapshot
from windlass.observability.status_model import (
    MAX_PENDING,
    ClusterCost,
    ClusterSample,
    ClusterSummary,
    NodeState,
    PendingPods,
    PendingState,
    PublishedBackoff,
    PublishedGroup,
    PublishedNode,
    PublishedStatus,
    RejectedGroup,
)

_SHARE_DIGITS = 3
"""Digits of ratios: more would make equal-looking nodes differ."""

Shares = list[float]


def describe_nodes(
    observation: Observation,
    durable: DurableMemory,
    health: cluster_health.ClusterHealth,
    scale_down: ScaleDownRecord,
    phases: Mapping[str, str],
) -> tuple[PublishedNode, ...]:
    """Describe nodes by name. `phases`: progress of drains by node name."""
    nodes = [*_describe_registered(observation, durable, health, _unremovable_reasons(scale_down), phases)]
    nodes += _describe_unregistered(observation, health)
    nodes.sort(key=lambda node: node.name)
    return tuple(nodes)


def _describe_registered(
    observation: Observation,
    durable: DurableMemory,
    health: cluster_health.ClusterHealth,
    reasons: Mapping[str, str],
    phases: Mapping[str, str],
) -> Iterator[PublishedNode]:
    table, own = observation.snapshot.nodes, _find_groups(observation)
    unready, starting = frozenset(health.total.unready), frozenset(health.total.not_started)
    since, drains = durable.scale_down.since, durable.drains
    cpu, memory = (requested_share(observation.snapshot, column) for column in (CPU_COLUMN, MEMORY_COLUMN))
    gpu, pods = _share_of_gpus(observation.snapshot), (table.allocatable - table.free)[PODS_COLUMN].tolist()
    for row, alive in enumerate(table.alive.tolist()):
        if not alive:
            continue
        node = table.facts[row]
        name, state, since_s, why = node.name, NodeState.READY, None, reasons.get(node.name, "")
        if name in drains:
            state, since_s, why = NodeState.DRAINING, drains[name].since_s, phases.get(name, "")
        elif node.taints and taints.has_taint(node, taints.TO_BE_DELETED_KEY):
            state, why = NodeState.DRAINING, ""
        elif name in starting:
            state, since_s = NodeState.BOOTING, node.created_s
        elif name in unready:
            state, (_, since_s, why) = NodeState.UNREADY, readiness.assess_node(node)
        elif name in since:
            state, since_s = NodeState.UNNEEDED, since[name]
        yield PublishedNode(
            name, own.get(node.provider_id, ""), state, since_s, cpu[row], memory[row], gpu.get(row), pods[row],
            node.unschedulable, why,
        )  # fmt: skip


def _describe_unregistered(observation: Observation, health: cluster_health.ClusterHealth) -> Iterator[PublishedNode]:
    """Describe instances without a node."""
    registered = {node.provider_id for node in observation.nodes}
    late, since = frozenset(health.total.long_unregistered), health.memory.unregistered_since
    for group in observation.groups:
        for instance in group.instances:
            if instance.provider_id in registered:
                continue
            since_s = since.get(instance.provider_id)
            if instance.error is not None:
                yield PublishedNode(instance.provider_id, group.id, NodeState.FAILED, since_s, why=instance.error.said)
            elif instance.state == "Deleting":
                yield PublishedNode(instance.provider_id, group.id, NodeState.DRAINING, since_s, why="deleting")
            elif instance.provider_id in late:
                yield PublishedNode(
                    instance.provider_id, group.id, NodeState.FAILED, since_s, why="no node came in time"
                )
            else:
                yield PublishedNode(instance.provider_id, group.id, NodeState.BOOTING, since_s)


def requested_share(snapshot: Snapshot, column: int) -> Shares:
    """Return float (n_nodes,): the requested share of a resource; 0 where a node has none of it."""
    has, free = snapshot.nodes.allocatable[column], snapshot.nodes.free[column]
    shares = np.divide(has - free, has, out=np.zeros(len(has)), where=has > 0)
    return np.round(shares, _SHARE_DIGITS).tolist()  # type: ignore[no-any-return]


def total_share(snapshot: Snapshot, column: int, among: arrays.Mask | None = None) -> float:
    """Return the requested share of all existing nodes together."""
    alive = snapshot.nodes.alive if among is None else among
    has = int(snapshot.nodes.allocatable[column][alive].sum())
    return round(1.0 - int(snapshot.nodes.free[column][alive].sum()) / has, _SHARE_DIGITS) if has > 0 else 0.0


def total_gpu_share(snapshot: Snapshot) -> float | None:
    """Return the requested share of GPUs; None without GPU nodes."""
    for column in _gpu_columns(snapshot):
        among = snapshot.nodes.alive & (snapshot.nodes.allocatable[column] > 0)
        if among.any():
            return total_share(snapshot, column, among)
    return None


def _gpu_columns(snapshot: Snapshot) -> list[int]:
    columns = (snapshot.nodes.resources.find(name) for name in well_known.GPU_RESOURCES)
    return [column for column in columns if 0 <= column < len(snapshot.nodes.allocatable)]


def _share_of_gpus(snapshot: Snapshot) -> dict[int, float]:
    """Return the requested share of GPUs by row of GPU nodes; the first GPU resource of a node counts."""
    found: dict[int, float] = {}
    for column in reversed(_gpu_columns(snapshot)):
        shares = requested_share(snapshot, column)
        found |= {row: shares[row] for row in np.flatnonzero(snapshot.nodes.allocatable[column] > 0).tolist()}
    return found


def _find_groups(observation: Observation) -> dict[str, str]:
    """Return the group of each provider id."""
    return {
        instance.provider_id: group.id
        for group in observation.groups
        for instance in group.instances
        if instance.provider_id
    }


def _unremovable_reasons(story: ScaleDownRecord) -> dict[str, str]:
    """Return why nodes are unremovable, by name, in Cluster Autoscaler's words."""
    if story.look is None:
        return {}
    judged = zip(story.look.eligibility.names, story.look.eligibility.reasons, strict=True)
    reasons = {name: str(reason) for name, reason in judged if reason is not None}
    reasons |= {
        removal.node_name: str(removal.reason) for removal in story.look.trials.failed if removal.reason is not None
    }
    if story.choice is not None:
        reasons |= {unremovable.node_name: str(unremovable.reason) for unremovable in story.choice.kept}
    return reasons


_MAX_TOTAL_REACHED = "max total nodes in cluster reached"

_MAX_NODES_NAMED = 3
"""Maximum number of nodes listed by name."""


@dataclass(frozen=True, slots=True)
class _PodAnswer:
    help: PendingState
    groups: tuple[str, ...] = ()
    reasons: tuple[RejectedGroup, ...] = ()


@dataclass(slots=True)
class _PodSet:
    rows: list[int] = field(default_factory=list)
    nodes: dict[str, None] = field(default_factory=dict)


def describe_pending_pods(observation: Observation, decision: Decision, rows: list[int]) -> tuple[PendingPods, ...]:
    """Describe pending pods of these rows, grouped; longest pending first, up to the limit."""
    table, pod_answers = observation.snapshot.pods, _answers_by_row(decision)
    places = decision.memory.volatile.pending.hints.old
    sets: dict[tuple[int, int, _PodAnswer], _PodSet] = {}
    waiting, room = _PodAnswer(PendingState.WAITING), _PodAnswer(PendingState.ROOM)
    for row, shape, kind in zip(rows, table.shape_ids[rows].tolist(), table.template_ids[rows].tolist(), strict=True):
        answer, place = pod_answers.get(row), places.get(table.uids[row])
        if answer is None:
            answer = waiting if place is None else room
        pod_set = sets.setdefault((shape, kind, answer), _PodSet())
        pod_set.rows.append(row)
        if place is not None and answer is room and len(pod_set.nodes) < _MAX_NODES_NAMED:
            pod_set.nodes[place] = None
    made = (_describe_pod_set(observation, found, answer) for (_, _, answer), found in sets.items())
    return tuple(sorted(made, key=lambda pending_pods: (pending_pods.since_s, pending_pods.pod))[:MAX_PENDING])


def _describe_pod_set(observation: Observation, pod_set: _PodSet, answer: _PodAnswer) -> PendingPods:
    table, first = observation.snapshot.pods, pod_set.rows[0]
    kind = table.template_key(first)
    return PendingPods(
        table.key(first),
        len(pod_set.rows),
        answer.help,
        f"{kind.owner.kind} {kind.owner.name}" if kind.owner else "",
        dict(kind.spec.requests),
        float(table.created_s[pod_set.rows].min()),
        answer.groups,
        tuple(pod_set.nodes),
        answer.reasons,
    )


def _answers_by_row(decision: Decision) -> Mapping[int, _PodAnswer]:
    """Return the answer to each row. The last round applies, except for pods that an earlier round scaled up for."""
    pod_answers: dict[int, _PodAnswer] = {}
    for proposal in decision.story.scale_ups:
        for row, answer in _answer_of(proposal):
            if row not in pod_answers or pod_answers[row].help is not PendingState.HELPED:
                pod_answers[row] = answer
    return pod_answers


def _answer_of(proposal: ScaleUpProposal) -> Iterator[tuple[int, _PodAnswer]]:
    for alike in proposal.remaining:
        refused = _PodAnswer(PendingState.NOWHERE, reasons=tuple(_reasons(proposal, alike)))
        yield from ((row, refused) for row in alike.rows)
    later = _PodAnswer(PendingState.LATER)
    yield from ((row, later) for row in proposal.awaiting)
    helped = _PodAnswer(PendingState.HELPED, tuple(increase.group.id for increase in proposal.increases))
    yield from ((row, helped) for row in proposal.helped)


def _reasons(proposal: ScaleUpProposal, alike: PodEquivalenceGroup) -> Iterator[RejectedGroup]:
    if proposal.result is ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL:
        yield RejectedGroup("", (_MAX_TOTAL_REACHED,))
    for group, texts in sorted({**alike.rejected, **proposal.skipped_for(alike)}.items()):
        if texts:
            yield RejectedGroup(group, tuple(map(str, texts)))


_PAID_STATES = ("Running", "Creating")
"""States of instances that cost money."""

_READY_STATES = (NodeState.READY, NodeState.UNNEEDED)
"""States of nodes that are ready and stay."""


@dataclass(frozen=True, slots=True)
class PublisherInfo:
    """Identity of the publishing process."""

    mode: str = "live"
    name: str = ""
    speed: float = 1.0


LIVE_PUBLISHER = PublisherInfo()


@dataclass(frozen=True, slots=True)
class ClusterMeasurements:
    """Key figures that are measured after every loop, with or without watchers."""

    sample: ClusterSample
    unpriced: int
    waiting: list[int] = field(compare=False, default_factory=list)
    """Rows of pending pods."""


def measure_cluster(observation: Observation, now_s: float) -> ClusterMeasurements:
    """Measure size, pending pods and cost of the cluster."""
    snapshot, waiting = observation.snapshot, observation.snapshot.pending()
    count = int(snapshot.nodes.alive.sum())
    priced = [(group, count_paid_instances(group)) for group in observation.groups if group.price_per_hour is not None]
    cost = sum((group.price_per_hour or 0.0) * paid for group, paid in priced)
    sample = ClusterSample(
        now_s,
        count,
        len(waiting),
        total_share(snapshot, CPU_COLUMN),
        total_share(snapshot, MEMORY_COLUMN),
        round(cost, 6),
    )
    known = sum(len(group.instances) for group, _ in priced)
    return ClusterMeasurements(sample, max(count - known, 0), waiting)


def count_paid_instances(group: node_groups.NodeGroup) -> int:
    """Return the number of existing and upcoming machines of a group."""
    return sum(1 for instance in group.instances if instance.state in _PAID_STATES and instance.error is None)


def build_status(
    observation: Observation,
    decision: Decision,
    figures: ClusterMeasurements,
    setting: PublisherInfo = LIVE_PUBLISHER,
    phases: Mapping[str, str] | None = None,
) -> PublishedStatus:
    """Build the status after a loop, without the history: decisions, samples and accumulated cost.

    Must be called while the snapshot is unchanged since the decision. `phases`: progress of drains by node name.
    """
    story, durable = decision.story, decision.memory.durable
    published_nodes = describe_nodes(observation, durable, story.health, story.scale_down, phases or {})
    states = Counter((node.group, node.state) for node in published_nodes)
    sample, snapshot = figures.sample, observation.snapshot
    cluster = ClusterSummary(
        sample.at_s,
        durable.loop,
        setting.name,
        setting.mode,
        False,
        setting.speed,
        story.health.verdict.is_healthy,
        str(story.repairs.stop or ""),
        str(story.scale_ups[0].result) if story.scale_ups else "",
        str(story.scale_down.result),
        sample.nodes,
        sum(node.state in _READY_STATES for node in published_nodes),
        int((snapshot.pods.node_rows != arrays.ABSENT).sum()),
        sample.pending,
        sample.cpu,
        sample.memory,
        total_gpu_share(snapshot),
        ClusterCost(sample.cost_per_hour, unpriced=figures.unpriced),
    )
    groups = sorted(
        (_describe_group(group, decision, states) for group in observation.groups),
        key=lambda published_group: published_group.id,
    )
    return PublishedStatus(
        cluster, tuple(groups), published_nodes, describe_pending_pods(observation, decision, figures.waiting)
    )


def update_drains(
    before: PublishedStatus,
    observation: Observation,
    decision: Decision,
    durable: DurableMemory,
    phases: Mapping[str, str],
    now_s: float,
) -> PublishedStatus:
    """Return the status with updated drains. `decision`: the last one; everything else is still based on it."""
    story = decision.story
    published_nodes = describe_nodes(observation, durable, story.health, story.scale_down, phases)
    cluster = msgspec.structs.replace(before.cluster, at_s=now_s)
    return msgspec.structs.replace(before, cluster=cluster, nodes=published_nodes)


def _describe_group(
    group: node_groups.NodeGroup, decision: Decision, states: Counter[tuple[str, NodeState]]
) -> PublishedGroup:
    story, id = decision.story, group.id
    size, group_health = story.repairs.sizes.get(id), story.health.groups.get(id)
    grown = {increase.group.id: increase.new_size for proposal in story.scale_ups for increase in proposal.increases}
    target = grown.get(id, size.target if size is not None else group.target_size)
    backoff = group_health.backoff if group_health is not None else None
    ready = sum(states[id, state] for state in _READY_STATES)
    here = ready + sum(
        states[id, state] for state in (NodeState.UNREADY, NodeState.BOOTING, NodeState.FAILED, NodeState.DRAINING)
    )
    price = group.price_per_hour
    return PublishedGroup(
        id,
        group.min_size,
        group.max_size,
        target,
        ready,
        states[id, NodeState.UNREADY],
        states[id, NodeState.BOOTING] + max(target - here, 0),
        states[id, NodeState.FAILED],
        states[id, NodeState.UNNEEDED],
        states[id, NodeState.DRAINING],
        id not in story.unhealthy,
        None if backoff is None else PublishedBackoff(backoff.until_s, backoff.error.code, backoff.error.message),
        price,
        None if price is None else round(price * count_paid_instances(group), 6),
        tuple(dict.fromkeys(instance.error.said for instance in group.instances if instance.error is not None)),
        group.replicas_owner.message if group.replicas_owner is not None else "",
    )
