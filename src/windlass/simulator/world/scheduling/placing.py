"""One placement: where a pod of a shape fits, and which of these nodes has the highest score."""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windlass.simulator.scheduler import matching, message
from windlass.simulator.scheduler.cluster import labels_of
from windlass.simulator.scheduler.spread import Constraint
from windlass.simulator.world.scheduling.node_scores import NodeScores
from windlass.simulator.world.scheduling.seats import PODS, Ints, Mask, Seats
from windlass.simulator.world.scheduling.shapes import Shape
from windlass.simulator.world.scheduling.tallies import Tallies
from windlass.simulator.world.scheduling.verdicts import Verdicts

Json = dict[str, Any]

NOWHERE = -1


@dataclass(slots=True, eq=False)
class Promise:
    """A place that a pod has been promised and does not have yet."""

    slot: int
    shape: Shape


@dataclass(slots=True, eq=False)
class Placing:
    """Finds nodes. Changes nothing."""

    seats: Seats
    verdicts: Verdicts
    tallies: Tallies
    scores: NodeScores
    chance: random.Random
    """Chooses among nodes with the same score."""
    promises: dict[str, Promise] = field(default_factory=dict)
    """By the key of the pod that preempted others."""

    def find(self, pod: Json, shape: Shape, pinned: str = "") -> int:
        """The slot for a pod, or `NOWHERE`."""
        fits = self._fitting(pod, shape)
        if pinned:
            slot = self.seats.slots.get(pinned, NOWHERE)
            return slot if slot != NOWHERE and fits[slot] else NOWHERE
        if shape.ports:
            for one in np.flatnonzero(fits).tolist():
                fits[one] = not self._is_port_taken(shape, one)
        promise = self.promises.get(_key_of(pod))
        if promise is not None and fits[promise.slot]:
            return promise.slot
        candidates = self.seats.tree.search(fits)
        return self._choose(pod, shape, candidates) if len(candidates) else NOWHERE

    def _choose(self, pod: Json, shape: Shape, candidates: Ints) -> int:
        best = self.scores.best(pod, shape, candidates)
        return int(best[self.chance.randrange(len(best))] if len(best) > 1 else best[0])

    def find_pinned(self, pod: Json, shape: Shape, pinned: str) -> int:
        """The same for a pod that may go to one node only."""
        slot = self.seats.slots.get(pinned, NOWHERE)
        if slot == NOWHERE or not shape.is_plain or self.promises or shape.ports:
            return self.find(pod, shape, pinned)
        wanted = self.seats.wanted(shape)
        is_room = bool((self.seats.free[slot] >= wanted)[wanted > 0].all())
        return slot if is_room and not self.verdicts.refuse(shape, slot) and self._is_welcome(pod)[slot] else NOWHERE

    def _fitting(self, pod: Json, shape: Shape) -> Mask:
        """(slots,): where every filter says yes."""
        wanted = self.seats.wanted(shape)
        asked = np.flatnonzero(wanted)
        free = self._free_beside_promised(pod, shape)
        fits: Mask = self.seats.here & self.verdicts.allows(shape)
        for column in asked:
            fits &= free[:, column] >= wanted[column]
        if shape.spread:
            fits &= self._is_spread(shape)
        if shape.together:
            fits &= self._is_together(shape)
        for term in shape.apart:
            fits &= ~self._same_domain(term.key, self.tallies.of_terms([term]))
        return fits & self._is_welcome(pod)

    def _free_beside_promised(self, pod: Json, shape: Shape) -> Ints:
        """What is free once those have come who were promised a place and are no less important."""
        if not self.promises:
            return self.seats.free
        own = _key_of(pod)
        mine = [
            promise for key, promise in self.promises.items() if promise.shape.priority >= shape.priority and key != own
        ]
        if not mine:
            return self.seats.free
        free = self.seats.free.copy()
        for promise in mine:
            free[promise.slot] -= self.seats.wanted(promise.shape)
        return free

    def _is_port_taken(self, shape: Shape, slot: int) -> bool:
        taken = [port for seat in self.seats.pods[slot].values() for port in seat.shape.ports]
        return any(wanted.conflicts_with(port) for wanted in shape.ports for port in taken)

    # ── Topology ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _is_spread(self, shape: Shape) -> Mask:
        """(slots,): would no constraint be more uneven than allowed?"""
        fits: Mask = np.ones(len(self.seats.here), bool)
        has_keys = self.seats.here.copy()
        for constraint in shape.spread:
            has_keys &= self.tallies.domains(constraint.key)[0] >= 0
        for constraint in shape.spread:
            fits &= self._is_even(shape, constraint, has_keys)
        return fits

    def _is_even(self, shape: Shape, constraint: Constraint, has_keys: Mask) -> Mask:
        pod = shape.example
        domain, count = self.tallies.domains(constraint.key)
        counted = has_keys & self.tallies.included(shape, constraint)
        pods = self.tallies.of_constraint(pod["metadata"]["namespace"], constraint)
        numbers = np.bincount(domain[counted], weights=pods[counted], minlength=count)
        present = np.bincount(domain[counted], minlength=count) > 0
        fewest = numbers[present].min() if present.any() and present.sum() >= constraint.min_domains else 0
        itself = 1 if matching.selects(constraint.selector, labels_of(pod)) else 0
        even: Mask = (domain >= 0) & (numbers[domain] + itself - fewest <= constraint.max_skew)
        return even

    def _is_together(self, shape: Shape) -> Mask:
        """(slots,): are those there whom the pod wants near? The first of a group may go anywhere with the keys."""
        wanted = self.tallies.of_terms(shape.together)
        fits: Mask = self.seats.here.copy()
        keyed: Mask = self.seats.here.copy()
        is_anyone_there = False
        for term in shape.together:
            has_key = self.seats.here & (self.tallies.domains(term.key)[0] >= 0)
            keyed &= has_key
            fits &= self._same_domain(term.key, wanted)
            is_anyone_there = is_anyone_there or bool(wanted[has_key].any())
        if not is_anyone_there and all(term.selects(shape.example, {}) for term in shape.together):
            return keyed
        return fits & keyed

    def _same_domain(self, key: str, pods: Ints) -> Mask:
        """(slots,): is one of these pods in the node's domain?"""
        return self.tallies.sum_by_domain(key, pods) > 0

    def _is_welcome(self, pod: Json) -> Mask:
        """(slots,): does nobody there want such a pod away?"""
        fits: Mask = np.ones(len(self.seats.here), bool)
        for key, pods in self.tallies.unwilling(pod):
            fits &= ~self._same_domain(key, pods)
        return fits

    # ── Words ────────────────────────────────────────────────────────────────────────────────────────────────────

    def explain(self, pod: Json, shape: Shape) -> str:
        """Why there is no place, in the scheduler's words."""
        here = self.seats.here
        total = int(here.sum())
        if not total:
            return message.NO_NODES
        reasons = self.verdicts.count(shape)
        left = here & self.verdicts.allows(shape)
        reasons.update(self._count_short(shape, left))
        rest = total - int((here & ~self.verdicts.allows(shape)).sum()) - int((left & self._is_short(shape)).sum())
        if rest > 0:
            reasons["node(s) didn't match pod topology spread constraints" if shape.spread else _APART] += rest
        counted = sorted(f"{count} {reason}" for reason, count in reasons.items())
        return f"0/{total} nodes are available: {', '.join(counted)}."

    def _is_short(self, shape: Shape) -> Mask:
        wanted = self.seats.wanted(shape)
        short = self.seats.free[:, wanted > 0] < wanted[wanted > 0]
        return np.asarray(short.any(axis=1))

    def _count_short(self, shape: Shape, among: Mask) -> Counter[str]:
        wanted = self.seats.wanted(shape)
        counts: Counter[str] = Counter()
        for name, column in self.seats.columns.items():
            number = int((among & (self.seats.free[:, column] < wanted[column])).sum()) if wanted[column] else 0
            if number:
                counts["Too many pods" if name == PODS else f"Insufficient {name}"] = number
        return counts


def _key_of(pod: Json) -> str:
    return f"{pod['metadata'].get('namespace')}/{pod['metadata'].get('name')}"


_APART = "node(s) didn't match pod anti-affinity rules"
