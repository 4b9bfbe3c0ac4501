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
from windlass.simulator.world.scheduling.seats import Ints, Seat, Seats

Json = dict[str, Any]


@dataclass(slots=True, eq=False)
class Tally:
    """How many of the pods on each node count."""

    counts_one: Callable[[Seat], bool]
    skips_leaving: bool
    """Do pods on their way out not count?"""
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
        self._holders: dict[bytes, tuple[Term, Tally]] = {}
        self._domains: dict[str, tuple[Ints, dict[str, int], int]] = {}
        self._era = seats.era

    # ── Asking ───────────────────────────────────────────────────────────────────────────────────────────────────

    def of_constraint(self, namespace: str, constraint: Constraint) -> Ints:
        """(slots,): pods like the constraint's, those on their way out left out. An empty selector counts nobody."""
        selector = constraint.selector
        is_void = matching.is_everything(selector)

        def counts_one(seat: Seat) -> bool:
            return not is_void and seat.namespace == namespace and matching.selects(selector, seat.labels)

        return self._find(("spread", namespace, selector), counts_one, skips_leaving=True)

    def of_terms(self, terms: list[Term]) -> Ints:
        """(slots,): pods that all of these terms select."""

        def counts_one(seat: Seat) -> bool:
            pod = _as_pod(seat)
            return all(term.selects(pod, {}) for term in terms)

        return self._find(("all", [_spell(term) for term in terms]), counts_one, skips_leaving=False)

    def unwilling(self, pod: Json) -> list[tuple[str, Ints]]:
        """Topology keys, and (slots,) pods that do not want such a pod in their domain."""
        return [
            (term.key, self._fit(tally).counts)
            for term, tally in self._holders.values()
            if tally.total and term.selects(pod, {})
        ]

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
        for term in seat.shape.apart:
            self._hold(term)
        self._change(seat, 1, only_skipping=False)

    def go(self, seat: Seat) -> None:
        self._change(seat, -1, only_skipping=False)

    def leave(self, seat: Seat) -> None:
        """A pod has begun to go: it stops counting where that is so."""
        self._change(seat, -1, only_skipping=True)
        seat.is_leaving = True

    def _change(self, seat: Seat, by: int, *, only_skipping: bool) -> None:
        for tally in self._by_key.values():
            if (tally.skips_leaving and seat.is_leaving) or (only_skipping and not tally.skips_leaving):
                continue
            if tally.counts_one(seat):
                tally.change(seat.slot, by)
        if not only_skipping:
            for term in seat.shape.apart:
                self._hold(term).change(seat.slot, by)

    def _hold(self, term: Term) -> Tally:
        key = msgspec.json.encode(_spell(term))
        if key not in self._holders:
            self._holders[key] = (term, Tally(lambda seat: False, False))
        return self._holders[key][1]

    def _find(self, key: Any, counts_one: Callable[[Seat], bool], *, skips_leaving: bool) -> Ints:
        spelled = msgspec.json.encode(key, order="deterministic")
        tally = self._by_key.get(spelled)
        if tally is None:
            tally = self._by_key[spelled] = Tally(counts_one, skips_leaving)
            for seat in self._seats.seats.values():
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


def _spell(term: Term) -> list[Any]:
    return [term.key, term.selector, sorted(term.namespaces), term.namespace_selector]
