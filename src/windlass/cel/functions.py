"""The functions that expressions may call, by name and number of arguments."""

from collections.abc import Callable, Mapping

from windlass.cel import addresses, amounts, conversions, lists, operators, strings
from windlass.cel.values import NO_OVERLOAD, NOTHING, EvaluationError, Function, Optional, Value, equal


def _string_or_list(string: Function, items: Function) -> Function:
    return lambda target, *others: (items if isinstance(target, list) else string)(target, *others)


def _optional(function: Callable[..., Value]) -> Function:
    def checked(target: Value, *others: Value) -> Value:
        if not isinstance(target, Optional):
            raise EvaluationError(NO_OVERLOAD)
        return function(target, *others)

    return checked


def _value_of(target: Optional) -> Value:
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
    ("<", 2): lambda left, right: operators.order(left, right) < 0,
    ("<=", 2): lambda left, right: operators.order(left, right) <= 0,
    (">", 2): lambda left, right: operators.order(left, right) > 0,
    (">=", 2): lambda left, right: operators.order(left, right) >= 0,
    ("in", 2): operators.contains,
    ("size", 1): operators.size,
    ("int", 1): conversions.to_int,
    ("uint", 1): conversions.to_uint,
    ("bytes", 1): conversions.to_bytes,
    ("type", 1): conversions.to_type,
    ("double", 1): conversions.to_double,
    ("bool", 1): conversions.to_bool,
    ("string", 1): conversions.to_string,
    ("dyn", 1): lambda value: value,
    ("matches", 2): strings.of(strings.matches, str),
    ("quantity", 1): amounts.to_quantity,
    ("isQuantity", 1): amounts.is_quantity,
    ("semver", 1): amounts.to_version,
    ("semver", 2): amounts.to_version,
    ("isSemver", 1): amounts.is_version,
    ("isSemver", 2): amounts.is_version,
    ("ip", 1): addresses.to_ip,
    ("isIP", 1): addresses.is_valid(addresses.to_ip),
    ("cidr", 1): addresses.to_cidr,
    ("isCIDR", 1): addresses.is_valid(addresses.to_cidr),
}
"""By (name, arguments)."""

METHODS: Mapping[tuple[str, int], Function] = {
    ("size", 0): operators.size,
    ("contains", 1): strings.of(lambda text, part: part in text, str),
    ("startsWith", 1): strings.of(str.startswith, str),
    ("endsWith", 1): strings.of(str.endswith, str),
    ("matches", 1): strings.of(strings.matches, str),
    ("find", 1): strings.of(strings.find, str),
    ("findAll", 1): strings.of(strings.find_all, str),
    ("findAll", 2): strings.of(strings.find_all, str, int),
    ("charAt", 1): strings.of(strings.char_at, int),
    ("indexOf", 1): _string_or_list(strings.of(strings.index_of, str), lists.position),
    ("indexOf", 2): strings.of(strings.index_of, str, int),
    ("lastIndexOf", 1): _string_or_list(strings.of(strings.last_index_of, str), lists.last_position),
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
    ("reverse", 0): lists.of(lambda items: items[::-1]),
    ("join", 0): strings.join,
    ("join", 1): strings.join,
    ("sum", 0): lists.of(lists.sum_up),
    ("min", 0): lists.of(lists.extreme(-1, "min")),
    ("max", 0): lists.of(lists.extreme(1, "max")),
    ("isSorted", 0): lists.of(lists.is_sorted),
    ("distinct", 0): lists.of(lists.distinct),
    ("slice", 2): lists.of(lists.slice_of),
    ("flatten", 0): lists.of(lists.flatten),
    ("flatten", 1): lists.of(lists.flatten),
    ("sort", 0): lists.of(lists.sort),
    ("first", 0): lists.of(lists.end_of(0)),
    ("last", 0): lists.of(lists.end_of(-1)),
    ("family", 0): addresses.of_ip(lambda address: address.version),
    ("isUnspecified", 0): addresses.of_ip(lambda address: address.is_unspecified),
    ("isLoopback", 0): addresses.of_ip(lambda address: address.is_loopback),
    ("isLinkLocalMulticast", 0): addresses.of_ip(addresses.is_link_local_multicast),
    ("isLinkLocalUnicast", 0): addresses.of_ip(lambda address: address.is_link_local),
    ("isGlobalUnicast", 0): addresses.of_ip(addresses.is_global_unicast),
    ("containsIP", 1): addresses.of_cidr(addresses.contains_ip),
    ("containsCIDR", 1): addresses.of_cidr(addresses.contains_cidr),
    ("ip", 0): addresses.of_cidr(addresses.to_ip),
    ("masked", 0): addresses.of_cidr(addresses.mask),
    ("prefixLength", 0): addresses.of_cidr(lambda cidr: cidr.prefix),
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
}
"""By (name, arguments beside the target)."""

NAMESPACED: Mapping[tuple[str, str, int], Function] = {
    ("optional", "of", 1): lambda value: Optional(value, True),
    ("optional", "ofNonZeroValue", 1): _if_not_zero,
    ("optional", "none", 0): lambda: NOTHING,
    ("lists", "range", 1): lists.count_to,
    ("ip", "isCanonical", 1): addresses.is_canonical,
    ("sets", "contains", 2): lists.of(lists.covers),
    ("sets", "equivalent", 2): lists.of(lists.cover_each_other),
    ("sets", "intersects", 2): lists.of(lists.intersect),
}
"""By (namespace, name, arguments)."""

LEFT_OUT = frozenset(
    ("timestamp", "duration", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours",
     "getMilliseconds", "getMinutes", "getMonth", "getSeconds", "url", "isURL", "getScheme", "getHost", "getHostname",
     "getPort", "getEscapedPath", "getQuery", "format")
)  # fmt: skip
"""Functions that Kubernetes has and that are not here."""

NAMES = frozenset(
    (
        *(name for name, _ in (*FUNCTIONS, *METHODS)),
        *(f"{space}.{name}" for space, name, _ in NAMESPACED),
        "or",
        "orValue",
    )
)
"""Functions of any number of arguments."""
