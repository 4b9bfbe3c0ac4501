"""Lists: what they hold, and where."""

import itertools
from collections.abc import Callable

from windlass.cel import operators
from windlass.cel.values import NO_OVERLOAD, NOTHING, EvaluationError, Function, Optional, Value, Version, equal
from windlass.quantity import Quantity


def of(function: Callable[..., Value]) -> Function:
    def checked(items: Value, *others: Value) -> Value:
        if not isinstance(items, list):
            raise EvaluationError(NO_OVERLOAD)
        return function(items, *others)

    return checked


def extreme(sign: int, name: str) -> Callable[[list[Value]], Value]:
    def find(items: list[Value]) -> Value:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if operators.order(item, best) == sign:
                best = item
        return best

    return find


def sum_up(items: list[Value]) -> Value:
    total: Value = 0
    for number, item in enumerate(items):
        total = item if number == 0 else operators.plus(total, item)
    return total


def is_sorted(items: list[Value]) -> bool:
    return all(operators.order(left, right) <= 0 for left, right in itertools.pairwise(items))


def position(items: list[Value], wanted: Value) -> int:
    return next((n for n, item in enumerate(items) if equal(item, wanted)), -1)


def last_position(items: list[Value], wanted: Value) -> int:
    return next((n for n in reversed(range(len(items))) if equal(items[n], wanted)), -1)


def distinct(items: list[Value]) -> list[Value]:
    kept: list[Value] = []
    for item in items:
        if not operators.contains(item, kept):
            kept.append(item)
    return kept


def covers(left: list[Value], right: Value) -> bool:
    """Is all of `right` in `left`?"""
    return all(operators.contains(item, left) for item in items_of(right))


def items_of(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise EvaluationError(NO_OVERLOAD)
    return value


def cover_each_other(left: list[Value], right: Value) -> bool:
    return covers(left, right) and covers(items_of(right), left)


def intersect(left: list[Value], right: Value) -> bool:
    return any(operators.contains(item, left) for item in items_of(right))


def slice_of(items: list[Value], start: Value, end: Value) -> list[Value]:
    for index in (start, end):
        if type(index) is not int:
            raise EvaluationError(NO_OVERLOAD)
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def flatten(items: list[Value], depth: Value = 1) -> list[Value]:
    if type(depth) is not int:
        raise EvaluationError(NO_OVERLOAD)
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat = items
    for _ in range(min(depth, _MAX_DEPTH)):
        if not any(isinstance(item, list) for item in flat):
            break
        operators.check_size(sum(len(item) if isinstance(item, list) else 1 for item in flat))
        flat = [inner for item in flat for inner in (item if isinstance(item, list) else (item,))]
    return flat


_MAX_DEPTH = 250


def count_to(limit: Value) -> list[Value]:
    """`lists.range`"""
    if type(limit) is not int:
        raise EvaluationError(NO_OVERLOAD)
    operators.check_size(limit)
    return list(range(limit))


def sort(items: list[Value]) -> list[Value]:
    return sort_by(items, items)


def sort_by(items: list[Value], keys: list[Value]) -> list[Value]:
    """The items in the order of their keys, which are of one type that has an order."""
    if not keys:
        return []
    if not isinstance(keys[0], bool | int | float | str | bytes | Version | Quantity):
        raise EvaluationError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    return [items[number] for number in sorted(range(len(items)), key=keys.__getitem__)]


def end_of(position: int) -> Callable[[list[Value]], Optional]:
    """`first` and `last`."""
    return lambda items: Optional(items[position], True) if items else NOTHING
