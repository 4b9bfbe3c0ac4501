"""Node plugins on arrays: static filters per shape and node class, and the inputs of the Score plugins.

Static filters are those that other pods cannot change: cordons, taints, node affinity, unparsable selectors, declared
features. The rules are the reference scheduler's, called once for nodes that differ by their name only.
"""

import functools
import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from windlass.simulator.fast_scheduler.node_table import Ints, Mask, NodeTable
from windlass.simulator.fast_scheduler.pod_shapes import PodShape
from windlass.simulator.fast_scheduler.topology_counts import TopologyCounts
from windlass.simulator.reference_scheduler import inter_pod_affinity, node_filters, pod_topology_spread, scoring
from windlass.simulator.reference_scheduler.cluster_view import ClusterView, NodeView
from windlass.simulator.reference_scheduler.framework import FilterPlugin, Rejection

Json = dict[str, Any]

_STATIC_PLUGINS: tuple[Callable[[Json, ClusterView], FilterPlugin | Rejection | None], ...] = (
    node_filters.pre_filter_unschedulable,
    node_filters.pre_filter_taints,
    node_filters.pre_filter_node_affinity,
    pod_topology_spread.reject_unparsable,
    inter_pod_affinity.reject_unparsable,
    node_filters.pre_filter_declared_features,
)

_EMPTY_CLUSTER = ClusterView()


class StaticFilters:
    """Cached results of the static filters, by shape and node class."""

    def __init__(self, node_table: NodeTable) -> None:
        self._node_table = node_table
        self._known: dict[tuple[int, int], tuple[str, ...]] = {}
        self._masks: dict[int, tuple[Mask, int]] = {}
        self._era = node_table.era

    def allows(self, shape: PodShape) -> Mask:
        """(slots,) bool: True where a pod of this shape passes the static filters."""
        node_table = self._node_table
        self._update()
        mask, read = self._masks.get(shape.number, (np.zeros(0, bool), 0))
        if len(mask) < len(node_table.is_present):
            mask = np.concatenate([mask, np.zeros(len(node_table.is_present) - len(mask), bool)])
        for slot in set(node_table.changed[read:]):
            mask[slot] = bool(node_table.is_present[slot]) and not self.find_rejection(shape, slot)
        self._masks[shape.number] = mask, len(node_table.changed)
        return mask

    def _update(self) -> None:
        if self._era != self._node_table.era:
            self._known, self._masks, self._era = {}, {}, self._node_table.era

    def find_rejection(self, shape: PodShape, slot: int) -> tuple[str, ...]:
        """Why the node rejects this shape; None if it does not."""
        self._update()
        if shape.names_nodes:
            return check_static_filters(shape, self._node_table.nodes[slot])
        key = (shape.number, int(self._node_table.node_classes[slot]))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = check_static_filters(shape, self._node_table.nodes[slot])
        return found

    def count_rejections(self, shape: PodShape) -> Counter[str]:
        """Number of nodes by reason of rejection."""
        reasons: Counter[str] = Counter()
        for slot in np.flatnonzero(self._node_table.is_present & ~self.allows(shape)):
            reasons.update(self.find_rejection(shape, int(slot)))
        return reasons


def check_static_filters(shape: PodShape, node: Json) -> tuple[str, ...]:
    """Why a node rejects a shape; None if it does not."""
    view = NodeView(node, {})
    for prepare in _STATIC_PLUGINS:
        check = prepare(shape.example, _EMPTY_CLUSTER)
        refusal = check if isinstance(check, Rejection) or check is None else check.filter(view)
        if refusal is not None:
            return refusal.reasons
    return ()


_PREFERENCES = 2
"""Columns: PreferNoSchedule taints that are not tolerated, and the weight of preferred node affinity."""


