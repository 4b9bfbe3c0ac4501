"""Lists: what they hold, and where."""

import itertools
from collections.abc import Callable

from windlass.cel import operators
from windlass.cel.values import NO_OVERLOAD, EvaluationError, Function, Value, equal


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
