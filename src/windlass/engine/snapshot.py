"""The snapshot: a cluster as columns, changed in place and undone in reverse.

Single object changes update the columns they touch. A what-if is a fork: everything done since is written to a log of
inverse steps, so that `revert` costs what was touched, not what the cluster holds, and `commit` costs nothing.

    fork ──▶ place, lift, append, retire … ──▶ commit     keep it (the outer fork, if any, can still undo it)
                                           └─▶ revert     as if it had never been

Where a great deal is tried, steps that are undone one by one take as long as they took: `scratch` copies the columns
first, and puts them back.

Pods that exist have rows; pods that are only imagined (a what-if's placements, the DaemonSet pods of a template) are
placed by shape and number. Facts change between decisions, never inside a fork.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from windlass.engine import copies, dtypes, facts, nodes, pods, shapes, storage, tallies
from windlass.engine.devices import holding, model, table

FINISHED = ("Succeeded", "Failed")
"""Phases of pods that hold nothing any more: the scheduler never lists them."""

_BATCH = 10_000
_FEW = 8
_NEVER = 1 << 62
"""Beyond every row."""


class Snapshot:
    """Nodes, pods, shapes, tallies and storage of one cluster."""

    def __init__(self) -> None:
        self.nodes = nodes.NodeTable()
        self.pods = pods.PodTable()
        self.shapes = shapes.ShapeTable()
        self.tallies = tallies.TallyTable(self.shapes)
        self.storage = storage.Storage()
        self.devices = table.DeviceTable(self.nodes)
        self._requests: dict[int, list[tuple[int, int]]] = {}
        self._table = np.zeros((64, len(self.nodes.resources)), dtypes.RESOURCE)
        self._sizes: dict[int, float] = {}
        self._sizes_of = -1
        self._pods_on: list[list[int]] = []
        self._homeless: dict[str, list[int]] = {}
        self._imagined: list[tuple[int, dtypes.Rows, dtypes.Amounts]] = []
        self._log: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._forks: list[tuple[int, int]] = []
        """How long the logs of steps and of tallies were when each began."""
        self._scratch = 0
        """How many forks there are where everything is a scratch; 0 where nothing is."""
        self._copied = frozenset({
            self._unplace, self._unplace_many, self._unsettle, self._settle_at, self._unbind_all, self._unclear,
            self._move_back, self._set_deleting, self._set_alive,
        })  # fmt: skip
        """Steps that need no undoing where columns are put back."""
        self._doomed = _NEVER
        self._changes = 0

    @property
    def generation(self) -> int:
        """Rises with every change that no fork will undo: while it stays the same, so does everything in here."""
        return self._changes + self.storage.version + self.devices.stock.version

    @property
    def homeless(self) -> dict[str, list[int]]:
        """Rows of the pods on nodes that are not there, by the node's name, in order of arrival."""
        return self._homeless

    # Facts that change

    def add_node(self, node: facts.Node) -> int:
        """Add a node, or replace the facts of the one of that name. Pods that waited for it are counted on it."""
        self._changes += 1
        row = self.nodes.rows.get(node.name)
        if row is not None:
            self.nodes.update(row, node)
            return row
        row = self.nodes.add(node)
        self._make_room()
        for pod_row in self._homeless.pop(node.name, ()):
            self._settle(pod_row, row)
        return row

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pods are still pods; they count nowhere until they leave or the node is back."""
        self._changes += 1
        row = self.nodes.rows[name]
        for pod_row in list(self._pods_on[row]):
            self._unsettle(pod_row)
            self._homeless.setdefault(name, []).append(pod_row)
        self.nodes.remove(row)

    def add_pod(self, pod: facts.Pod) -> int | None:
        """Add a pod, or replace the facts of the one of that uid. A finished pod has no row."""
        self.remove_pod(pods.identity(pod))
        if pod.phase in FINISHED:
            return None
        self._changes += 1
        shape = self.shape_of(pod)
        row = self.pods.add(pod)
        self.pods.shape_ids[row] = shape.id
        if pod.spec.claims:
            self.devices.add_user(pod, pods.identity(pod))
        if pod.node_name:
            node_row = self.nodes.rows.get(pod.node_name)
            if node_row is None:
                self._homeless.setdefault(pod.node_name, []).append(row)
            else:
                self._settle(row, node_row)
        return row

    def add_pods(self, found: Iterable[facts.Pod]) -> None:
        """Add many pods. What their selectors look at is learned in batches, so that few pods are keyed twice."""
        pods_left = iter(found)
        while batch := list(itertools.islice(pods_left, _BATCH)):
            self.show_labels(set().union(*(self.shapes.unseen_keys(pod.spec) for pod in batch)))
            for pod in batch:
                self.add_pod(pod)

    def remove_pod(self, identity: str) -> None:
        """Remove a pod by uid (or namespace/name, where it has none); nothing happens if it is not there."""
        row = self.pods.rows.get(identity)
        if row is None:
            return
        self._changes += 1
        if self.pods.node_rows[row] != dtypes.ABSENT:
            self._unsettle(row)
        else:
            for waiting in self._homeless.values():
                if row in waiting:
                    waiting.remove(row)
        kind = self.pods.kind(row)
        if kind.spec.claims:
            self.devices.remove_user(kind.namespace, kind.spec, identity)
        self.pods.remove(row)

    def set_namespaces(self, found: Iterable[facts.Namespace]) -> None:
        """Replace what is known of namespaces; selectors on their labels are judged anew."""
        self._changes += 1
        self.tallies.forget_namespaces({namespace.name: namespace.labels for namespace in found})

    def shape_of(self, pod: facts.Pod) -> shapes.Shape:
        """The pod's shape. Selectors that look at a label nobody looked at before re-key the pods that have it."""
        unseen = self.shapes.unseen_keys(pod.spec)
        if unseen:
            self.show_labels(unseen)
        return self.shapes.intern(pod.namespace, pod.labels, pod.spec, pod.is_terminating)

    def show_labels(self, keys: set[str]) -> None:
        """Let shapes tell pods apart by these labels, too."""
        keys = keys - self.shapes.visible
        if not keys:
            return
        if self._forks:
            raise RuntimeError("a selector with new label keys appeared inside a fork: facts change between decisions")
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

    # What is where

    def pods_on(self, node_row: int) -> list[int]:
        """Rows of the pods on a node, in order of arrival."""
        return list(self._pods_on[node_row])

    def waiting(self) -> list[int]:
        """Rows of the pods that are bound to no node, not even to one that is unknown."""
        homeless = {row for rows in self._homeless.values() for row in rows}
        free = np.flatnonzero((self.pods.node_rows == dtypes.ABSENT) & (self.pods.shape_ids != dtypes.ABSENT))
        return [row for row in free.tolist() if row not in homeless]

    def pod(self, row: int) -> facts.Pod:
        node_row = int(self.pods.node_rows[row])
        return self.pods.fact(row, "" if node_row == dtypes.ABSENT else self.nodes.names[node_row])

    def shape_of_row(self, pod_row: int) -> shapes.Shape:
        return self.shapes[self.pods.shape_ids[pod_row]]

    def requests(self, shape: shapes.Shape) -> list[tuple[int, int]]:
        """(column, amount) of all that one pod of the shape takes, its place among the node's pods included."""
        known = self._requests.get(shape.id)
        if known is None:
            wanted = [(resource, amount) for resource, amount in shape.spec.requests if amount > 0]
            known = [(nodes.PODS_COLUMN, 1)]
            known += [(self.nodes.resource_column(resource), amount) for resource, amount in wanted]
            self._requests[shape.id] = known
            self._tabulate(shape.id, known)
        return known

    def size_of(self, shape: shapes.Shape) -> float:
        """How large pods of the shape are: their share of all cpu plus their share of all memory."""
        if self._sizes_of != self.nodes.version:
            self._sizes_of = self.nodes.version
            self._sizes.clear()
        size = self._sizes.get(shape.id)
        if size is None:
            wanted = dict(shape.spec.requests)
            cpu, memory = (int(self.nodes.allocatable[c].sum()) for c in (nodes.CPU_COLUMN, nodes.MEMORY_COLUMN))
            size = wanted.get(facts.CPU, 0) / max(cpu, 1) + wanted.get(facts.MEMORY, 0) / max(memory, 1)
            self._sizes[shape.id] = size
        return size

    def _tabulate(self, shape_id: int, requests: list[tuple[int, int]]) -> None:
        """Write a shape's requests into the table (n_shapes, n_resources), from which many are summed at once."""
        rows, columns = self._table.shape
        more_rows = max(2 * rows, shape_id + 1) - rows if shape_id >= rows else 0
        more_columns = max(len(self.nodes.resources) - columns, 0)
        if more_rows or more_columns:
            self._table = np.pad(self._table, ((0, more_rows), (0, more_columns)))
        for column, amount in requests:
            self._table[shape_id, column] = amount

    def counts(self, key: tallies.Matching) -> dtypes.Counts:
        """Int32 (n_nodes): how many pods on each node a matching tally counts."""
        if not self.tallies.is_known(key):
            self._open_tally(key)
        return self.tallies.counts(self.tallies.row(key), self.nodes.count)

    def _open_tally(self, key: tallies.Matching) -> None:
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

    # Moving pods and nodes about

    def place(self, shape: shapes.Shape, node_row: int, count: int = 1) -> None:
        """Imagine pods of a shape on a node. Whether they fit was the caller's question."""
        rows, amounts = np.array([node_row]), np.array([count], dtypes.RESOURCE)
        self._count(shape, node_row, count)
        self._imagined.append((shape.id, rows, amounts))
        self._remember(self._unplace, shape, node_row, count)
        if asks_for_devices(shape.spec):
            self._hold(shape, [node_row], [count])

    def _unplace(self, shape: shapes.Shape, node_row: int, count: int) -> None:
        self._imagined.pop()
        self._count(shape, node_row, -count)

    def place_many(self, shape: shapes.Shape, rows: dtypes.Rows, counts: dtypes.Amounts) -> None:
        """Imagine pods of a shape on many distinct nodes: `counts[i]` on `rows[i]`."""
        self._count_many(shape, rows, counts)
        self._imagined.append((shape.id, rows, counts))
        self._remember(self._unplace_many, shape, rows, counts)
        if asks_for_devices(shape.spec):
            self._hold(shape, rows.tolist(), counts.tolist())

    def _unplace_many(self, shape: shapes.Shape, rows: dtypes.Rows, counts: dtypes.Amounts) -> None:
        self._imagined.pop()
        if rows.min(initial=_NEVER) < self._doomed:
            self._count_many(shape, rows, -counts)

    def bind(self, pod_row: int, node_row: int) -> None:
        """Put a waiting pod on a node."""
        self._settle(pod_row, node_row)
        self._remember(self._unsettle, pod_row)
        if asks_for_devices(self.shape_of_row(pod_row).spec):
            self._hold_for([pod_row], [node_row])

    def lift(self, pod_row: int) -> None:
        """Take a pod off its node; it waits."""
        node_row = int(self.pods.node_rows[pod_row])
        position = self._unsettle_at(pod_row)
        self._remember(self._settle_at, pod_row, node_row, position)
        self._release([pod_row])

    def bind_many(self, pod_rows: list[int], rows: dtypes.Rows, counts: dtypes.Amounts) -> None:
        """Put waiting pods of one shape on distinct nodes, some on each: the first `counts[0]` on `rows[0]`, etc."""
        shape, chosen = self.shape_of_row(pod_rows[0]), np.array(pod_rows, np.intp)
        self._bind_all(shape, pod_rows, chosen, rows, counts)
        self._remember(self._unbind_all, shape, chosen, rows, counts)
        if asks_for_devices(shape.spec):
            self._hold_for(pod_rows, np.repeat(rows, counts).tolist())

    def _bind_all(
        self, shape: shapes.Shape, pod_rows: list[int], chosen: dtypes.Rows, rows: dtypes.Rows, counts: dtypes.Amounts
    ) -> None:
        pods_on = self._pods_on
        if len(rows) == len(chosen):  # one each
            for node_row, pod_row in zip(rows.tolist(), pod_rows, strict=True):
                pods_on[node_row].append(pod_row)
            self.pods.node_rows[chosen] = rows
            self._count_on(shape, rows, 1)
        else:
            start = 0
            for node_row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                pods_on[node_row] += pod_rows[start : start + count]
                start += count
            self.pods.node_rows[chosen] = np.repeat(rows, counts)
            self._count_on(shape, rows, counts)

    def _unbind_all(self, shape: shapes.Shape, chosen: dtypes.Rows, rows: dtypes.Rows, counts: dtypes.Amounts) -> None:
        for node_row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            del self._pods_on[node_row][-count:]  # undone in reverse, so these are the last that came
        self.pods.node_rows[chosen] = dtypes.ABSENT
        self._count_on(shape, rows, -counts)

    def _count_on(self, shape: shapes.Shape, rows: dtypes.Rows, counts: dtypes.Amounts | int) -> None:
        """Count pods of a shape on distinct nodes, or off them."""
        if len(rows) > _FEW:
            self._count_many(shape, rows, counts)
            return
        for node_row, count in zip(rows.tolist(), np.broadcast_to(counts, rows.shape).tolist(), strict=True):
            self._count(shape, node_row, count)  # arrays pay from a handful on

    def clear_node(self, node_row: int) -> list[int]:
        """Take all pods off a node and return their rows; they wait."""
        pod_rows = self._pods_on[node_row]
        chosen = np.array(pod_rows, np.intp)
        self._count_together(chosen, node_row, -1)
        self.pods.node_rows[chosen] = dtypes.ABSENT
        self._pods_on[node_row] = []
        self._remember(self._unclear, node_row, pod_rows, chosen)
        self._release(pod_rows)
        return pod_rows

    def _unclear(self, node_row: int, pod_rows: list[int], chosen: dtypes.Rows) -> None:
        self._pods_on[node_row] = pod_rows
        self.pods.node_rows[chosen] = node_row
        self._count_together(chosen, node_row, 1)

    def relocate(self, node_row: int, moved: dtypes.Rows, rows: dtypes.Rows, counts: dtypes.Amounts) -> None:
        """Take all pods off a node, and put these of them, which are of one shape, on others as `bind_many` would."""
        pod_rows = self._pods_on[node_row]
        shape = self.shape_of_row(moved[0])
        if len(pod_rows) != len(moved) or asks_for_devices(shape.spec):
            self.clear_node(node_row)
            self.bind_many(moved.tolist(), rows, counts)
            return
        self._pods_on[node_row] = []
        self._count(shape, node_row, -len(pod_rows))
        self._bind_all(shape, pod_rows, moved, rows, counts)
        self._remember(self._move_back, node_row, pod_rows, shape, moved, rows, counts)

    def _move_back(
        self,
        node_row: int,
        pod_rows: list[int],
        shape: shapes.Shape,
        moved: dtypes.Rows,
        rows: dtypes.Rows,
        counts: dtypes.Amounts,
    ) -> None:
        self._unbind_all(shape, moved, rows, counts)
        self._unclear(node_row, pod_rows, moved)

    def append(self, template: facts.Node, names: list[str]) -> range:
        """Append nodes like the template, one per name. Only inside a fork."""
        if not self._forks:
            raise RuntimeError("nodes are appended inside a fork only; a node that exists is added")
        if taken := self.nodes.rows.keys() & names:
            raise ValueError(f"nodes are appended under names of their own: {sorted(taken)} exist already")
        count = self.nodes.count
        rows = self.nodes.add_copies(template, names)
        self._make_room()
        self._remember(self._cut, count)
        if template.slices:
            mark = self.devices.mark()
            self.devices.equip(rows, template.slices)
            self._remember_devices(mark)
        return rows

    def append_pods(self, like: facts.Pod, names: list[str]) -> range:
        """Append waiting pods that are only imagined, one per name, as if they existed. Only inside a fork.

        Unlike those that `place` imagines they have rows, so that they can be searched places for and judged.
        """
        if not self._forks:
            raise RuntimeError("pods are appended inside a fork only; a pod that exists is added")
        shape, count = self.shape_of(like), len(self.pods.names)
        rows = self.pods.append(like, names)
        self.pods.shape_ids[rows.start : rows.stop] = shape.id
        self._remember(self.pods.truncate, count)
        return rows

    def _cut(self, count: int) -> None:
        self.tallies.clear_rows(slice(count, self.nodes.count))
        self.nodes.truncate(count)
        del self._pods_on[count:]

    def empty_out(self, node_row: int) -> None:
        """Mark a node as being deleted: nothing may come, but its topology domains live on."""
        self._set_deleting(node_row, True)
        self._remember(self._set_deleting, node_row, False)

    def restate(self, node_row: int, node: facts.Node) -> None:
        """Take a node for another that filters cannot tell from it, as far as this what-if goes."""
        before = self.nodes.facts[node_row]
        self.nodes.facts[node_row] = node
        self._remember(self.nodes.facts.__setitem__, node_row, before)

    def retire(self, node_row: int) -> None:
        """The node is gone, as far as this what-if goes."""
        self._set_alive(node_row, False)
        self._remember(self._set_alive, node_row, True)

    def _set_deleting(self, node_row: int, deleting: bool) -> None:
        self.nodes.deleting[node_row] = deleting

    def _set_alive(self, node_row: int, alive: bool) -> None:
        self.nodes.alive[node_row] = alive

    # Devices that pods hold

    def _hold(self, shape: shapes.Shape, rows: list[int], counts: list[int]) -> None:
        """Imagined pods take devices."""
        mark = self.devices.mark()
        holding.hold(self.devices, self.nodes, shape.namespace, shape.spec, rows, counts)
        self._remember_devices(mark)

    def _hold_for(self, pod_rows: list[int], node_rows: list[int]) -> None:
        """Pods that exist take devices."""
        mark = self.devices.mark()
        for pod_row, node_row in zip(pod_rows, node_rows, strict=True):
            shape = self.shape_of_row(pod_row)
            holding.hold_for(self.devices, self.nodes, self.pods.uids[pod_row], shape.namespace, shape.spec, node_row)
        self._remember_devices(mark)

    def _release(self, pod_rows: list[int]) -> None:
        """Pods that exist give back what they hold."""
        if not self.devices.stock.claims:
            return
        mark = self.devices.mark()
        for pod_row in pod_rows:
            shape = self.shape_of_row(pod_row)
            if shape.spec.claims:
                holding.release(self.devices, self.pods.uids[pod_row], shape.namespace, shape.spec)
        self._remember_devices(mark)

    def _remember_devices(self, mark: int) -> None:
        if not self._forks:
            self.devices.forget()  # what pods that exist hold, their claims say
        elif self.devices.mark() > mark:
            self._log.append((self.devices.undo_to, (mark,)))

    # Fork, commit, revert

    def fork(self) -> None:
        if not self._forks and not self.devices.is_idle:
            self.devices.sync()
        self._forks.append((len(self._log), self.tallies.mark()))

    def commit(self) -> None:
        """Keep what was done since the last fork. With no fork left there is nothing to undo any more."""
        mark, _ = self._forks.pop()
        if not self._forks:
            self._changes += bool(self._log)
            self._log.clear()
        elif len(self._forks) == self._scratch:
            self._log[mark:] = self._find_uncopied(mark)

    def revert(self) -> None:
        """Undo what was done since the last fork, last step first."""
        mark, counted = self._forks.pop()
        # Rows that are about to be cut off need no counting down first.
        cuts = [arguments[0] for undo, arguments in self._log[mark:] if undo == self._cut]
        self._doomed = min(cuts, default=_NEVER)
        while len(self._log) > mark:
            undo, arguments = self._log.pop()
            undo(*arguments)
        self._doomed = _NEVER
        self.tallies.forget_since(counted)

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """Until this ends everything may be tried; then it is as it was, at about the same cost however much was done.

        A scratch within a scratch is a fork like any other.
        """
        self.fork()
        if self._scratch:
            try:
                yield
            finally:
                self.revert()
            return
        before, self._scratch = copies.take(self.nodes, self.pods, self._pods_on, self._imagined), len(self._forks)
        self.tallies.begin_log()
        try:
            yield
        finally:
            self.tallies.undo_log()  # first: rows that are cut off leave nothing behind
            mark, _ = self._forks[self._scratch - 1]
            del self._forks[self._scratch - 1 :]
            for undo, arguments in reversed(self._find_uncopied(mark)):
                undo(*arguments)
            del self._log[mark:]
            before.put_back(self.nodes, self.pods, self._pods_on, self._imagined)
            self._scratch = 0

    def _find_uncopied(self, mark: int) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        """The steps since the mark that putting copies back does not undo."""
        return [step for step in self._log[mark:] if step[0] not in self._copied]

    @property
    def forks(self) -> int:
        """How many forks are open."""
        return len(self._forks)

    def _remember(self, undo: Callable[..., None], *arguments: object) -> None:
        if not self._forks:
            self._changes += 1
        elif len(self._forks) != self._scratch or undo not in self._copied:
            self._log.append((undo, arguments))

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
        pairs = self.requests(shape)  # first: a resource met for the first time makes a new column
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
        taken = self._table[shape_ids].sum(axis=0)
        self.nodes.free[: len(taken), node_row] -= taken * sign
        for shape_id, count in Counter(shape_ids).items():
            self.tallies.add(self.shapes[shape_id], node_row, sign * count)

    def _count_many(self, shape: shapes.Shape, rows: dtypes.Rows, counts: dtypes.Amounts | int) -> None:
        pairs = self.requests(shape)  # first, as above
        free = self.nodes.free
        for number, amount in pairs:
            free[number][rows] -= amount * counts  # one index into a row costs half of what two into the table do
        self.tallies.add_many(shape, rows, counts)

    def _make_room(self) -> None:
        self.tallies.reserve(self.nodes.row_capacity())
        while len(self._pods_on) < self.nodes.count:
            self._pods_on.append([])


def asks_for_devices(spec: facts.PodSpec) -> bool:
    """May placing such a pod take devices?"""
    return bool(spec.claims or spec.extended)


def build(
    found_nodes: Iterable[facts.Node],
    found_pods: Iterable[facts.Pod],
    namespaces: Iterable[facts.Namespace] = (),
    stored: Iterable[storage.Fact] = (),
    offered: Iterable[model.Fact] = (),
) -> Snapshot:
    """A snapshot of everything that was found."""
    snapshot = Snapshot()
    snapshot.set_namespaces(namespaces)
    snapshot.storage.put_all(stored)
    snapshot.devices.stock.put_all(offered)
    for node in found_nodes:
        snapshot.add_node(node)
    snapshot.add_pods(found_pods)
    return snapshot
