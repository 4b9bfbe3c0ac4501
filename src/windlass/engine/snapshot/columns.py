"""Columns: what is where, counted as it comes and goes.

Nodes, pods and shapes are tables. What pods take of a node is one subtraction from its free resources, and what filters
count of them one addition to tallies; many pods of one shape cost what one costs.
"""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np

from windlass import releases
from windlass.engine import dtypes, facts, nodes, pods, questions, shapes, storage, tallies
from windlass.engine.devices import table
from windlass.engine.snapshot import footprints

_FEW = 8


class Columns:
    """Nodes, pods, shapes, tallies and storage of one cluster."""

    def __init__(self, release: releases.Release = releases.DEFAULT) -> None:
        self.release = release
        """kube-scheduler's, whose filters are applied."""
        self.now_s = 0.0
        """The time at which filters are asked; `decide` sets it."""
        self.nodes = nodes.NodeTable()
        self.pods = pods.PodTable()
        self.shapes = shapes.ShapeTable()
        self.tallies = tallies.TallyTable(self.shapes, release)
        self.storage = storage.Storage()
        self.devices = table.DeviceTable(self.nodes, release)
        self._footprints = footprints.Footprints(self.nodes)
        self._pods_on: list[list[int]] = []
        self._imagined: list[tuple[int, dtypes.Rows, dtypes.Amounts]] = []

    def set_release(self, release: releases.Release) -> None:
        """Apply the filters of this release. Only before anything is known: pods are read by its rules."""
        if self.nodes.count or len(self.pods.names) or self.devices.stock.version:
            raise RuntimeError("the release is chosen before anything is observed")
        self.release = release
        self.tallies.namespaces.release = release
        self.devices.set_release(release)

    def pods_on(self, node_row: int) -> list[int]:
        """Rows of the pods on a node, in order of arrival."""
        return list(self._pods_on[node_row])

    def pod(self, row: int) -> facts.Pod:
        node_row = int(self.pods.node_rows[row])
        return self.pods.fact(row, "" if node_row == dtypes.ABSENT else self.nodes.names[node_row])

    def shape_of_row(self, pod_row: int) -> shapes.Shape:
        return self.shapes[self.pods.shape_ids[pod_row]]

    def requests(self, shape: shapes.Shape) -> list[tuple[int, int]]:
        """(column, amount) of all that one pod of the shape takes, its place among the node's pods included."""
        return self._footprints.of(shape)

    def size_of(self, shape: shapes.Shape) -> float:
        """How large pods of the shape are: their share of all cpu plus their share of all memory."""
        return self._footprints.size_of(shape)

    def counts(self, key: questions.Matching) -> dtypes.Counts:
        """Int32 (n_nodes): how many pods on each node a matching tally counts."""
        if not self.tallies.is_known(key):
            self._open_tally(key)
        return self.tallies.counts(self.tallies.row(key), self.nodes.count)

    def _open_tally(self, key: questions.Matching) -> None:
        matching = self.tallies.matching_profiles(key)
        shape_matches = np.fromiter(
            (matching[self.shapes[number].profile_id] for number in range(len(self.shapes))), bool, len(self.shapes)
        )
        counts = np.zeros(self.nodes.row_capacity(), dtypes.RESOURCE)
        if shape_matches.any():
            where, shape_ids = self.pods.node_rows, self.pods.shape_ids
            bound = where != dtypes.ABSENT
            bound &= np.append(shape_matches, False)[shape_ids]
            counts += np.bincount(where[bound], minlength=len(counts))
            for shape_id, rows, pods_placed in self._imagined:
                if shape_matches[shape_id]:
                    np.add.at(counts, rows, pods_placed)
        self.tallies.fill(self.tallies.open(key, matching), counts)

    # Shapes

    def shape_of(self, pod: facts.Pod) -> shapes.Shape:
        """The pod's shape. Selectors that look at a label nobody looked at before re-key the pods that have it."""
        pod = self._with_leftover(pod)
        unseen = self.shapes.unseen_keys(pod.spec)
        if unseen:
            self.show_labels(unseen)
        return self.shapes.intern(pod.namespace, pod.labels, pod.spec, pod.is_terminating)

    def _with_leftover(self, pod: facts.Pod) -> facts.Pod:
        """The pod, with the claim in its spec that an earlier attempt to schedule it left behind."""
        if not pod.spec.extended or pod.node_name or not self.devices.stock.leftovers:
            return pod
        claim = self.devices.stock.leftovers.get(pod.uid)
        if claim is None or claim.owner_name != pod.name or pod.spec.extended_claim == claim.name:
            return pod
        return replace(pod, spec=replace(pod.spec, extended_claim=claim.name))

    def show_labels(self, keys: set[str]) -> None:
        """Let shapes tell pods apart by these labels, too."""
        keys = keys - self.shapes.visible
        if not keys:
            return
        self.shapes.visible |= keys
        for row, flat in enumerate(self.pods.labels):
            if not keys.isdisjoint(flat[::2]):
                self._rekey(row)

    def _rekey(self, row: int) -> None:
        kind = self.pods.kind(row)
        terminating = self.pods.times.get(row, (None, None))[0] is not None
        shape = self.shapes.intern(kind.namespace, self.pods.label_map(row), kind.spec, terminating)
        node_row = int(self.pods.node_rows[row])
        if node_row == dtypes.ABSENT:
            self.pods.shape_ids[row] = shape.id
            return
        self._count(self.shapes[self.pods.shape_ids[row]], node_row, -1)
        self.pods.shape_ids[row] = shape.id
        self._count(shape, node_row, 1)

    # Counting

    def _settle(self, pod_row: int, node_row: int) -> None:
        self._settle_at(pod_row, node_row, len(self._pods_on[node_row]))

    def _settle_at(self, pod_row: int, node_row: int, position: int) -> None:
        self.pods.node_rows[pod_row] = node_row
        self._pods_on[node_row].insert(position, pod_row)
        self._count(self.shape_of_row(pod_row), node_row, 1)

    def _unsettle(self, pod_row: int) -> None:
        self._unsettle_at(pod_row)

    def _unsettle_at(self, pod_row: int) -> int:
        node_row = int(self.pods.node_rows[pod_row])
        position = self._pods_on[node_row].index(pod_row)
        del self._pods_on[node_row][position]
        self._count(self.shape_of_row(pod_row), node_row, -1)
        self.pods.node_rows[pod_row] = dtypes.ABSENT
        return position

    def _count(self, shape: shapes.Shape, node_row: int, count: int) -> None:
        pairs = self._footprints.of(shape)  # first: a resource met for the first time makes a new column
        free = self.nodes.free
        for column, amount in pairs:
            free[column, node_row] -= amount * count
        self.tallies.add(shape, node_row, count)

    def _count_together(self, pod_rows: dtypes.Rows, node_row: int, sign: int) -> None:
        """Count all these pods on one node, or off it: one sum over what they request."""
        shape_ids = self.pods.shape_ids[pod_rows].tolist()
        alike = shape_ids.count(shape_ids[0]) if shape_ids else 0
        if alike == len(shape_ids):
            if alike:
                self._count(self.shapes[shape_ids[0]], node_row, sign * alike)
            return
        taken = self._footprints.sum(shape_ids)
        self.nodes.free[: len(taken), node_row] -= taken * sign
        for shape_id, count in Counter(shape_ids).items():
            self.tallies.add(self.shapes[shape_id], node_row, sign * count)

    def _count_on(self, shape: shapes.Shape, rows: dtypes.Rows, counts: dtypes.Amounts | int) -> None:
        """Count pods of a shape on distinct nodes, or off them."""
        if len(rows) > _FEW:
            self._count_many(shape, rows, counts)
            return
        each = itertools.repeat(counts) if isinstance(counts, int) else counts.tolist()
        for node_row, count in zip(rows.tolist(), each, strict=False):
            self._count(shape, node_row, count)  # arrays pay from a handful on

    def _count_many(self, shape: shapes.Shape, rows: dtypes.Rows, counts: dtypes.Amounts | int) -> None:
        pairs = self._footprints.of(shape)  # first, as above
        free = self.nodes.free
        for number, amount in pairs:
            free[number][rows] -= amount * counts  # one index into a row costs half of what two into the table do
        self.tallies.add_many(shape, rows, counts)

    def _make_room(self) -> None:
        self.tallies.reserve(self.nodes.row_capacity())
        while len(self._pods_on) < self.nodes.count:
            self._pods_on.append([])