class NodeScores:
    """Scores of nodes. Changes no state but caches."""

    def __init__(self, node_table: NodeTable, tallies: TopologyCounts) -> None:
        self._node_table, self._tallies = node_table, tallies
        self._known: dict[tuple[int, int], tuple[int, int]] = {}
        """Static scores by shape and node class."""
        self._columns: dict[int, tuple[Ints, int]] = {}
        """By shape: int (slots, preferences), and the number of node changes that it includes."""
        self._era = node_table.era

    def score(self, pod: Json, shape: PodShape, slots: Ints) -> dict[str, Ints]:
        """Weighted scores by plugin, int (slots,), of nodes that passed the filters."""
        node_table = self._node_table
        allocatable = node_table.allocatable[slots, 1:3]
        preferences = self._preferences(shape)[slots]
        constraints, is_ignored = self._count_spread(shape, slots)
        facts = scoring.ScoreInputs(
            allocatable=allocatable,
            requested=allocatable - node_table.free[slots, 1:3],
            nonzero_requested=node_table.nonzero[slots],
            pod_requests=node_table.request_vector(shape)[1:3],
            nonzero_pod_requests=shape.nonzero_pending,
            soft_taints=preferences[:, 0],
            preferred=preferences[:, 1] if shape.has_preferred_nodes else None,
            spread=constraints,
            is_ignored=is_ignored,
            affinity_weights=self._sum_affinity_weights(pod, shape, slots),
        )
        return scoring.score(facts)

    def best(self, pod: Json, shape: PodShape, slots: Ints) -> Ints:
        """The slots with the highest total score, one or more."""
        if len(slots) == 1:
            return slots
        total: Ints = functools.reduce(operator.add, self.score(pod, shape, slots).values())
        best: Ints = slots[total == total.max()]
        return best

    def _preferences(self, shape: PodShape) -> Ints:
        """(slots, preferences) int, brought up to date."""
        node_table = self._node_table
        if self._era != node_table.era:
            self._known, self._columns, self._era = {}, {}, node_table.era
        columns, read = self._columns.get(shape.number, (np.zeros((0, _PREFERENCES), np.int64), 0))
        if len(columns) < len(node_table.is_present):
            missing = len(node_table.is_present) - len(columns)
            columns = np.concatenate([columns, np.zeros((missing, _PREFERENCES), np.int64)])
        if read < len(node_table.changed):
            for slot in set(node_table.changed[read:]):
                if node_table.is_present[slot]:
                    columns[slot] = self._prefer(shape, slot)
            self._columns[shape.number] = columns, len(node_table.changed)
        return columns

    def _prefer(self, shape: PodShape, slot: int) -> tuple[int, int]:
        key = (shape.number, int(self._node_table.node_classes[slot]))
        preferences = None if shape.names_nodes else self._known.get(key)
        if preferences is None:
            node, pod = self._node_table.nodes[slot], shape.example
            preferences = (
                node_filters.count_prefer_no_schedule(node_filters.tolerations_of(pod), node),
                node_filters.preferred_affinity_weight(pod, node),
            )
            self._known[key] = preferences
        return preferences

    # ── Topology ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _count_spread(self, shape: PodShape, slots: Ints) -> tuple[list[scoring.SpreadInputs], Mask | None]:
        """Soft constraints, and bool (slots,): True where a node lacks a topology key of one."""
        if not shape.soft_spread:
            return [], None
        keys = {
            spread_constraint.key: self._tallies.domains(spread_constraint.key)
            for spread_constraint in shape.soft_spread
        }
        counted, is_ignored = self._node_table.is_present, None
        if pod_topology_spread.has_own_constraints(shape.example):
            for domain, _ in keys.values():
                counted = counted & (domain >= 0)
            is_ignored = ~counted[slots]
        facts = []
        for constraint in shape.soft_spread:
            domain, count = keys[constraint.key]
            pods = self._tallies.of_constraint(shape.example["metadata"]["namespace"], constraint)
            here = domain[slots]
            scored = here if is_ignored is None else here[~is_ignored]
            if constraint.key == pod_topology_spread.HOSTNAME:
                domains, pods = len(scored), pods[slots]
            else:
                domains = int(np.count_nonzero(np.bincount(scored + 1, minlength=count + 1)))
                among = counted & self._tallies.included(shape, constraint)
                # Domain −1 (no key) becomes column 0, so counts are shifted by one.
                by_domain = np.bincount(domain + 1, weights=np.where(among, pods, 0), minlength=count + 1)
                pods = by_domain.astype(np.int64)[here + 1]
            facts.append(scoring.SpreadInputs(constraint.max_skew, domains, pods, here >= 0))
        return facts, is_ignored

    def _sum_affinity_weights(self, pod: Json, shape: PodShape, slots: Ints) -> Ints | None:
        weighed = [(term.key, self._tallies.of_terms([term]), weight) for term, weight in shape.preferred_terms]
        weighed += self._tallies.preference_weights(pod)
        if not weighed:
            return None
        total = np.zeros(len(slots), np.int64)
        for key, pods, weight in weighed:
            total += weight * self._tallies.sum_by_domain(key, pods)[slots]
        return total
