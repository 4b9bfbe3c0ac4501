"""Operators: arithmetic, comparison and membership, on values of the types that they are for."""

from collections.abc import Callable, Mapping

from windlass.cel.values import (
    INT64,
    NO_OVERLOAD,
    UINT64,
    Cancelled,
    EvaluationError,
    Function,
    Uint,
    Value,
    equal,
    has_key,
    is_number,
)


def whole(number: int) -> int:
    if number not in INT64:
        raise EvaluationError("integer overflow")
    return number


def unsigned(number: int) -> Uint:
    if number not in UINT64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)


def _like(example: int, number: int) -> int:
    """The number as one of the example's type, if it is in range."""
    return unsigned(number) if isinstance(example, Uint) else whole(number)


MAX_SIZE = 10_000_000
"""Characters of a string, or items of a list, that an expression may make. Costs alone do not bound them."""


def check_size(size: int) -> None:
    if size > MAX_SIZE:
        raise Cancelled(f"operation cancelled: a result of size {size} is too large")


def plus(left: Value, right: Value) -> Value:
    if is_number(left) and is_number(right) and type(left) is type(right):
        return _like(left, left + right) if isinstance(left, int) else left + right
    if type(left) is type(right) and isinstance(left, str | bytes | list):
        check_size(len(left) + len(right))
        return left + right
    raise EvaluationError(NO_OVERLOAD)


def arithmetic(function: Callable[[Value, Value], Value], zero: str = "") -> Function:
    """The function of two numbers of one type; `zero` is what to say of a second one that is zero."""

    def checked(left: Value, right: Value) -> Value:
        if not is_number(left) or type(left) is not type(right):
            raise EvaluationError(NO_OVERLOAD)
        if isinstance(left, float):
            return function(left, right) if right or not zero else _divide_by_zero(left)
        if zero and right == 0:
            raise EvaluationError(zero)
        return _like(left, function(int(left), int(right)))

    return checked


def _divide_by_zero(number: float) -> float:
    return float("nan") if number != number or number == 0 else float("inf") * (1 if number > 0 else -1)


def quotient(left: Value, right: Value) -> Value:
    if isinstance(left, float):
        return left / right
    whole: int = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def remainder(left: Value, right: Value) -> Value:
    if isinstance(left, float):
        raise EvaluationError(NO_OVERLOAD)
    return left - right * quotient(left, right)


def negate(value: Value) -> Value:
    if not is_number(value) or isinstance(value, Uint):
        raise EvaluationError(NO_OVERLOAD)
    return -value if isinstance(value, float) else whole(-value)


def negate_bool(value: Value) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(NO_OVERLOAD)
    return not value


def order(left: Value, right: Value) -> int:
    """-1, 0 or 1, of two values that have an order."""
    are_numbers = is_number(left) and is_number(right)
    if not are_numbers and not (type(left) is type(right) and isinstance(left, str | bytes | bool)):
        raise EvaluationError(NO_OVERLOAD)
    if are_numbers and type(left) is not type(right) and (isinstance(left, float) or isinstance(right, float)):
        left, right = float(left), float(right)  # as Kubernetes does, though large numbers become alike
    if left != left or right != right:
        raise EvaluationError("NaN values cannot be ordered")
    return int(left > right) - int(left < right)


def contains(item: Value, container: Value) -> bool:
    if isinstance(container, list):
        return any(equal(item, other) for other in container)
    if isinstance(container, Mapping):
        return has_key(container, item)
    raise EvaluationError(NO_OVERLOAD)


def size(value: Value) -> int:
    if not isinstance(value, str | bytes | list | Mapping):
        raise EvaluationError(NO_OVERLOAD)
    return len(value)
