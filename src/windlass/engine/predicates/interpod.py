"""InterPodAffinity: who must be near whom, who must not, and whom the pods that are there already keep away.

Three questions, in this order. Affinity: does every term's domain of this node hold a pod that matches all terms?
(The first of its kind is let in anywhere, if it matches itself.) Anti-affinity: is the domain free of pods that match?
Symmetry: is it free of pods whose own anti-affinity matches this one?
"""

import numpy as np

from windlass.engine import dtypes, questions, shapes
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import Code, Reason, Refusal

NAME = "InterPodAffinity"
AFFINITY = Refusal(NAME, Code.UNRESOLVABLE, (Reason("node(s) didn't match pod affinity rules"),))
ANTI_AFFINITY = Refusal(NAME, Code.UNSCHEDULABLE, (Reason("node(s) didn't match pod anti-affinity rules"),))
SYMMETRY = Refusal(NAME, Code.UNSCHEDULABLE, (Reason("node(s) didn't satisfy existing pods anti-affinity rules"),))


def refuse(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> Refusal | None:
    """Refuse a pod with a term that cannot be parsed."""
    fault = shape.spec.interpod_fault
    return Refusal(NAME, Code.UNRESOLVABLE, (Reason("parsing pod: {}", (fault,)),)) if fault else None


def mask(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask | None:
    """Bool (n_nodes): True where all three questions are answered yes; None if none is asked."""
    allowed: dtypes.Mask | None = None
    for question in (affinity, anti_affinity, symmetry):
        answer = question(snapshot, shape)
        if answer is not None:
            allowed = answer if allowed is None else allowed & answer
    return allowed


def affinity(snapshot: Snapshot, shape: shapes.Shape) -> dtypes.Mask | None:
    """Bool (n_nodes): the pods it wants to be near are there."""
    terms = shape.spec.affinity
    if not terms:
        return None
    counts = snapshot.counts(questions.MatchesAll(terms))
    has_keys = np.ones(snapshot.nodes.count, bool)
    near = np.ones(snapshot.nodes.count, bool)
    anywhere = False
    for key in dict.fromkeys(term.topology_key for term in terms):
        domains = snapshot.nodes.label_ids(key)
        has_keys &= domains != dtypes.ABSENT
        occupied = occupied_domains(snapshot, key, counts)
        anywhere = anywhere or bool(occupied.any())
        near &= occupied[domains]
    if not anywhere and is_its_own_kind(snapshot, shape):
        return has_keys
    return near & has_keys


def is_its_own_kind(snapshot: Snapshot, shape: shapes.Shape) -> bool:
    """Does the pod match every one of its own affinity terms?"""
    namespaces = snapshot.tallies.namespaces
    return all(questions.own_term_matches(term, shape.profile, namespaces) for term in shape.spec.affinity)


def anti_affinity(snapshot: Snapshot, shape: shapes.Shape) -> dtypes.Mask | None:
    """Bool (n_nodes): the pods it wants to keep away from are not there."""
    if not shape.spec.anti_affinity:
        return None
    allowed = np.ones(snapshot.nodes.count, bool)
    for term in shape.spec.anti_affinity:
        counts = snapshot.counts(questions.MatchesAll((term,)))
        allowed &= ~_in_occupied(snapshot, term.topology_key, counts)
    return allowed


def symmetry(snapshot: Snapshot, shape: shapes.Shape) -> dtypes.Mask | None:
    """Bool (n_nodes): no pod there has an anti-affinity term that matches this one."""
    allowed: dtypes.Mask | None = None
    for term, tally in snapshot.tallies.repelling(shape):
        counts = snapshot.tallies.counts(tally, snapshot.nodes.count)
        if counts.any():
            away = ~_in_occupied(snapshot, term.topology_key, counts)
            allowed = away if allowed is None else allowed & away
    return allowed


def occupied_domains(snapshot: Snapshot, key: str, counts: dtypes.Counts) -> dtypes.Mask:
    """Bool (n_domains + 1): some counted pod is there. The last entry, for nodes without the label, is False."""
    column = snapshot.nodes.label_column(key)
    domains = column.ids[: snapshot.nodes.count]
    occupied = np.zeros(len(column.values) + 1, bool)
    occupied[domains[(counts > 0) & snapshot.nodes.alive]] = True
    occupied[-1] = False
    return occupied


def _in_occupied(snapshot: Snapshot, key: str, counts: dtypes.Counts) -> dtypes.Mask:
    return occupied_domains(snapshot, key, counts)[snapshot.nodes.label_ids(key)]


def explain(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Refusal:
    return explain_rows(snapshot, shape, [row], config)[0]


def explain_rows(snapshot: Snapshot, shape: shapes.Shape, rows: list[int], config: FilterConfig) -> list[Refusal]:
    """The first question answered no decides. Asked once for all rows."""
    near, away = affinity(snapshot, shape), anti_affinity(snapshot, shape)
    return [_first_no(near, away, row) for row in rows]


def _first_no(near: dtypes.Mask | None, away: dtypes.Mask | None, row: int) -> Refusal:
    if near is not None and not near[row]:
        return AFFINITY
    if away is not None and not away[row]:
        return ANTI_AFFINITY
    return SYMMETRY
