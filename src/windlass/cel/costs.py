"""Costs: what evaluating an expression costs, counted as Kubernetes counts it, against a limit.

Most steps cost one, and are added up when an expression is compiled. Functions over strings and lists cost by the
sizes of their arguments, which are known when they are called. The figures are those of cel-go's cost tracker with the
additions of Kubernetes' libraries.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from windlass.cel.addresses import Cidr
from windlass.cel.values import Cancelled, Optional, Value, Version
from windlass.quantity import Quantity

KEY = "@cost"
"""The name of the meter among the variables: no expression can spell it."""
CREATE_LIST, CREATE_MAP = 10, 30
APPEND = 2 + CREATE_LIST
"""Adding an item to the result of a macro: read the result, make a list of the item, and join them."""
_CHARACTER = 0.1
_PATTERN_CHARACTER = 0.25


class Meter:
    """What one evaluation has cost so far."""

    __slots__ = ("limit", "spent")

    def __init__(self, limit: int) -> None:
        self.spent, self.limit = 0, limit

    def charge(self, cost: int) -> None:
        self.spent += cost
        if self.spent > self.limit:
            raise Cancelled("operation cancelled: actual cost limit exceeded")


CallCost: TypeAlias = Callable[..., int]
"""The cost of a call, of its arguments."""


_SIZED = frozenset((str, bytes, list, dict))


def size(value: Value) -> int:
    if type(value) in _SIZED or isinstance(value, Mapping):
        return len(value)
    return size(value.value) if isinstance(value, Optional) and value.has_value else 1


def traversal(value: Value) -> int:
    """The cost of walking through a value and all that is in it."""
    if isinstance(value, str | bytes):
        return int(len(value) * _CHARACTER)
    if isinstance(value, list):
        return sum(map(traversal, value))
    if isinstance(value, Mapping):
        return sum(traversal(key) + traversal(item) for key, item in value.items())
    return 1


def _read(value: Value, *_: Value) -> int:
    return math.ceil(size(value) * _CHARACTER)


def _rewrite(value: Value, *_: Value) -> int:
    return math.ceil(size(value) * 2 * _CHARACTER)


def compare(left: Value, right: Value) -> int:
    if type(left) is str and type(right) is str:
        return math.ceil(min(len(left), len(right)) * _CHARACTER)
    if isinstance(left, Quantity | Version):
        return 1
    return math.ceil(min(size(left), size(right)) * _CHARACTER)


COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))


def is_small(value: Value) -> bool:
    """Does comparing with this value cost one? (It costs nothing if the other one is empty; never mind.)"""
    return 0 < size(value) <= 10


def bound_comparison(
    steps: Sequence[Callable[[Mapping[str, Value]], Value]], are_constant: Sequence[bool]
) -> int | None:
    """What comparing with a constant costs at most, whatever it is compared with."""
    sizes = [size(step({})) for step, is_constant in zip(steps, are_constant, strict=True) if is_constant]
    return math.ceil(min(sizes) * _CHARACTER) if sizes else None


def _plus(left: Value, right: Value) -> int:
    if isinstance(left, str | bytes):
        return math.ceil((size(left) + size(right)) * _CHARACTER)
    return 1


def _match(text: Value, pattern: Value, *_: Value) -> int:
    return math.ceil((1 + size(text)) * _CHARACTER) * math.ceil(size(pattern) * _PATTERN_CHARACTER)


def _contain(text: Value, part: Value) -> int:
    return _read(text) * _read(part)


def _within(_: Value, container: Value) -> int:
    return len(container) if isinstance(container, list) else 1


def _join(items: Value, separator: Value = "") -> int:
    """By the length of the result, which need not be made for it."""
    if not isinstance(items, list):
        return 1
    return math.ceil((sum(map(size, items)) + size(separator) * max(len(items) - 1, 0)) * 2 * _CHARACTER)


def _sets(factor: int) -> CallCost:
    return lambda left, right: 1 + size(left) * size(right) * factor


def _copy(items: Value, *_: Value) -> int:
    return size(items) + 1 + CREATE_LIST


def compare_all(items: Value, *_: Value) -> int:
    count = size(items)
    has_texts = isinstance(items, list) and bool(items) and isinstance(items[0], str | bytes)
    return int(count * count * (2 + _CHARACTER * has_texts)) + 1 + CREATE_LIST


def _count(limit: Value) -> int:
    return (max(limit, 0) if type(limit) is int else 0) + 1 + CREATE_LIST


def _slice(items: Value, start: Value, end: Value) -> int:
    are_valid = type(start) is type(end) is int and 0 <= start <= end <= size(items)
    return (end - start if are_valid else 0) + 1 + CREATE_LIST


def _flatten(items: Value, depth: Value = 1) -> int:
    return size(items) * (max(depth, 0) if type(depth) is int else 0) + 1 + CREATE_LIST


def _read_ip(value: Value) -> int:
    return _read(value) if isinstance(value, str) else 1


def _contain_ip(cidr: Value, other: Value) -> int:
    """The size of a network is that of its prefix, in bytes."""
    return math.ceil(2 * _width(cidr) * _CHARACTER) + (_read(other) if isinstance(other, str) else 0)


def _contain_cidr(cidr: Value, other: Value) -> int:
    return _contain_ip(cidr, other) + math.ceil(_width(cidr) * _CHARACTER) + 1


def _width(cidr: Value) -> int:
    return math.ceil(cidr.prefix / 8) if isinstance(cidr, Cidr) else 1


CALLS: Mapping[str, int | CallCost] = {
    "==": compare, "!=": compare, "<": compare, "<=": compare, ">": compare, ">=": compare,
    "+": _plus, "in": _within,
    "startsWith": _read, "endsWith": _read, "contains": _contain, "matches": _match, "find": _match, "findAll": _match,
    "lowerAscii": _read, "upperAscii": _read, "trim": _read, "substring": _read, "replace": _rewrite, "split": _rewrite,
    "join": _join, "quantity": _read, "isQuantity": _read, "semver": _read, "isSemver": _read,
    "isSorted": traversal, "sum": traversal, "min": traversal, "max": traversal,
    "indexOf": lambda target, *_: traversal(target), "lastIndexOf": lambda target, *_: traversal(target),
    "reverse": _copy, "distinct": compare_all, "bytes": _read,
    "ip": _read_ip, "isIP": _read, "cidr": _read, "isCIDR": _read, "ip.isCanonical": _rewrite,
    "containsIP": _contain_ip, "containsCIDR": _contain_cidr,
    "slice": _slice, "flatten": _flatten, "sort": compare_all, "lists.range": _count,
    "sets.contains": _sets(1), "sets.intersects": _sets(1), "sets.equivalent": _sets(2),
}  # fmt: skip
"""By function; whatever is not here costs one."""
