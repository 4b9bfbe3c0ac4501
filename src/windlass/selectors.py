"""Label and node selectors as immutable values, and their validation.

A `Requirement` is one line of a selector; a `LabelSelector` requires all of them, a `NodeSelector` any of its terms.
Equal selectors are equal values, so they are interned once and evaluated once for all equal label sets.
Validation errors have the words of apimachinery (`labels.NewRequirement`, `field.Invalid`): people search for them
and tools compare them.
"""

import enum
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
        return cls(sort_requirements(requirements))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that this selector can see."""
        return frozenset(requirement.key for requirement in self.requirements)


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


def sort_requirements(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Each requirement once, by key, operator and values."""
    return tuple(sorted(set(requirements), key=lambda r: (r.key, r.operator, r.values)))


def explain_invalid_values(operator: Operator, values: tuple[str, ...]) -> str:
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


EVERYTHING = LabelSelector()

_OPERATORS_BY_NAME = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)

_NAME_BYTES = 63

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"

_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"

_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)

_SUBDOMAIN_BYTES = 253

_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


class InvalidLabelSelector(ValueError):
    """A selector that the API's own rules refuse; the message is theirs."""


@dataclass(frozen=True, slots=True)
class MatchExpression:
    """A requirement as it was written, operator and all."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnparsedLabelSelector:
    """A label selector as it was written."""

    match_labels: Mapping[str, str] = field(default_factory=dict)
    match_expressions: tuple[MatchExpression, ...] = ()

    def __str__(self) -> str:
        """As Go prints it in JSON: keys of labels sorted, empty parts left out."""
        parts: dict[str, object] = {}
        if self.match_labels:
            parts["matchLabels"] = dict(sorted(self.match_labels.items()))
        if self.match_expressions:
            parts["matchExpressions"] = [
                {"key": one.key, "operator": one.operator} | ({"values": list(one.values)} if one.values else {})
                for one in self.match_expressions
            ]
        return _print_json(parts)


def parse_label_selector(written: UnparsedLabelSelector) -> LabelSelector:
    """The selector that was meant. BadSelector names what is wrong first, labels by key before expressions."""
    requirements = []
    for key, value in sorted(written.match_labels.items()):
        _raise_errors(key, Operator.IN, (value,))
        requirements.append(Requirement(key, Operator.IN, (value,)))
    for expression in written.match_expressions:
        operator = _OPERATORS_BY_NAME.get(expression.operator)
        if operator is None:
            raise InvalidLabelSelector(unknown_operator_error(expression.operator))
        _raise_errors(expression.key, operator, expression.values)
        requirements.append(Requirement(expression.key, operator, tuple(sorted(expression.values))))
    return LabelSelector(tuple(requirements))


def _raise_errors(key: str, operator: Operator, values: Sequence[str]) -> None:
    if faults := validate_requirement(key, operator, values):
        raise InvalidLabelSelector(join_errors(faults))


def validate_requirement(key: str, operator: Operator, values: Sequence[str], at: str = "") -> list[str]:
    """What labels.NewRequirement of apimachinery finds wrong with a requirement, in its words; empty if nothing is.

    `at` is the path of the requirement, where the caller of NewRequirement gives one.
    """
    prefix = f"{at}." if at else ""
    faults = [
        f"{prefix}key: Invalid value: {go_quote(key)}: {'; '.join(wrong)}" for wrong in [_check_key(key)] if wrong
    ]
    faults += [f"{prefix}{fault}" for fault in _check_values(operator, values)]
    for position, value in enumerate(values):
        if wrong := _check_value(value):
            faults.append(f"{prefix}values[{position}][{key}]: Invalid value: {go_quote(value)}: {'; '.join(wrong)}")
    return faults


def join_errors(faults: Iterable[str]) -> str:
    """Faults as an aggregate error prints them: each once, in brackets if there are several."""
    distinct = list(dict.fromkeys(faults))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def unknown_operator_error(operator: str) -> str:
    """What metav1.LabelSelectorAsSelector says of an operator that label selectors do not have."""
    return f"{go_quote(operator)} is not a valid label selector operator"


def not_supported_error(at: str, value: str, supported: Iterable[str]) -> str:
    """What field.NotSupported of apimachinery says."""
    return f"{at}: Unsupported value: {go_quote(value)}: supported values: {', '.join(map(go_quote, supported))}"


def invalid_error(at: str, value: object, why: str) -> str:
    """What field.Invalid of apimachinery says of a value that it prints as JSON."""
    return f"{at}: Invalid value: {_print_json(value)}: {why}"


def _check_values(operator: Operator, values: Sequence[str]) -> list[str]:
    """The number of values, and of `Gt` and `Lt` the values."""
    match operator:
        case Operator.IN | Operator.NOT_IN:
            if not values:
                return [invalid_error("values", None, "for 'in', 'notin' operators, values set can't be empty")]
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            if values:
                return [invalid_error("values", list(values), "values set must be empty for exists and does not exist")]
        case Operator.GT | Operator.LT:
            return _check_integers(values)
    return []


def _check_integers(values: Sequence[str]) -> list[str]:
    rule = "for 'Gt', 'Lt' operators"
    faults = []
    if len(values) != 1:
        faults.append(invalid_error("values", list(values) or None, f"{rule}, exactly one value is required"))
    return faults + [
        f"values[{position}]: Invalid value: {go_quote(value)}: {rule}, the value must be an integer"
        for position, value in enumerate(values)
        if parse_int64(value) is None
    ]


def _check_key(key: str) -> list[str]:
    """What is wrong with a label key: a name, or a DNS subdomain, a slash and a name."""
    if key.count("/") > 1:
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_name_error()}{suffix}"]
    prefix, slash, name = key.rpartition("/")
    faults = [f"prefix part {fault}" for fault in _check_prefix(prefix)] if slash else []
    if not name:
        faults.append("name part must be non-empty")
    elif len(name.encode()) > _NAME_BYTES:
        faults.append(f"name part must be no more than {_NAME_BYTES} bytes")
    if not re.fullmatch(_NAME, name):
        faults.append(f"name part {_name_error()}")
    return faults


def _check_prefix(prefix: str) -> list[str]:
    if not prefix:
        return ["must be non-empty"]
    faults = []
    if len(prefix.encode()) > _SUBDOMAIN_BYTES:
        faults.append(f"must be no more than {_SUBDOMAIN_BYTES} bytes")
    if not re.fullmatch(_SUBDOMAIN, prefix):
        faults.append(_regex_error(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return faults


def _check_value(value: str) -> list[str]:
    faults = []
    if len(value.encode()) > _NAME_BYTES:
        faults.append(f"must be no more than {_NAME_BYTES} bytes")
    if value and not re.fullmatch(_NAME, value):
        rule = _NAME_RULE.replace("must", "a valid label must be an empty string or", 1)
        faults.append(_regex_error(rule, f"({_NAME})?", "MyValue", "my_value", "12345"))
    return faults


def _name_error() -> str:
    return _regex_error(_NAME_RULE, _NAME, "MyName", "my.name", "123-abc")


def _regex_error(rule: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {listed}regex used for validation is '{pattern}')"


def go_quote(text: str) -> str:
    """As Go's %q prints it."""
    return f'"{"".join(_ESCAPES.get(character) or _escape(character) for character in text)}"'


def _escape(character: str) -> str:
    number = ord(character)
    if character.isprintable():
        return character
    if number < 0x20 or number == 0x7F:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _print_json(value: object) -> str:
    """As Go prints it: no spaces, and nothing that a browser could take for a tag."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
