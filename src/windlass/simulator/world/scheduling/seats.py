"""Nodes as columns: what each has, what is free, and which pods sit where."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from windlass.simulator.scheduler import requests
from windlass.simulator.scheduler.cluster import labels_of
from windlass.simulator.world.scheduling.node_tree import NodeTree
from windlass.simulator.world.scheduling.shapes import Shape

Json = dict[str, Any]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

PODS = "pods"
_HOSTNAME = "kubernetes.io/hostname"
_FIRST_SLOTS = 64
_SPARE = 1000
"""So many changes are never worth forgetting."""


@dataclass(slots=True)
class Seat:
    """A pod on a node."""

    slot: int
    shape: Shape
    namespace: str
    labels: dict[str, str]
    is_leaving: bool = False


@dataclass(slots=True, eq=False)
class Seats:
    """All nodes and the pods on them. A slot is a row of the arrays; slots of nodes that went are used again."""

    columns: dict[str, int] = field(default_factory=lambda: {PODS: 0, "cpu": 1, "memory": 2})
    slots: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=list)
    pods: list[dict[str, Seat]] = field(default_factory=list)
    """By slot, then by key."""
    seats: dict[str, Seat] = field(default_factory=dict)
    here: Mask = field(default_factory=lambda: np.zeros(_FIRST_SLOTS, bool))
    """(slots,): is there a node?"""
    has: Ints = field(default_factory=lambda: np.zeros((_FIRST_SLOTS, 3), np.int64))
    """(slots, resources): allocatable."""
    free: Ints = field(default_factory=lambda: np.zeros((_FIRST_SLOTS, 3), np.int64))
    """(slots, resources): what is left of it."""
    nonzero: Ints = field(default_factory=lambda: np.zeros((_FIRST_SLOTS, 2), np.int64))
    """(slots, 2): CPU and memory that pods take in the eyes of scores: containers that request none take a default."""
    sorts: Ints = field(default_factory=lambda: np.zeros(_FIRST_SLOTS, np.int64))
    """(slots,): the number of the node's sort: nodes alike but for their name."""
    examples: list[Json] = field(default_factory=list)
    """A node of each sort."""
    held: dict[int, Ints] = field(default_factory=dict)
    """By priority, (slots, resources): what pods of that priority take."""
    changed: list[int] = field(default_factory=list)
    """Slots whose node came, went or changed, in order, for those who keep verdicts."""
    era: int = 0
    """How often sorts were numbered anew. What was kept of sorts, and of changes, is void in the next era."""
    tree: NodeTree = field(default_factory=NodeTree)
    """The order in which they are searched."""
    _sorts: dict[bytes, int] = field(default_factory=dict)
    _spare: list[int] = field(default_factory=list)

    # ── Nodes ────────────────────────────────────────────────────────────────────────────────────────────────────

    def put_node(self, node: Json) -> bool:
        """A node, new or changed; does that matter to anyone who looks for a place?"""
        if len(self.changed) > 4 * len(self.slots) + _SPARE:
            self._begin_era()
        name = node["metadata"]["name"]
        slot = self.slots.get(name)
        is_new = slot is None
        if slot is None:
            slot = self._open(name)
        before = self.nodes[slot]
        self.nodes[slot] = node
        sort = self._sort(node)
        has = self.vector(requests.of_node(node))
        if not is_new and sort == self.sorts[slot] and bool((has == self.has[slot]).all()) and before is not None:
            return False
        self.free[slot] += has - self.has[slot]
        self.has[slot] = has
        self.sorts[slot] = sort
        self.here[slot] = True
        self.tree.put(slot, labels_of(node))
        self.changed.append(slot)
        return True

    def drop_node(self, name: str) -> None:
        slot = self.slots.pop(name)
        for key in list(self.pods[slot]):
            self.unseat(key)
        self.here[slot] = False
        self.tree.drop(slot)
        self.has[slot] = self.free[slot] = 0
        self.changed.append(slot)
        self._spare.append(slot)

    def _begin_era(self) -> None:
        """Forget sorts that no node is of any more (taints carry times), and what made the slots what they are."""
        used = np.unique(self.sorts[list(self.slots.values())])
        numbers = np.zeros(len(self.examples), np.int64)
        numbers[used] = np.arange(len(used))
        kept = set(used.tolist())
        self._sorts = {key: int(numbers[sort]) for key, sort in self._sorts.items() if sort in kept}
        self.examples = [self.examples[sort] for sort in used.tolist()]
        self.sorts = numbers[self.sorts]
        self.changed = list(range(len(self.names)))
        self.era += 1

    def _open(self, name: str) -> int:
        if self._spare:
            slot = self._spare.pop()
            self.names[slot] = name
        else:
            slot = len(self.names)
            self.names.append(name)
            self.nodes.append({})
            self.pods.append({})
            self._grow(slot + 1, len(self.columns))
        self.slots[name] = slot
        return slot

    def _grow(self, slots: int, columns: int) -> None:
        """Room for as many slots and resources."""
        rows = max(len(self.here), _FIRST_SLOTS)
        while rows < slots:
            rows *= 2
        if rows == len(self.here) and columns == self.has.shape[1]:
            return
        self.here = _enlarge(self.here, (rows,))
        self.sorts = _enlarge(self.sorts, (rows,))
        self.has = _enlarge(self.has, (rows, columns))
        self.nonzero = _enlarge(self.nonzero, (rows, 2))
        self.free = _enlarge(self.free, (rows, columns))
        self.held = {priority: _enlarge(held, (rows, columns)) for priority, held in self.held.items()}

    def _sort(self, node: Json) -> int:
        labels = {key: value for key, value in labels_of(node).items() if key != _HOSTNAME}
        spec, status = node["spec"], node.get("status") or {}
        seen = (labels, spec.get("taints"), spec.get("unschedulable"), status.get("declaredFeatures"))
        key = msgspec.json.encode(seen, order="deterministic")
        if key not in self._sorts:
            self._sorts[key] = len(self._sorts)
            self.examples.append(node)
        return self._sorts[key]

    # ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def vector(self, amounts: requests.Amounts) -> Ints:
        """(resources,): amounts by column. New resources get one."""
        for name in amounts:
            if name not in self.columns:
                self.columns[name] = len(self.columns)
                self._grow(len(self.here), len(self.columns))
        found = np.zeros(len(self.columns), np.int64)
        for name, amount in amounts.items():
            found[self.columns[name]] = amount
        return found

    def wanted(self, shape: Shape) -> Ints:
        """(resources,): what a pod of this shape takes, its own place among the pods included."""
        if len(shape.wanted) < len(self.columns):
            shape.wanted = self.vector({**shape.amounts, PODS: 1})
            if len(shape.wanted) < len(self.columns):
                shape.wanted = self.vector({**shape.amounts, PODS: 1})
        return shape.wanted

    def seat(self, key: str, pod: Json, shape: Shape, node_name: str) -> Seat | None:
        """Put a pod on a node; None if there is no such node."""
        slot = self.slots.get(node_name)
        if slot is None:
            return None
        metadata = pod["metadata"]
        seat = Seat(slot, shape, metadata["namespace"], metadata.get("labels") or {})
        self.seats[key] = self.pods[slot][key] = seat
        self._take(slot, shape, 1)
        return seat

    def unseat(self, key: str) -> Seat | None:
        """Take a pod off its node; None if it sits nowhere."""
        seat = self.seats.pop(key, None)
        if seat is not None:
            del self.pods[seat.slot][key]
            self._take(seat.slot, seat.shape, -1)
        return seat

    def _take(self, slot: int, shape: Shape, sign: int) -> None:
        wanted = self.wanted(shape)
        self.free[slot] -= sign * wanted
        self.nonzero[slot] += sign * shape.nonzero_taken
        held = self.held.get(shape.priority)
        if held is None:
            held = self.held[shape.priority] = np.zeros_like(self.free)
        held[slot] += sign * wanted


def _enlarge(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    made = np.zeros(shape, array.dtype)
    made[tuple(slice(0, size) for size in array.shape)] = array
    return made
