"""PodTopologySpread: the number of matching pods may differ between domains by at most maxSkew.

For each hard constraint: matching pods in the node's domain + the pod itself - the emptiest domain <= maxSkew. Domains
are those of nodes that have every constraint's key and that the constraint's policies include. Fewer domains than
minDomains count as if one of them were empty. A `SpreadRecount` compares with its last count and recounts only the
nodes that differ.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.scheduling_reasons import Reason, Refusal, StatusCode
from windlass.engine.predicates import node_affinity, taint_toleration
from windlass.engine.snapshot import topology_counts

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

NAME = "PodTopologySpread"

NO_LABEL = Refusal(
    NAME, StatusCode.UNRESOLVABLE,
    (Reason("node(s) didn't match pod topology spread constraints (missing required label)"),),
)  # fmt: skip

TOO_SKEWED = Refusal(NAME, StatusCode.UNSCHEDULABLE, (Reason("node(s) didn't match pod topology spread constraints"),))


@dataclass(slots=True)
class SpreadCounts:
    """One constraint of a shape, counted by domain. `per_domain` and `exists` are (n_domains,)."""

    constraint: facts.SpreadConstraint
    domains: arrays.Ids
    """Int32 (n_nodes): the node's domain, -1 without the label."""
    included: arrays.Mask
    """Bool (n_nodes): pods on this node count."""
    per_domain: arrays.Amounts
    exists: arrays.Mask
    matches_itself: bool
    counts_itself: bool
    """One more pod of this shape is one more that counts: not with an empty selector, nor if it is terminating."""

    @property
    def emptiest(self) -> int:
        """The count of the emptiest domain; 0 while there are fewer domains than asked for."""
        if int(self.exists.sum()) < max(self.constraint.min_domains, 1):
            return 0
        return int(self.per_domain[self.exists].min())

    def open_domains(self) -> arrays.Mask:
        """Bool (n_domains + 1): one more pod may go there. The last entry answers for nodes without the label."""
        room = self.constraint.max_skew + self.emptiest - int(self.matches_itself)
        return np.append(self.per_domain <= room, False)


