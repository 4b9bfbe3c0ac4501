"""Scheduling obstacles: every filter that rejects a pod on a node, with the quantities and names that decided.

kube-scheduler stops at the first filter that rejects; this lists all of them, and names the taint, label, port or
pod.

Remedies: changes that make a pod fit on a new node of a group, each verified before it is suggested.

A remedy changes one thing of the pod or the group, or waits. The remedies of one group belong together: with all of
them, and nothing else changed, a new node of the group takes the pod. If none are known to help, there are none.
"""

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from windlass import formatting
from windlass.engine.model import arrays, facts, scheduling_reasons, settings
from windlass.engine.model.settings import FilterConfig
from windlass.engine.predicates import (
    inter_pod_affinity,
    node_affinity,
    node_name,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    pod_topology_spread,
    registry,
    taint_toleration,
)
from windlass.engine.snapshot import cluster_snapshot, topology_counts
from windlass.engine.snapshot.cluster_snapshot import Snapshot

DetailFunction = Callable[[cluster_snapshot.Snapshot, facts.PodShape, int], str]


def find_detail(
    snapshot: cluster_snapshot.Snapshot, shape: facts.PodShape, row: int, rule: str, reason: scheduling_reasons.Reason
) -> str:
    """The facts that decided on the node of this row; empty if the reason contains them."""
    if isinstance(reason, scheduling_reasons.Insufficient):
        return describe_shortage(reason)
    look = _DETAILS.get(rule)
    return look(snapshot, shape, row) if look else ""


def describe_shortage(reason: scheduling_reasons.Insufficient) -> str:
    needed = formatting.format_short_quantity(reason.resource, reason.requested, up=True)
    free = formatting.format_short_quantity(reason.resource, reason.capacity - reason.used)
    return f"needs {needed}, {free} of {formatting.format_short_quantity(reason.resource, reason.capacity)} free"


def name_taint(snapshot: cluster_snapshot.Snapshot, shape: facts.PodShape, row: int) -> str:
    """The first taint of the node that the pod does not tolerate, as kubectl writes taints."""
    for taint in snapshot.nodes.facts[row].taints:
        repels = taint.effect != "PreferNoSchedule"
        if repels and not any(toleration.tolerates(taint) for toleration in shape.spec.tolerations):
            return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
    return ""


def compare_labels(snapshot: cluster_snapshot.Snapshot, shape: facts.PodShape, row: int) -> str:
    """What the node has instead of what the pod's nodeSelector asks for."""
    labels = snapshot.nodes.facts[row].labels
    for key, value in shape.spec.node_selector:
        if labels.get(key) != value:
            return f"it has {key}={labels[key]}, not {value}" if key in labels else f"it has no {key}, not {value}"
    return ""


def count_skew(snapshot: cluster_snapshot.Snapshot, shape: facts.PodShape, row: int) -> str:
    """How many matching pods the node's domain has, and how many the emptiest."""
    for spreading in pod_topology_spread.count_constraints(snapshot, shape, settings.DEFAULT_FILTER_CONFIG):
        domain, key = int(spreading.domains[row]), spreading.constraint.topology_key
        if domain == arrays.ABSENT:
            return f"it has no {key}"
        if not spreading.open_domains()[domain]:
            value = snapshot.nodes.label_column(key).values[domain]
            here, least = int(spreading.per_domain[domain]), spreading.emptiest
            return f"{_short_key(key)} {value} has {here}, the emptiest has {least}"
    return ""


def name_conflicting_pod(snapshot: cluster_snapshot.Snapshot, shape: facts.PodShape, row: int) -> str:
    """A pod that must not be near: one that the pod avoids, or one that avoids the pod."""
    for term in shape.spec.anti_affinity:
        counts = snapshot.counts(topology_counts.PodsMatchingAllTerms((term,)))
        near = _nearest(snapshot, term.topology_key, counts, row)
        if near is not None:
            return _name_pod(snapshot, near, lambda other, term=term: _matches(snapshot, other, term))  # type: ignore[misc]
    for term, tally in snapshot.topology_counts.repelling(shape):
        near = _nearest(snapshot, term.topology_key, snapshot.topology_counts.counts(tally, snapshot.nodes.count), row)
        if near is not None:
            return _name_pod(snapshot, near, lambda other, term=term: term in other.spec.anti_affinity)  # type: ignore[misc]
    return ""


def name_port_holder(snapshot: cluster_snapshot.Snapshot, shape: facts.PodShape, row: int) -> str:
    """The pod that holds a host port that this one wants."""
    desired = {(port.protocol, port.port) for port in shape.spec.host_ports}
    for pod_row in snapshot.pods_on(row):
        for port in snapshot.shape_of_row(pod_row).spec.host_ports:
            if (port.protocol, port.port) in desired:
                return f"{snapshot.pod(pod_row).key} holds {port.port}/{port.protocol}"
    return ""


