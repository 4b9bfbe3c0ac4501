"""From which nodes a volume can be reached.

There may be as many node affinities as local volumes, each true of one node: none of them is kept as a mask over all
nodes. One is evaluated in a few microseconds (`selected`), thousands at once by an index of label values (`RowIndex`).
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from windlass.engine import dtypes, facts, nodes
from windlass.engine.predicates import volume_migration
from windlass.engine.storage import Storage
from windlass.selectors import NodeSelector, Operator, Requirement


def reached(
    table: nodes.NodeTable, storage: Storage, volume: facts.PersistentVolume, rows: slice
) -> tuple[dtypes.Mask, dtypes.Mask | None]:
    """Bool (n_rows) twice: the volume can be reached; nobody can tell (None: everybody can).

    A volume of an in-tree plugin is looked at as its CSI driver would where the node says that the driver took over.
    """
    plain = selected(table, volume.node_affinity, rows)
    plugin = volume_migration.BY_SOURCE.get(volume.source)
    if plugin is None:
        return plain, None
    migrated = _migrated(table, storage, plugin.name)[rows]
    if not volume.handle:
        return plain, migrated
    if not plugin.zone_key or not migrated.any():
        return plain, None
    translated = selected(table, volume_migration.translate(volume, plugin.zone_key), rows)
    return np.where(migrated, translated, plain), None


def _migrated(table: nodes.NodeTable, storage: Storage, plugin: str) -> dtypes.Mask:
    """Bool (n_nodes): the node says that the plugin's CSI driver took over."""

    def compute(rows: slice) -> dtypes.Mask:
        found = (storage.csi_nodes.get(name) for name in table.names[rows])
        return np.fromiter((node is not None and plugin in node.migrated_plugins for node in found), bool)

    return storage.column(table, ("migrated", plugin), compute)


def selected(table: nodes.NodeTable, selector: NodeSelector | None, rows: slice) -> dtypes.Mask:
    """Bool (n_rows): the nodes' labels match a volume's node affinity; no affinity matches all.

    The scheduler shows the affinity a node's labels but not its name: what a term says of names is passed over.
    """
    if selector is None:
        return np.ones(rows.stop - rows.start, bool)
    mask = np.zeros(rows.stop - rows.start, bool)
    for term in selector.terms:
        if not term.is_empty:
            matching = np.ones(len(mask), bool)
            for requirement in term.expressions:
                matching &= table.accepts(requirement, rows)
            mask |= matching
    return mask


class RowIndex:
    """Positions of nodes, among the rows given, by what their labels say."""

    def __init__(self, table: nodes.NodeTable, rows: slice) -> None:
        self._table = table
        self._rows = rows
        self._everywhere = np.arange(rows.stop - rows.start)
        self._sorted: dict[str, tuple[dtypes.Rows, npt.NDArray[np.int32]]] = {}

    def of_selector(self, selector: NodeSelector | None) -> dtypes.Rows:
        """Where `selected` is true."""
        if selector is None:
            return self._everywhere
        found = [self.of_requirements(term.expressions) for term in selector.terms if not term.is_empty]
        if len(found) == 1:
            return found[0]
        return np.unique(np.concatenate(found)) if found else self._everywhere[:0]

    def of_requirements(self, requirements: Iterable[Requirement]) -> dtypes.Rows:
        """Where all requirements hold. Named values go first: they leave little to look at."""
        found = self._everywhere
        for requirement in sorted(requirements, key=lambda requirement: requirement.operator is not Operator.IN):
            if requirement.operator is not Operator.IN:
                found = found[self._table.accepts(requirement, self._rows)[found]]
            elif found is self._everywhere:
                found = self._of_values(requirement)
            else:
                found = np.intersect1d(found, self._of_values(requirement), assume_unique=True)
        return found

    def _of_values(self, requirement: Requirement) -> dtypes.Rows:
        column = self._table.label_column(requirement.key)
        if requirement.key not in self._sorted:
            ids = column.ids[self._rows]
            order = np.argsort(ids, kind="stable")
            self._sorted[requirement.key] = order, ids[order]
        order, ids = self._sorted[requirement.key]
        numbers = {number for value in requirement.values if (number := column.values.find(value)) != dtypes.ABSENT}
        found = [order[slice(*np.searchsorted(ids, (number, number + 1)))] for number in sorted(numbers)]
        if len(found) == 1:
            return found[0]
        return np.sort(np.concatenate(found)) if found else self._everywhere[:0]
