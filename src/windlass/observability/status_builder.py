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
from windlass.engine.expanders.price import INSTANCE_TYPE, INSTANCE_TYPE_BETA
from windlass.engine.model import arrays, cluster_health, facts, node_groups, well_known
from windlass.engine.model.durable_memory import DurableMemory
from windlass.engine.observation import Observation
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.engine.snapshot.node_table import CPU_COLUMN, MEMORY_COLUMN, PODS_COLUMN
from windlass.engine.snapshot.pod_table import PodTable
from windlass.explain.decision_view import DecisionView, GroupView, PodVerdict
from windlass.observability.options import ReportingOptions
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
    observation: Observation, durable: DurableMemory, view: DecisionView, phases: Mapping[str, str]
) -> tuple[PublishedNode, ...]:
    """Describe nodes by name. `phases`: progress of drains by node name."""
    nodes = [*_describe_registered(observation, durable, view, phases)]
    nodes += _describe_unregistered(observation, view.record.health)
    nodes.sort(key=lambda node: node.name)
    return tuple(nodes)


def _describe_registered(
    observation: Observation, durable: DurableMemory, view: DecisionView, phases: Mapping[str, str]
) -> Iterator[PublishedNode]:
    table, group_of = observation.snapshot.nodes, observation.group_of_nodes()
    health, reasons = view.record.health, view.unremovable_reasons
    unready, starting = frozenset(health.total.unready), frozenset(health.total.not_started)
    since, drains = durable.scale_down.since, durable.drains
    cpu, memory = (requested_share(observation.snapshot, column) for column in (CPU_COLUMN, MEMORY_COLUMN))
    gpu, pods = _share_of_gpus(observation.snapshot), (table.allocatable - table.free)[PODS_COLUMN].tolist()
    for row, alive in enumerate(table.alive.tolist()):
        if not alive:
            continue
        node = table.facts[row]
        name, state, since_s, why = node.name, NodeState.READY, None, str(reasons.get(node.name, ""))
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
        group = group_of[name].id if name in group_of else ""
        yield PublishedNode(
            name,
            group,
            state,
            since_s,
            cpu[row],
            memory[row],
            gpu.get(row),
            pods[row],
            node.unschedulable,
            _find_label(node, facts.ZONE, facts.ZONE_BETA),
            _find_label(node, INSTANCE_TYPE, INSTANCE_TYPE_BETA),
            round(node.created_s) or None,
            why,
        )


def _find_label(node: facts.Node, key: str, former: str) -> str:
    return node.labels.get(key) or node.labels.get(former, "")


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
    share_by_row: dict[int, float] = {}
    for column in reversed(_gpu_columns(snapshot)):
        shares = requested_share(snapshot, column)
        share_by_row |= {row: shares[row] for row in np.flatnonzero(snapshot.nodes.allocatable[column] > 0).tolist()}
    return share_by_row


_MAX_NODES_NAMED = 3
"""Maximum number of nodes listed by name."""


@dataclass(frozen=True, slots=True)
class _PodOutcome:
    help: PendingState
    groups: tuple[str, ...] = ()
    reasons: tuple[RejectedGroup, ...] = ()


_WAITING, _ROOM = _PodOutcome(PendingState.WAITING), _PodOutcome(PendingState.ROOM)


@dataclass(slots=True)
class _PodSet:
    rows: list[int] = field(default_factory=list)
    nodes: dict[str, None] = field(default_factory=dict)
    upcoming: dict[str, None] = field(default_factory=dict)
    """Groups of upcoming nodes."""


def describe_pending_pods(view: DecisionView, rows: list[int]) -> tuple[PendingPods, ...]:
    """Describe pending pods of these rows, grouped; longest pending first, up to the limit."""
    table = view.observation.snapshot.pods
    outcomes: dict[int, _PodOutcome] = {}
    nodes_by_uid = view.decision.memory.volatile.pending.hints.old
    sets: dict[tuple[int, int, _PodOutcome], _PodSet] = {}
    for row, shape, kind in zip(rows, table.shape_ids[rows].tolist(), table.template_ids[rows].tolist(), strict=True):
        verdict, node = view.pods.get(row), nodes_by_uid.get(table.uids[row])
        if verdict is None:
            outcome = _WAITING if node is None else _ROOM
        elif (key := id(verdict)) in outcomes:
            outcome = outcomes[key]
        else:
            outcome = outcomes[key] = _describe_verdict(verdict)
        pod_set = sets.setdefault((shape, kind, outcome), _PodSet())
        pod_set.rows.append(row)
        if node is not None and outcome is _ROOM:
            _add_node(view, pod_set, node)
    described = (_describe_pod_set(table, pod_set, outcome) for (_, _, outcome), pod_set in sets.items())
    return tuple(sorted(described, key=lambda pods: (pods.since_s, pods.pod))[:MAX_PENDING])


def _add_node(view: DecisionView, pod_set: _PodSet, node: str) -> None:
    """Add a node by its name, or by its group if it does not exist yet."""
    if node in view.observation.snapshot.nodes.rows:
        if len(pod_set.nodes) < _MAX_NODES_NAMED:
            pod_set.nodes[node] = None
        return
    for group, template in view.record.templates.items():
        if node.rpartition("-upcoming-")[0] == template.node.name:
            pod_set.upcoming[group] = None


