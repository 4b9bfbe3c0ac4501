"""Moving pods and nodes about, as far as a what-if goes.

Pods that exist have rows; pods that are only imagined (a what-if's placements, the DaemonSet pods of a template) are
placed by shape and number.
"""

import numpy as np

from windlass import releases
from windlass.engine import dtypes, facts, shapes
from windlass.engine.devices import holding
from windlass.engine.snapshot import forking


class Moving(forking.Forking):
    """Columns in which anything may be tried."""

    def __init__(self, release: releases.Release = releases.DEFAULT) -> None:
        super().__init__(release)
        self._copied = frozenset({
            self._unplace, self._unplace_many, self._unsettle, self._settle_at, self._unbind_all, self._unclear,
            self._move_back, self._set_deleting, self._set_alive,
        })  # fmt: skip

    # Pods

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
        if rows.min(initial=forking.NEVER) < self._doomed:
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

    # Nodes and pods that do not exist

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

    # Nodes

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


def asks_for_devices(spec: facts.PodSpec) -> bool:
    """May placing such a pod take devices?"""
    return bool(spec.claims or spec.extended)
