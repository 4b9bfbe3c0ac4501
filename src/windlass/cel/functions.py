"""The functions that expressions may call, by name and number of arguments."""

import itertools
from collections.abc import Callable, Mapping
from typing import TypeAlias

from windlass.cel import amounts, strings
from windlass.cel.values import (
    INT64,
    NO_OVERLOAD,
    NOTHING,
    EvaluationError,
    Optional,
    Value,
    equal,
    is_number,
    type_name,
)
from windlass.quantity import Quantity

Function: TypeAlias = Callable[..., Value]


def _whole(number: int) -> int:
    if number not in INT64:
        raise EvaluationError("integer overflow")
    return number


def _plus(left: Value, right: Value) -> Value:
    if is_number(left) and is_number(right) and type(left) is type(right):
        return _whole(left + right) if isinstance(left, int) else left + right
    if type(left) is type(right) and isinstance(left, str | bytes | list):
        return left + right
    raise EvaluationError(NO_OVERLOAD)


def _arithmetic(function: Callable[[Value, Value], Value], zero: str = "") -> Function:
    """The function of two numbers of one type; `zero` is what to say of a second one that is zero."""

    def checked(left: Value, right: Value) -> Value:
        if not is_number(left) or type(left) is not type(right):
            raise EvaluationError(NO_OVERLOAD)
        if isinstance(left, float):
            return function(left, right) if right or not zero else _divide_by_zero(left)
        if zero and right == 0:
            raise EvaluationError(zero)
        return _whole(function(left, right))

    return checked


def _divide_by_zero(number: float) -> float:
    return float("nan") if number != number or number == 0 else float("inf") * (1 if number > 0 else -1)


def _quotient(left: Value, right: Value) -> Value:
    if isinstance(left, float):
        return left / right
    whole: int = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _remainder(left: Value, right: Value) -> Value:
    if isinstance(left, float):
        raise EvaluationError(NO_OVERLOAD)
    return left - right * _quotient(left, right)


def _negate(value: Value) -> Value:
    if not is_number(value):
        raise EvaluationError(NO_OVERLOAD)
    return -value if isinstance(value, float) else _whole(-value)


def _not(value: Value) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(NO_OVERLOAD)
    return not value


def order(left: Value, right: Value) -> int:
    """-1, 0 or 1, of two values that have an order."""
    are_numbers = is_number(left) and is_number(right)
    if not are_numbers and not (type(left) is type(right) and isinstance(left, str | bytes | bool)):
        raise EvaluationError(NO_OVERLOAD)
    return int(left > right) - int(left < right)


def _contains(item: Value, container: Value) -> bool:
    if isinstance(container, list):
        return any(equal(item, other) for other in container)
    if isinstance(container, Mapping):
        return any(equal(item, key) for key in container)
    raise EvaluationError(NO_OVERLOAD)


def _size(value: Value) -> int:
    if not isinstance(value, str | bytes | list | Mapping):
        raise EvaluationError(NO_OVERLOAD)
    return len(value)


def _to_int(value: Value) -> int:
    try:
        if isinstance(value, float | int) and not isinstance(value, bool):
            return _whole(int(value))
        if isinstance(value, str):
            return _whole(int(value, 10))
    except (ValueError, OverflowError):
        raise EvaluationError(f"type conversion error from '{type_name(value)}' to 'int'") from None
    raise EvaluationError(NO_OVERLOAD)


def _to_double(value: Value) -> float:
    try:
        if isinstance(value, str) or is_number(value):
            return float(value)
    except ValueError:
        raise EvaluationError("type conversion error from 'string' to 'double'") from None
    raise EvaluationError(NO_OVERLOAD)


def _to_bool(value: Value) -> bool:
    if isinstance(value, bool):
        return value
    truth = {"1": True, "t": True, "T": True, "true": True, "TRUE": True, "True": True,
             "0": False, "f": False, "F": False, "false": False, "FALSE": False, "False": False}  # fmt: skip
    if not isinstance(value, str):
        raise EvaluationError(NO_OVERLOAD)
    if value not in truth:
        raise EvaluationError("type conversion error from 'string' to 'bool'")
    return truth[value]


