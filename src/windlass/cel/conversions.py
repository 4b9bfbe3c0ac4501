"""Conversions: a value as one of another type."""

import re
from ipaddress import IPv4Address, IPv6Address

from windlass.cel import operators
from windlass.cel.addresses import Cidr
from windlass.cel.values import (
    NO_OVERLOAD,
    UINT64,
    EvaluationError,
    Type,
    Uint,
    Value,
    is_number,
    print_number,
    type_name,
)

_WHOLE = re.compile("[+-]?[0-9]+")
_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE
)


def to_int(value: Value) -> int:
    try:
        if isinstance(value, float) and not -(2.0**63) < value < 2.0**63:
            raise OverflowError
        if is_number(value):
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


def to_uint(value: Value) -> Uint:
    if isinstance(value, str):
        if not value.isascii() or not value.isdigit() or len(value) > 20 or int(value) not in UINT64:
            raise EvaluationError("type conversion error from 'string' to 'uint'")
        return Uint(int(value))
    if not is_number(value):
        raise EvaluationError(NO_OVERLOAD)
    if isinstance(value, float) and not 0 <= value < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return operators.unsigned(int(value))


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
