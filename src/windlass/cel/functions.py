"""CEL functions by name and number of arguments: the standard library, strings, lists, sets and optionals."""

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import TypeVar

from windlass.cel import operators, values
from windlass.cel.values import (
    NO_OVERLOAD,
    NOTHING,
    Cancelled,
    EvaluationError,
    Function,
    Optional,
    Value,
    Version,
    equal,
)
from windlass.quantity import Quantity
from windlass.regexp import matcher, syntax

T = TypeVar("T")


def string_function(function: Callable[..., Value], *types: type) -> Callable[..., Value]:
    """Check arguments: a string and values of these types; otherwise there is no overload."""
    expected = (str, *types)

    @functools.wraps(function)
    def checked(*given: Value) -> Value:
        for value, desired in zip(given, expected, strict=True):
            if not isinstance(value, desired) or (desired is int and isinstance(value, bool)):
                raise EvaluationError(NO_OVERLOAD)
        return function(*given)

    return checked


MAX_STEPS = 500_000
"""Most matching steps of one call: about a second. Kubernetes' cost limit alone would allow many more."""


def matches_pattern(text: str, pattern: str) -> bool:
    return _search_pattern(matcher.Regexp.matches, text, pattern)


def find_match(text: str, pattern: str) -> str:
    return _search_pattern(matcher.Regexp.find, text, pattern)


def find_all_matches(text: str, pattern: str, limit: int = -1) -> list[str]:
    return _search_pattern(matcher.Regexp.find_all, text, pattern, limit)


def _search_pattern(function: Callable[..., T], text: str, pattern: str, *others: int) -> T:
    try:
        return function(matcher.compile(pattern), text, *others, limit=MAX_STEPS)
    except syntax.InvalidExpression as error:
        raise EvaluationError(str(error)) from None
    except matcher.StepLimitExceeded:
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