def _to_string(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(value)
        case float():
            return repr(value).removesuffix(".0")
        case bytes():
            return value.decode("utf-8", "replace")
        case Quantity():
            return str(value)
    raise EvaluationError(NO_OVERLOAD)


def _list(function: Callable[..., Value]) -> Function:
    def checked(items: Value, *others: Value) -> Value:
        if not isinstance(items, list):
            raise EvaluationError(NO_OVERLOAD)
        return function(items, *others)

    return checked


def _extreme(sign: int, name: str) -> Callable[[list[Value]], Value]:
    def find(items: list[Value]) -> Value:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if order(item, best) == sign:
                best = item
        return best

    return find


def _sum(items: list[Value]) -> Value:
    total: Value = 0
    for number, item in enumerate(items):
        total = item if number == 0 else _plus(total, item)
    return total


def _is_sorted(items: list[Value]) -> bool:
    return all(order(left, right) <= 0 for left, right in itertools.pairwise(items))


def _position(items: list[Value], wanted: Value) -> int:
    return next((n for n, item in enumerate(items) if equal(item, wanted)), -1)


def _last_position(items: list[Value], wanted: Value) -> int:
    return next((n for n in reversed(range(len(items))) if equal(items[n], wanted)), -1)


def _distinct(items: list[Value]) -> list[Value]:
    kept: list[Value] = []
    for item in items:
        if not _contains(item, kept):
            kept.append(item)
    return kept


def _is_covered(left: list[Value], right: Value) -> bool:
    """Is all of `right` in `left`?"""
    return all(_contains(item, left) for item in _items(right))


def _items(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise EvaluationError(NO_OVERLOAD)
    return value


def _string_or_list(string: Function, items: Function) -> Function:
    return lambda target, *others: (items if isinstance(target, list) else string)(target, *others)


def _optional(function: Callable[..., Value]) -> Function:
    def checked(target: Value, *others: Value) -> Value:
        if not isinstance(target, Optional):
            raise EvaluationError(NO_OVERLOAD)
        return function(target, *others)

    return checked


def _or_value(target: Optional, other: Value) -> Value:
    return target.value if target.has_value else other


def _value_of(target: Optional) -> Value:
    if not target.has_value:
        raise EvaluationError("optional.none() dereference")
    return target.value


def _if_not_zero(value: Value) -> Optional:
    return Optional(value, True) if value else NOTHING


FUNCTIONS: Mapping[tuple[str, int], Function] = {
    ("+", 2): _plus,
    ("-", 2): _arithmetic(lambda left, right: left - right),
    ("*", 2): _arithmetic(lambda left, right: left * right),
    ("/", 2): _arithmetic(_quotient, "division by zero"),
    ("%", 2): _arithmetic(_remainder, "modulus by zero"),
    ("-_", 1): _negate,
    ("!_", 1): _not,
    ("==", 2): equal,
    ("!=", 2): lambda left, right: not equal(left, right),
    ("<", 2): lambda left, right: order(left, right) < 0,
    ("<=", 2): lambda left, right: order(left, right) <= 0,
    (">", 2): lambda left, right: order(left, right) > 0,
    (">=", 2): lambda left, right: order(left, right) >= 0,
    ("in", 2): _contains,
    ("size", 1): _size,
    ("int", 1): _to_int,
    ("uint", 1): _to_int,
    ("double", 1): _to_double,
    ("bool", 1): _to_bool,
    ("string", 1): _to_string,
    ("dyn", 1): lambda value: value,
    ("matches", 2): strings.of(strings.matches, str),
    ("quantity", 1): amounts.to_quantity,
    ("isQuantity", 1): amounts.is_quantity,
    ("semver", 1): amounts.to_version,
    ("semver", 2): amounts.to_version,
    ("isSemver", 1): amounts.is_version,
    ("isSemver", 2): amounts.is_version,
}
"""By (name, arguments)."""

METHODS: Mapping[tuple[str, int], Function] = {
    ("size", 0): _size,
    ("contains", 1): strings.of(lambda text, part: part in text, str),
    ("startsWith", 1): strings.of(str.startswith, str),
    ("endsWith", 1): strings.of(str.endswith, str),
    ("matches", 1): strings.of(strings.matches, str),
    ("find", 1): strings.of(strings.find, str),
    ("findAll", 1): strings.of(strings.find_all, str),
    ("findAll", 2): strings.of(strings.find_all, str, int),
    ("charAt", 1): strings.of(strings.char_at, int),
    ("indexOf", 1): _string_or_list(strings.of(strings.index_of, str), _position),
    ("indexOf", 2): strings.of(strings.index_of, str, int),
    ("lastIndexOf", 1): _string_or_list(strings.of(strings.last_index_of, str), _last_position),
    ("lastIndexOf", 2): strings.of(strings.last_index_of, str, int),
    ("substring", 1): strings.of(strings.substring, int),
    ("substring", 2): strings.of(strings.substring, int, int),
    ("split", 1): strings.of(strings.split, str),
    ("split", 2): strings.of(strings.split, str, int),
    ("replace", 2): strings.of(strings.replace, str, str),
    ("replace", 3): strings.of(strings.replace, str, str, int),
    ("lowerAscii", 0): strings.of(strings.lower),
    ("upperAscii", 0): strings.of(strings.upper),
    ("trim", 0): strings.of(str.strip),
    ("reverse", 0): _string_or_list(strings.of(lambda text: text[::-1]), lambda items: items[::-1]),
    ("join", 0): strings.join,
    ("join", 1): strings.join,
    ("sum", 0): _list(_sum),
    ("min", 0): _list(_extreme(-1, "min")),
    ("max", 0): _list(_extreme(1, "max")),
    ("isSorted", 0): _list(_is_sorted),
    ("distinct", 0): _list(_distinct),
    ("isGreaterThan", 1): lambda left, right: amounts.compare(left, right) > 0,
    ("isLessThan", 1): lambda left, right: amounts.compare(left, right) < 0,
    ("compareTo", 1): amounts.compare,
    ("asInteger", 0): amounts.as_integer,
    ("isInteger", 0): amounts.is_integer,
    ("asApproximateFloat", 0): amounts.as_float,
    ("sign", 0): amounts.sign,
    ("add", 1): amounts.add,
    ("sub", 1): amounts.sub,
    ("major", 0): amounts.part("major"),
    ("minor", 0): amounts.part("minor"),
    ("patch", 0): amounts.part("patch"),
    ("hasValue", 0): _optional(lambda target: target.has_value),
    ("value", 0): _optional(_value_of),
    ("orValue", 1): _optional(_or_value),
    ("or", 1): _optional(lambda target, other: target if target.has_value else other),
}
"""By (name, arguments beside the target)."""

NAMESPACED: Mapping[tuple[str, str, int], Function] = {
    ("optional", "of", 1): lambda value: Optional(value, True),
    ("optional", "ofNonZeroValue", 1): _if_not_zero,
    ("optional", "none", 0): lambda: NOTHING,
    ("sets", "contains", 2): _list(_is_covered),
    ("sets", "equivalent", 2): _list(lambda left, right: _is_covered(left, right) and _is_covered(_items(right), left)),
    ("sets", "intersects", 2): _list(lambda left, right: any(_contains(item, left) for item in _items(right))),
}
"""By (namespace, name, arguments)."""
