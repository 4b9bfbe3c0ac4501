"""PodTopologySpread: matching pods may not pile up in one domain.

For each hard constraint: pods in the node's domain that match + the pod itself − the emptiest domain ≤ maxSkew. Domains
are those of nodes that have every constraint's key and that the constraint's policies include. Fewer domains than
minDomains count as if one of them were empty.
"""

from dataclasses import dataclass

import numpy as np

from windlass.engine import dtypes, facts, questions, shapes
from windlass.engine.predicates import inclusion
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import Code, Reason, Refusal

NAME = "PodTopologySpread"
NO_LABEL = Refusal(
    NAME, Code.UNRESOLVABLE,
    (Reason("node(s) didn't match pod topology spread constraints (missing required label)"),),
)  # fmt: skip
TOO_SKEWED = Refusal(NAME, Code.UNSCHEDULABLE, (Reason("node(s) didn't match pod topology spread constraints"),))


@dataclass(slots=True)
class Spreading:
    """One constraint of a shape, counted by domain. `per_domain` and `exists` are (n_domains,)."""

    constraint: facts.SpreadConstraint
    domains: dtypes.Ids
    """Int32 (n_nodes): the node's domain, -1 without the label."""
    included: dtypes.Mask
    """Bool (n_nodes): pods on this node count."""
    per_domain: dtypes.Amounts
    exists: dtypes.Mask
    matches_itself: bool
    counts_itself: bool
    """One more pod of this shape is one more that counts: not with an empty selector, nor if it is terminating."""

    @property
    def emptiest(self) -> int:
        """The count of the emptiest domain; 0 while there are fewer domains than asked for."""
        if int(self.exists.sum()) < max(self.constraint.min_domains, 1):
            return 0
        return int(self.per_domain[self.exists].min())

    def open_domains(self) -> dtypes.Mask:
        """Bool (n_domains + 1): one more pod may go there. The last entry answers for nodes without the label."""
        room = self.constraint.max_skew + self.emptiest - int(self.matches_itself)
        return np.append(self.per_domain <= room, False)


def refuse(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> Refusal | None:
    """Refuse a pod with a hard constraint whose selector cannot be parsed."""
    fault = shape.spec.spread_fault
    text = "get constraints from pod: obtaining pod's hard topology spread constraints: {}"
    reason = Reason(f'running PreFilter plugin "{NAME}": {text}', (fault,))
    return Refusal(NAME, Code.ERROR, (reason,)) if fault else None


def spreadings(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> list[Spreading]:
    """The shape's constraints against the pods that are there."""
    constraints = find_constraints(shape, config)
    if not constraints:
        return []
    labelled = find_labelled(snapshot, constraints)
    return [count(snapshot, shape, constraint, labelled) for constraint in constraints]


def find_constraints(shape: shapes.Shape, config: FilterConfig) -> tuple[facts.SpreadConstraint, ...]:
    """The shape's own; without any, those that the profile has for all."""
    return shape.spec.spread or config.default_constraints


def find_labelled(snapshot: Snapshot, constraints: tuple[facts.SpreadConstraint, ...]) -> dtypes.Mask:
    """Bool (n_nodes): the node has every constraint's key."""
    labelled = np.ones(snapshot.nodes.count, bool)
    for constraint in constraints:
        labelled &= snapshot.nodes.label_ids(constraint.topology_key) != dtypes.ABSENT
    return labelled


def find_possible(
    snapshot: Snapshot, shape: shapes.Shape, constraint: facts.SpreadConstraint, labelled: dtypes.Mask
) -> dtypes.Mask:
    """Bool (n_nodes): pods on the node count, for all that is a fact of the node."""
    possible = labelled
    if constraint.honor_affinity and (shape.spec.node_selector or shape.spec.node_affinity is not None):
        possible = possible & inclusion.selected(snapshot, shape.spec)
    if constraint.honor_taints:
        possible = possible & inclusion.tolerated(snapshot, shape.spec)
    return possible


def find_included(
    snapshot: Snapshot, shape: shapes.Shape, constraint: facts.SpreadConstraint, possible: dtypes.Mask
) -> dtypes.Mask:
    """Bool (n_nodes): those of the possible nodes that are there, and stay if that matters."""
    included: dtypes.Mask = possible & snapshot.nodes.alive
    if constraint.honor_taints:
        included &= inclusion.staying(snapshot, shape.spec)
    return included


def count(
    snapshot: Snapshot, shape: shapes.Shape, constraint: facts.SpreadConstraint, labelled: dtypes.Mask
) -> Spreading:
    """One constraint of the shape against the pods that are there. `labelled` as `find_labelled` gives it."""
    possible = find_possible(snapshot, shape, constraint, labelled)
    included = find_included(snapshot, shape, constraint, possible)
    column = snapshot.nodes.label_column(constraint.topology_key)
    domains = column.ids[: snapshot.nodes.count]
    size = len(column.values)
    tally = questions.spread_tally(shape.namespace, constraint.selector)
    where = domains[included]
    exists = np.zeros(size, bool)
    exists[where] = True
    if tally is None:
        per_domain = np.zeros(size, dtypes.RESOURCE)
    else:
        counts = snapshot.counts(tally)
        rows = np.flatnonzero(counts)  # few nodes hold a pod that counts
        rows = rows[included[rows]]
        per_domain = np.bincount(domains[rows], weights=counts[rows], minlength=size).astype(dtypes.RESOURCE)
    matches_itself = constraint.selector is not None and constraint.selector.matches(shape.profile.label_map)
    counts_itself = tally is not None and tally.matches(shape.profile, snapshot.tallies.namespaces)
    return Spreading(constraint, domains, included, per_domain, exists, matches_itself, counts_itself)


def mask(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask | None:
    """Bool (n_nodes): True where no constraint is exceeded; None if the pod has none."""
    found = spreadings(snapshot, shape, config)
    if not found:
        return None
    allowed = np.ones(snapshot.nodes.count, bool)
    for spreading in found:
        allowed &= spreading.open_domains()[spreading.domains]
    return allowed


def explain(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Refusal:
    return explain_rows(snapshot, shape, [row], config)[0]


def explain_rows(snapshot: Snapshot, shape: shapes.Shape, rows: list[int], config: FilterConfig) -> list[Refusal]:
    """The first constraint that fails decides. Counted once for all rows."""
    checks = [(spreading.domains, spreading.open_domains()) for spreading in spreadings(snapshot, shape, config)]
    return [_first_failing(checks, row) for row in rows]


def _first_failing(checks: list[tuple[dtypes.Ids, dtypes.Mask]], row: int) -> Refusal:
    for domains, is_open in checks:
        if domains[row] == dtypes.ABSENT:
            return NO_LABEL
        if not is_open[domains[row]]:
            return TOO_SKEWED
    raise AssertionError("asked to explain a node that the filter lets pass")