def _nearest(snapshot: cluster_snapshot.Snapshot, key: str, counts: arrays.Counts, row: int) -> int | None:
    """A node of this one's domain on which something is counted."""
    domains = snapshot.nodes.label_ids(key)
    if domains[row] == arrays.ABSENT:
        return None
    near = ((domains == domains[row]) & (counts > 0) & snapshot.nodes.alive).nonzero()[0]
    return int(near[0]) if len(near) else None


def _name_pod(snapshot: cluster_snapshot.Snapshot, row: int, is_rival: Callable[[facts.PodShape], bool]) -> str:
    for pod_row in snapshot.pods_on(row):
        if is_rival(snapshot.shape_of_row(pod_row)):
            return f"{snapshot.pod(pod_row).key} is on {snapshot.nodes.names[row]}"
    return ""


def _matches(snapshot: cluster_snapshot.Snapshot, other: facts.PodShape, term: facts.PodAffinityTerm) -> bool:
    return topology_counts.own_term_matches(term, other.profile, snapshot.topology_counts.namespaces)


def _short_key(key: str) -> str:
    """`zone` of `topology.kubernetes.io/zone`."""
    return key.rsplit("/", 1)[-1]


_DETAILS: dict[str, DetailFunction] = {
    taint_toleration.NAME: name_taint,
    node_affinity.NAME: compare_labels,
    pod_topology_spread.NAME: count_skew,
    inter_pod_affinity.NAME: name_conflicting_pod,
    node_ports.NAME: name_port_holder,
}


@dataclass(frozen=True, slots=True)
class Shortage:
    """A node has too little of a resource, in its own unit: millicores, bytes, pieces."""

    resource: str
    requested: int
    free: int
    taken: int
    """What pods that are there take. On a new node: those of DaemonSets, and others that it starts with."""
    allocatable: int


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One filter's reason for one pod on one node."""

    rule: str
    """kube-scheduler's name of the filter."""
    reasons: tuple[str, ...]
    """In kube-scheduler's words."""
    detail: str = ""
    """The facts that decided: taint, label, conflicting pod. Empty if the reason contains them."""
    shortages: tuple[Shortage, ...] = ()


def find_obstacles(snapshot: Snapshot, shape: facts.PodShape, row: int, config: FilterConfig) -> list[Obstacle]:
    """All that keeps a pod of this shape off the node of this row, in the scheduler's order; none if it fits."""
    everywhere = registry.run_pre_filters(snapshot, shape, config)
    if everywhere is not None:
        return [Obstacle(everywhere.rule, tuple(everywhere.texts))]
    return [_describe_obstacle(snapshot, shape, row, refusal) for refusal in _refusals(snapshot, shape, row, config)]


def _refusals(
    snapshot: Snapshot, shape: facts.PodShape, row: int, config: FilterConfig
) -> Iterator[scheduling_reasons.Refusal]:
    narrowed = registry.find_pre_filter_result(snapshot, shape, config)
    if narrowed is not None and registry.mask_outside(snapshot, narrowed)[row]:
        yield narrowed.outside
    for rule in registry.FILTERS:
        if rule.NAME in config.disabled:
            continue
        allowed = rule.mask(snapshot, shape, config)
        if allowed is not None and not allowed[row]:
            yield rule.explain(snapshot, shape, row, config)


def _describe_obstacle(
    snapshot: Snapshot, shape: facts.PodShape, row: int, refusal: scheduling_reasons.Refusal
) -> Obstacle:
    short = tuple(
        _measure_shortage(reason) for reason in refusal.reasons if isinstance(reason, scheduling_reasons.Insufficient)
    )
    detail = "" if short or not refusal.reasons else find_detail(snapshot, shape, row, refusal.rule, refusal.reasons[0])
    return Obstacle(refusal.rule, tuple(refusal.texts), detail, short)


def _measure_shortage(reason: scheduling_reasons.Insufficient) -> Shortage:
    free = reason.capacity - reason.used
    return Shortage(reason.resource, reason.requested, free, reason.used, reason.capacity)


def exceeds_max_pods(short: Shortage) -> bool:
    """Are there too many pods already? No pod can change that by asking for less."""
    return short.resource == facts.PODS


_ROUNDS = 3
"""A change may uncover what another filter counts differently after it; more than this and nothing is promised."""


