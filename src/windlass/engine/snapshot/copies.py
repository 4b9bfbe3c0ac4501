"""Copies of what moving pods and nodes about changes: put back, they undo it at the cost of a copy."""

from dataclasses import dataclass
from typing import Any

from windlass.engine import dtypes
from windlass.engine.nodes import NodeTable
from windlass.engine.pods import PodTable


@dataclass(frozen=True, slots=True)
class Copies:
    """Columns as they were. What tallies count is not among them: there may be thousands."""

    alive: dtypes.Mask
    deleting: dtypes.Mask
    free: dtypes.Amounts
    node_rows: dtypes.Ids
    pods_on: list[list[int]]
    imagined: int

    def put_back(self, nodes: NodeTable, pods: PodTable, pods_on: list[list[int]], imagined: list[Any]) -> None:
        """Write everything back in place; to be done once, with as many nodes and pods as there were."""
        nodes.alive[:] = self.alive
        nodes.deleting[:] = self.deleting
        resources = len(self.free)
        nodes.free[:resources] = self.free
        nodes.free[resources:] = nodes.allocatable[resources:]  # met since then: no pod asked for it before
        pods.node_rows[:] = self.node_rows
        pods_on[:] = self.pods_on
        del imagined[self.imagined :]


def take(nodes: NodeTable, pods: PodTable, pods_on: list[list[int]], imagined: list[Any]) -> Copies:
    """Copy it all."""
    return Copies(
        nodes.alive.copy(),
        nodes.deleting.copy(),
        nodes.free.copy(),
        pods.node_rows.copy(),
        [list(rows) for rows in pods_on],
        len(imagined),
    )
