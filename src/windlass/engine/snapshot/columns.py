"""The snapshot's columns, and the undo log of its forks.

What pods take of a node is one subtraction from its free resources, and what filters count of them one addition to the
topology counts; many pods of one shape cost what one costs. Every step is logged with its inverse, so that `revert`
costs what was touched and `commit` nothing. Where much is tried, `scratch` copies the columns and puts them back.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from windlass import scheduler_releases
from windlass.engine.dra import device_table
from windlass.engine.model import arrays, facts
from windlass.engine.snapshot import node_table, pod_table, topology_counts, volume_usage
from windlass.engine.snapshot.node_table import NodeTable
from windlass.engine.snapshot.pod_table import PodTable

_FEW_PODS = 8


class ClusterColumns:
    """Nodes, pods, shapes, counters and storage of one cluster."""

    def __init__(self, release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE) -> None:
        self.release = release
        """kube-scheduler's, whose filters are applied."""
        self.now_s = 0.0
        """The time of the decision; set by the loop."""
        self.nodes = node_table.NodeTable()
        self.pods = pod_table.PodTable()
        self.shapes = pod_table.ShapeTable()
        self.topology_counts = topology_counts.TopologyCounts(self.shapes, volume_usage.VolumeUsage(), release)
        self.storage = volume_usage.StorageTable()
        self.devices = device_table.DeviceTable(self.nodes, release)
        self._requests = RequestColumns(self.nodes)
        self._pods_on: list[list[int]] = []
        self._assumed: list[tuple[int, arrays.Rows, arrays.Amounts]] = []

    def set_release(self, release: scheduler_releases.SchedulerRelease) -> None:
        """Apply the filters of this release. Only before anything is known: pods are read by its rules."""
        if self.nodes.count or len(self.pods.names) or self.devices.inventory.version:
            raise RuntimeError("the release is chosen before anything is observed")
        self.release = release
        self.topology_counts.namespaces.release = release
        self.devices.set_release(release)

    def pods_on(self, node_row: int) -> list[int]:
        """Rows of the pods on a node, in order of arrival."""
        return list(self._pods_on[node_row])

    def pod(self, row: int) -> facts.Pod:
        node_row = int(self.pods.node_rows[row])
        return self.pods.fact(row, "" if node_row == arrays.ABSENT else self.nodes.names[node_row])

    def shape_of_row(self, pod_row: int) -> facts.PodShape:
        return self.shapes[self.pods.shape_ids[pod_row]]

    def requests(self, shape: facts.PodShape) -> list[tuple[int, int]]:
        """(column, amount) of all that one pod of the shape takes, its place among the node's pods included."""
        return self._requests.of(shape)

    def size_of(self, shape: facts.PodShape) -> float:
        """How large pods of the shape are: their share of all cpu plus their share of all memory."""
        return self._requests.size_of(shape)

    def counts(self, key: topology_counts.Matching) -> arrays.Counts:
        """Int32 (n_nodes): how many pods on each node a matching counter counts."""
        if not self.topology_counts.is_known(key):
            self._open_counter(key)
        return self.topology_counts.counts(self.topology_counts.row(key), self.nodes.count)

    def _open_counter(self, key: topology_counts.Matching) -> None:
        matching = self.topology_counts.matching_profiles(key)
        shape_matches = np.fromiter(
            (matching[self.shapes[number].profile_id] for number in range(len(self.shapes))), bool, len(self.shapes)
        )
        counts = np.zeros(self.nodes.row_capacity(), arrays.RESOURCE_DTYPE)
        if shape_matches.any():
            where, shape_ids = self.pods.node_rows, self.pods.shape_ids
            bound = where != arrays.ABSENT
            bound &= np.append(shape_matches, False)[shape_ids]
            counts += np.bincount(where[bound], minlength=len(counts))
            for shape_id, rows, pods_placed in self._assumed:
                if shape_matches[shape_id]:
                    np.add.at(counts, rows, pods_placed)
        self.topology_counts.fill(self.topology_counts.open(key, matching), counts)

    # Shapes

    def shape_of(self, pod: facts.Pod) -> facts.PodShape:
        """The pod's shape. A selector that reads a new label key re-keys the pods that have the label."""
        pod = self._with_leftover_claim(pod)
        unseen = self.shapes.unseen_keys(pod.spec)
        if unseen:
            self.show_labels(unseen)
        return self.shapes.intern(pod.namespace, pod.labels, pod.spec, pod.is_terminating)

    def _with_leftover_claim(self, pod: facts.Pod) -> facts.Pod:
        """The pod, with the claim in its spec that an earlier attempt to schedule it left behind."""
        if not pod.spec.extended or pod.node_name or not self.devices.inventory.leftovers:
            return pod
        claim = self.devices.inventory.leftovers.get(pod.uid)
        if claim is None or claim.owner_name != pod.name or pod.spec.extended_claim == claim.name:
            return pod
        return replace(pod, spec=replace(pod.spec, extended_claim=claim.name))

    def show_labels(self, keys: set[str]) -> None:
        """Make these label keys part of shapes."""
        keys = keys - self.shapes.visible
        if not keys:
            return
        self.shapes.visible |= keys
        for row, flat in enumerate(self.pods.labels):
            if not keys.isdisjoint(flat[::2]):
                self._rekey(row)

    def _rekey(self, row: int) -> None:
        template = self.pods.template_key(row)
        terminating = self.pods.times.get(row, (None, None))[0] is not None
        shape = self.shapes.intern(template.namespace, self.pods.label_map(row), template.spec, terminating)
        node_row = int(self.pods.node_rows[row])
        if node_row == arrays.ABSENT:
            self.pods.shape_ids[row] = shape.id
            return
        self._count(self.shapes[self.pods.shape_ids[row]], node_row, -1)
        self.pods.shape_ids[row] = shape.id
        self._count(shape, node_row, 1)

    # Counting

    def _assign(self, pod_row: int, node_row: int) -> None:
        self._assign_at(pod_row, node_row, len(self._pods_on[node_row]))

    def _assign_at(self, pod_row: int, node_row: int, position: int) -> None:
        self.pods.node_rows[pod_row] = node_row
        self._pods_on[node_row].insert(position, pod_row)
        self._count(self.shape_of_row(pod_row), node_row, 1)

    def _unassign(self, pod_row: int) -> None:
        self._unassign_at(pod_row)

    def _unassign_at(self, pod_row: int) -> int:
        node_row = int(self.pods.node_rows[pod_row])
        position = self._pods_on[node_row].index(pod_row)
        del self._pods_on[node_row][position]
        self._count(self.shape_of_row(pod_row), node_row, -1)
        self.pods.node_rows[pod_row] = arrays.ABSENT
        return position

    def _count(self, shape: facts.PodShape, node_row: int, count: int) -> None:
        pairs = self._requests.of(shape)  # first: a resource met for the first time makes a new column
        free = self.nodes.free
        for column, amount in pairs:
            free[column, node_row] -= amount * count
        self.topology_counts.add(shape, node_row, count)

    def _count_together(self, pod_rows: arrays.Rows, node_row: int, sign: int) -> None:
        """Add (sign 1) or remove (-1) these pods on one node: one sum int64 (n_resources,) over their requests."""
        shape_ids = self.pods.shape_ids[pod_rows].tolist()
        alike = shape_ids.count(shape_ids[0]) if shape_ids else 0
        if alike == len(shape_ids):
            if alike:
                self._count(self.shapes[shape_ids[0]], node_row, sign * alike)
            return
        taken = self._requests.sum(shape_ids)
        self.nodes.free[: len(taken), node_row] -= taken * sign
        for shape_id, count in Counter(shape_ids).items():
            self.topology_counts.add(self.shapes[shape_id], node_row, sign * count)

    def _count_on(self, shape: facts.PodShape, rows: arrays.Rows, counts: arrays.Amounts | int) -> None:
        """Add pods of a shape on distinct nodes: `counts` int64 (n_rows,), negative to remove."""
        if len(rows) > _FEW_PODS:
            self._count_many(shape, rows, counts)
            return
        item = itertools.repeat(counts) if isinstance(counts, int) else counts.tolist()
        for node_row, count in zip(rows.tolist(), item, strict=False):
            self._count(shape, node_row, count)  # plain loops are faster up to _FEW_PODS

    def _count_many(self, shape: facts.PodShape, rows: arrays.Rows, counts: arrays.Amounts | int) -> None:
        pairs = self._requests.of(shape)  # first, as above
        free = self.nodes.free
        for number, amount in pairs:
            free[number][rows] -= amount * counts  # (n_nodes,) row first: half the cost of a 2-D fancy index
        self.topology_counts.add_many(shape, rows, counts)

    def _reserve_rows(self) -> None:
        self.topology_counts.reserve(self.nodes.row_capacity())
        while len(self._pods_on) < self.nodes.count:
            self._pods_on.append([])