def pre_filter(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> Refusal | None:
    """Refuse a pod with a hard constraint whose selector cannot be parsed."""
    fault = shape.spec.spread_fault
    text = "get constraints from pod: obtaining pod's hard topology spread constraints: {}"
    reason = Reason(f'running PreFilter plugin "{NAME}": {text}', (fault,))
    return Refusal(NAME, StatusCode.ERROR, (reason,)) if fault else None


def count_constraints(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> list[SpreadCounts]:
    """The shape's constraints, with matching pods counted by domain."""
    constraints = find_constraints(shape, config)
    if not constraints:
        return []
    labelled = find_labelled(snapshot, constraints)
    return [count_constraint(snapshot, shape, constraint, labelled) for constraint in constraints]


def find_constraints(shape: facts.PodShape, config: "FilterConfig") -> tuple[facts.SpreadConstraint, ...]:
    """The shape's own; without any, those that the profile has for all."""
    return shape.spec.spread or config.default_constraints


def find_labelled(snapshot: "Snapshot", constraints: tuple[facts.SpreadConstraint, ...]) -> arrays.Mask:
    """Bool (n_nodes): the node has every constraint's key."""
    labelled = np.ones(snapshot.nodes.count, bool)
    for constraint in constraints:
        labelled &= snapshot.nodes.label_ids(constraint.topology_key) != arrays.ABSENT
    return labelled


def find_countable(
    snapshot: "Snapshot", shape: facts.PodShape, constraint: facts.SpreadConstraint, labelled: arrays.Mask
) -> arrays.Mask:
    """Bool (n_nodes): pods on the node count, for all that is a fact of the node."""
    possible = labelled
    if constraint.honor_affinity and (shape.spec.node_selector or shape.spec.node_affinity is not None):
        possible = possible & node_affinity.selected_mask(snapshot, shape.spec)
    if constraint.honor_taints:
        possible = possible & taint_toleration.tolerated_mask(snapshot, shape.spec)
    return possible


def find_included(
    snapshot: "Snapshot", shape: facts.PodShape, constraint: facts.SpreadConstraint, possible: arrays.Mask
) -> arrays.Mask:
    """Bool (n_nodes): those of the possible nodes that are there, and stay if that matters."""
    included: arrays.Mask = possible & snapshot.nodes.alive
    if constraint.honor_taints:
        included &= taint_toleration.not_deleting_mask(snapshot, shape.spec)
    return included


def count_constraint(
    snapshot: "Snapshot", shape: facts.PodShape, constraint: facts.SpreadConstraint, labelled: arrays.Mask
) -> SpreadCounts:
    """One constraint of the shape, with matching pods counted by domain. `labelled`: from `find_labelled`."""
    possible = find_countable(snapshot, shape, constraint, labelled)
    included = find_included(snapshot, shape, constraint, possible)
    column = snapshot.nodes.label_column(constraint.topology_key)
    domains = column.ids[: snapshot.nodes.count]
    size = len(column.values)
    counter = topology_counts.make_spread_count(shape.namespace, constraint.selector)
    where = domains[included]
    exists = np.zeros(size, bool)
    exists[where] = True
    if counter is None:
        per_domain = np.zeros(size, arrays.RESOURCE_DTYPE)
    else:
        counts = snapshot.counts(counter)
        rows = np.flatnonzero(counts)  # few nodes hold a pod that counts
        rows = rows[included[rows]]
        per_domain = np.bincount(domains[rows], weights=counts[rows], minlength=size).astype(arrays.RESOURCE_DTYPE)
    matches_itself = constraint.selector is not None and constraint.selector.matches(shape.profile.label_map)
    counts_itself = counter is not None and counter.matches(shape.profile, snapshot.topology_counts.namespaces)
    return SpreadCounts(constraint, domains, included, per_domain, exists, matches_itself, counts_itself)


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None:
    """Bool (n_nodes): True where no constraint is exceeded; None if the pod has none."""
    spread_countses = count_constraints(snapshot, shape, config)
    if not spread_countses:
        return None
    allowed = np.ones(snapshot.nodes.count, bool)
    for spreading in spread_countses:
        allowed &= spreading.open_domains()[spreading.domains]
    return allowed


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    return explain_rows(snapshot, shape, [row], config)[0]


def explain_rows(snapshot: "Snapshot", shape: facts.PodShape, rows: list[int], config: "FilterConfig") -> list[Refusal]:
    """The first constraint that fails decides. Counted once for all rows."""
    checks = [(spreading.domains, spreading.open_domains()) for spreading in count_constraints(snapshot, shape, config)]
    return [_first_failing(checks, row) for row in rows]


def _first_failing(checks: list[tuple[arrays.Ids, arrays.Mask]], row: int) -> Refusal:
    for domains, is_open in checks:
        if domains[row] == arrays.ABSENT:
            return NO_LABEL
        if not is_open[domains[row]]:
            return TOO_SKEWED
    raise AssertionError("asked to explain a node that the filter lets pass")


class SpreadRecount:
    """One constraint of a shape. Holds as long as `NodeTable.version` stays the same."""

    __slots__ = ("_counts", "_found", "_members", "_open", "_possible", "_shape", "_snapshot", "_tally")

    def __init__(
        self, snapshot: "Snapshot", shape: facts.PodShape, constraint: facts.SpreadConstraint, labelled: arrays.Mask
    ) -> None:
        self._snapshot, self._shape = snapshot, shape
        self._found = spread_counts = count_constraint(snapshot, shape, constraint, labelled)
        self._possible = find_countable(snapshot, shape, constraint, labelled)
        self._members = np.bincount(spread_counts.domains[spread_counts.included], minlength=len(spread_counts.exists))
        """Int (n_domains,): how many nodes of the domain are included."""
        self._tally = topology_counts.make_spread_count(shape.namespace, constraint.selector)
        self._counts = self._read_counts().copy()
        self._open = spread_counts.open_domains()

    def is_open(self, row: int) -> bool:
        """May one more pod of the shape go to the node, as of the last count?"""
        return bool(self._open[self._found.domains[row]])

    def count(self) -> None:
        """Count again, only rows whose pods or inclusion changed."""
        spread_counts, counts = self._found, self._read_counts()
        included = find_included(self._snapshot, self._shape, spread_counts.constraint, self._possible)
        differs = counts != self._counts
        differs |= included != spread_counts.included
        differs &= self._possible  # no others ever count
        (rows,) = differs.nonzero()
        if not len(rows):
            return
        domains, now, before = spread_counts.domains[rows], included[rows], spread_counts.included[rows]
        np.add.at(self._members, domains, now.astype(np.intp) - before)
        np.add.at(spread_counts.per_domain, domains, counts[rows] * now - self._counts[rows] * before)
        self._counts[rows] = counts[rows]
        spread_counts.included, spread_counts.exists = included, self._members > 0
        self._open = spread_counts.open_domains()

    def _read_counts(self) -> arrays.Counts:
        """Int32 (n_nodes): the matching pods on each node."""
        if self._tally is None:
            return np.zeros(self._snapshot.nodes.count, arrays.COUNT_DTYPE)
        return self._snapshot.counts(self._tally)


def make_recounts(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> list[SpreadRecount]:
    """The shape's constraints, to be counted again whenever something may have moved."""
    constraints = find_constraints(shape, config)
    if not constraints or NAME in config.disabled:
        return []
    labelled = find_labelled(snapshot, constraints)
    return [SpreadRecount(snapshot, shape, constraint, labelled) for constraint in constraints]
