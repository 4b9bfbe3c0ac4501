"""What an expression consists of. `at` is the position of a node's first character, for complaints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a string, `true`, `false` or `null`."""

    value: bool | int | float | str | bytes | None
    at: int


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`, or `operand.?field`."""

    operand: Node
    field: str
    at: int
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """`operand[key]`, or `operand[?key]`."""

    operand: Node
    key: Node
    at: int
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function, or a method where there is a target. Operators are calls of functions named like them."""

    function: str
    arguments: tuple[Node, ...]
    at: int
    target: Node | None = None


@dataclass(frozen=True, slots=True)
class List:
    """`[item, ?item]`"""

    items: tuple[Node, ...]
    at: int
    optional: frozenset[int] = frozenset()
    """Positions of items written `?item`, which are left out where they are nothing."""


@dataclass(frozen=True, slots=True)
class Map:
    """`{key: value, ?key: value}`"""

    entries: tuple[tuple[Node, Node], ...]
    at: int
    optional: frozenset[int] = frozenset()


Node: TypeAlias = Literal | Name | Select | Index | Call | List | Map