_LARGEST = 1 << 53
"""Cap of a single request: more than any node has, and sums of a thousand pods stay within int64."""


class RequestColumns:
    """Requests by shape, as columns of the node table."""

    def __init__(self, table: node_table.NodeTable) -> None:
        self._nodes = table
        self._requests: dict[int, list[tuple[int, int]]] = {}
        self._amounts = np.zeros((64, len(table.resources)), arrays.RESOURCE_DTYPE)
        self._sizes: dict[int, float] = {}
        self._sizes_of = -1

    def of(self, shape: facts.PodShape) -> list[tuple[int, int]]:
        """(column, amount) of all that one pod of the shape takes, its place among the node's pods included."""
        known = self._requests.get(shape.id)
        if known is None:
            desired = [(resource, min(amount, _LARGEST)) for resource, amount in shape.spec.requests if amount > 0]
            known = [(node_table.PODS_COLUMN, 1)]
            known += [(self._nodes.resource_column(resource), amount) for resource, amount in desired]
            self._requests[shape.id] = known
            self._tabulate(shape.id, known)
        return known

    def sum(self, shape_ids: list[int]) -> arrays.Amounts:
        """Int64 (n_resources,): what pods of these shapes take together; each shape was asked for before."""
        total: arrays.Amounts = self._amounts[shape_ids].sum(axis=0)
        return total

    def size_of(self, shape: facts.PodShape) -> float:
        """How large pods of the shape are: their share of all cpu plus their share of all memory."""
        if self._sizes_of != self._nodes.version:
            self._sizes_of = self._nodes.version
            self._sizes.clear()
        size = self._sizes.get(shape.id)
        if size is None:
            desired = dict(shape.spec.requests)
            cpu, memory = (
                int(self._nodes.allocatable[c].sum()) for c in (node_table.CPU_COLUMN, node_table.MEMORY_COLUMN)
            )
            size = desired.get(facts.CPU, 0) / max(cpu, 1) + desired.get(facts.MEMORY, 0) / max(memory, 1)
            self._sizes[shape.id] = size
        return size

    def renumber(self, numbers: arrays.Ids) -> None:
        """Shapes have other numbers now, or are forgotten where the new one is -1."""
        known = self._requests.items()
        self._requests = {new: known for old, known in known if (new := int(numbers[old])) != arrays.ABSENT}
        self._sizes.clear()
        self._amounts = np.zeros((64, len(self._nodes.resources)), arrays.RESOURCE_DTYPE)
        for number, pairs in self._requests.items():
            self._tabulate(number, pairs)

    def _tabulate(self, shape_id: int, requests: list[tuple[int, int]]) -> None:
        """Write a shape's requests into the table (n_shapes, n_resources), from which many are summed at once."""
        rows, columns = self._amounts.shape
        more_rows = max(2 * rows, shape_id + 1) - rows if shape_id >= rows else 0
        more_columns = max(len(self._nodes.resources) - columns, 0)
        if more_rows or more_columns:
            self._amounts = np.pad(self._amounts, ((0, more_rows), (0, more_columns)))
        for column, amount in requests:
            self._amounts[shape_id, column] = amount


