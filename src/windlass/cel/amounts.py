"""Quantities and semantic versions: Kubernetes' own additions to the language."""

import math
from collections.abc import Callable
from typing import TypeVar

from windlass import quantity
from windlass.cel.values import INT64, NO_OVERLOAD, EvaluationError, Sum, Value, Version, parse_version
from windlass.quantity import Quantity

Amount = TypeVar("Amount", Quantity, Version)


def to_quantity(text: Value) -> Quantity:
    if not isinstance(text, str):
        raise EvaluationError(NO_OVERLOAD)
    try:
        return quantity.parse(text)
    except ValueError:
        raise EvaluationError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def is_quantity(text: Value) -> bool:
    try:
        to_quantity(text)
    except EvaluationError:
        if not isinstance(text, str):
            raise
        return False
    return True


def to_version(text: Value, normalize: Value = False) -> Version:
    if not isinstance(text, str) or not isinstance(normalize, bool):
        raise EvaluationError(NO_OVERLOAD)
    try:
        return parse_version(_normalize(text) if normalize else text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def is_version(text: Value, normalize: Value = False) -> bool:
    try:
        to_version(text, normalize)
    except EvaluationError:
        if not isinstance(text, str) or not isinstance(normalize, bool):
            raise
        return False
    return True


def _normalize(text: str) -> str:
    """Without a leading `v` and leading zeros, with what is missing of three numbers."""
    parts = text.removeprefix("v").split(".", 2)
    if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    parts += ["0"] * (3 - len(parts))
    return ".".join(_strip_zeros(part) for part in parts)


def _strip_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    left = part.lstrip("0")
    return left if left[:1].isdigit() else f"0{left}"


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1. Quantities with quantities, versions with versions."""
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return (left.nano > right.nano) - (left.nano < right.nano)
    if isinstance(left, Version) and isinstance(right, Version):
        return (left > right) - (left < right)
    raise EvaluationError(NO_OVERLOAD)


def as_integer(amount: Value) -> int:
    whole, rest = divmod(_quantity(amount).nano, quantity.NANO)
    if rest or whole not in INT64:
        raise EvaluationError("cannot convert value to integer")
    return whole


def is_integer(amount: Value) -> bool:
    whole, rest = divmod(_quantity(amount).nano, quantity.NANO)
    return not rest and whole in INT64


def as_float(amount: Value) -> float:
    nano = _quantity(amount).nano
    try:
        return nano / quantity.NANO
    except OverflowError:
        return math.copysign(math.inf, sign(amount))


def sign(amount: Value) -> int:
    nano = _quantity(amount).nano
    return (nano > 0) - (nano < 0)


def add(amount: Value, other: Value) -> Quantity:
    return Sum(_quantity(amount).nano + _nano(other), amount.family)


def sub(amount: Value, other: Value) -> Quantity:
    return Sum(_quantity(amount).nano - _nano(other), amount.family)


def _quantity(amount: Value) -> Quantity:
    if not isinstance(amount, Quantity):
        raise EvaluationError(NO_OVERLOAD)
    return amount


def _nano(other: Value) -> int:
    if isinstance(other, int) and not isinstance(other, bool):
        return other * quantity.NANO
    return _quantity(other).nano


def part(name: str) -> Callable[[Value], int]:
    """`major`, `minor` or `patch` of a version."""

    def read(version: Value) -> int:
        if not isinstance(version, Version):
            raise EvaluationError(NO_OVERLOAD)
        number: int = getattr(version, name)
        return number

    return read