class RemedyKind(enum.StrEnum):
    """What is to be changed."""

    REQUEST = "request"
    """The pod asks for `amount` of the resource `key`, or not at all for it where that is 0."""
    TOLERATION = "toleration"
    """The pod tolerates the taint `key`=`value`:`effect`."""
    SELECTOR = "nodeSelector"
    """The pod's nodeSelector has `value` for `key`, or leaves it out where that is empty."""
    NODE_AFFINITY = "nodeAffinity"
    """The pod has no required node affinity."""
    NODE_NAME = "nodeName"
    """The pod does not name a node."""
    HOST_PORT = "hostPort"
    """The pod does not ask for the host port `amount` of the protocol `key`."""
    MAX_SKEW = "maxSkew"
    """The pod's spread constraint on `key` has this `amount` as its maxSkew."""
    POD_AFFINITY = "podAffinity"
    """The pod has no required affinity on `key`."""
    POD_ANTI_AFFINITY = "podAntiAffinity"
    """The pod has no required anti-affinity on `key`."""
    MAX_SIZE = "maxSize"
    """The group may have `amount` nodes."""
    WAIT = "wait"
    """It is later than `at_s`."""
    TOPOLOGY_REPLICAS = "topologyReplicas"
    """Another controller no longer applies the size of the group `key`; `value` says what to change."""
    MAX_NODES_TOTAL = "maxNodesTotal"
    """--max-nodes-total is `amount`."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change. Which fields count is remedies_found where its kind is."""

    change: RemedyKind
    key: str = ""
    value: str = ""
    effect: str = ""
    amount: int = 0
    at_s: float = 0.0


def find_remedies(snapshot: Snapshot, pod: facts.Pod, row: int, config: FilterConfig) -> tuple[Remedy, ...] | None:
    """What of the pod would have to change for the node of this row to take it; None if nothing is known that would do.

    Only verified remedies are returned: the pod as changed has been through every filter.
    """
    remedies_found: dict[tuple[RemedyKind, str], Remedy] = {}
    for _ in range(_ROUNDS):
        changed = apply_remedies(pod, tuple(remedies_found.values()))
        shape = snapshot.shape_of(changed)
        obstacles = find_obstacles(snapshot, shape, row, config)
        if not obstacles:
            return tuple(remedies_found.values())
        for obstacle in obstacles:
            fresh = list(_overcome(snapshot, shape, row, obstacle, config))
            if not fresh:
                return None
            remedies_found |= {(remedy.change, _target(remedy)): remedy for remedy in fresh}
    return None


def _target(remedy: Remedy) -> str:
    """What of the pod it changes: a later change of the same takes its place."""
    if remedy.change is RemedyKind.TOLERATION:
        return f"{remedy.key}={remedy.value}:{remedy.effect}"
    return f"{remedy.amount}/{remedy.key}" if remedy.change is RemedyKind.HOST_PORT else remedy.key


# ── One filter each ──────────────────────────────────────────────────────────────────────────────────────────────


def _overcome(
    snapshot: Snapshot, shape: facts.PodShape, row: int, obstacle: Obstacle, config: FilterConfig
) -> Iterator[Remedy]:
    """What the pod would have to change for this filter; nothing where it cannot."""
    spec, node = shape.spec, snapshot.nodes.facts[row]
    match obstacle.rule:
        case node_resources_fit.NAME:
            if not any(map(exceeds_max_pods, obstacle.shortages)):
                yield from (
                    Remedy(RemedyKind.REQUEST, shortage.resource, amount=max(shortage.free, 0))
                    for shortage in obstacle.shortages
                )
        case taint_toleration.NAME:
            yield from _tolerate(spec, node)
        case node_unschedulable.NAME:
            yield Remedy(RemedyKind.TOLERATION, "node.kubernetes.io/unschedulable", effect="NoSchedule")
        case node_name.NAME:
            yield Remedy(RemedyKind.NODE_NAME)
        case node_affinity.NAME:
            yield from _select(snapshot, spec, node, row)
        case node_ports.NAME:
            yield from (
                Remedy(RemedyKind.HOST_PORT, host_port.protocol, amount=host_port.port)
                for host_port in _held(snapshot, spec, row)
            )
        case pod_topology_spread.NAME:
            yield from _spread_wider(snapshot, shape, row, config)
        case inter_pod_affinity.NAME:
            yield from _relax_affinity(spec, obstacle)


def _tolerate(spec: facts.PodSpec, node: facts.Node) -> Iterator[Remedy]:
    for taint in node.taints:
        repels = taint.effect != "PreferNoSchedule"
        if repels and not any(toleration.tolerates(taint) for toleration in spec.tolerations):
            yield Remedy(RemedyKind.TOLERATION, taint.key, taint.value, taint.effect)


