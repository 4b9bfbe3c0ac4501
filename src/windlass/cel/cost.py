"""Compiled code of expression nodes, and what evaluating it costs, counted as Kubernetes counts, against a limit.

Most steps cost one and are added up when an expression is compiled. Functions over strings and lists cost by the
sizes of their arguments, known when they are called. The figures are those of cel-go and of Kubernetes' library. Node
builders request the code of other nodes by a generator protocol.
"""

import itertools
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from windlass.cel import parser
from windlass.cel.checker import Issue, RecordType
from windlass.cel.values import Cancelled, Cidr, Optional, Value, Version
from windlass.quantity import Quantity

METER_KEY = "@cost"
"""The name of the meter among the variables: no expression can spell it."""

CREATE_LIST, CREATE_MAP = 10, 30

APPEND = 2 + CREATE_LIST
"""Cost of adding an item to the result of a macro: read the result, make a list of the item, join them."""

_CHARACTER = 0.1

_PATTERN_CHARACTER = 0.25


class Meter:
    """Counts the cost of one evaluation against its limit."""

    __slots__ = ("limit", "spent")

    def __init__(self, limit: int) -> None:
        self.spent, self.limit = 0, limit

    def charge(self, cost: int) -> None:
        self.spent += cost
        if self.spent > self.limit:
            raise Cancelled("operation cancelled: actual cost limit exceeded")


CallCost: TypeAlias = Callable[..., int]
"""The cost of a call as a function of its arguments."""

_SIZED = frozenset((str, bytes, list, dict))


def value_size(value: Value) -> int:
    if type(value) in _SIZED or isinstance(value, Mapping):
        return len(value)
    return value_size(value.value) if isinstance(value, Optional) and value.has_value else 1


def traversal_cost(value: Value, known: dict[int, int] | None = None) -> int:
    """The cost of traversing a value. Shared parts are traversed once."""
    if isinstance(value, str | bytes):
        return int(len(value) * _CHARACTER)
    if not isinstance(value, list | Mapping):
        return 1
    known = {} if known is None else known
    if id(value) not in known:
        items = value if isinstance(value, list) else itertools.chain.from_iterable(value.items())
        known[id(value)] = sum(traversal_cost(item, known) for item in items)
    return known[id(value)]


def count_nested(value: Value) -> int:
    """The number of values nested in the items of a list or map.

    Kubernetes charges nothing for them where it compares lists. An expression of a few lines can make lists of lists of
    the same lists with more items than anything can ever compare, so they are charged here.
    """
    if isinstance(value, Optional) and value.has_value:
        return count_nested(value.value)
    items = value if isinstance(value, list) else value.values() if isinstance(value, Mapping) else ()
    if not any(isinstance(item, list | Mapping | Optional) for item in items):
        return 0
    known: dict[int, int] = {}
    return sum(_count_within(item, known) for item in items)


def _count_within(value: Value, known: dict[int, int]) -> int:
    if isinstance(value, Optional):
        value = value.value
    if not isinstance(value, list | Mapping):
        return 0
    if id(value) not in known:
        items = value if isinstance(value, list) else value.values()
        known[id(value)] = len(value) + sum(_count_within(item, known) for item in items)
    return known[id(value)]


def _read(value: Value, *_: Value) -> int:
    return math.ceil(value_size(value) * _CHARACTER)


def _rewrite(value: Value, *_: Value) -> int:
    return math.ceil(value_size(value) * 2 * _CHARACTER)


def compare_cost(left: Value, right: Value) -> int:
    if type(left) is str and type(right) is str:
        return math.ceil(min(len(left), len(right)) * _CHARACTER)
    if isinstance(left, Quantity | Version):
        return 1
    return (
        math.ceil(min(value_size(left), value_size(right)) * _CHARACTER)
        + min(count_nested(left), count_nested(right)) // _PER_COST
    )


_PER_COST = 10
"""Nested values that are compared at the cost of one."""

COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))


def has_unit_comparison_cost(value: Value) -> bool:
    """Does comparing with this value cost at most one? (It costs nothing if the other value is empty.)"""
    return 0 < value_size(value) <= 10


