"""Types of values for server-side apply: a scalar, a list, a map, or any of them.

A list is atomic (one owner), a set, or a map by keys; a map has declared fields, elements of one type, or both. Which
it is decides the ownership of fields.
"""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


class ValueType:
    """The allowed types of a value. If several are set, the value decides."""

    __slots__ = ("list", "map", "scalar")

    def __init__(self, scalar: str = "", list_: "ListType | None" = None, map_: "MapType | None" = None) -> None:
        self.scalar = scalar
        """`string`, `numeric`, `boolean`, `untyped`, or empty: not a scalar."""
        self.list = list_
        self.map = map_


class ListType:
    """Items of one type. Associative lists are sets of scalars, or maps by the values of their keys."""

    __slots__ = ("element", "is_associative", "key_defaults", "keys")

    def __init__(self, element: ValueType, is_associative: bool = False, keys: tuple[str, ...] = ()) -> None:
        self.element = element
        self.is_associative = is_associative
        self.keys = tuple(sorted(keys))
        self.key_defaults: Mapping[str, Any] = {}
        """Defaults of keys that an item omits."""


class MapType:
    """Declared fields, and, where `element` is set, any others."""

    __slots__ = ("element", "fields", "is_atomic")

    def __init__(
        self, fields: Mapping[str, ValueType], element: ValueType | None = None, is_atomic: bool = False
    ) -> None:
        self.fields = fields
        self.element = element
        self.is_atomic = is_atomic

    def field(self, name: str) -> ValueType | None:
        return self.fields.get(name, self.element)


def _make_untyped() -> tuple[ValueType, ValueType]:
    atomic = ValueType("untyped")
    atomic.list = ListType(atomic)
    atomic.map = MapType({}, atomic, is_atomic=True)
    deduced = ValueType("untyped", ListType(atomic))
    deduced.map = MapType({}, deduced)
    return atomic, deduced


ATOMIC, DEDUCED = _make_untyped()
"""Untyped values: as one leaf, or with granular maps and atomic lists."""