def _select(snapshot: Snapshot, spec: facts.PodSpec, node: facts.Node, row: int) -> Iterator[Remedy]:
    for key, value in spec.node_selector:
        if node.labels.get(key) != value:
            yield Remedy(RemedyKind.SELECTOR, key, node.labels.get(key, ""))
    if spec.node_affinity is not None and not snapshot.nodes.selector_mask(spec.node_affinity)[row]:
        yield Remedy(RemedyKind.NODE_AFFINITY)


def _held(snapshot: Snapshot, spec: facts.PodSpec, row: int) -> Iterator[facts.HostPort]:
    """Host ports of the pod that pods on the node may hold already."""
    held = {
        (port.protocol, port.port)
        for item in snapshot.pods_on(row)
        for port in snapshot.shape_of_row(item).spec.host_ports
    }
    # A new node's own pods are counted there without being pods of their own: then all that it asks for are named.
    yield from (host_port for host_port in spec.host_ports if not held or (host_port.protocol, host_port.port) in held)


def _spread_wider(snapshot: Snapshot, shape: facts.PodShape, row: int, config: FilterConfig) -> Iterator[Remedy]:
    for spread_counts in pod_topology_spread.count_constraints(snapshot, shape, config):
        domain = int(spread_counts.domains[row])
        if (
            domain != arrays.ABSENT
            and not spread_counts.open_domains()[domain]
            and spread_counts.constraint in shape.spec.spread
        ):
            needed = int(spread_counts.per_domain[domain]) + int(spread_counts.matches_itself) - spread_counts.emptiest
            yield Remedy(RemedyKind.MAX_SKEW, spread_counts.constraint.topology_key, amount=needed)


def _relax_affinity(spec: facts.PodSpec, obstacle: Obstacle) -> Iterator[Remedy]:
    """What the pod minds about others. What others mind about it is not the pod's to change."""
    if inter_pod_affinity.ANTI_AFFINITY.texts[0] in obstacle.reasons:
        yield from (
            Remedy(RemedyKind.POD_ANTI_AFFINITY, pod_affinity_term.topology_key)
            for pod_affinity_term in spec.anti_affinity
        )
    elif inter_pod_affinity.AFFINITY.texts[0] in obstacle.reasons:
        yield from (Remedy(RemedyKind.POD_AFFINITY, term.topology_key) for term in spec.affinity)


# ── Applied ──────────────────────────────────────────────────────────────────────────────────────────────────────


def apply_remedies(pod: facts.Pod, remedies: Sequence[Remedy]) -> facts.Pod:
    """The pod with everything changed that concerns it."""
    spec = pod.spec
    for remedy in remedies:
        spec = _apply_to_spec(spec, remedy)
    return pod if spec is pod.spec else replace(pod, spec=spec, digest=f"{pod.digest} {remedies}")


def _apply_to_spec(spec: facts.PodSpec, remedy: Remedy) -> facts.PodSpec:
    key = remedy.key
    match remedy.change:
        case RemedyKind.REQUEST:
            asked = {**dict(spec.requests), key: remedy.amount}
            return replace(spec, requests=tuple(sorted((name, amount) for name, amount in asked.items() if amount > 0)))
        case RemedyKind.TOLERATION:
            operator = "Equal" if remedy.value else "Exists"
            fresh = facts.Toleration(key, operator, remedy.value, remedy.effect)
            return replace(spec, tolerations=(*spec.tolerations, fresh))
        case RemedyKind.SELECTOR:
            desired = {**dict(spec.node_selector), key: remedy.value}
            kept = tuple((name, value) for name, value in desired.items() if name != key or value)
            return replace(spec, node_selector=kept)
        case RemedyKind.NODE_AFFINITY:
            return replace(spec, node_affinity=None)
        case RemedyKind.NODE_NAME:
            return replace(spec, node_name="")
        case RemedyKind.HOST_PORT:
            remaining = tuple(
                host_port
                for host_port in spec.host_ports
                if (host_port.protocol, host_port.port) != (key, remedy.amount)
            )
            return replace(spec, host_ports=remaining)
        case RemedyKind.MAX_SKEW:
            wider = (
                replace(spread_constraint, max_skew=max(spread_constraint.max_skew, remedy.amount))
                if spread_constraint.topology_key == key
                else spread_constraint
                for spread_constraint in spec.spread
            )
            return replace(spec, spread=tuple(wider))
        case RemedyKind.POD_AFFINITY:
            return replace(
                spec,
                affinity=tuple(
                    pod_affinity_term for pod_affinity_term in spec.affinity if pod_affinity_term.topology_key != key
                ),
            )
        case RemedyKind.POD_ANTI_AFFINITY:
            return replace(spec, anti_affinity=tuple(term for term in spec.anti_affinity if term.topology_key != key))
    return spec
