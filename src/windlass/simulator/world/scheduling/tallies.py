"""Pods counted per node, for spreading and for affinity between pods, kept current as pods come and go."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from windlass.simulator.scheduler import matching
from windlass.simulator.scheduler.cluster import labels_of
from windlass.simulator.scheduler.interpod import Term
from windlass.simulator.scheduler.spread import Constraint
from windlass.simulator.world.scheduling.seats import Ints, Mask, Seat, Seats
from windlass.simulator.world.scheduling.shapes import Shape

Json = dict[str, Any]
Anchor = tuple[str, str, str]
"""A namespace and a label with its value."""


@dataclass(slots=True, eq=False)
class Tally:
    """How many of the pods on each node count."""

    counts_one: Callable[[Seat], bool]
    skips_leaving: bool
    """Do pods on their way out not count?"""
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


class Tallies:
    """All tallies that some shape has asked for, and the topology of the nodes."""

    def __init__(self, seats: Seats) -> None:
        self._seats = seats
        self._by_key: dict[bytes, Tally] = {}
        self._anchored: dict[Anchor, dict[bytes, Tally]] = {}
        self._others: dict[bytes, Tally] = {}
        """Tallies without an anchor."""
        self._by_label: dict[Anchor, dict[int, Seat]] = {}
        """Seats by label, then by identity."""
        self._holders: dict[bytes, tuple[Term, Tally]] = {}
        """Required anti-affinity terms of pods that run."""
        self._preferring: dict[bytes, tuple[Term, int, Tally]] = {}
        """Terms of pods that run and by which they score others, and weights."""
        self._included: dict[int, tuple[int, list[bool]]] = {}
        """By constraint: the era of the seats, and by sort of node whether such nodes count."""
        self._domains: dict[str, tuple[Ints, dict[str, int], int]] = {}
        self._era = seats.era

    # ── Asking ───────────────────────────────────────────────────────────────────────────────────────────────────

    def of_constraint(self, namespace: str, constraint: Constraint) -> Ints:
        """(slots,): pods like the constraint's, those on their way out left out. An empty selector counts nobody."""
        selector = constraint.selector
        is_void = matching.is_everything(selector)

        def counts_one(seat: Seat) -> bool:
            return not is_void and seat.namespace == namespace and matching.selects(selector, seat.labels)

        anchors = _anchors(namespace, selector)
        return self._find(("spread", namespace, selector), counts_one, anchors, skips_leaving=True)

    def of_terms(self, terms: list[Term]) -> Ints:
        """(slots,): pods that all of these terms select."""

        def counts_one(seat: Seat) -> bool:
            pod = _as_pod(seat)
            return all(term.selects(pod, {}) for term in terms)

        anchors = [
            anchor
            for term in terms
            if len(term.namespaces) == 1 and term.namespace_selector is None
            for namespace in term.namespaces
            for anchor in _anchors(namespace, term.selector)
        ]
        return self._find(("all", [_spell(term) for term in terms]), counts_one, anchors, skips_leaving=False)

    def unwilling(self, pod: Json) -> list[tuple[str, Ints]]:
        """Topology keys, and (slots,) pods that do not want such a pod in their domain."""
        return [
            (term.key, self._fit(tally).counts)
            for term, tally in self._holders.values()
            if tally.total and term.selects(pod, {})
        ]

    def preferring(self, pod: Json) -> list[tuple[str, Ints, int]]:
        """Topology keys, (slots,) pods that want such a pod in their domain, and how much; negative: away from it."""
        return [
            (term.key, self._fit(tally).counts, weight)
            for term, weight, tally in self._preferring.values()
            if tally.total and term.selects(pod, {})
        ]

    def sum_by_domain(self, key: str, pods: Ints) -> Ints:
        """(slots,): how many of these pods, given per node, are in the node's domain; 0 where the node has none."""
        domain, count = self.domains(key)
        counted = self._seats.here & (domain >= 0)
        numbers = np.bincount(domain[counted], weights=pods[counted], minlength=count).astype(np.int64)
        return np.where(domain >= 0, numbers[domain], 0)

    def included(self, shape: Shape, constraint: Constraint) -> Mask:
        """(slots,): nodes where the pod might go, as far as a spread constraint cares."""
        seats = self._seats
        if constraint.includes_every_node(shape.example):
            return seats.here
        if shape.names_nodes:
            nodes = [bool(seats.here[slot]) and constraint.includes(shape.example, node)
                     for slot, node in enumerate(seats.nodes)]  # fmt: skip
            return np.array(nodes + [False] * (len(seats.here) - len(nodes)), bool)
        era, known = self._included.get(id(constraint), (seats.era, []))
        if era != seats.era:
            known = []
        self._included[id(constraint)] = seats.era, known
        known += [constraint.includes(shape.example, node) for node in seats.examples[len(known) :]]
        return np.array(known, bool)[seats.sorts] if known else np.zeros(len(seats.here), bool)

    def domains(self, key: str) -> tuple[Ints, int]:
        """(slots,): the number of each node's domain, −1 where the node has none; and how many domains there are."""
        seats = self._seats
        if self._era != seats.era:
            self._domains, self._era = {}, seats.era
        array, numbers, read = self._domains.get(key, (np.zeros(0, np.int64), {}, 0))
        if len(array) < len(seats.here):
            array = np.concatenate([array, np.full(len(seats.here) - len(array), -1, np.int64)])
        for slot in set(seats.changed[read:]):
            value = labels_of(seats.nodes[slot]).get(key) if seats.here[slot] else None
            array[slot] = -1 if value is None else numbers.setdefault(value, len(numbers))
        self._domains[key] = array, numbers, len(seats.changed)
        return array, max(len(numbers), 1)

    # ── Keeping ──────────────────────────────────────────────────────────────────────────────────────────────────

    def come(self, seat: Seat) -> None:
        for anchor in _anchors_of(seat):
            self._by_label.setdefault(anchor, {})[id(seat)] = seat
        self._change(seat, 1, only_skipping=False)

    def go(self, seat: Seat) -> None:
        self._change(seat, -1, only_skipping=False)
        for anchor in _anchors_of(seat):
            seats = self._by_label[anchor]
            del seats[id(seat)]
            if not seats:
                del self._by_label[anchor]
                # Without pods there is nothing to count, until a shape asks again.
                for key in self._anchored.pop(anchor, ()):
                    del self._by_key[key]

    def leave(self, seat: Seat) -> None:
        """A pod has begun to go: it stops counting where that is so."""
        self._change(seat, -1, only_skipping=True)
        seat.is_leaving = True

    def _change(self, seat: Seat, by: int, *, only_skipping: bool) -> None:
        for tally in self._concerned(seat):
            if (tally.skips_leaving and seat.is_leaving) or (only_skipping and not tally.skips_leaving):
                continue
            if tally.counts_one(seat):
                tally.change(seat.slot, by)
        if not only_skipping:
            for term in seat.shape.apart:
                self._hold(term).change(seat.slot, by)
            for term, weight in seat.shape.scored_terms:
                self._prefer(term, weight).change(seat.slot, by)

    def _concerned(self, seat: Seat) -> list[Tally]:
        """Tallies that might count a pod."""
        found = list(self._others.values())
        for anchor in _anchors_of(seat):
            if anchor in self._anchored:
                found += self._anchored[anchor].values()
        return found

    def _hold(self, term: Term) -> Tally:
        key = msgspec.json.encode(_spell(term))
        if key not in self._holders:
            self._holders[key] = (term, Tally(lambda seat: False, False))
        return self._holders[key][1]

    def _prefer(self, term: Term, weight: int) -> Tally:
        key = msgspec.json.encode((weight, _spell(term)))
        if key not in self._preferring:
            self._preferring[key] = (term, weight, Tally(lambda seat: False, False))
        return self._preferring[key][2]

    def _find(
        self, key: Any, counts_one: Callable[[Seat], bool], anchors: list[Anchor], *, skips_leaving: bool
    ) -> Ints:
        """A tally, found or made. Every pod that counts has all of the anchors; the rarest leads to those it counts."""
        spelled = msgspec.json.encode(key, order="deterministic")
        tally = self._by_key.get(spelled)
        if tally is None:
            anchor = min(anchors, key=lambda one: len(self._by_label.get(one, ())), default=None)
            tally = self._by_key[spelled] = Tally(counts_one, skips_leaving, anchor)
            if anchor is None:
                self._others[spelled] = tally
            else:
                self._anchored.setdefault(anchor, {})[spelled] = tally
            for seat in list(self._seats.seats.values() if anchor is None else self._by_label.get(anchor, {}).values()):
                if not (skips_leaving and seat.is_leaving) and counts_one(seat):
                    tally.change(seat.slot, 1)
        return self._fit(tally).counts

    def _fit(self, tally: Tally) -> Tally:
        missing = len(self._seats.here) - len(tally.counts)
        if missing > 0:
            tally.counts = np.concatenate([tally.counts, np.zeros(missing, np.int64)])
        elif missing < 0:
            tally.counts = tally.counts[: len(self._seats.here)]
        return tally


def _as_pod(seat: Seat) -> Json:
    return {"metadata": {"namespace": seat.namespace, "labels": seat.labels}}


def _anchors(namespace: str, selector: Json | None) -> list[Anchor]:
    """What every pod of a namespace has that a selector selects."""
    labels = (selector or {}).get("matchLabels") or {}
    return [(namespace, name, value) for name, value in labels.items()]


def _anchors_of(seat: Seat) -> list[Anchor]:
    return [(seat.namespace, name, value) for name, value in seat.labels.items()]


def _spell(term: Term) -> list[Any]:
    return [term.key, term.selector, sorted(term.namespaces), term.namespace_selector]
