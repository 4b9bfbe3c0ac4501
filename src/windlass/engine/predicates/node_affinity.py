"""NodeAffinity: nodeSelector and required node affinity; all of the former, any term of the latter.

Terms that all name nodes by `matchFields` narrow the search before any filter runs (PreFilter).
"""

from windlass.engine import dtypes, shapes
from windlass.engine.predicates import inclusion
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import Code, Reason, Refusal
from windlass.selectors import Operator

NAME = "NodeAffinity"
CONFLICT = Refusal(NAME, Code.UNRESOLVABLE, (Reason("pod affinity terms conflict"),))
MISMATCH = Refusal(NAME, Code.UNRESOLVABLE, (Reason("node(s) didn't match Pod's node affinity/selector"),))
ENFORCED = Refusal(NAME, Code.UNRESOLVABLE, (Reason("node(s) didn't match scheduler-enforced node affinity"),))


def refuse(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> Refusal | None:
    """Refuse a pod whose terms name nodes that contradict each other."""
    names = named(snapshot, shape)
    return CONFLICT if names is not None and not names else None


def named(snapshot: Snapshot, shape: shapes.Shape) -> set[str] | None:
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


def mask(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask | None:
    """Bool (n_nodes): True where selector, affinity and the profile's added affinity match; None without any."""
    spec = shape.spec
    if not spec.node_selector and spec.node_affinity is None and config.added_affinity is None:
        return None
    allowed = inclusion.selected(snapshot, spec)
    if config.added_affinity is not None:
        allowed = allowed & snapshot.nodes.selector_mask(config.added_affinity)
    return allowed


def explain(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Refusal:
    if config.added_affinity is not None and not snapshot.nodes.selector_mask(config.added_affinity)[row]:
        return ENFORCED
    return MISMATCH