def bound_comparison(
    steps: Sequence[Callable[[Mapping[str, Value]], Value]], are_constant: Sequence[bool]
) -> int | None:
    """Upper bound of the cost of comparing any value with a constant."""
    sizes = [value_size(step({})) for step, is_constant in zip(steps, are_constant, strict=True) if is_constant]
    return math.ceil(min(sizes) * _CHARACTER) if sizes else None


def _plus(left: Value, right: Value) -> int:
    if isinstance(left, str | bytes):
        return math.ceil((value_size(left) + value_size(right)) * _CHARACTER)
    if isinstance(left, list) and isinstance(right, list):  # Kubernetes joins lists without copying them
        return 1 + (len(left) + len(right)) // _PER_COST
    return 1


def _match(text: Value, pattern: Value, *_: Value) -> int:
    return math.ceil((1 + value_size(text)) * _CHARACTER) * math.ceil(value_size(pattern) * _PATTERN_CHARACTER)


def _contain(text: Value, part: Value) -> int:
    return _read(text) * _read(part)


def _within(item: Value, container: Value) -> int:
    if not isinstance(container, list):
        return 1
    return len(container) + _compare_with_all(item, container)


def _compare_with_all(item: Value, items: Value) -> int:
    """Additional cost of comparing an item with nested values."""
    return min(value_size(items) * (value_size(item) + count_nested(item)), count_nested(items)) // _PER_COST


def _replace(text: Value, old: Value, new: Value, *_: Value) -> int:
    """Kubernetes charges for the text that is read; here, a much longer result costs more."""
    if not all(isinstance(value, str) for value in (text, old, new)):
        return 1
    longer: int = text.count(old) * (len(new) - len(old)) - len(text)
    return _rewrite(text) + max(longer, 0) // _PER_COST


def _find(target: Value, *_: Value) -> int:
    return traversal_cost(target)


def _join(items: Value, separator: Value = "") -> int:
    """By the length of the result, computed without joining."""
    if not isinstance(items, list):
        return 1
    return math.ceil((sum(map(value_size, items)) + value_size(separator) * max(len(items) - 1, 0)) * 2 * _CHARACTER)


def _sets(factor: int) -> CallCost:
    return lambda left, right: (
        1
        + value_size(left) * value_size(right) * factor
        + min(count_nested(left) * value_size(right), count_nested(right) * value_size(left)) // _PER_COST
    )


def _copy(items: Value, *_: Value) -> int:
    return value_size(items) + 1 + CREATE_LIST


def compare_all_cost(items: Value, *_: Value) -> int:
    count = value_size(items)
    has_texts = isinstance(items, list) and bool(items) and isinstance(items[0], str | bytes)
    return (
        int(count * count * (2 + _CHARACTER * has_texts)) + 1 + CREATE_LIST + count_nested(items) * count // _PER_COST
    )


def _count(limit: Value) -> int:
    return (max(limit, 0) if type(limit) is int else 0) + 1 + CREATE_LIST


def _slice(items: Value, start: Value, end: Value) -> int:
    are_valid = type(start) is type(end) is int and 0 <= start <= end <= value_size(items)
    return (end - start if are_valid else 0) + 1 + CREATE_LIST


def _flatten(items: Value, depth: Value = 1) -> int:
    """All nested values may become items of the result, which Kubernetes does not charge."""
    times = max(depth, 0) if type(depth) is int else 0
    return value_size(items) * times + 1 + CREATE_LIST + count_nested(items) // _PER_COST


def _read_ip(value: Value) -> int:
    return _read(value) if isinstance(value, str) else 1


def _contain_ip(cidr: Value, other: Value) -> int:
    """The size of a network is that of its prefix, in bytes."""
    return math.ceil(2 * _width(cidr) * _CHARACTER) + (_read(other) if isinstance(other, str) else 0)


def _contain_cidr(cidr: Value, other: Value) -> int:
    return _contain_ip(cidr, other) + math.ceil(_width(cidr) * _CHARACTER) + 1


def _width(cidr: Value) -> int:
    return math.ceil(cidr.prefix / 8) if isinstance(cidr, Cidr) else 1