def split_text(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        parts = list(text)
        return parts if limit < 0 or len(parts) <= limit else [*parts[: limit - 1], "".join(parts[limit - 1 :])]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def replace_text(text: str, old: str, new: str, limit: int = -1) -> str:
    count = text.count(old) if limit < 0 else min(text.count(old), limit)
    operators.check_size(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, limit)


def lower_ascii(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def upper_ascii(text: str) -> str:
    return "".join(letter.upper() if letter.isascii() else letter for letter in text)


def join_text(items: Value, separator: Value = "") -> str:
    if not isinstance(items, list) or not isinstance(separator, str) or any(not isinstance(i, str) for i in items):
        raise EvaluationError(NO_OVERLOAD)
    return separator.join(items)


def list_function(function: Callable[..., Value]) -> Function:
    def checked(items: Value, *others: Value) -> Value:
        if not isinstance(items, list):
            raise EvaluationError(NO_OVERLOAD)
        return function(items, *others)

    return checked


def extreme_of(sign: int, name: str) -> Callable[[list[Value]], Value]:
    def find(items: list[Value]) -> Value:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if operators.compare_order(item, best) == sign:
                best = item
        return best

    return find


def sum_items(items: list[Value]) -> Value:
    total: Value = 0
    for number, item in enumerate(items):
        total = item if number == 0 else operators.plus(total, item)
    return total


def is_sorted(items: list[Value]) -> bool:
    return all(operators.compare_order(left, right) <= 0 for left, right in itertools.pairwise(items))


def index_of_item(items: list[Value], desired: Value) -> int:
    return next((n for n, item in enumerate(items) if equal(item, desired)), -1)


def last_index_of_item(items: list[Value], desired: Value) -> int:
    return next((n for n in reversed(range(len(items))) if equal(items[n], desired)), -1)


def distinct_items(items: list[Value]) -> list[Value]:
    kept: list[Value] = []
    for item in items:
        if not operators.contains(item, kept):
            kept.append(item)
    return kept


def contains_all(left: list[Value], right: Value) -> bool:
    """Is all of `right` in `left`?"""
    return all(operators.contains(item, left) for item in items_of_value(right))


def items_of_value(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise EvaluationError(NO_OVERLOAD)
    return value


def sets_equivalent(left: list[Value], right: Value) -> bool:
    return contains_all(left, right) and contains_all(items_of_value(right), left)


def sets_intersect(left: list[Value], right: Value) -> bool:
    return any(operators.contains(item, left) for item in items_of_value(right))


def slice_items(items: list[Value], start: Value, end: Value) -> list[Value]:
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


def flatten_items(items: list[Value], depth: Value = 1) -> list[Value]:
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


def range_to(limit: Value) -> list[Value]:
    """`lists.range`"""
    if type(limit) is not int:
        raise EvaluationError(NO_OVERLOAD)
    operators.check_size(limit)
    return list(range(limit))


def sort_items(items: list[Value]) -> list[Value]:
    return sort_items_by(items, items)


def sort_items_by(items: list[Value], keys: list[Value]) -> list[Value]:
    """The items sorted by their keys, which have one ordered type."""
    if not keys:
        return []
    if not isinstance(keys[0], bool | int | float | str | bytes | Version | Quantity):
        raise EvaluationError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    return [items[number] for number in sorted(range(len(items)), key=keys.__getitem__)]


def first_or_last(position: int) -> Callable[[list[Value]], Optional]:
    """`first` and `last`."""
    return lambda items: Optional(items[position], True) if items else NOTHING


def _string_or_list_function(string: Function, items: Function) -> Function:
    return lambda target, *others: (items if isinstance(target, list) else string)(target, *others)


def _on_optional(function: Callable[..., Value]) -> Function:
    def checked(target: Value, *others: Value) -> Value:
        if not isinstance(target, Optional):
            raise EvaluationError(NO_OVERLOAD)
        return function(target, *others)

    return checked


def _optional_value(target: Optional) -> Value:
    if not target.has_value:
        raise EvaluationError("optional.none() dereference")
    return target.value


def _if_not_zero(value: Value) -> Optional:
    return Optional(value, True) if value else NOTHING


FUNCTIONS: Mapping[tuple[str, int], Function] = {
    ("+", 2): operators.plus,
    ("-", 2): operators.arithmetic(lambda left, right: left - right),
    ("*", 2): operators.arithmetic(lambda left, right: left * right),
    ("/", 2): operators.arithmetic(operators.quotient, "division by zero"),
    ("%", 2): operators.arithmetic(operators.remainder, "modulus by zero"),
    ("-_", 1): operators.negate,
    ("!_", 1): operators.negate_bool,
    ("==", 2): equal,
    ("!=", 2): lambda left, right: not equal(left, right),
    ("<", 2): lambda left, right: operators.compare_order(left, right) < 0,
    ("<=", 2): lambda left, right: operators.compare_order(left, right) <= 0,
    (">", 2): lambda left, right: operators.compare_order(left, right) > 0,
    (">=", 2): lambda left, right: operators.compare_order(left, right) >= 0,
    ("in", 2): operators.contains,
    ("size", 1): operators.size_of,
    ("int", 1): operators.to_int,
    ("uint", 1): operators.to_uint,
    ("bytes", 1): operators.to_bytes,
    ("type", 1): operators.to_type,
    ("double", 1): operators.to_double,
    ("bool", 1): operators.to_bool,
    ("string", 1): operators.to_string,
    ("dyn", 1): lambda value: value,
    ("matches", 2): string_function(matches_pattern, str),
    ("quantity", 1): values.cel_quantity,
    ("isQuantity", 1): values.is_quantity,
    ("semver", 1): values.cel_semver,
    ("semver", 2): values.cel_semver,
    ("isSemver", 1): values.is_semver,
    ("isSemver", 2): values.is_semver,
    ("ip", 1): values.parse_ip,
    ("isIP", 1): values.can_parse(values.parse_ip),
    ("cidr", 1): values.parse_cidr,
    ("isCIDR", 1): values.can_parse(values.parse_cidr),
}
"""Functions by (name, number of arguments)."""

METHODS: Mapping[tuple[str, int], Function] = {
    ("size", 0): operators.size_of,
    ("contains", 1): string_function(lambda text, part: part in text, str),
    ("startsWith", 1): string_function(str.startswith, str),
    ("endsWith", 1): string_function(str.endswith, str),
    ("matches", 1): string_function(matches_pattern, str),
    ("find", 1): string_function(find_match, str),
    ("findAll", 1): string_function(find_all_matches, str),
    ("findAll", 2): string_function(find_all_matches, str, int),
    ("charAt", 1): string_function(char_at, int),
    ("indexOf", 1): _string_or_list_function(string_function(index_of, str), index_of_item),
    ("indexOf", 2): string_function(index_of, str, int),
    ("lastIndexOf", 1): _string_or_list_function(string_function(last_index_of, str), last_index_of_item),
    ("lastIndexOf", 2): string_function(last_index_of, str, int),
    ("substring", 1): string_function(substring, int),
    ("substring", 2): string_function(substring, int, int),
    ("split", 1): string_function(split_text, str),
    ("split", 2): string_function(split_text, str, int),
    ("replace", 2): string_function(replace_text, str, str),
    ("replace", 3): string_function(replace_text, str, str, int),
    ("lowerAscii", 0): string_function(lower_ascii),
    ("upperAscii", 0): string_function(upper_ascii),
    ("trim", 0): string_function(str.strip),
    ("reverse", 0): list_function(lambda items: items[::-1]),
    ("join", 0): join_text,
    ("join", 1): join_text,
    ("sum", 0): list_function(sum_items),
    ("min", 0): list_function(extreme_of(-1, "min")),
    ("max", 0): list_function(extreme_of(1, "max")),
    ("isSorted", 0): list_function(is_sorted),
    ("distinct", 0): list_function(distinct_items),
    ("slice", 2): list_function(slice_items),
    ("flatten", 0): list_function(flatten_items),
    ("flatten", 1): list_function(flatten_items),
    ("sort", 0): list_function(sort_items),
    ("first", 0): list_function(first_or_last(0)),
    ("last", 0): list_function(first_or_last(-1)),
    ("family", 0): values.ip_function(lambda address: address.version),
    ("isUnspecified", 0): values.ip_function(lambda address: address.is_unspecified),
    ("isLoopback", 0): values.ip_function(lambda address: address.is_loopback),
    ("isLinkLocalMulticast", 0): values.ip_function(values.is_link_local_multicast),
    ("isLinkLocalUnicast", 0): values.ip_function(lambda address: address.is_link_local),
    ("isGlobalUnicast", 0): values.ip_function(values.is_global_unicast),
    ("containsIP", 1): values.cidr_function(values.cidr_contains_ip),
    ("containsCIDR", 1): values.cidr_function(values.cidr_contains_cidr),
    ("ip", 0): values.cidr_function(values.parse_ip),
    ("masked", 0): values.cidr_function(values.mask_cidr),
    ("prefixLength", 0): values.cidr_function(lambda cidr: cidr.prefix),
    ("isGreaterThan", 1): lambda left, right: values.compare_amounts(left, right) > 0,
    ("isLessThan", 1): lambda left, right: values.compare_amounts(left, right) < 0,
    ("compareTo", 1): values.compare_amounts,
    ("asInteger", 0): values.quantity_as_integer,
    ("isInteger", 0): values.quantity_is_integer,
    ("asApproximateFloat", 0): values.quantity_as_float,
    ("sign", 0): values.quantity_sign,
    ("add", 1): values.add_quantity,
    ("sub", 1): values.subtract_quantity,
    ("major", 0): values.version_part("major"),
    ("minor", 0): values.version_part("minor"),
    ("patch", 0): values.version_part("patch"),
    ("hasValue", 0): _on_optional(lambda target: target.has_value),
    ("value", 0): _on_optional(_optional_value),
}
"""Methods by (name, number of arguments besides the target)."""

NAMESPACED: Mapping[tuple[str, str, int], Function] = {
    ("optional", "of", 1): lambda value: Optional(value, True),
    ("optional", "ofNonZeroValue", 1): _if_not_zero,
    ("optional", "none", 0): lambda: NOTHING,
    ("lists", "range", 1): range_to,
    ("ip", "isCanonical", 1): values.is_canonical_ip,
    ("sets", "contains", 2): list_function(contains_all),
    ("sets", "equivalent", 2): list_function(sets_equivalent),
    ("sets", "intersects", 2): list_function(sets_intersect),
}
"""Functions of namespaces by (namespace, name, number of arguments)."""

LEFT_OUT = frozenset(
    ("timestamp", "duration", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours",
     "getMilliseconds", "getMinutes", "getMonth", "getSeconds", "url", "isURL", "getScheme", "getHost", "getHostname",
     "getPort", "getEscapedPath", "getQuery", "format")
)  # fmt: skip
"""Functions of Kubernetes that are not supported."""

NAMES = frozenset(
    (
        *(name for name, _ in (*FUNCTIONS, *METHODS)),
        *(f"{space}.{name}" for space, name, _ in NAMESPACED),
        "or",
        "orValue",
    )
)
"""Functions of any number of arguments."""