def _describe_pod_set(table: PodTable, pod_set: _PodSet, outcome: _PodOutcome) -> PendingPods:
    first = pod_set.rows[0]
    kind = table.template_key(first)
    return PendingPods(
        table.key(first),
        len(pod_set.rows),
        outcome.help,
        f"{kind.owner.kind} {kind.owner.name}" if kind.owner else "",
        dict(kind.spec.requests),
        float(table.created_s[pod_set.rows].min()),
        outcome.groups,
        tuple(pod_set.nodes),
        tuple(pod_set.upcoming),
        outcome.reasons,
    )


def _describe_verdict(verdict: PodVerdict) -> _PodOutcome:
    if verdict.is_helped:
        return _PodOutcome(PendingState.HELPED, tuple(increase.group.id for increase in verdict.proposal.increases))
    if verdict.rejected is None:
        return _PodOutcome(PendingState.LATER)
    reasons = tuple(RejectedGroup(group, texts) for group, texts in verdict.rejected_reasons())
    return _PodOutcome(PendingState.NOWHERE, reasons=reasons)


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
    cluster_name: str = ""
    """Empty: as the nodes' annotations tell."""
    currency: str = ""
    recording: str = ""
    runbook: str = ReportingOptions().runbook


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
    view: DecisionView,
    figures: ClusterMeasurements,
    publisher: PublisherInfo = LIVE_PUBLISHER,
    phases: Mapping[str, str] | None = None,
) -> PublishedStatus:
    """Build the status after a loop, without the history: decisions, samples and accumulated cost.

    Must be called while the snapshot is unchanged since the decision. `phases`: progress of drains by node name.
    """
    record, durable, observation = view.record, view.decision.memory.durable, view.observation
    published_nodes = describe_nodes(observation, durable, view, phases or {})
    states = Counter((node.group, node.state) for node in published_nodes)
    sample, snapshot = figures.sample, observation.snapshot
    cluster = ClusterSummary(
        sample.at_s,
        durable.loop,
        publisher.name,
        publisher.mode,
        False,
        publisher.speed,
        record.health.verdict.is_healthy,
        view.stop,
        view.scale_up_result,
        str(record.scale_down.result),
        sample.nodes,
        sum(node.state in _READY_STATES for node in published_nodes),
        int((snapshot.pods.node_rows != arrays.ABSENT).sum()),
        sample.pending,
        sample.cpu,
        sample.memory,
        total_gpu_share(snapshot),
        ClusterCost(sample.cost_per_hour, unpriced=figures.unpriced),
        publisher.cluster_name or find_cluster_name(observation),
        publisher.currency,
        publisher.recording,
        publisher.runbook,
    )
    places = _find_places(published_nodes)
    groups = sorted(
        (_describe_group(group, states, places) for group in view.groups.values()), key=lambda group: group.id
    )
    return PublishedStatus(cluster, tuple(groups), published_nodes, describe_pending_pods(view, figures.waiting))


def update_drains(
    before: PublishedStatus,
    observation: Observation,
    view: DecisionView,
    durable: DurableMemory,
    phases: Mapping[str, str],
    now_s: float,
) -> PublishedStatus:
    """Return the status with updated drains. `view`: of the last decision; everything else is still based on it."""
    nodes = describe_nodes(observation, durable, view, phases)
    return msgspec.structs.replace(before, cluster=msgspec.structs.replace(before.cluster, at_s=now_s), nodes=nodes)


CLUSTER_NAME_ANNOTATION = "cluster.x-k8s.io/cluster-name"


def find_cluster_name(observation: Observation) -> str:
    """The name of the Cluster object, as the first annotated node tells; empty if none does."""
    names = (node.annotations.get(CLUSTER_NAME_ANNOTATION, "") for node in observation.nodes)
    return next(filter(None, names), "")


Places = Mapping[str, tuple[set[str], set[str]]]
"""Zones and instance types of a group's nodes."""


def _find_places(nodes: tuple[PublishedNode, ...]) -> Places:
    places: dict[str, tuple[set[str], set[str]]] = {}
    for node in nodes:
        zones, types = places.setdefault(node.group, (set(), set()))
        zones.add(node.zone)
        types.add(node.machine_type)
    return places


def _describe_group(view: GroupView, states: Counter[tuple[str, NodeState]], places: Places) -> PublishedGroup:
    group, id = view.group, view.group.id
    target_size = view.target_size if view.new_size is None else view.new_size
    backoff = view.health.backoff if view.health is not None else None
    ready = sum(states[id, state] for state in _READY_STATES)
    others = (NodeState.UNREADY, NodeState.BOOTING, NodeState.FAILED, NodeState.DRAINING)
    present = ready + sum(states[id, state] for state in others)
    price = group.price_per_hour
    zones, types = places.get(id, (set(), set()))
    return PublishedGroup(
        id,
        group.min_size,
        group.max_size,
        target_size,
        ready,
        states[id, NodeState.UNREADY],
        states[id, NodeState.BOOTING] + max(target_size - present, 0),
        states[id, NodeState.FAILED],
        states[id, NodeState.UNNEEDED],
        states[id, NodeState.DRAINING],
        view.is_healthy,
        None if backoff is None else PublishedBackoff(backoff.until_s, backoff.error.code, backoff.error.message),
        price,
        None if price is None else round(price * count_paid_instances(group), 6),
        view.errors,
        view.replicas_owner,
        tuple(sorted(filter(None, zones))),
        tuple(sorted(filter(None, types))),
    )
