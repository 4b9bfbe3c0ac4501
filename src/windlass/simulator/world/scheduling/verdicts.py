"""Verdicts that other pods cannot change: cordons, taints, node affinity, selectors that cannot be parsed and features,
per shape and sort of node.

The rules are the plain scheduler's; they are asked once for nodes that differ by their name only.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from windlass.simulator.scheduler import affinity, interpod, names, spread, taints
from windlass.simulator.scheduler.check import Check, Refusal
from windlass.simulator.scheduler.cluster import ClusterView, NodeView
from windlass.simulator.world.scheduling.seats import Mask, Seats
from windlass.simulator.world.scheduling.shapes import Shape

Json = dict[str, Any]

_STATIC: tuple[Callable[[Json, ClusterView], Check | Refusal | None], ...] = (
    taints.prepare_unschedulable,
    taints.prepare_taints,
    affinity.prepare,
    spread.refuse_unparsable,
    interpod.refuse_unparsable,
    names.prepare_declared_features,
)
_NOBODY = ClusterView()


class Verdicts:
    """What the unchanging filters say."""

    def __init__(self, seats: Seats) -> None:
        self._seats = seats
        self._known: dict[tuple[int, int], tuple[str, ...]] = {}
        self._masks: dict[int, tuple[Mask, int]] = {}
        self._era = seats.era

    def allows(self, shape: Shape) -> Mask:
        """(slots,): may a pod of this shape run there, as far as these filters go?"""
        seats = self._seats
        self._keep_up()
        mask, read = self._masks.get(shape.number, (np.zeros(0, bool), 0))
        if len(mask) < len(seats.here):
            mask = np.concatenate([mask, np.zeros(len(seats.here) - len(mask), bool)])
        for slot in set(seats.changed[read:]):
            mask[slot] = bool(seats.here[slot]) and not self.refuse(shape, slot)
        self._masks[shape.number] = mask, len(seats.changed)
        return mask

    def _keep_up(self) -> None:
        if self._era != self._seats.era:
            self._known, self._masks, self._era = {}, {}, self._seats.era

    def refuse(self, shape: Shape, slot: int) -> tuple[str, ...]:
        """Why a pod of this shape may not run there; nothing if it may."""
        self._keep_up()
        if shape.names_nodes:
            return ask(shape, self._seats.nodes[slot])
        key = (shape.number, int(self._seats.sorts[slot]))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = ask(shape, self._seats.nodes[slot])
        return found

    def count(self, shape: Shape) -> Counter[str]:
        """How many nodes refuse for each reason."""
        reasons: Counter[str] = Counter()
        for slot in np.flatnonzero(self._seats.here & ~self.allows(shape)):
            reasons.update(self.refuse(shape, int(slot)))
        return reasons


def ask(shape: Shape, node: Json) -> tuple[str, ...]:
    """Why a pod of a shape may not run on a node; nothing if it may."""
    view = NodeView(node, {})
    for prepare in _STATIC:
        check = prepare(shape.example, _NOBODY)
        refusal = check if isinstance(check, Refusal) or check is None else check.refuse(view)
        if refusal is not None:
            return refusal.reasons
    return ()
