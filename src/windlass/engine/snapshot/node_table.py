"""Nodes as columns: one row per node, arrays of (n_nodes,) or (n_resources, n_nodes).

A row never moves. A node that is gone leaves its row dead (`alive` False) until another takes it; rows that a fork
appended are cut off again. Masks that depend only on labels, taints and names are computed once and cached: appended
rows extend them, any other change of a node drops them.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

_FIRST_ROWS = 64
_FIRST_RESOURCES = (facts.CPU, facts.MEMORY, facts.EPHEMERAL_STORAGE, facts.PODS)
CPU_COLUMN, MEMORY_COLUMN = _FIRST_RESOURCES.index(facts.CPU), _FIRST_RESOURCES.index(facts.MEMORY)
PODS_COLUMN = _FIRST_RESOURCES.index(facts.PODS)

ColumnDtype = TypeVar("ColumnDtype", arrays.Mask, arrays.Ids, arrays.Amounts)
"""An array (n_nodes,) of any of these dtypes."""
Interned = TypeVar("Interned", bound=Hashable)


class LabelColumn:
    """The values of one label key: ids int32 (n_nodes), -1 where a node lacks it."""

    __slots__ = ("ids", "values")

    def __init__(self, capacity: int) -> None:
        self.values: arrays.Index[str] = arrays.Index()
        self.ids: arrays.Ids = np.full(capacity, arrays.ABSENT, arrays.ID_DTYPE)

    def set(self, row: int, value: str | None) -> None:
        self.ids[row] = arrays.ABSENT if value is None else self.values.intern(value)

    def set_all(self, values: list[str | None]) -> None:
        """The values of the first rows, all at once."""
        numbers: dict[str | None, int] = {None: arrays.ABSENT}
        for value in dict.fromkeys(values):
            if value is not None:
                numbers[value] = self.values.intern(value)
        self.ids[: len(values)] = [numbers[value] for value in values]

    def forget_unused(self, count: int) -> None:
        """Forget values that none of the first rows has, and number the others anew, in their order."""
        self.ids[count:] = arrays.ABSENT
        self.ids[:count] = _drop_unused(self.values, self.ids[:count])


class NodeTable:
    """All nodes. Arrays are (n_nodes,) or (n_resources, n_nodes) and always cut to the rows in use."""

    def __init__(self) -> None:
        self.count = 0
        self.version = 0
        """Changes whenever a node's facts or the arrays themselves do; not when pods come and go."""
        self.facts: list[facts.Node] = []
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self.resources: arrays.Index[str] = arrays.Index()
        for name in _FIRST_RESOURCES:
            self.resources.intern(name)
        self.taint_sets: arrays.Index[tuple[facts.Taint, ...]] = arrays.Index()
        self.feature_sets: arrays.Index[frozenset[str]] = arrays.Index()
        self._capacity = _FIRST_ROWS
        self._alive = np.zeros(_FIRST_ROWS, bool)
        self._deleting = np.zeros(_FIRST_ROWS, bool)
        self._unschedulable = np.zeros(_FIRST_ROWS, bool)
        self._taint_ids = np.zeros(_FIRST_ROWS, arrays.ID_DTYPE)
        self._feature_ids = np.zeros(_FIRST_ROWS, arrays.ID_DTYPE)
        self._allocatable = np.zeros((len(_FIRST_RESOURCES), _FIRST_ROWS), arrays.RESOURCE_DTYPE)
        self._free = np.zeros((len(_FIRST_RESOURCES), _FIRST_ROWS), arrays.RESOURCE_DTYPE)
        self._labels = {key: LabelColumn(_FIRST_ROWS) for key in (facts.HOSTNAME, facts.ZONE)}
        """Columns of label keys read so far; hostname and zone are read in any cluster."""
        self._cache: dict[Hashable, Any] = {}
        self._appended_cache: dict[Hashable, Any] = {}
        self._distinct: dict[str, tuple[int, bool]] = {}
        self._base = 0
        self._vacant_rows: list[int] = []

    # Columns

    @property
    def alive(self) -> arrays.Mask:
        """Bool (n_nodes): the node exists."""
        return self._alive[: self.count]

    @property
    def deleting(self) -> arrays.Mask:
        """Bool (n_nodes): the node is being drained; it still counts as a topology domain."""
        return self._deleting[: self.count]

    @property
    def unschedulable(self) -> arrays.Mask:
        return self._unschedulable[: self.count]

    @property
    def taint_ids(self) -> arrays.Ids:
        """Int32 (n_nodes): position in `taint_sets` of the node's taints that repel."""
        return self._taint_ids[: self.count]

    @property
    def feature_ids(self) -> arrays.Ids:
        return self._feature_ids[: self.count]

    @property
    def allocatable(self) -> arrays.Amounts:
        """Int64 (n_resources, n_nodes)."""
        return self._allocatable[:, : self.count]

    @property
    def free(self) -> arrays.Amounts:
        """Int64 (n_resources, n_nodes): allocatable less what pods there request. Negative where overcommitted."""
        return self._free[:, : self.count]

    @property
    def vacant(self) -> tuple[int, ...]:
        """Rows of removed nodes, reused last in, first out."""
        return tuple(self._vacant_rows)

    def label_ids(self, key: str) -> arrays.Ids:
        """Int32 (n_nodes): position of the node's value for this label among `label_values`, -1 if absent."""
        return self.label_column(key).ids[: self.count]

    def label_column(self, key: str) -> LabelColumn:
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = LabelColumn(self._capacity)
            column.set_all([self._label(row, key) for row in range(self.count)])
        return column

    def is_distinct(self, key: str) -> bool:
        """Whether the values of this label are unique, as hostnames usually are."""
        version, answer = self._distinct.get(key, (-1, False))
        if version != self.version:
            ids = self.label_ids(key)
            answer = int(np.bincount(ids[ids != arrays.ABSENT], minlength=1).max()) <= 1
            self._distinct[key] = (self.version, answer)
        return answer

    def _label(self, row: int, key: str) -> str | None:
        if key == facts.HOSTNAME and self.names[row] != self.facts[row].name:
            return self.names[row]  # a copy of a template: each has a hostname of its own
        return self.facts[row].labels.get(key)

    # Rows

    def add(self, node: facts.Node) -> int:
        """Allocate a row for a node. A vacant row is reused before a new one is appended."""
        if self._vacant_rows:
            row = self._vacant_rows.pop()
        else:
            row = self._append(1)
            self._base = self.count
        self.forget_masks()
        self._write(row, node, node.name)
        self._free[:, row] = self._allocatable[:, row]
        return row

    def add_copies(self, template: facts.Node, names: list[str]) -> range:
        """Append one row per name, all like the template but for name and hostname. Undone by `truncate`."""
        for resource, _ in template.allocatable:
            self.resource_column(resource)
        first = self._append(len(names))
        rows = slice(first, self.count)
        self._write(first, template, names[0])
        for array in (self._unschedulable, self._taint_ids, self._feature_ids, self._alive, self._deleting):
            array[rows] = array[first]
        self._allocatable[:, rows] = self._allocatable[:, first : first + 1]
        self._free[:, rows] = self._allocatable[:, rows]
        for key, column in self._labels.items():
            column.ids[rows] = column.ids[first]
            if key == facts.HOSTNAME:
                column.ids[rows] = [column.values.intern(name) for name in names]
        self.facts[rows] = [template] * len(names)
        self.names[rows] = names
        self.rows.update(zip(names, range(first, self.count), strict=True))
        return range(first, self.count)

    def update(self, row: int, node: facts.Node) -> None:
        """Write a node's new facts; what its pods use stays used."""
        used = self._allocatable[:, row] - self._free[:, row]
        self.forget_masks()
        self._write(row, node, node.name)
        self._free[: len(used), row] = self._allocatable[: len(used), row] - used
        self._free[len(used) :, row] = self._allocatable[len(used) :, row]

    def remove(self, row: int) -> None:
        """Remove the node; its row may be reused."""
        del self.rows[self.names[row]]
        self._alive[row] = False
        self._vacant_rows.append(row)

    def truncate(self, count: int) -> None:
        """Truncate to the first `count` rows."""
        for row in range(count, self.count):
            del self.rows[self.names[row]]
        self._alive[count : self.count] = False
        del self.facts[count:], self.names[count:]
        self.count = count
        self.version += 1
        self._appended_cache.clear()

    def forget_masks(self) -> None:
        """Clear the caches: node facts, or the ids used as cache keys, may have changed."""
        self.version += 1
        self._cache.clear()
        self._appended_cache.clear()

    @property
    def interned(self) -> int:
        """Number of interned label values, taint sets and feature sets."""
        values = sum(len(column.values) for column in self._labels.values())
        return values + len(self.taint_sets) + len(self.feature_sets)

    def forget_unused(self) -> None:
        """Drop unused label values and sets. Hostnames, and timestamps in taints, would accumulate otherwise."""
        for column in self._labels.values():
            column.forget_unused(self.count)
        self._taint_ids[: self.count] = _drop_unused(self.taint_sets, self.taint_ids)
        self._feature_ids[: self.count] = _drop_unused(self.feature_sets, self.feature_ids)
        self.forget_masks()

    def _write(self, row: int, node: facts.Node, name: str) -> None:
        self.facts[row], self.names[row] = node, name
        self.rows[name] = row
        self._alive[row], self._deleting[row] = True, False
        self._unschedulable[row] = node.unschedulable
        repelling = tuple(sorted((t for t in node.taints if t.effect != "PreferNoSchedule"), key=_taint_order))
        self._taint_ids[row] = self.taint_sets.intern(repelling)
        self._feature_ids[row] = self.feature_sets.intern(node.declared_features)
        columns = [(self.resource_column(resource), amount) for resource, amount in node.allocatable]
        self._allocatable[:, row] = 0
        for column, amount in columns:
            self._allocatable[column, row] = amount
        for key, label in self._labels.items():
            label.set(row, self._label(row, key))

    def _append(self, rows: int) -> int:
        first = self.count
        self.version += 1
        if first + rows > self._capacity:
            self._grow(max(2 * self._capacity, first + rows))
        self.count += rows
        self.facts += [_NO_NODE] * rows
        self.names += [""] * rows
        return first

    def _grow(self, capacity: int) -> None:
        more = capacity - self._capacity
        for name in ("_alive", "_deleting", "_unschedulable", "_taint_ids", "_feature_ids"):
            setattr(self, name, np.pad(getattr(self, name), (0, more)))
        self._allocatable = np.pad(self._allocatable, ((0, 0), (0, more)))
        self._free = np.pad(self._free, ((0, 0), (0, more)))
        for column in self._labels.values():
            column.ids = np.pad(column.ids, (0, more), constant_values=arrays.ABSENT)
        self._capacity = capacity

    def resource_column(self, resource: str) -> int:
        """The row of this resource in `allocatable` and `free`; a new one, all zero, if it was never seen."""
        column = self.resources.intern(resource)
        if column >= len(self._allocatable):
            self.version += 1
            self._allocatable = np.pad(self._allocatable, ((0, 1), (0, 0)))
            self._free = np.pad(self._free, ((0, 1), (0, 0)))
        return column

    def row_capacity(self) -> int:
        """Allocated rows; other tables with columns by node row reserve as many."""
        return self._capacity

    # Masks that depend on nodes alone

    def cached(self, key: Hashable, compute: Callable[[slice], ColumnDtype]) -> ColumnDtype:
        """(n_nodes,): `compute` for all rows, cached; appended rows are computed when they appear.

        Two caches: (base,) for existing rows, and (n_nodes,) including appended rows. `truncate` clears the second,
        because appended rows come and go with every estimate.
        """
        cached_column: ColumnDtype | None = self._appended_cache.get(key)
        if cached_column is not None and len(cached_column) == self.count:
            return cached_column
        if cached_column is None:
            # No column with appended rows yet: start from that of the existing rows.
            cached_column = self._cache.get(key)
            if cached_column is None:
                cached_column = self._cache[key] = compute(slice(0, self._base))
        if len(cached_column) < self.count:
            cached_column = self._appended_cache[key] = np.concatenate(
                (cached_column, compute(slice(len(cached_column), self.count)))
            )
        return cached_column

    def forget(self, key: Hashable) -> None:
        """Drop the cached column of a key, because another input of it changed."""
        self._cache.pop(key, None)
        self._appended_cache.pop(key, None)

    def requirement_mask(self, requirement: Requirement) -> arrays.Mask:
        """Bool (n_nodes): the node's labels satisfy the requirement."""
        return self.cached(requirement, lambda rows: self.accepts(requirement, rows))

    def accepts(self, requirement: Requirement, rows: slice) -> arrays.Mask:
        """Bool (n_rows): the labels of these nodes satisfy the requirement. Not cached."""
        column = self.label_column(requirement.key)
        ids = column.ids[rows]
        match requirement.operator:
            case Operator.IN:
                return _any_of(ids, [column.values.find(value) for value in requirement.values])
            case Operator.NOT_IN:
                return ~_any_of(ids, [column.values.find(value) for value in requirement.values])
            case Operator.EXISTS:
                return np.not_equal(ids, arrays.ABSENT)
            case Operator.DOES_NOT_EXIST:
                return np.equal(ids, arrays.ABSENT)
            case Operator.GT | Operator.LT:
                # bool (n_values + 1): id -1 of nodes without the label indexes the last entry, False.
                accepted = [requirement.accepts(value) for value in column.values]
                return np.array([*accepted, False])[ids]

    def name_mask(self, names: tuple[str, ...]) -> arrays.Mask:
        """Bool (n_nodes): the node has one of these names."""
        mask = np.zeros(self.count, bool)
        for name in names:
            row = self.rows.get(name)
            if row is not None:
                mask[row] = True
        return mask

    def selector_mask(self, selector: NodeSelector) -> arrays.Mask:
        """Bool (n_nodes): any term of the selector matches the node."""

        def compute(rows: slice) -> arrays.Mask:
            mask = np.zeros(self.count, bool)
            for term in selector.terms:
                mask |= self._term_mask(term)
            return mask[rows]

        return self.cached(selector, compute)

    def _term_mask(self, term: NodeSelectorTerm) -> arrays.Mask:
        if term.is_empty:
            return np.zeros(self.count, bool)
        mask = np.ones(self.count, bool)
        for requirement in term.expressions:
            mask &= self.requirement_mask(requirement)
        for requirement in term.fields:
            named = self.name_mask(requirement.values)
            mask &= named if requirement.operator is Operator.IN else ~named
        return mask


def _drop_unused(values: arrays.Index[Interned], ids: arrays.Ids) -> arrays.Ids:
    """Drop values whose id does not occur in `ids`, and return `ids` with the new numbers."""
    used = np.zeros(len(values), bool)
    used[ids[ids != arrays.ABSENT]] = True
    # int32 (n_values + 1): id -1 indexes the last entry, -1.
    return np.append(values.keep(used), arrays.ID_DTYPE(arrays.ABSENT))[ids]


def _any_of(ids: arrays.Ids, desired: list[int]) -> arrays.Mask:
    mask = np.zeros(len(ids), bool)
    for number in desired:
        if number != arrays.ABSENT:
            mask |= ids == number
    return mask


def _taint_order(taint: facts.Taint) -> tuple[str, str, str]:
    return taint.key, taint.value, taint.effect


_NO_NODE = facts.Node("")
