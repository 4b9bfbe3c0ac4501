"""Remedies: changes that make a pod fit on a new node of a group, each verified before it is suggested.

A remedy changes one thing of the pod or the group, or waits. The remedies of one group belong together: with all of
them, and nothing else changed, a new node of the group takes the pod. If none are known to help, there are none.
"""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from windlass.engine.model import arrays, facts
from windlass.engine.model.settings import FilterConfig
from windlass.engine.predicates import (
    inter_pod_affinity,
    node_affinity,
    node_name,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    pod_topology_spread,
    taint_toleration,
)
from windlass.engine.snapshot.snapshot import Snapshot
from windlass.explain import obstacles
from windlass.explain.obstacles import Obstacle

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
        found = obstacles.find_obstacles(snapshot, shape, row, config)
        if not found:
            return tuple(remedies_found.values())
        for obstacle in found:
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
            if not any(map(obstacles.exceeds_max_pods, obstacle.shortages)):
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
        yield from (Remedy(RemedyKind.POD_AFFINITY, one.topology_key) for one in spec.affinity)


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
            wanted = {**dict(spec.node_selector), key: remedy.value}
            kept = tuple((name, value) for name, value in wanted.items() if name != key or value)
            return replace(spec, node_selector=kept)
        case RemedyKind.NODE_AFFINITY:
            return replace(spec, node_affinity=None)
        case RemedyKind.NODE_NAME:
            return replace(spec, node_name="")
        case RemedyKind.HOST_PORT:
            left = tuple(
                host_port
                for host_port in spec.host_ports
                if (host_port.protocol, host_port.port) != (key, remedy.amount)
            )
            return replace(spec, host_ports=left)
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
            return replace(spec, anti_affinity=tuple(one for one in spec.anti_affinity if one.topology_key != key))
    return spec
