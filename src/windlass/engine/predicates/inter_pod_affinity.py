"""InterPodAffinity: required affinity and anti-affinity of the pod, and anti-affinity of existing pods.

Three questions, in this order. Affinity: does every term's domain of this node hold a pod that matches all terms?
(The first such pod fits anywhere, if it matches itself.) Anti-affinity: is the domain free of pods that match?
Symmetry: is it free of pods whose own anti-affinity matches this one?
"""

from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.scheduling_reasons import Reason, Refusal, StatusCode
from windlass.engine.snapshot import topology_counts

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

NAME = "InterPodAffinity"
AFFINITY = Refusal(NAME, StatusCode.UNRESOLVABLE, (Reason("node(s) didn't match pod affinity rules"),))
ANTI_AFFINITY = Refusal(NAME, StatusCode.UNSCHEDULABLE, (Reason("node(s) didn't match pod anti-affinity rules"),))
SYMMETRY = Refusal(
    NAME, StatusCode.UNSCHEDULABLE, (Reason("node(s) didn't satisfy existing pods anti-affinity rules"),)
)


def pre_filter(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> Refusal | None:
    """Refuse a pod with a term that cannot be parsed."""
    fault = shape.spec.interpod_fault
    return Refusal(NAME, StatusCode.UNRESOLVABLE, (Reason("parsing pod: {}", (fault,)),)) if fault else None


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None:
    """Bool (n_nodes): True where all three checks pass; None if none applies."""
    allowed: arrays.Mask | None = None
    for question in (affinity_mask, anti_affinity_mask, symmetry_mask):
        answer = question(snapshot, shape)
        if answer is not None:
            allowed = answer if allowed is None else allowed & answer
    return allowed


def affinity_mask(snapshot: "Snapshot", shape: facts.PodShape) -> arrays.Mask | None:
    """Bool (n_nodes): every affinity term has a matching pod in the node's domain."""
    terms = shape.spec.affinity
    if not terms:
        return None
    counts = snapshot.counts(topology_counts.PodsMatchingAllTerms(terms))
    has_keys = np.ones(snapshot.nodes.count, bool)
    near = np.ones(snapshot.nodes.count, bool)
    anywhere = False
    for key in dict.fromkeys(term.topology_key for term in terms):
        domains = snapshot.nodes.label_ids(key)
        has_keys &= domains != arrays.ABSENT
        occupied = occupied_domains(snapshot, key, counts)
        anywhere = anywhere or bool(occupied.any())
        near &= occupied[domains]
    if not anywhere and matches_own_affinity(snapshot, shape):
        return has_keys
    return near & has_keys


def matches_own_affinity(snapshot: "Snapshot", shape: facts.PodShape) -> bool:
    """Does the pod match every one of its own affinity terms?"""
    namespaces = snapshot.topology_counts.namespaces
    return all(topology_counts.own_term_matches(term, shape.profile, namespaces) for term in shape.spec.affinity)


def anti_affinity_mask(snapshot: "Snapshot", shape: facts.PodShape) -> arrays.Mask | None:
    """Bool (n_nodes): no anti-affinity term has a matching pod in the node's domain."""
    if not shape.spec.anti_affinity:
        return None
    allowed = np.ones(snapshot.nodes.count, bool)
    for term in shape.spec.anti_affinity:
        counts = snapshot.counts(topology_counts.PodsMatchingAllTerms((term,)))
        allowed &= ~_in_occupied(snapshot, term.topology_key, counts)
    return allowed


def symmetry_mask(snapshot: "Snapshot", shape: facts.PodShape) -> arrays.Mask | None:
    """Bool (n_nodes): no pod there has an anti-affinity term that matches this one."""
    allowed: arrays.Mask | None = None
    for term, counter in snapshot.topology_counts.repelling(shape):
        counts = snapshot.topology_counts.counts(counter, snapshot.nodes.count)
        if counts.any():
            away = ~_in_occupied(snapshot, term.topology_key, counts)
            allowed = away if allowed is None else allowed & away
    return allowed


def occupied_domains(snapshot: "Snapshot", key: str, counts: arrays.Counts) -> arrays.Mask:
    """Bool (n_domains + 1): some counted pod is there. The last entry, for nodes without the label, is False."""
    column = snapshot.nodes.label_column(key)
    domains = column.ids[: snapshot.nodes.count]
    occupied = np.zeros(len(column.values) + 1, bool)
    occupied[domains[(counts > 0) & snapshot.nodes.alive]] = True
    occupied[-1] = False
    return occupied


def _in_occupied(snapshot: "Snapshot", key: str, counts: arrays.Counts) -> arrays.Mask:
    return occupied_domains(snapshot, key, counts)[snapshot.nodes.label_ids(key)]


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    return explain_rows(snapshot, shape, [row], config)[0]


def explain_rows(snapshot: "Snapshot", shape: facts.PodShape, rows: list[int], config: "FilterConfig") -> list[Refusal]:
    """The refusal of each row by the first failing check. Masks are computed once for all rows."""
    near, away = affinity_mask(snapshot, shape), anti_affinity_mask(snapshot, shape)
    return [_find_first_refusal(near, away, row) for row in rows]


def _find_first_refusal(near: arrays.Mask | None, away: arrays.Mask | None, row: int) -> Refusal:
    if near is not None and not near[row]:
        return AFFINITY
    if away is not None and not away[row]:
        return ANTI_AFFINITY
    return SYMMETRY
