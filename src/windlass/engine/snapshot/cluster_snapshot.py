"""The cluster snapshot: facts that change one object at a time, and a fork in which anything may be tried.

Facts change between decisions, never inside a fork. Inside one, pods are bound, moved and invented, nodes are added and
removed, and `revert` undoes it. Pods that exist have rows; placements of a what-if, and DaemonSet pods of a template,
are counted by shape and number.
"""

import itertools
from collections.abc import Iterable

import numpy as np

from windlass import scheduler_releases
from windlass.engine.dra import resource_claims
from windlass.engine.model import arrays, dynamic_resources, facts
from windlass.engine.snapshot import columns, pod_table, volume_usage

FINISHED_PHASES = ("Succeeded", "Failed")
"""Phases of pods that hold nothing any more: the scheduler never lists them."""

_BATCH = 10_000

_CLUTTER_SLACK = 1_000
"""Interned values below which `forget_unused` is not worthwhile."""


class MutableColumns(columns.ForkableColumns):
    """Columns with the changes of a what-if: place, bind, move, append, mark."""

    def __init__(self, release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE) -> None:
        super().__init__(release)
        self._copied = frozenset({
            self._unplace, self._unplace_many, self._unassign, self._assign_at, self._unbind_all, self._unclear,
            self._move_back, self._set_deleting, self._set_alive,
        })  # fmt: skip

    # Pods

    def place(self, shape: facts.PodShape, node_row: int, count: int = 1) -> None:
        """Assume pods of a shape on a node, without checking that they fit."""
        rows, amounts = np.array([node_row]), np.array([count], arrays.RESOURCE_DTYPE)
        self._count(shape, node_row, count)
        self._assumed.append((shape.id, rows, amounts))
        self._log_undo(self._unplace, shape, node_row, count)
        if asks_for_devices(shape.spec):
            self._reserve_for_copies(shape, [node_row], [count])

    def _unplace(self, shape: facts.PodShape, node_row: int, count: int) -> None:
        self._assumed.pop()
        self._count(shape, node_row, -count)

    def place_many(self, shape: facts.PodShape, rows: arrays.Rows, counts: arrays.Amounts) -> None:
        """Assume pods of a shape on many distinct nodes: `counts[i]` on `rows[i]`."""
        self._count_many(shape, rows, counts)
        self._assumed.append((shape.id, rows, counts))
        self._log_undo(self._unplace_many, shape, rows, counts)
        if asks_for_devices(shape.spec):
            self._reserve_for_copies(shape, rows.tolist(), counts.tolist())

    def _unplace_many(self, shape: facts.PodShape, rows: arrays.Rows, counts: arrays.Amounts) -> None:
        self._assumed.pop()
        if rows.min(initial=columns.NEVER) < self._truncated_from:
            self._count_many(shape, rows, -counts)

    def bind(self, pod_row: int, node_row: int) -> None:
        """Bind a pending pod to a node."""
        self._assign(pod_row, node_row)
        self._log_undo(self._unassign, pod_row)
        if asks_for_devices(self.shape_of_row(pod_row).spec):
            self._reserve_for_pods([pod_row], [node_row])

    def unbind(self, pod_row: int) -> None:
        """Unbind a pod from its node; it becomes pending."""
        node_row = int(self.pods.node_rows[pod_row])
        position = self._unassign_at(pod_row)
        self._log_undo(self._assign_at, pod_row, node_row, position)
        self._release_devices([pod_row])

    def bind_many(self, pod_rows: list[int], rows: arrays.Rows, counts: arrays.Amounts) -> None:
        """Bind pending pods of one shape to distinct nodes: the first `counts[0]` to `rows[0]`, and so on."""
        shape, selected = self.shape_of_row(pod_rows[0]), np.array(pod_rows, np.intp)
        self._bind_all(shape, pod_rows, selected, rows, counts)
        self._log_undo(self._unbind_all, shape, selected, rows, counts)
        if asks_for_devices(shape.spec):
            self._reserve_for_pods(pod_rows, np.repeat(rows, counts).tolist())

    def _bind_all(
        self,
        shape: facts.PodShape,
        pod_rows: list[int],
        selected: arrays.Rows,
        rows: arrays.Rows,
        counts: arrays.Amounts,
    ) -> None:
        pods_on = self._pods_on
        if len(rows) == len(selected):  # one each
            for node_row, pod_row in zip(rows.tolist(), pod_rows, strict=True):
                pods_on[node_row].append(pod_row)
            self.pods.node_rows[selected] = rows
            self._count_on(shape, rows, 1)
        else:
            start = 0
            for node_row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                pods_on[node_row] += pod_rows[start : start + count]
                start += count
            self.pods.node_rows[selected] = np.repeat(rows, counts)
            self._count_on(shape, rows, counts)

    def _unbind_all(
        self, shape: facts.PodShape, selected: arrays.Rows, rows: arrays.Rows, counts: arrays.Amounts
    ) -> None:
        for node_row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            del self._pods_on[node_row][-count:]  # undo runs in reverse, so these are the last entries
        self.pods.node_rows[selected] = arrays.ABSENT
        self._count_on(shape, rows, -counts)

    def clear_node(self, node_row: int) -> list[int]:
        """Unbind all pods from a node and return their rows; they become pending."""
        pod_rows = self._pods_on[node_row]
        selected = np.array(pod_rows, np.intp)
        self._count_together(selected, node_row, -1)
        self.pods.node_rows[selected] = arrays.ABSENT
        self._pods_on[node_row] = []
        self._log_undo(self._unclear, node_row, pod_rows, selected)
        self._release_devices(pod_rows)
        return pod_rows

    def _unclear(self, node_row: int, pod_rows: list[int], rows: arrays.Rows) -> None:
        self._pods_on[node_row] = pod_rows
        self.pods.node_rows[rows] = node_row
        self._count_together(rows, node_row, 1)

    def relocate(self, node_row: int, moved: arrays.Rows, rows: arrays.Rows, counts: arrays.Amounts) -> None:
        """Unbind all pods from a node, and bind those in `moved`, of one shape, to others as `bind_many` does."""
        pod_rows = self._pods_on[node_row]
        shape = self.shape_of_row(moved[0])
        if len(pod_rows) != len(moved) or asks_for_devices(shape.spec):
            self.clear_node(node_row)
            self.bind_many(moved.tolist(), rows, counts)
            return
        self._pods_on[node_row] = []
        self._count(shape, node_row, -len(pod_rows))
        self._bind_all(shape, pod_rows, moved, rows, counts)
        self._log_undo(self._move_back, node_row, pod_rows, shape, moved, rows, counts)

    def _move_back(
        self,
        node_row: int,
        pod_rows: list[int],
        shape: facts.PodShape,
        moved: arrays.Rows,
        rows: arrays.Rows,
        counts: arrays.Amounts,
    ) -> None:
        self._unbind_all(shape, moved, rows, counts)
        self._unclear(node_row, pod_rows, moved)

    # Nodes and pods that do not exist

    def append(self, template: facts.Node, names: list[str]) -> range:
        """Append nodes like the template, one per name. Only inside a fork."""
        if not self._forks:
            raise RuntimeError("nodes are appended inside a fork only; a node that exists is added")
        if taken := self.nodes.rows.keys() & names:
            raise ValueError(f"nodes are appended under names of their own: {sorted(taken)} exist already")
        count = self.nodes.count
        rows = self.nodes.add_copies(template, names)
        self._reserve_rows()
        self._log_undo(self._truncate_nodes, count)
        if template.slices:
            mark = self.devices.mark()
            self.devices.add_template_devices(rows, template.slices)
            self._log_device_undo(mark)
        return rows

    def append_pods(self, like: facts.Pod, names: list[str]) -> range:
        """Append assumed pending pods, one per name. Only inside a fork.

        Unlike pods assumed by `place` they have rows, so they can be scheduled and evaluated like real ones.
        """
        if not self._forks:
            raise RuntimeError("pods are appended inside a fork only; a pod that exists is added")
        shape, count = self.shape_of(like), len(self.pods.names)
        rows = self.pods.append(like, names)
        self.pods.shape_ids[rows.start : rows.stop] = shape.id
        self._log_undo(self.pods.truncate, count)
        return rows

    # Nodes

    def mark_deleting(self, node_row: int) -> None:
        """Mark a node as being deleted: no pod fits, but its topology domains still count."""
        self._set_deleting(node_row, True)
        self._log_undo(self._set_deleting, node_row, False)

    def replace_node_facts(self, node_row: int, node: facts.Node) -> None:
        """Replace a node's facts inside a fork by others that filters cannot distinguish."""
        before = self.nodes.facts[node_row]
        self.nodes.facts[node_row] = node
        self._log_undo(self.nodes.facts.__setitem__, node_row, before)

    def mark_gone(self, node_row: int) -> None:
        """Mark the node as removed inside a fork."""
        self._set_alive(node_row, False)
        self._log_undo(self._set_alive, node_row, True)

    def _set_deleting(self, node_row: int, deleting: bool) -> None:
        self.nodes.deleting[node_row] = deleting

    def _set_alive(self, node_row: int, alive: bool) -> None:
        self.nodes.alive[node_row] = alive

    # Devices that pods hold

    def _reserve_for_copies(self, shape: facts.PodShape, rows: list[int], counts: list[int]) -> None:
        """Imagined pods take devices."""
        mark = self.devices.mark()
        resource_claims.reserve_for_copies(self.devices, self.nodes, shape.namespace, shape.spec, rows, counts)
        self._log_device_undo(mark)

    def _reserve_for_pods(self, pod_rows: list[int], node_rows: list[int]) -> None:
        """Pods that exist take devices."""
        mark = self.devices.mark()
        for pod_row, node_row in zip(pod_rows, node_rows, strict=True):
            shape = self.shape_of_row(pod_row)
            resource_claims.reserve_for_pod(
                self.devices, self.nodes, self.pods.uids[pod_row], shape.namespace, shape.spec, node_row
            )
        self._log_device_undo(mark)

    def _release_devices(self, pod_rows: list[int]) -> None:
        """Pods that exist give back what they hold."""
        if not self.devices.inventory.claims:
            return
        mark = self.devices.mark()
        for pod_row in pod_rows:
            shape = self.shape_of_row(pod_row)
            if shape.spec.claims:
                resource_claims.release_claims(self.devices, self.pods.uids[pod_row], shape.namespace, shape.spec)
        self._log_device_undo(mark)

    def _log_device_undo(self, mark: int) -> None:
        if not self._forks:
            self.devices.invalidate()  # outside forks, allocations are read from claims
        elif self.devices.mark() > mark:
            self._log.append((self.devices.undo_to, (mark,)))


