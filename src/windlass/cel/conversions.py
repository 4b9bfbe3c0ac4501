"""Conversions: a value as one of another type."""

import re

from windlass.cel import operators
from windlass.cel.values import NO_OVERLOAD, EvaluationError, Value, is_number, print_number, type_name

_WHOLE = re.compile("[+-]?[0-9]+")
_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE
)


def to_int(value: Value) -> int:
    try:
        if isinstance(value, float | int) and not isinstance(value, bool):
            return operators.whole(int(value))
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            return operators.whole(int(value, 10))
        if isinstance(value, str):
            raise ValueError
    except (ValueError, OverflowError):
        if isinstance(value, float):
            raise EvaluationError("integer overflow") from None
        raise EvaluationError(f"type conversion error from '{type_name(value)}' to 'int'") from None
    raise EvaluationError(NO_OVERLOAD)


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
            return print_number(value)
        case bytes():
            return value.decode("utf-8", "replace")
    raise EvaluationError(NO_OVERLOAD)
