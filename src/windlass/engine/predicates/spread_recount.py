"""Spread constraints counted again and again, while pods move and nodes come and go in thought.

What was counted last is compared with what is there now, which takes a tenth of what counting takes; then only nodes
that differ are counted.
"""

import numpy as np

from windlass.engine import dtypes, facts, questions, shapes
from windlass.engine.predicates import spread
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot


class Recount:
    """One constraint of a shape. Holds as long as `NodeTable.version` stays the same."""

    __slots__ = ("_counts", "_found", "_members", "_open", "_possible", "_shape", "_snapshot", "_tally")

    def __init__(
        self, snapshot: Snapshot, shape: shapes.Shape, constraint: facts.SpreadConstraint, labelled: dtypes.Mask
    ) -> None:
        self._snapshot, self._shape = snapshot, shape
        self._found = found = spread.count(snapshot, shape, constraint, labelled)
        self._possible = spread.find_possible(snapshot, shape, constraint, labelled)
        self._members = np.bincount(found.domains[found.included], minlength=len(found.exists))
        """Int (n_domains,): how many nodes of the domain are included."""
        self._tally = questions.spread_tally(shape.namespace, constraint.selector)
        self._counts = self._look().copy()
        self._open = found.open_domains()

    def is_open(self, row: int) -> bool:
        """May one more pod of the shape go to the node, as of the last count?"""
        return bool(self._open[self._found.domains[row]])

    def count(self) -> None:
        """Look again."""
        found, counts = self._found, self._look()
        included = spread.find_included(self._snapshot, self._shape, found.constraint, self._possible)
        differs = counts != self._counts
        differs |= included != found.included
        differs &= self._possible  # no others ever count
        (rows,) = differs.nonzero()
        if not len(rows):
            return
        domains, now, before = found.domains[rows], included[rows], found.included[rows]
        np.add.at(self._members, domains, now.astype(np.intp) - before)
        np.add.at(found.per_domain, domains, counts[rows] * now - self._counts[rows] * before)
        self._counts[rows] = counts[rows]
        found.included, found.exists = included, self._members > 0
        self._open = found.open_domains()

    def _look(self) -> dtypes.Counts:
        """Int32 (n_nodes): the pods that count, wherever they are."""
        if self._tally is None:
            return np.zeros(self._snapshot.nodes.count, dtypes.COUNT)
        return self._snapshot.counts(self._tally)


def watch(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> list[Recount]:
    """The shape's constraints, to be counted again whenever something may have moved."""
    constraints = spread.find_constraints(shape, config)
    if not constraints or spread.NAME in config.disabled:
        return []
    labelled = spread.find_labelled(snapshot, constraints)
    return [Recount(snapshot, shape, constraint, labelled) for constraint in constraints]
