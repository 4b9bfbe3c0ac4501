"""Topology counts: matching pods per node, for topology spread and inter-pod affinity, kept current incrementally."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from windlass.simulator.fast_scheduler.node_table import Ints, Mask, NodeTable, PlacedPod
from windlass.simulator.fast_scheduler.pod_shapes import PodShape
from windlass.simulator.reference_scheduler import label_selectors
from windlass.simulator.reference_scheduler.cluster_view import labels_of
from windlass.simulator.reference_scheduler.inter_pod_affinity import AffinityTerm
from windlass.simulator.reference_scheduler.pod_topology_spread import SpreadConstraint

Json = dict[str, Any]
Anchor = tuple[str, str, str]
"""A namespace and a label with its value."""


@dataclass(slots=True, eq=False)
class PodCount:
    """Number of matching pods by node."""

    counts_one: Callable[[PlacedPod], bool]
    skips_leaving: bool
    """Are terminating pods left out?"""
    anchor: Anchor | None = None
    """Only pods with this namespace and label can count; None: any."""
    counts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """(slots,)"""
    total: int = 0

    def change(self, slot: int, by: int) -> None:
        if slot >= len(self.counts):
            self.counts = np.concatenate([self.counts, np.zeros(max(slot + 1, 64), np.int64)])
        self.counts[slot] += by
        self.total += by


class TopologyCounts:
    """All counts that shapes have requested, and the topology domains of nodes."""

    def __init__(self, node_table: NodeTable) -> None:
        self._node_table = node_table
        self._by_key: dict[bytes, PodCount] = {}
        self._anchored: dict[Anchor, dict[bytes, PodCount]] = {}
        self._others: dict[bytes, PodCount] = {}
        """Counts without an anchor label."""
        self._by_label: dict[Anchor, dict[int, PlacedPod]] = {}
        """Pods by label, then by identity."""
        self._holders: dict[bytes, tuple[AffinityTerm, PodCount]] = {}
        """Required anti-affinity terms of assigned pods."""
        self._preferring: dict[bytes, tuple[AffinityTerm, int, PodCount]] = {}
        """Terms of assigned pods that score other pods, and their weights."""
        self._included: dict[int, tuple[int, list[bool]]] = {}
        """By constraint: the era of the node table, and by node class whether such nodes count."""
        self._domains: dict[str, tuple[Ints, dict[str, int], int]] = {}
        self._era = node_table.era

    # ── Queries──────────────────────────────────────────────────────────────────────────────────────────────────

    def of_constraint(self, namespace: str, constraint: SpreadConstraint) -> Ints:
        """(slots,) int: pods that the constraint counts, without terminating ones. An empty selector counts none."""
        selector = constraint.selector
        is_void = label_selectors.is_empty_selector(selector)

        def counts_one(seat: PlacedPod) -> bool:
            return (
                not is_void and seat.namespace == namespace and label_selectors.matches_selector(selector, seat.labels)
            )

        anchors = _anchors(namespace, selector)
        return self._find(("spread", namespace, selector), counts_one, anchors, skips_leaving=True)

    def of_terms(self, terms: list[AffinityTerm]) -> Ints:
        """(slots,) int: pods that all of these terms select."""

        def counts_one(seat: PlacedPod) -> bool:
            pod = _as_pod(seat)
            return all(term.selects(pod, {}) for term in terms)

        anchors = [
            anchor
            for term in terms
            if len(term.namespaces) == 1 and term.namespace_selector is None
            for namespace in term.namespaces
            for anchor in _anchors(namespace, term.selector)
        ]
        return self._find(("all", [_term_key(term) for term in terms]), counts_one, anchors, skips_leaving=False)

    def anti_affinity_counts(self, pod: Json) -> list[tuple[str, Ints]]:
        """Topology keys, and int (slots,): pods with anti-affinity to such a pod."""
        return [
            (term.key, self._fit(tally).counts)
            for term, tally in self._holders.values()
            if tally.total and term.selects(pod, {})
        ]

    def preference_weights(self, pod: Json) -> list[tuple[str, Ints, int]]:
        """Topology keys, int (slots,): pods that prefer such a pod, and the weight; negative: anti-affinity."""
        return [
            (term.key, self._fit(tally).counts, weight)
            for term, weight, tally in self._preferring.values()
            if tally.total and term.selects(pod, {})
        ]

    def sum_by_domain(self, key: str, pods: Ints) -> Ints:
        """(slots,) int: the sum of `pods` (slots,) over the node's domain; 0 where the node lacks the key."""
        domain, count = self.domains(key)
        counted = self._node_table.is_present & (domain >= 0)
        numbers = np.bincount(domain[counted], weights=pods[counted], minlength=count).astype(np.int64)
        return np.where(domain >= 0, numbers[domain], 0)

    def included(self, shape: PodShape, constraint: SpreadConstraint) -> Mask:
        """(slots,) bool: nodes that a spread constraint includes, by its node inclusion policies."""
        node_table = self._node_table
        if constraint.includes_every_node(shape.example):
            return node_table.is_present
        if shape.names_nodes:
            nodes = [bool(node_table.is_present[slot]) and constraint.includes(shape.example, node)
                     for slot, node in enumerate(node_table.nodes)]  # fmt: skip
            return np.array(nodes + [False] * (len(node_table.is_present) - len(nodes)), bool)
        era, known = self._included.get(id(constraint), (node_table.era, []))
        if era != node_table.era:
            known = []
        self._included[id(constraint)] = node_table.era, known
        known += [constraint.includes(shape.example, node) for node in node_table.class_examples[len(known) :]]
        return np.array(known, bool)[node_table.node_classes] if known else np.zeros(len(node_table.is_present), bool)

    def domains(self, key: str) -> tuple[Ints, int]:
        """(slots,) int: each node's domain, −1 where the node lacks the key; and the number of domains."""
        node_table = self._node_table
        if self._era != node_table.era:
            self._domains, self._era = {}, node_table.era
        array, numbers, read = self._domains.get(key, (np.zeros(0, np.int64), {}, 0))
        if len(array) < len(node_table.is_present):
            array = np.concatenate([array, np.full(len(node_table.is_present) - len(array), -1, np.int64)])
        for slot in set(node_table.changed[read:]):
            value = labels_of(node_table.nodes[slot]).get(key) if node_table.is_present[slot] else None
            array[slot] = -1 if value is None else numbers.setdefault(value, len(numbers))
        self._domains[key] = array, numbers, len(node_table.changed)
        return array, max(len(numbers), 1)

    # ── Updates─────────────────────────────────────────────────────────────────────────────────────────────────

    def add_pod(self, seat: PlacedPod) -> None:
        for anchor in _anchors_of(seat):
            self._by_label.setdefault(anchor, {})[id(seat)] = seat
        self._change(seat, 1, only_skipping=False)

    def remove_pod(self, seat: PlacedPod) -> None:
        self._change(seat, -1, only_skipping=False)
        for anchor in _anchors_of(seat):
            placed = self._by_label[anchor]
            del placed[id(seat)]
            if not placed:
                del self._by_label[anchor]
                # Counts are dropped with the last pod; a shape that needs one creates it again.
                for key in self._anchored.pop(anchor, ()):
                    del self._by_key[key]

    def mark_terminating(self, seat: PlacedPod) -> None:
        """A pod is being deleted: remove it from counts without terminating pods."""
        self._change(seat, -1, only_skipping=True)
        seat.is_terminating = True

    def _change(self, seat: PlacedPod, by: int, *, only_skipping: bool) -> None:
        for tally in self._concerned(seat):
            if (tally.skips_leaving and seat.is_terminating) or (only_skipping and not tally.skips_leaving):
                continue
            if tally.counts_one(seat):
                tally.change(seat.slot, by)
        if not only_skipping:
            for term in seat.shape.anti_affinity_terms:
                self._hold(term).change(seat.slot, by)
            for term, weight in seat.shape.scored_terms:
                self._prefer(term, weight).change(seat.slot, by)

    def _concerned(self, seat: PlacedPod) -> list[PodCount]:
        """Counts that may include a pod."""
        pod_counts = list(self._others.values())
        for anchor in _anchors_of(seat):
            if anchor in self._anchored:
                pod_counts += self._anchored[anchor].values()
        return pod_counts

    def _hold(self, term: AffinityTerm) -> PodCount:
        key = msgspec.json.encode(_term_key(term))
        if key not in self._holders:
            self._holders[key] = (term, PodCount(lambda seat: False, False))
        return self._holders[key][1]

    def _prefer(self, term: AffinityTerm, weight: int) -> PodCount:
        key = msgspec.json.encode((weight, _term_key(term)))
        if key not in self._preferring:
            self._preferring[key] = (term, weight, PodCount(lambda seat: False, False))
        return self._preferring[key][2]

    def _find(
        self, key: Any, counts_one: Callable[[PlacedPod], bool], anchors: list[Anchor], *, skips_leaving: bool
    ) -> Ints:
        """A count, from the cache or new. Every counted pod has all anchor labels; the rarest one limits the search."""
        spelled = msgspec.json.encode(key, order="deterministic")
        tally = self._by_key.get(spelled)
        if tally is None:
            anchor = min(anchors, key=lambda label: len(self._by_label.get(label, ())), default=None)
            tally = self._by_key[spelled] = PodCount(counts_one, skips_leaving, anchor)
            if anchor is None:
                self._others[spelled] = tally
            else:
                self._anchored.setdefault(anchor, {})[spelled] = tally
            for seat in list(
                self._node_table.placed_pods.values() if anchor is None else self._by_label.get(anchor, {}).values()
            ):
                if not (skips_leaving and seat.is_terminating) and counts_one(seat):
                    tally.change(seat.slot, 1)
        return self._fit(tally).counts

    def _fit(self, tally: PodCount) -> PodCount:
        missing = len(self._node_table.is_present) - len(tally.counts)
        if missing > 0:
            tally.counts = np.concatenate([tally.counts, np.zeros(missing, np.int64)])
        elif missing < 0:
            tally.counts = tally.counts[: len(self._node_table.is_present)]
        return tally


def _as_pod(seat: PlacedPod) -> Json:
    return {"metadata": {"namespace": seat.namespace, "labels": seat.labels}}


def _anchors(namespace: str, selector: Json | None) -> list[Anchor]:
    """Labels that every pod selected by a selector has."""
    labels = (selector or {}).get("matchLabels") or {}
    return [(namespace, name, value) for name, value in labels.items()]


def _anchors_of(seat: PlacedPod) -> list[Anchor]:
    return [(seat.namespace, name, value) for name, value in seat.labels.items()]


def _term_key(term: AffinityTerm) -> list[Any]:
    return [term.key, term.selector, sorted(term.namespaces), term.namespace_selector]
