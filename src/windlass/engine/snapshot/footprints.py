"""Footprints: what one pod of a shape takes of a node."""

import numpy as np

from windlass.engine import dtypes, facts, nodes, shapes

_LARGEST = 1 << 53
"""No node has more of anything. A pod that asks for more is counted so: a thousand on one node stay within an int64."""


class Footprints:
    """Requests by shape, as columns of the node table."""

    def __init__(self, table: nodes.NodeTable) -> None:
        self._nodes = table
        self._requests: dict[int, list[tuple[int, int]]] = {}
        self._amounts = np.zeros((64, len(table.resources)), dtypes.RESOURCE)
        self._sizes: dict[int, float] = {}
        self._sizes_of = -1

    def of(self, shape: shapes.Shape) -> list[tuple[int, int]]:
        """(column, amount) of all that one pod of the shape takes, its place among the node's pods included."""
        known = self._requests.get(shape.id)
        if known is None:
            wanted = [(resource, min(amount, _LARGEST)) for resource, amount in shape.spec.requests if amount > 0]
            known = [(nodes.PODS_COLUMN, 1)]
            known += [(self._nodes.resource_column(resource), amount) for resource, amount in wanted]
            self._requests[shape.id] = known
            self._tabulate(shape.id, known)
        return known

    def sum(self, shape_ids: list[int]) -> dtypes.Amounts:
        """Int64 (n_resources,): what pods of these shapes take together; each shape was asked for before."""
        total: dtypes.Amounts = self._amounts[shape_ids].sum(axis=0)
        return total

    def size_of(self, shape: shapes.Shape) -> float:
        """How large pods of the shape are: their share of all cpu plus their share of all memory."""
        if self._sizes_of != self._nodes.version:
            self._sizes_of = self._nodes.version
            self._sizes.clear()
        size = self._sizes.get(shape.id)
        if size is None:
            wanted = dict(shape.spec.requests)
            cpu, memory = (int(self._nodes.allocatable[c].sum()) for c in (nodes.CPU_COLUMN, nodes.MEMORY_COLUMN))
            size = wanted.get(facts.CPU, 0) / max(cpu, 1) + wanted.get(facts.MEMORY, 0) / max(memory, 1)
            self._sizes[shape.id] = size
        return size

    def renumber(self, numbers: dtypes.Ids) -> None:
        """Shapes have other numbers now, or are forgotten where the new one is -1."""
        known = self._requests.items()
        self._requests = {new: known for old, known in known if (new := int(numbers[old])) != dtypes.ABSENT}
        self._sizes.clear()
        self._amounts = np.zeros((64, len(self._nodes.resources)), dtypes.RESOURCE)
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
