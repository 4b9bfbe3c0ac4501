"""Strings: what expressions may do with them."""

import functools
from collections.abc import Callable
from typing import TypeVar

from windlass import regexp
from windlass.cel import operators
from windlass.cel.values import NO_OVERLOAD, Cancelled, EvaluationError, Value

T = TypeVar("T")


def of(function: Callable[..., Value], *types: type) -> Callable[..., Value]:
    """The function, of a string and arguments of these types; anything else is no overload."""
    expected = (str, *types)

    @functools.wraps(function)
    def checked(*given: Value) -> Value:
        for value, wanted in zip(given, expected, strict=True):
            if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
                raise EvaluationError(NO_OVERLOAD)
        return function(*given)

    return checked


MAX_STEPS = 500_000
"""Steps of matching that one call may take: about a second at worst. Kubernetes' costs alone would allow many more."""


def matches(text: str, pattern: str) -> bool:
    return _search(regexp.Regexp.matches, text, pattern)


def find(text: str, pattern: str) -> str:
    return _search(regexp.Regexp.find, text, pattern)


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return _search(regexp.Regexp.find_all, text, pattern, limit)


def _search(function: Callable[..., T], text: str, pattern: str, *others: int) -> T:
    try:
        return function(regexp.compile(pattern), text, *others, limit=MAX_STEPS)
    except regexp.InvalidExpression as error:
        raise EvaluationError(str(error)) from None
    except regexp.StepLimitExceeded:
        raise Cancelled("operation cancelled: matching took too many steps") from None


def char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise EvaluationError(f"index out of range: {at}")
    return text[at : at + 1]


def index_of(text: str, part: str, start: int = 0) -> int:
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    return text.find(part, start)


def last_index_of(text: str, part: str, end: int | None = None) -> int:
    if end is None:
        return text.rfind(part)
    if not 0 <= end <= len(text):
        raise EvaluationError(f"index out of range: {end}")
    return text.rfind(part, 0, end + len(part))


def substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise EvaluationError(f"invalid substring range. start: {start}, end: {stop}")
    return text[start:stop]


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        parts = list(text)
        return parts if limit < 0 or len(parts) <= limit else [*parts[: limit - 1], "".join(parts[limit - 1 :])]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    count = text.count(old) if limit < 0 else min(text.count(old), limit)
    operators.check_size(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, limit)


def lower(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def upper(text: str) -> str:
    return "".join(letter.upper() if letter.isascii() else letter for letter in text)


def join(items: Value, separator: Value = "") -> str:
    if not isinstance(items, list) or not isinstance(separator, str) or any(not isinstance(i, str) for i in items):
        raise EvaluationError(NO_OVERLOAD)
    return separator.join(items)
