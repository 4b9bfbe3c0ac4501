"""NodeAffinity: nodeSelector and required node affinity; all of the former, any term of the latter.

Terms that all name nodes by `matchFields` narrow the search before any filter runs (PreFilter).
"""

from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.scheduling_reasons import Reason, Refusal, StatusCode
from windlass.selectors import Operator, Requirement

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

NAME = "NodeAffinity"
CONFLICT = Refusal(NAME, StatusCode.UNRESOLVABLE, (Reason("pod affinity terms conflict"),))
MISMATCH = Refusal(NAME, StatusCode.UNRESOLVABLE, (Reason("node(s) didn't match Pod's node affinity/selector"),))
ENFORCED = Refusal(NAME, StatusCode.UNRESOLVABLE, (Reason("node(s) didn't match scheduler-enforced node affinity"),))


def pre_filter(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> Refusal | None:
    """Refuse a pod whose terms name nodes that contradict each other."""
    names = find_named_nodes(snapshot, shape)
    return CONFLICT if names is not None and not names else None


def find_named_nodes(snapshot: "Snapshot", shape: facts.PodShape) -> set[str] | None:
    """Names to which the terms narrow the search by `matchFields`; None unless every term names nodes."""
    affinity = shape.spec.node_affinity
    if affinity is None or not affinity.terms:
        return None
    names: set[str] = set()
    for term in affinity.terms:
        by_name = [set(field.values) for field in term.fields if field.operator is Operator.IN]
        if not by_name:
            return None
        names |= set.intersection(*by_name)
    return names


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None:
    """Bool (n_nodes): True where selector, affinity and the profile's added affinity match; None without any."""
    spec = shape.spec
    if not spec.node_selector and spec.node_affinity is None and config.added_affinity is None:
        return None
    allowed = selected_mask(snapshot, spec)
    if config.added_affinity is not None:
        allowed = allowed & snapshot.nodes.selector_mask(config.added_affinity)
    return allowed


def selected_mask(snapshot: "Snapshot", spec: facts.PodSpec) -> arrays.Mask:
    """Bool (n_nodes): nodeSelector and required node affinity match. Kept; never write into it."""

    def compute(rows: slice) -> arrays.Mask:
        allowed = np.ones(snapshot.nodes.count, bool)
        for key, value in spec.node_selector:
            allowed &= snapshot.nodes.requirement_mask(Requirement(key, Operator.IN, (value,)))
        if spec.node_affinity is not None:
            allowed &= snapshot.nodes.selector_mask(spec.node_affinity)
        return allowed[rows]

    return snapshot.nodes.cached(("selected", spec.node_selector, spec.node_affinity), compute)


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    if config.added_affinity is not None and not snapshot.nodes.selector_mask(config.added_affinity)[row]:
        return ENFORCED
    return MISMATCH
