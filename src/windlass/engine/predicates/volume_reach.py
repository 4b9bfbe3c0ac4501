"""From which nodes a volume can be reached.

There may be as many node affinities as local volumes, each true of one node: none of them is kept as a mask over all
nodes. One is evaluated in a few microseconds (`selected`), thousands at once by the label values they name (`Index`).
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np

from windlass.engine import dtypes, facts, nodes
from windlass.engine.predicates import volume_migration
from windlass.engine.storage import Storage
from windlass.selectors import NodeSelector, Operator, Requirement

Requirements: TypeAlias = tuple[Requirement, ...]
"""All of them must hold."""


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
        found = (storage.find_csi_node(table, row) for row in range(rows.start, rows.stop))
        return np.fromiter((node is not None and plugin in node.migrated_plugins for node in found), bool)

    return storage.column(table, ("migrated", plugin), compute)


def selected(table: nodes.NodeTable, selector: NodeSelector | None, rows: slice) -> dtypes.Mask:
    """Bool (n_rows): the nodes' labels match a volume's node affinity; no affinity matches all.

    The scheduler shows the affinity a node's labels but not its name: what a term says of names is passed over.
    """
    if selector is None:
        return np.ones(rows.stop - rows.start, bool)
    mask = np.zeros(rows.stop - rows.start, bool)
    for requirements in alternatives(selector):
        matching = np.ones(len(mask), bool)
        for requirement in requirements:
            matching &= table.accepts(requirement, rows)
        mask |= matching
    return mask


def alternatives(selector: NodeSelector | None) -> list[Requirements]:
    """What a volume's node affinity asks for, any of which will do; no affinity asks for nothing."""
    if selector is None:
        return [()]
    return [term.expressions for term in selector.terms if not term.is_empty]


class Index:
    """Many selectors, found by the label values that they name: a node meets only those that name its own values."""

    def __init__(self, selectors: Iterable[Iterable[Requirements]]) -> None:
        self._by_value: dict[str, dict[str, list[tuple[int, Requirements]]]] = {}
        self._others: list[tuple[int, Requirements]] = []
        for number, selector in enumerate(selectors):
            for requirements in selector:
                self._list(number, requirements)

    def _list(self, number: int, requirements: Requirements) -> None:
        named = next((requirement for requirement in requirements if requirement.operator is Operator.IN), None)
        if named is None:
            self._others.append((number, requirements))
            return
        rest = tuple(requirement for requirement in requirements if requirement is not named)
        by_value = self._by_value.setdefault(named.key, {})
        for value in named.values:
            by_value.setdefault(value, []).append((number, rest))

    def find(self, table: nodes.NodeTable, rows: slice) -> dict[int, dtypes.Rows]:
        """By selector, in their order, the positions among these rows of the nodes that it selects, if any."""
        found: dict[int, list[dtypes.Rows]] = {}
        for key, by_value in self._by_value.items():
            column = table.label_column(key)
            for number, where in _group(column.ids[rows]):
                for selector, rest in by_value.get(column.values[number], ()):
                    found.setdefault(selector, []).append(_narrow(table, rows, where, rest))
        for selector, requirements in self._others:
            everywhere = np.arange(rows.stop - rows.start)
            found.setdefault(selector, []).append(_narrow(table, rows, everywhere, requirements))
        return {selector: _unite(found[selector]) for selector in sorted(found)}


def _group(ids: dtypes.Ids) -> Iterator[tuple[int, dtypes.Rows]]:
    """Every id that is not absent, and where it is."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=dtypes.ABSENT)).tolist()
    for start, end in itertools.pairwise([*starts, len(ids)]):
        yield int(ordered[start]), order[start:end]


def _narrow(table: nodes.NodeTable, rows: slice, where: dtypes.Rows, requirements: Requirements) -> dtypes.Rows:
    for requirement in requirements:
        where = where[table.accepts(requirement, rows)[where]]
    return where


def _unite(found: list[dtypes.Rows]) -> dtypes.Rows:
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found))