@dataclass(frozen=True, slots=True)
class ColumnCopies:
    """Copies of columns. Counters are not copied, because there may be thousands; they have an undo log."""

    alive: arrays.Mask
    deleting: arrays.Mask
    free: arrays.Amounts
    node_rows: arrays.Ids
    pods_on: list[list[int]]
    assumed: int

    def put_back(self, nodes: NodeTable, pods: PodTable, pods_on: list[list[int]], assumed: list[Any]) -> None:
        """Restore the columns in place; once, with the same number of nodes and pods as when copied."""
        nodes.alive[:] = self.alive
        nodes.deleting[:] = self.deleting
        resources = len(self.free)
        nodes.free[:resources] = self.free
        nodes.free[resources:] = nodes.allocatable[
            resources:
        ]  # resources interned since then: no pod requested them before
        pods.node_rows[:] = self.node_rows
        pods_on[:] = self.pods_on
        del assumed[self.assumed :]


def copy_columns(nodes: NodeTable, pods: PodTable, pods_on: list[list[int]], assumed: list[Any]) -> ColumnCopies:
    """Copy the columns."""
    return ColumnCopies(
        nodes.alive.copy(),
        nodes.deleting.copy(),
        nodes.free.copy(),
        pods.node_rows.copy(),
        [list(rows) for rows in pods_on],
        len(assumed),
    )


