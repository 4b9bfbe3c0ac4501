"""Scores from the columns: the facts that the default profile's plugins read, kept per shape or counted in arrays."""

import functools
import operator
from typing import Any

import numpy as np

from windlass.simulator.scheduler import affinity, scoring, spread, taints
from windlass.simulator.world.scheduling.seats import Ints, Mask, Seats
from windlass.simulator.world.scheduling.shapes import Shape
from windlass.simulator.world.scheduling.tallies import Tallies

Json = dict[str, Any]

_PREFERENCES = 2
"""Columns: PreferNoSchedule taints that are not tolerated, and the weight of preferred node affinity."""


class NodeScores:
    """Scores nodes for pods. Changes nothing."""

    def __init__(self, seats: Seats, tallies: Tallies) -> None:
        self._seats, self._tallies = seats, tallies
        self._known: dict[tuple[int, int], tuple[int, int]] = {}
        """By shape and sort of node."""
        self._columns: dict[int, tuple[Ints, int]] = {}
        """By shape: (slots, preferences), and how many of the seats' changes they know."""
        self._era = seats.era

    def score(self, pod: Json, shape: Shape, slots: Ints) -> dict[str, Ints]:
        """(slots,) by plugin: weighted scores of nodes that passed the filters."""
        seats = self._seats
        allocatable = seats.has[slots, 1:3]
        preferences = self._preferences(shape)[slots]
        constraints, is_ignored = self._count_spread(shape, slots)
        facts = scoring.Facts(
            allocatable=allocatable,
            requested=allocatable - seats.free[slots, 1:3],
            nonzero_requested=seats.nonzero[slots],
            wanted=seats.wanted(shape)[1:3],
            nonzero_wanted=shape.nonzero_wanted,
            soft_taints=preferences[:, 0],
            preferred=preferences[:, 1] if shape.has_preferred_nodes else None,
            spread=constraints,
            is_ignored=is_ignored,
            company=self._weigh_company(pod, shape, slots),
        )
        return scoring.score(facts)

    def best(self, pod: Json, shape: Shape, slots: Ints) -> Ints:
        """The slots with the highest total, one or more."""
        if len(slots) == 1:
            return slots
        total: Ints = functools.reduce(operator.add, self.score(pod, shape, slots).values())
        best: Ints = slots[total == total.max()]
        return best

    def _preferences(self, shape: Shape) -> Ints:
        """(slots, preferences), current."""
        seats = self._seats
        if self._era != seats.era:
            self._known, self._columns, self._era = {}, {}, seats.era
        columns, read = self._columns.get(shape.number, (np.zeros((0, _PREFERENCES), np.int64), 0))
        if len(columns) < len(seats.here):
            missing = len(seats.here) - len(columns)
            columns = np.concatenate([columns, np.zeros((missing, _PREFERENCES), np.int64)])
        if read < len(seats.changed):
            for slot in set(seats.changed[read:]):
                if seats.here[slot]:
                    columns[slot] = self._prefer(shape, slot)
            self._columns[shape.number] = columns, len(seats.changed)
        return columns

    def _prefer(self, shape: Shape, slot: int) -> tuple[int, int]:
        key = (shape.number, int(self._seats.sorts[slot]))
        found = None if shape.names_nodes else self._known.get(key)
        if found is None:
            node, pod = self._seats.nodes[slot], shape.example
            found = taints.count_soft(taints.tolerations_of(pod), node), affinity.preferred_weight(pod, node)
            self._known[key] = found
        return found

    # ── Topology ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _count_spread(self, shape: Shape, slots: Ints) -> tuple[list[scoring.SpreadFacts], Mask | None]:
        """Soft constraints, and which of the nodes lack a key of one of them."""
        if not shape.soft_spread:
            return [], None
        keys = {one.key: self._tallies.domains(one.key) for one in shape.soft_spread}
        counted, is_ignored = self._seats.here, None
        if spread.has_own_constraints(shape.example):
            for domain, _ in keys.values():
                counted = counted & (domain >= 0)
            is_ignored = ~counted[slots]
        facts = []
        for one in shape.soft_spread:
            domain, count = keys[one.key]
            pods = self._tallies.of_constraint(shape.example["metadata"]["namespace"], one)
            here = domain[slots]
            scored = here if is_ignored is None else here[~is_ignored]
            if one.key == spread.HOSTNAME:
                domains, pods = len(scored), pods[slots]
            else:
                domains = int(np.count_nonzero(np.bincount(scored + 1, minlength=count + 1)))
                among = counted & self._tallies.included(shape, one)
                # One more domain in front, for nodes without the key.
                by_domain = np.bincount(domain + 1, weights=np.where(among, pods, 0), minlength=count + 1)
                pods = by_domain.astype(np.int64)[here + 1]
            facts.append(scoring.SpreadFacts(one.max_skew, domains, pods, here >= 0))
        return facts, is_ignored

    def _weigh_company(self, pod: Json, shape: Shape, slots: Ints) -> Ints | None:
        weighed = [(term.key, self._tallies.of_terms([term]), weight) for term, weight in shape.preferred_terms]
        weighed += self._tallies.preferring(pod)
        if not weighed:
            return None
        total = np.zeros(len(slots), np.int64)
        for key, pods, weight in weighed:
            total += weight * self._tallies.sum_by_domain(key, pods)[slots]
        return total
