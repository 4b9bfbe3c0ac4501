"""Selectors: what labels must look like, as values that the wire and the engine share.

A `Requirement` is one line of a selector; a `LabelSelector` asks for all of them; a `NodeSelector` for any of
its terms. Everything here is immutable and hashable, so that equal selectors are interned once and judged once.

Absent is not empty: no selector (`None`) selects nothing, an empty one (`EVERYTHING`) selects everything.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_INT64 = range(-(2**63), 2**63)
_MOST_DIGITS = 19
"""Of an int64, leading zeros aside."""


class Operator(enum.StrEnum):
    """How a requirement compares. `Gt` and `Lt` exist for nodes only."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One key and what its value must be. `values` are sorted, so that equal requirements compare equal."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def accepts(self, value: str | None) -> bool:
        """Does a label with this value satisfy the requirement? `None` means that the label is absent."""
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                left, right = parse_int64(value), parse_int64(self.values[0])
                if left is None or right is None:
                    return False
                return left > right if self.operator is Operator.GT else left < right

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.accepts(labels.get(self.key))


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold. Without any, everything is selected."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def of(cls, requirements: Iterable[Requirement]) -> "LabelSelector":
        """The selector with these requirements, each once and in order, so that equal selectors compare equal."""
        return cls(in_order(requirements))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that this selector can see."""
        return frozenset(requirement.key for requirement in self.requirements)


EVERYTHING = LabelSelector()


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Expressions on labels and on fields (`metadata.name` alone); all must hold. An empty term matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    is_invalid: bool = False
    """It cannot be parsed, so that it matches no node. kube-scheduler looks at the names in its fields all the same."""

    @property
    def is_empty(self) -> bool:
        """Does it match no node, whatever its labels?"""
        return self.is_invalid or not (self.expressions or self.fields)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        if self.is_empty:
            return False
        return all(r.matches(labels) for r in self.expressions) and all(r.accepts(name) for r in self.fields)


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Any of its terms must match. Without terms, no node is selected."""

    terms: tuple[NodeSelectorTerm, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        return any(term.matches(labels, name) for term in self.terms)


def in_order(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Each requirement once, by key, operator and values."""
    return tuple(sorted(set(requirements), key=lambda r: (r.key, r.operator, r.values)))


def complain(operator: Operator, values: tuple[str, ...]) -> str:
    """What values the operator accepts, if not these; empty if these will do."""
    match operator:
        case Operator.IN | Operator.NOT_IN:
            return "" if values else f"at least one value for {operator}"
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            return f"no value for {operator}" if values else ""
        case Operator.GT | Operator.LT:
            return "" if len(values) == 1 and parse_int64(values[0]) is not None else f"one integer for {operator}"


def parse_int64(text: str | None) -> int | None:
    """The integer that Go's ParseInt(text, 10, 64) reads, or None: `4.5`, ` 4`, `1_000` and 2^63 are not read."""
    if text is None:
        return None
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit():
        return None
    if len(digits) > _MOST_DIGITS and len(digits.lstrip("0")) > _MOST_DIGITS:
        return None  # Python refuses to read thousands of digits, with an error of its own
    number = int(digits[-_MOST_DIGITS:]) * (-1 if text[:1] == "-" else 1)
    return number if number in _INT64 else None
