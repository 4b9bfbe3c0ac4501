"""The order in which nodes are searched, and how many feasible ones are enough: kube-scheduler's node tree and sample.

Nodes stand zone by zone in turn, each zone's in the order of their coming. A large cluster is not searched to the end:
the next search goes on where the last one stopped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_MIN_FEASIBLE_NODES = 100
_MIN_PERCENTAGE = 5


def feasible_nodes_to_find(nodes: int) -> int:
    """After so many feasible nodes a search ends: half of a small cluster, a twentieth of a huge one, 100 at least."""
    percentage = max(50 - nodes // 125, _MIN_PERCENTAGE)
    return min(max(nodes * percentage // 100, _MIN_FEASIBLE_NODES), nodes)


@dataclass(slots=True, eq=False)
class NodeTree:
    """Slots of nodes by zone."""

    _zones: dict[str, dict[int, None]] = field(default_factory=dict)
    _zone_of: dict[int, str] = field(default_factory=dict)
    _order: Ints | None = None
    """(nodes,): slots in search order; None: nodes came or went since."""
    _start: int = 0
    """Where the next search begins."""

    def put(self, slot: int, labels: Mapping[str, str]) -> None:
        """A node, new or with other labels."""
        zone = f"{labels.get(_REGION, '')}/{labels.get(_ZONE, '')}"
        if self._zone_of.get(slot) == zone:
            return
        self.drop(slot)
        self._zone_of[slot] = zone
        self._zones.setdefault(zone, {})[slot] = None

    def drop(self, slot: int) -> None:
        zone = self._zone_of.pop(slot, None)
        if zone is not None:
            del self._zones[zone][slot]
            if not self._zones[zone]:
                del self._zones[zone]
        self._order = None

    def search(self, fits: Mask) -> Ints:
        """(found,): slots where a pod fits, all of them or as many as are enough."""
        nodes = len(self._zone_of)
        found = np.flatnonzero(fits)
        enough = feasible_nodes_to_find(nodes)
        if len(found) <= enough:
            return found
        order = self._in_order()
        fitting = np.flatnonzero(fits[np.roll(order, -self._start)])[:enough]
        found = order[(fitting + self._start) % nodes]
        self._start = (self._start + int(fitting[-1]) + 1) % nodes
        return found

    def _in_order(self) -> Ints:
        if self._order is None:
            # (zones, longest): a row per zone, padded; read by columns.
            rows = [np.fromiter(slots, np.int64, len(slots)) for slots in self._zones.values()]
            table = np.full((len(rows), max(len(row) for row in rows)), -1, np.int64)
            for row, slots in zip(table, rows, strict=True):
                row[: len(slots)] = slots
            flat = table.T.ravel()
            self._order = flat[flat >= 0]
            self._start %= len(self._order)
        return self._order
