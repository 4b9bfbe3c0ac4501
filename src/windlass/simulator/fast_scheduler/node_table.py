"""Node table: allocatable and free resources as arrays (slots, resources), pods by slot, and the node search order.

kube-scheduler's node tree: nodes of all zones in turn, each zone's in order of creation. A search ends when enough
feasible nodes are found, and the next one continues where it stopped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from windlass.simulator.fast_scheduler.pod_shapes import PodShape
from windlass.simulator.reference_scheduler import resource_requests
from windlass.simulator.reference_scheduler.cluster_view import labels_of

Ints = npt.NDArray[np.int64]

Mask = npt.NDArray[np.bool_]

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"

_MIN_FEASIBLE_NODES = 100

_MIN_PERCENTAGE = 5


def feasible_nodes_to_find(nodes: int) -> int:
    """As kube-scheduler's numFeasibleNodesToFind: half of a small cluster, a twentieth of a huge one, at least 100."""
    percentage = max(50 - nodes // 125, _MIN_PERCENTAGE)
    return min(max(nodes * percentage // 100, _MIN_FEASIBLE_NODES), nodes)


@dataclass(slots=True, eq=False)
class NodeTree:
    """Slots of nodes by zone, and their search order."""

    _zones: dict[str, dict[int, None]] = field(default_factory=dict)
    _zone_of: dict[int, str] = field(default_factory=dict)
    _order: Ints | None = None
    """(nodes,) int: slots in search order; None after nodes were added or removed."""
    _start: int = 0
    """Index in the search order at which the next search starts."""

    def add(self, slot: int, labels: Mapping[str, str]) -> None:
        """Add a node, or move it if its zone changed."""
        zone = f"{labels.get(_REGION, '')}/{labels.get(_ZONE, '')}"
        if self._zone_of.get(slot) == zone:
            return
        self.remove(slot)
        self._zone_of[slot] = zone
        self._zones.setdefault(zone, {})[slot] = None

    def remove(self, slot: int) -> None:
        zone = self._zone_of.pop(slot, None)
        if zone is not None:
            del self._zones[zone][slot]
            if not self._zones[zone]:
                del self._zones[zone]
        self._order = None

    def search(self, fits: Mask) -> Ints:
        """(feasible,) int: slots where a pod fits, up to `feasible_nodes_to_find`."""
        nodes = len(self._zone_of)
        fitting_rows = np.flatnonzero(fits)
        enough = feasible_nodes_to_find(nodes)
        if len(fitting_rows) <= enough:
            return fitting_rows
        order = self._in_order()
        fitting = np.flatnonzero(fits[np.roll(order, -self._start)])[:enough]
        fitting_rows = order[(fitting + self._start) % nodes]
        self._start = (self._start + int(fitting[-1]) + 1) % nodes
        return fitting_rows

    def _in_order(self) -> Ints:
        if self._order is None:
            # (zones, longest): one row per zone, padded with −1; reading by columns takes zones in turn.
            rows = [np.fromiter(slots, np.int64, len(slots)) for slots in self._zones.values()]
            table = np.full((len(rows), max(len(row) for row in rows)), -1, np.int64)
            for row, slots in zip(table, rows, strict=True):
                row[: len(slots)] = slots
            flat = table.T.ravel()
            self._order = flat[flat >= 0]
            self._start %= len(self._order)
        return self._order


Json = dict[str, Any]

PODS = "pods"

_HOSTNAME = "kubernetes.io/hostname"

_INITIAL_SLOTS = 64

_MIN_CHANGES_KEPT = 1000
"""Length of the change list below which it is not compacted."""


@dataclass(slots=True)
class PlacedPod:
    """A pod on a node."""

    slot: int
    shape: PodShape
    namespace: str
    labels: dict[str, str]
    is_terminating: bool = False


@dataclass(slots=True, eq=False)
class NodeTable:
    """All nodes and the pods on them. A slot is a row of the arrays; slots of removed nodes are reused."""

    columns: dict[str, int] = field(default_factory=lambda: {PODS: 0, "cpu": 1, "memory": 2})
    slots: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=list)
    pods: list[dict[str, PlacedPod]] = field(default_factory=list)
    """Pods by slot, then by key."""
    placed_pods: dict[str, PlacedPod] = field(default_factory=dict)
    is_present: Mask = field(default_factory=lambda: np.zeros(_INITIAL_SLOTS, bool))
    """(slots,) bool: True where the slot has a node."""
    allocatable: Ints = field(default_factory=lambda: np.zeros((_INITIAL_SLOTS, 3), np.int64))
    """(slots, resources) int: allocatable."""
    free: Ints = field(default_factory=lambda: np.zeros((_INITIAL_SLOTS, 3), np.int64))
    """(slots, resources) int: allocatable less requests."""
    nonzero: Ints = field(default_factory=lambda: np.zeros((_INITIAL_SLOTS, 2), np.int64))
    """(slots, 2) int: CPU and memory for scores, with a default for containers that request none."""
    node_classes: Ints = field(default_factory=lambda: np.zeros(_INITIAL_SLOTS, np.int64))
    """(slots,) int: the node's class; nodes of a class differ by name only."""
    class_examples: list[Json] = field(default_factory=list)
    """An example node of each class."""
    requested_by_priority: dict[int, Ints] = field(default_factory=dict)
    """By priority, int (slots, resources): requests of pods of that priority."""
    changed: list[int] = field(default_factory=list)
    """Slots whose node was added, removed or changed, in order, for caches of verdicts."""
    era: int = 0
    """Incremented when node classes are renumbered. Caches by class, and positions in `changes`, are void then."""
    tree: NodeTree = field(default_factory=NodeTree)
    """The search order of nodes."""
    _sorts: dict[bytes, int] = field(default_factory=dict)
    _spare: list[int] = field(default_factory=list)

    # ── Nodes ────────────────────────────────────────────────────────────────────────────────────────────────────

    def put_node(self, node: Json) -> bool:
        """Add or update a node; True if that may make pending pods schedulable."""
        if len(self.changed) > 4 * len(self.slots) + _MIN_CHANGES_KEPT:
            self._begin_era()
        name = node["metadata"]["name"]
        slot = self.slots.get(name)
        is_new = slot is None
        if slot is None:
            slot = self._open(name)
        before = self.nodes[slot]
        self.nodes[slot] = node
        sort = self._sort(node)
        has = self.vector(resource_requests.node_allocatable(node))
        if (
            not is_new
            and sort == self.node_classes[slot]
            and bool((has == self.allocatable[slot]).all())
            and before is not None
        ):
            return False
        self.free[slot] += has - self.allocatable[slot]
        self.allocatable[slot] = has
        self.node_classes[slot] = sort
        self.is_present[slot] = True
        self.tree.add(slot, labels_of(node))
        self.changed.append(slot)
        return True

    def drop_node(self, name: str) -> None:
        slot = self.slots.pop(name)
        for key in list(self.pods[slot]):
            self.remove_pod(key)
        self.is_present[slot] = False
        self.tree.remove(slot)
        self.allocatable[slot] = self.free[slot] = 0
        self.changed.append(slot)
        self._spare.append(slot)

    def _begin_era(self) -> None:
        """Drop unused node classes (taints have times, so classes accumulate) and the list of changes."""
        used = np.unique(self.node_classes[list(self.slots.values())])
        numbers = np.zeros(len(self.class_examples), np.int64)
        numbers[used] = np.arange(len(used))
        kept = set(used.tolist())
        self._sorts = {key: int(numbers[sort]) for key, sort in self._sorts.items() if sort in kept}
        self.class_examples = [self.class_examples[sort] for sort in used.tolist()]
        self.node_classes = numbers[self.node_classes]
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
        """Enlarge the arrays for that many slots and resources."""
        rows = max(len(self.is_present), _INITIAL_SLOTS)
        while rows < slots:
            rows *= 2
        if rows == len(self.is_present) and columns == self.allocatable.shape[1]:
            return
        self.is_present = _enlarge(self.is_present, (rows,))
        self.node_classes = _enlarge(self.node_classes, (rows,))
        self.allocatable = _enlarge(self.allocatable, (rows, columns))
        self.nonzero = _enlarge(self.nonzero, (rows, 2))
        self.free = _enlarge(self.free, (rows, columns))
        self.requested_by_priority = {
            priority: _enlarge(held, (rows, columns)) for priority, held in self.requested_by_priority.items()
        }

    def _sort(self, node: Json) -> int:
        labels = {key: value for key, value in labels_of(node).items() if key != _HOSTNAME}
        spec, status = node["spec"], node.get("status") or {}
        seen = (labels, spec.get("taints"), spec.get("unschedulable"), status.get("declaredFeatures"))
        key = msgspec.json.encode(seen, order="deterministic")
        if key not in self._sorts:
            self._sorts[key] = len(self._sorts)
            self.class_examples.append(node)
        return self._sorts[key]

    # ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def vector(self, amounts: resource_requests.ResourceList) -> Ints:
        """(resources,) int: amounts by column. New resources get a new column."""
        for name in amounts:
            if name not in self.columns:
                self.columns[name] = len(self.columns)
                self._grow(len(self.is_present), len(self.columns))
        vector_ = np.zeros(len(self.columns), np.int64)
        for name, amount in amounts.items():
            vector_[self.columns[name]] = amount
        return vector_

    def request_vector(self, shape: PodShape) -> Ints:
        """(resources,) int: requests of a pod of this shape, including 1 of the resource `pods`."""
        if len(shape.request_vector) < len(self.columns):
            shape.request_vector = self.vector({**shape.amounts, PODS: 1})
            if len(shape.request_vector) < len(self.columns):
                shape.request_vector = self.vector({**shape.amounts, PODS: 1})
        return shape.request_vector

    def place(self, key: str, pod: Json, shape: PodShape, node_name: str) -> PlacedPod | None:
        """Assign a pod to a node; None if there is no such node."""
        slot = self.slots.get(node_name)
        if slot is None:
            return None
        metadata = pod["metadata"]
        seat = PlacedPod(slot, shape, metadata["namespace"], metadata.get("labels") or {})
        self.placed_pods[key] = self.pods[slot][key] = seat
        self._take(slot, shape, 1)
        return seat

    def remove_pod(self, key: str) -> PlacedPod | None:
        """Remove a pod from its node; None if it is not assigned."""
        seat = self.placed_pods.pop(key, None)
        if seat is not None:
            del self.pods[seat.slot][key]
            self._take(seat.slot, seat.shape, -1)
        return seat

    def _take(self, slot: int, shape: PodShape, sign: int) -> None:
        desired = self.request_vector(shape)
        self.free[slot] -= sign * desired
        self.nonzero[slot] += sign * shape.nonzero_assigned
        held = self.requested_by_priority.get(shape.priority)
        if held is None:
            held = self.requested_by_priority[shape.priority] = np.zeros_like(self.free)
        held[slot] += sign * desired


def _enlarge(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    made = np.zeros(shape, array.dtype)
    made[tuple(slice(0, size) for size in array.shape)] = array
    return made
