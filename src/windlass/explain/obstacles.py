"""Scheduling obstacles: every filter that rejects a pod on a node, with the quantities and names that decided.

kube-scheduler stops at the first filter that rejects; this lists all of them, and names the taint, label, port or
pod.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from windlass import formatting
from windlass.engine.model import arrays, facts, scheduling_reasons, settings
from windlass.engine.model.settings import FilterConfig
from windlass.engine.predicates import (
    inter_pod_affinity,
    node_affinity,
    node_ports,
    pod_topology_spread,
    registry,
    taint_toleration,
)
from windlass.engine.snapshot import snapshot, topology_counts
from windlass.engine.snapshot.snapshot import Snapshot

DetailFunction = Callable[[snapshot.Snapshot, facts.PodShape, int], str]


def find_detail(
    found: snapshot.Snapshot, shape: facts.PodShape, row: int, rule: str, reason: scheduling_reasons.Reason
) -> str:
    """The facts that decided on the node of this row; empty if the reason contains them."""
    if isinstance(reason, scheduling_reasons.Insufficient):
        return describe_shortage(reason)
    look = _DETAILS.get(rule)
    return look(found, shape, row) if look else ""


def describe_shortage(reason: scheduling_reasons.Insufficient) -> str:
    needed = formatting.format_short_quantity(reason.resource, reason.requested, up=True)
    free = formatting.format_short_quantity(reason.resource, reason.capacity - reason.used)
    return f"needs {needed}, {free} of {formatting.format_short_quantity(reason.resource, reason.capacity)} free"


def name_taint(found: snapshot.Snapshot, shape: facts.PodShape, row: int) -> str:
    """The first taint of the node that the pod does not tolerate, as kubectl writes taints."""
    for taint in found.nodes.facts[row].taints:
        repels = taint.effect != "PreferNoSchedule"
        if repels and not any(toleration.tolerates(taint) for toleration in shape.spec.tolerations):
            return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
    return ""


def compare_labels(found: snapshot.Snapshot, shape: facts.PodShape, row: int) -> str:
    """What the node has instead of what the pod's nodeSelector asks for."""
    labels = found.nodes.facts[row].labels
    for key, value in shape.spec.node_selector:
        if labels.get(key) != value:
            return f"it has {key}={labels[key]}, not {value}" if key in labels else f"it has no {key}, not {value}"
    return ""


def count_skew(found: snapshot.Snapshot, shape: facts.PodShape, row: int) -> str:
    """How many matching pods the node's domain has, and how many the emptiest."""
    for spreading in pod_topology_spread.count_constraints(found, shape, settings.DEFAULT_FILTER_CONFIG):
        domain, key = int(spreading.domains[row]), spreading.constraint.topology_key
        if domain == arrays.ABSENT:
            return f"it has no {key}"
        if not spreading.open_domains()[domain]:
            value = found.nodes.label_column(key).values[domain]
            here, least = int(spreading.per_domain[domain]), spreading.emptiest
            return f"{_short_key(key)} {value} has {here}, the emptiest has {least}"
    return ""


def name_conflicting_pod(found: snapshot.Snapshot, shape: facts.PodShape, row: int) -> str:
    """A pod that must not be near: one that the pod avoids, or one that avoids the pod."""
    for term in shape.spec.anti_affinity:
        counts = found.counts(topology_counts.PodsMatchingAllTerms((term,)))
        near = _nearest(found, term.topology_key, counts, row)
        if near is not None:
            return _name_pod(found, near, lambda other, term=term: _matches(found, other, term))  # type: ignore[misc]
    for term, tally in found.topology_counts.repelling(shape):
        near = _nearest(found, term.topology_key, found.topology_counts.counts(tally, found.nodes.count), row)
        if near is not None:
            return _name_pod(found, near, lambda other, term=term: term in other.spec.anti_affinity)  # type: ignore[misc]
    return ""


def name_port_holder(found: snapshot.Snapshot, shape: facts.PodShape, row: int) -> str:
    """The pod that holds a host port that this one wants."""
    wanted = {(port.protocol, port.port) for port in shape.spec.host_ports}
    for pod_row in found.pods_on(row):
        for port in found.shape_of_row(pod_row).spec.host_ports:
            if (port.protocol, port.port) in wanted:
                return f"{found.pod(pod_row).key} holds {port.port}/{port.protocol}"
    return ""


def _nearest(found: snapshot.Snapshot, key: str, counts: arrays.Counts, row: int) -> int | None:
    """A node of this one's domain on which something is counted."""
    domains = found.nodes.label_ids(key)
    if domains[row] == arrays.ABSENT:
        return None
    near = ((domains == domains[row]) & (counts > 0) & found.nodes.alive).nonzero()[0]
    return int(near[0]) if len(near) else None


def _name_pod(found: snapshot.Snapshot, row: int, is_rival: Callable[[facts.PodShape], bool]) -> str:
    for pod_row in found.pods_on(row):
        if is_rival(found.shape_of_row(pod_row)):
            return f"{found.pod(pod_row).key} is on {found.nodes.names[row]}"
    return ""


def _matches(found: snapshot.Snapshot, other: facts.PodShape, term: facts.PodAffinityTerm) -> bool:
    return topology_counts.own_term_matches(term, other.profile, found.topology_counts.namespaces)


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
