"""Shapes of values. A `Type` says what a value may be: a scalar, a list, a map, or any of them.

A list is atomic (one owner), a set, or a map by keys; a map has declared fields, elements of one type, or both. Which
it is decides who owns what under server-side apply.
"""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


class Type:
    """What a value may be. Where several are set the value itself decides."""

    __slots__ = ("list", "map", "scalar")

    def __init__(self, scalar: str = "", list_: "List | None" = None, map_: "Map | None" = None) -> None:
        self.scalar = scalar
        """`string`, `numeric`, `boolean`, `untyped`, or empty: not a scalar."""
        self.list = list_
        self.map = map_


class List:
    """Items of one type. Associative lists are sets of scalars, or maps by the values of their keys."""

    __slots__ = ("element", "is_associative", "key_defaults", "keys")

    def __init__(self, element: Type, is_associative: bool = False, keys: tuple[str, ...] = ()) -> None:
        self.element = element
        self.is_associative = is_associative
        self.keys = tuple(sorted(keys))
        self.key_defaults: Mapping[str, Any] = {}
        """What a key that an item leaves out is taken for."""


class Map:
    """Declared fields, and, where `element` is set, any others."""

    __slots__ = ("element", "fields", "is_atomic")

    def __init__(self, fields: Mapping[str, Type], element: Type | None = None, is_atomic: bool = False) -> None:
        self.fields = fields
        self.element = element
        self.is_atomic = is_atomic

    def field(self, name: str) -> Type | None:
        return self.fields.get(name, self.element)


def _make_untyped() -> tuple[Type, Type]:
    atomic = Type("untyped")
    atomic.list = List(atomic)
    atomic.map = Map({}, atomic, is_atomic=True)
    deduced = Type("untyped", List(atomic))
    deduced.map = Map({}, deduced)
    return atomic, deduced


ATOMIC, DEDUCED = _make_untyped()
"""Anything, as one leaf; anything, maps being granular and lists atomic."""
