"""Selectors as requests spell them: `app in (a, b),!old` on labels, `spec.nodeName=worker-1` on fields."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from windlass import selectors
from windlass.apiserver import status

_KEY = r"(?:[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_TERM = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<without>{_KEY})"
    rf"|(?P<key>{_KEY})\s*(?:(?P<set>in|notin)\s*\((?P<values>[^()]*)\)"
    r"|(?P<equal>==|=|!=)\s*(?P<value>[-A-Za-z0-9_.]*)"
    r"|(?P<compare>[<>])\s*(?P<number>-?\d+))?)\s*(?:,|$)"
)
_FIELD = re.compile(r"(?P<path>(?:[^=!\\,]|\\.)+?)(?P<operator>!=|==|=)(?P<value>(?:[^=!\\,]|\\.)*)(?:,|$)")
_OPERATORS = selectors.Operator


def read_labels(text: str) -> selectors.LabelSelector:
    """A label selector. Refused if it cannot be parsed."""
    requirements = []
    at = 0
    while at < len(text):
        term = _TERM.match(text, at)
        if term is None:
            raise status.bad_request(f"unable to parse requirement: found '{text[at:]}', expected: identifier")
        requirements.append(_read_term(term))
        at = term.end()
    return selectors.LabelSelector.of(requirements) if requirements else selectors.EVERYTHING


def _read_term(term: re.Match[str]) -> selectors.Requirement:
    if term["absent"]:
        return selectors.Requirement(term["without"], _OPERATORS.DOES_NOT_EXIST)
    if term["set"]:
        values = tuple(sorted({value.strip() for value in term["values"].split(",")}))
        return selectors.Requirement(term["key"], _OPERATORS.IN if term["set"] == "in" else _OPERATORS.NOT_IN, values)
    if term["equal"]:
        operator = _OPERATORS.NOT_IN if term["equal"] == "!=" else _OPERATORS.IN
        return selectors.Requirement(term["key"], operator, (term["value"],))
    if term["compare"]:
        return selectors.Requirement(
            term["key"], _OPERATORS.GT if term["compare"] == ">" else _OPERATORS.LT, (term["number"],)
        )
    return selectors.Requirement(term["key"], _OPERATORS.EXISTS)


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One field that must, or must not, have a value."""

    path: str
    value: str
    wants_equal: bool

    def accepts(self, value: str) -> bool:
        return (value == self.value) is self.wants_equal


def read_fields(text: str, supported: Sequence[str]) -> tuple[FieldRequirement, ...]:
    """A field selector on fields that the kind supports; `metadata.name` always is."""
    requirements = []
    at = 0
    while at < len(text):
        term = _FIELD.match(text, at)
        if term is None:
            raise status.bad_request(f'invalid field selector: invalid selector: "{text}"; can\'t understand "{text}"')
        if term["path"] not in supported:
            raise status.bad_request(f"field label not supported: {term['path']}")
        value = re.sub(r"\\(.)", r"\1", term["value"])
        requirements.append(FieldRequirement(term["path"], value, term["operator"] != "!="))
        at = term.end()
    return tuple(requirements)


class Selectable:
    """Anything with labels and fields: what selectors look at."""

    __slots__ = ("fields", "labels", "name", "namespace")

    def __init__(self, namespace: str, name: str, labels: Mapping[str, str], fields: Mapping[str, str]) -> None:
        self.namespace, self.name, self.labels, self.fields = namespace, name, labels, fields


Filter = Callable[[Selectable], bool]


def make_filter(namespace: str, labels: selectors.LabelSelector, fields: tuple[FieldRequirement, ...]) -> Filter | None:
    """Whether an object is asked for; None if every object is."""
    if not namespace and not labels.requirements and not fields:
        return None

    def accepts(found: Selectable) -> bool:
        if namespace and found.namespace != namespace:
            return False
        if labels.requirements and not labels.matches(found.labels):
            return False
        return all(field.accepts(_field(found, field.path)) for field in fields)

    return accepts


def _field(found: Selectable, path: str) -> str:
    if path == "metadata.name":
        return found.name
    return found.namespace if path == "metadata.namespace" else found.fields.get(path, "")