CALLS: Mapping[str, int | CallCost] = {
    "==": compare_cost, "!=": compare_cost, "<": compare_cost, "<=": compare_cost, ">": compare_cost,
    ">=": compare_cost, "+": _plus, "in": _within,
    "startsWith": _read, "endsWith": _read, "contains": _contain, "matches": _match, "find": _match, "findAll": _match,
    "lowerAscii": _read, "upperAscii": _read, "trim": _read, "substring": _read, "replace": _replace, "split": _rewrite,
    "join": _join, "quantity": _read, "isQuantity": _read, "semver": _read, "isSemver": _read,
    "isSorted": traversal_cost, "sum": traversal_cost, "min": traversal_cost, "max": traversal_cost,
    "indexOf": _find, "lastIndexOf": _find,
    "reverse": _copy, "distinct": compare_all_cost, "bytes": _read,
    "ip": _read_ip, "isIP": _read, "cidr": _read, "isCIDR": _read, "ip.isCanonical": _rewrite,
    "containsIP": _contain_ip, "containsCIDR": _contain_cidr,
    "slice": _slice, "flatten": _flatten, "sort": compare_all_cost, "lists.range": _count,
    "sets.contains": _sets(1), "sets.intersects": _sets(1), "sets.equivalent": _sets(2),
}  # fmt: skip
"""Costs by function; all other functions cost one."""

MAX_COST = 1_000_000
"""Cost limit of an evaluation: Kubernetes' limit for device selectors."""


Variables: TypeAlias = Mapping[str, Value]
Step: TypeAlias = Callable[[Variables], Value]


@dataclass(frozen=True, slots=True)
class Code:
    """A node as a function of the variables."""

    step: Step
    cost: int = 0
    """The fixed cost of an evaluation. It is charged by the parent node."""
    more: int | None = 0
    """Upper bound of further costs; None if it depends on the input."""
    is_constant: bool = False
    type: str = ""
    """The static type of its value: see `checker`."""

    @property
    def most(self) -> int | None:
        """Upper bound of the cost of the node."""
        return None if self.more is None else self.cost + self.more

    def charged(self, scope: "Scope") -> Step:
        """The step, charging its fixed cost if costs are counted."""
        if not self.cost or not scope.is_metered:
            return self.step
        step, cost = self.step, self.cost

        def evaluate(variables: Variables) -> Value:
            charge(variables, cost)
            return step(variables)

        return evaluate


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a node: the names in it, and whether costs are counted."""

    names: frozenset[str]
    is_metered: bool = True
    bound: frozenset[str] = frozenset()
    """Names whose value may be an error, which is raised where the name is used."""
    records: Mapping[str, RecordType] = field(default_factory=dict)
    """Types of variables with known fields, by name."""
    issues: list[Issue] = field(default_factory=list)
    """Issues of the expression so far. All scopes of an expression share the list."""

    def add(self, *names: str) -> "Scope":
        return self._with(names, self.bound - frozenset(names))

    def bind(self, name: str) -> "Scope":
        return self._with((name,), self.bound | {name})

    def _with(self, names: tuple[str, ...], bound: frozenset[str]) -> "Scope":
        """The scope with these names bound anew."""
        records = {name: known for name, known in self.records.items() if name not in names}
        return replace(self, names=self.names | frozenset(names), bound=bound, records=records)


BuildRequest: TypeAlias = tuple[parser.Node, Scope]
Builder: TypeAlias = Generator[BuildRequest, Code, Code]
"""Yields nodes, with their scopes; is sent their code; returns the code of its own node.

So trees of any depth are built without recursion.
"""


def charge(variables: Variables, cost: int) -> None:
    variables[METER_KEY].charge(cost)


def build_all(nodes: Iterable[parser.Node], scope: Scope) -> Generator[BuildRequest, Code, list[Code]]:
    """The code of several nodes."""
    made: list[Code] = []
    for node in nodes:
        code = yield node, scope
        made.append(code)
    return made


def sum_costs(costs: Iterable[int | None]) -> int | None:
    """The sum, or None if one of the costs is unknown."""
    total = 0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total
