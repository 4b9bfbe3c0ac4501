"""CEL operators and type conversions: arithmetic, comparison, membership, indexing, and int(), string() etc."""

import re
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address

from windlass.cel.values import (
    INT64,
    NO_OVERLOAD,
    NOTHING,
    UINT64,
    Cancelled,
    Cidr,
    EvaluationError,
    Function,
    Map,
    Optional,
    Type,
    Uint,
    Value,
    equal,
    has_key,
    is_number,
    print_number,
    print_value,
    type_name,
)


def check_int64(number: int) -> int:
    if number not in INT64:
        raise EvaluationError("integer overflow")
    return number


def check_uint64(number: int) -> Uint:
    if number not in UINT64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)


def _like(example: int, number: int) -> int:
    """The number as one of the example's type, if it is in range."""
    return check_uint64(number) if isinstance(example, Uint) else check_int64(number)


MAX_SIZE = 10_000_000
"""Most characters of a string or items of a list that an expression may create. Costs alone do not bound them."""


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
    """An operator on two numbers of one type; `zero` is the error for a second operand of zero."""

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
    return -value if isinstance(value, float) else check_int64(-value)


def negate_bool(value: Value) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(NO_OVERLOAD)
    return not value


def compare_order(left: Value, right: Value) -> int:
    """-1, 0 or 1, of two values that have an order."""
    are_numbers = is_number(left) and is_number(right)
    if not are_numbers and not (type(left) is type(right) and isinstance(left, str | bytes | bool)):
        raise EvaluationError(NO_OVERLOAD)
    if are_numbers and type(left) is not type(right) and (isinstance(left, float) or isinstance(right, float)):
        left, right = float(left), float(right)  # as in Kubernetes, although large numbers become equal
    if left != left or right != right:
        raise EvaluationError("NaN values cannot be ordered")
    return int(left > right) - int(left < right)


def contains(item: Value, container: Value) -> bool:
    if isinstance(container, list):
        return any(equal(item, other) for other in container)
    if isinstance(container, Mapping):
        return has_key(container, item)
    raise EvaluationError(NO_OVERLOAD)


def size_of(value: Value) -> int:
    if not isinstance(value, str | bytes | list | Mapping):
        raise EvaluationError(NO_OVERLOAD)
    return len(value)


_WHOLE = re.compile("[+-]?[0-9]+")

_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE
)


def to_int(value: Value) -> int:
    try:
        if isinstance(value, float) and not -(2.0**63) < value < 2.0**63:
            raise OverflowError
        if is_number(value):
            return check_int64(int(value))
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            return check_int64(int(value, 10))
        if isinstance(value, str):
            raise ValueError
    except (ValueError, OverflowError):
        if isinstance(value, float):
            raise EvaluationError("integer overflow") from None
        raise EvaluationError(f"type conversion error from '{type_name(value)}' to 'int'") from None
    raise EvaluationError(NO_OVERLOAD)


def to_uint(value: Value) -> Uint:
    if isinstance(value, str):
        if not value.isascii() or not value.isdigit() or len(value) > 20 or int(value) not in UINT64:
            raise EvaluationError("type conversion error from 'string' to 'uint'")
        return Uint(int(value))
    if not is_number(value):
        raise EvaluationError(NO_OVERLOAD)
    if isinstance(value, float) and not 0 <= value < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return check_uint64(int(value))


def to_bytes(value: Value) -> bytes:
    if not isinstance(value, str | bytes):
        raise EvaluationError(NO_OVERLOAD)
    return value.encode() if isinstance(value, str) else value


def to_type(value: Value) -> Type:
    return Type(type_name(value))


def to_double(value: Value) -> float:
    try:
        if isinstance(value, str) and not _NUMBER.fullmatch(value):
            raise ValueError
        if isinstance(value, str) or is_number(value):
            return float(value)
    except ValueError:
        raise EvaluationError("type conversion error from 'string' to 'double'") from None
    raise EvaluationError(NO_OVERLOAD)


def to_bool(value: Value) -> bool:
    if isinstance(value, bool):
        return value
    truth = {"1": True, "t": True, "T": True, "true": True, "TRUE": True, "True": True,
             "0": False, "f": False, "F": False, "false": False, "FALSE": False, "False": False}  # fmt: skip
    if not isinstance(value, str):
        raise EvaluationError(NO_OVERLOAD)
    if value not in truth:
        raise EvaluationError("type conversion error from 'string' to 'bool'")
    return truth[value]


def to_string(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(value)
        case float():
            return print_number(value, largest=6)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
        case Cidr():
            return f"{value.address}/{value.prefix}"
        case IPv4Address() | IPv6Address():
            return str(value)
    raise EvaluationError(NO_OVERLOAD)


def look_up(container: Value, key: Value) -> Value:
    """The value at a key; of an optional, an optional."""
    if isinstance(container, Mapping):
        try:
            if type(key) is not str and type(container) is not Map:
                raise KeyError
            return container[key]
        except KeyError:
            raise EvaluationError(f"no such key: {print_value(key)}") from None
    if isinstance(container, Optional):
        return find_optional(container, key)
    if isinstance(container, list):
        return container[_list_index(key, len(container))]
    raise EvaluationError(NO_OVERLOAD)


def _list_index(key: Value, length: int) -> int:
    if not is_number(key):
        raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
    if isinstance(key, float) and not key.is_integer():
        raise EvaluationError(f"unsupported index value {print_number(key)} in list")
    if not 0 <= key < length:
        raise EvaluationError(f"index out of bounds: {int(key)}")
    return int(key)


def find_optional(container: Value, key: Value) -> Optional:
    """The value under a key, if there is one."""
    if isinstance(container, Optional):
        if not container.has_value:
            return NOTHING
        container = container.value
    try:
        found = look_up(container, key)
    except EvaluationError:
        if isinstance(container, Mapping | list):
            return NOTHING
        raise
    return found if isinstance(found, Optional) else Optional(found, True)