NEVER = 1 << 62
"""Beyond every row."""

Undo = Callable[..., None]


class ForkableColumns(ClusterColumns):
    """Columns with forks: changes since a fork can be reverted."""

    def __init__(self, release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE) -> None:
        super().__init__(release)
        self._log: list[tuple[Undo, tuple[Any, ...]]] = []
        self._forks: list[tuple[int, int]] = []
        """(length of the undo log, length of the counters' log) at the start of each fork."""
        self._scratch = 0
        """Depth of the scratch fork, whose columns were copied; 0 without one."""
        self._copied: frozenset[Undo] = frozenset()
        """Undo functions that are unnecessary when copied columns are restored."""
        self._truncated_from = NEVER
        self._changes = 0

    @property
    def generation(self) -> int:
        """Rises with every change outside forks: equal generations mean equal content."""
        return self._changes + self.storage.version + self.devices.inventory.version

    @property
    def forks(self) -> int:
        """How many forks are open."""
        return len(self._forks)

    def fork(self) -> None:
        if not self._forks and not self.devices.is_idle:
            self.devices.sync()
        self._forks.append((len(self._log), self.topology_counts.mark()))

    def commit(self) -> None:
        """Keep the changes since the last fork. The outermost commit clears the log."""
        mark, _ = self._forks.pop()
        if not self._forks:
            self._changes += bool(self._log)
            self._log.clear()
        elif len(self._forks) == self._scratch:
            self._log[mark:] = self._find_uncopied(mark)

    def revert(self) -> None:
        """Undo the changes since the last fork, last one first."""
        mark, counted = self._forks.pop()
        # Counts on rows that are about to be truncated need not be undone.
        cuts = [arguments[0] for undo, arguments in self._log[mark:] if undo == self._truncate_nodes]
        self._truncated_from = min(cuts, default=NEVER)
        while len(self._log) > mark:
            undo, arguments = self._log.pop()
            undo(*arguments)
        self._truncated_from = NEVER
        self.topology_counts.forget_since(counted)

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """A fork by copy: on exit all columns are restored, at a cost independent of the number of changes.

        A scratch within a scratch is a fork like any other.
        """
        self.fork()
        if self._scratch:
            try:
                yield
            finally:
                self.revert()
            return
        before, self._scratch = copy_columns(self.nodes, self.pods, self._pods_on, self._assumed), len(self._forks)
        self.topology_counts.begin_log()
        try:
            yield
        finally:
            self.topology_counts.undo_log()  # before rows are truncated, which zeroes their counts
            mark, _ = self._forks[self._scratch - 1]
            del self._forks[self._scratch - 1 :]
            for undo, arguments in reversed(self._find_uncopied(mark)):
                undo(*arguments)
            del self._log[mark:]
            before.put_back(self.nodes, self.pods, self._pods_on, self._assumed)
            self._scratch = 0

    def _find_uncopied(self, mark: int) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        """The log entries since the mark that restoring the copies does not undo."""
        return [step for step in self._log[mark:] if step[0] not in self._copied]

    def _log_undo(self, undo: Callable[..., None], *arguments: object) -> None:
        if not self._forks:
            self._changes += 1
        elif len(self._forks) != self._scratch or undo not in self._copied:
            self._log.append((undo, arguments))

    def _truncate_nodes(self, count: int) -> None:
        self.topology_counts.clear_rows(slice(count, self.nodes.count))
        self.nodes.truncate(count)
        del self._pods_on[count:]

    def show_labels(self, keys: set[str]) -> None:
        if self._forks and not keys <= self.shapes.visible:
            raise RuntimeError("a selector with new label keys appeared inside a fork: facts change between decisions")
        super().show_labels(keys)