class Snapshot(MutableColumns):
    """A cluster as columns. Facts change between decisions, never inside a fork."""

    def __init__(self, release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE) -> None:
        super().__init__(release)
        self._orphaned: dict[str, list[int]] = {}
        self.guarded: frozenset[str] = frozenset()
        """Namespaces with disruption budgets; `decide` sets it."""
        self._interned_before = 0
        """How much was interned when what is unused was last forgotten."""

    @property
    def orphaned(self) -> dict[str, list[int]]:
        """Rows of the pods on nodes that are not there, by the node's name, in order of arrival."""
        return self._orphaned

    def pending(self) -> list[int]:
        """Rows of the pods that are bound to no node, not even to one that is unknown."""
        orphaned = {row for rows in self._orphaned.values() for row in rows}
        free = np.flatnonzero((self.pods.node_rows == arrays.ABSENT) & (self.pods.shape_ids != arrays.ABSENT))
        return [row for row in free.tolist() if row not in orphaned]

    def add_node(self, node: facts.Node) -> int:
        """Add a node, or replace the facts of the one of that name. Pods that waited for it are counted on it."""
        self._changes += 1
        row = self.nodes.rows.get(node.name)
        if row is not None:
            self.nodes.update(row, node)
            return row
        row = self.nodes.add(node)
        self._reserve_rows()
        for pod_row in self._orphaned.pop(node.name, ()):
            self._assign(pod_row, row)
        return row

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pods are still pods; they count nowhere until they leave or the node is back."""
        self._changes += 1
        row = self.nodes.rows[name]
        for pod_row in list(self._pods_on[row]):
            self._unassign(pod_row)
            self._orphaned.setdefault(name, []).append(pod_row)
        self.nodes.remove(row)

    def add_pod(self, pod: facts.Pod) -> int | None:
        """Add a pod, or replace the facts of the one of that uid. A finished pod has no row."""
        self.remove_pod(pod_table.pod_identity(pod))
        if pod.phase in FINISHED_PHASES:
            return None
        self._changes += 1
        pod = self._with_leftover_claim(pod)
        shape = self.shape_of(pod)
        row = self.pods.add(pod)
        self.pods.shape_ids[row] = shape.id
        if pod.spec.claims:
            self.devices.add_user(pod, pod_table.pod_identity(pod))
        if pod.node_name:
            node_row = self.nodes.rows.get(pod.node_name)
            if node_row is None:
                self._orphaned.setdefault(pod.node_name, []).append(row)
            else:
                self._assign(row, node_row)
        return row

    def set_health(self, identity: str, health: facts.PodHealth) -> None:
        """Note the health of a pod that is there. Nothing is counted anew: no filter looks at it.

        Pods start and fail their probes all the time; only where budgets are is that a change.
        """
        row = self.pods.rows[identity]
        self._changes += self.pods.template_key(row).namespace in self.guarded
        self.pods.set_health(row, health)

    def mark_leftover_claims(self) -> None:
        """Let waiting pods know of claims that an earlier attempt to schedule them left behind. Between decisions."""
        for uid in list(self.devices.inventory.leftovers):
            row = self.pods.rows.get(uid)
            if row is not None and self.pods.node_rows[row] == arrays.ABSENT:
                pod = self.pod(row)
                if self._with_leftover_claim(pod) is not pod:
                    self.add_pod(pod)

    def add_pods(self, pods: Iterable[facts.Pod]) -> None:
        """Add many pods. What their selectors look at is learned in batches, so that few pods are keyed twice."""
        pods_left = iter(pods)
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
        if self.pods.node_rows[row] != arrays.ABSENT:
            self._unassign(row)
        else:
            self._drop_orphaned(row)
        template = self.pods.template_key(row)
        if template.spec.claims:
            self.devices.remove_user(template.namespace, template.spec, identity)
        self.pods.remove(row)

    def _drop_orphaned(self, row: int) -> None:
        for name, waiting in self._orphaned.items():
            if row in waiting:
                waiting.remove(row)
                if not waiting:
                    del self._orphaned[name]
                return

    def set_namespaces(self, namespaces: Iterable[facts.Namespace]) -> None:
        """Replace what is known of namespaces; selectors on their labels are judged anew."""
        self._changes += 1
        self.topology_counts.forget_namespaces({namespace.name: namespace.labels for namespace in namespaces})

    @property
    def is_cluttered(self) -> bool:
        """Is so much interned that forgetting what is unused pays? Twice as much as after the last time."""
        return self._interned > 2 * self._interned_before + _CLUTTER_SLACK

    @property
    def _interned(self) -> int:
        return len(self.shapes) + len(self.pods.template_keys) + self.nodes.interned

    def forget_unused(self) -> None:
        """Drop unused shapes and template keys, and label values and taint sets that no node has.

        The others are renumbered, in order; call it between decisions, while no ids are held elsewhere.
        """
        if self._forks:
            raise RuntimeError("shapes are forgotten between decisions, never inside a fork")
        self._changes += 1
        used = np.zeros(len(self.shapes), bool)
        used[self.pods.shape_ids[self.pods.shape_ids != arrays.ABSENT]] = True
        used[[shape_id for shape_id, _, _ in self._assumed]] = True
        shape_numbers, profile_numbers = self.shapes.keep(used)
        self.pods.renumber_shapes(shape_numbers)
        self.pods.forget_unused_templates()
        self._assumed = [(int(shape_numbers[old]), rows, counts) for old, rows, counts in self._assumed]
        self._requests.renumber(shape_numbers)
        self.topology_counts.forget_unused(shape_numbers, profile_numbers)
        self.nodes.forget_unused()
        self._interned_before = self._interned


def build_snapshot(
    found_nodes: Iterable[facts.Node],
    found_pods: Iterable[facts.Pod],
    namespaces: Iterable[facts.Namespace] = (),
    stored: Iterable[volume_usage.StorageFact] = (),
    offered: Iterable[dynamic_resources.DeviceFact] = (),
    release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE,
) -> Snapshot:
    """A snapshot of these facts."""
    snapshot = Snapshot(release)
    snapshot.set_namespaces(namespaces)
    snapshot.storage.put_all(stored)
    snapshot.devices.inventory.put_all(offered)
    for node in found_nodes:
        snapshot.add_node(node)
    snapshot.add_pods(found_pods)
    return snapshot


def asks_for_devices(spec: facts.PodSpec) -> bool:
    """Whether placing such a pod may allocate devices."""
    return bool(spec.claims or spec.extended)
