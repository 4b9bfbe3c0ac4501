"""Label and node selectors as immutable values, their validation, and the syntax of labels.

A `Requirement` is one line of a selector; a `LabelSelector` requires all of them, a `NodeSelector` any of its terms.
Equal selectors are equal values, so that they are interned and evaluated once for equal label sets. Error messages are
those of apimachinery (`labels.NewRequirement`, `field.Invalid`).

The syntax of names, label keys and label values is checked as in `k8s.io/apimachinery/pkg/util/validation`: each check
returns the errors in its order, empty if the text is valid. Lengths are in bytes of UTF-8, as in Go.
"""

import enum
import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_INT64 = range(-(2**63), 2**63)

_MOST_DIGITS = 19
"""Maximum digits of an int64 without leading zeros."""


class Operator(enum.StrEnum):
    """Operator of a requirement. `Gt` and `Lt` exist for nodes only."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A key and its accepted values, sorted so that equal requirements compare equal."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def accepts(self, value: str | None) -> bool:
        """True if a label with this value satisfies the requirement. None: the label is absent."""
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
    """All requirements must hold. An empty selector selects everything."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def of(cls, requirements: Iterable[Requirement]) -> "LabelSelector":
        """A selector of distinct, sorted requirements, so that equal selectors compare equal."""
        return cls(sort_requirements(requirements))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that the selector depends on."""
        return frozenset(requirement.key for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Expressions on labels and fields (`metadata.name`); all must hold. An empty term matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    is_invalid: bool = False
    """The term cannot be parsed and matches no node. kube-scheduler still uses the node names in its fields."""

    @property
    def is_empty(self) -> bool:
        """True if it matches no node, whatever its labels."""
        return self.is_invalid or not (self.expressions or self.fields)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        if self.is_empty:
            return False
        return all(r.matches(labels) for r in self.expressions) and all(r.accepts(name) for r in self.fields)


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Any term must match. Without terms, no node is selected."""

    terms: tuple[NodeSelectorTerm, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        return any(term.matches(labels, name) for term in self.terms)


def sort_requirements(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Distinct requirements, sorted by key, operator and values."""
    return tuple(sorted(set(requirements), key=lambda r: (r.key, r.operator, r.values)))


def explain_invalid_values(operator: Operator, values: tuple[str, ...]) -> str:
    """The values that the operator accepts, if these are invalid; empty if they are valid."""
    match operator:
        case Operator.IN | Operator.NOT_IN:
            return "" if values else f"at least one value for {operator}"
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            return f"no value for {operator}" if values else ""
        case Operator.GT | Operator.LT:
            return "" if len(values) == 1 and parse_int64(values[0]) is not None else f"one integer for {operator}"


def parse_int64(text: str | None) -> int | None:
    """Parse an integer as Go's ParseInt(text, 10, 64): `4.5`, ` 4`, `1_000` and 2^63 give None."""
    if text is None:
        return None
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit():
        return None
    if len(digits) > _MOST_DIGITS and len(digits.lstrip("0")) > _MOST_DIGITS:
        return None  # Python raises for thousands of digits
    number = int(digits[-_MOST_DIGITS:]) * (-1 if text[:1] == "-" else 1)
    return number if number in _INT64 else None


EVERYTHING = LabelSelector()

_OPERATORS_BY_NAME = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}

_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


class InvalidLabelSelector(ValueError):
    """A selector that the API rejects, with its message."""


@dataclass(frozen=True, slots=True)
class MatchExpression:
    """A requirement as written in the object."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnparsedLabelSelector:
    """A label selector as written in the object."""

    match_labels: Mapping[str, str] = field(default_factory=dict)
    match_expressions: tuple[MatchExpression, ...] = ()

    def __str__(self) -> str:
        """JSON as Go prints it: sorted label keys, without empty parts."""
        parts: dict[str, object] = {}
        if self.match_labels:
            parts["matchLabels"] = dict(sorted(self.match_labels.items()))
        if self.match_expressions:
            parts["matchExpressions"] = [
                {"key": match_expression.key, "operator": match_expression.operator}
                | ({"values": list(match_expression.values)} if match_expression.values else {})
                for match_expression in self.match_expressions
            ]
        return _print_json(parts)


def parse_label_selector(written: UnparsedLabelSelector) -> LabelSelector:
    """Parse a selector. InvalidLabelSelector names the first error; labels come before expressions."""
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
    """Errors of labels.NewRequirement; empty if the requirement is valid.

    `at` is the path of the requirement, if the caller of NewRequirement passes one.
    """
    prefix = f"{at}." if at else ""
    faults = [
        f"{prefix}key: Invalid value: {go_quote(key)}: {'; '.join(wrong)}"
        for wrong in [check_qualified_name(key)]
        if wrong
    ]
    faults += [f"{prefix}{fault}" for fault in _check_values(operator, values)]
    for position, value in enumerate(values):
        if wrong := check_label_value(value):
            faults.append(f"{prefix}values[{position}][{key}]: Invalid value: {go_quote(value)}: {'; '.join(wrong)}")
    return faults


def join_errors(faults: Iterable[str]) -> str:
    """Errors as an aggregate error prints them: distinct, several in brackets."""
    distinct = list(dict.fromkeys(faults))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def unknown_operator_error(operator: str) -> str:
    """The error of metav1.LabelSelectorAsSelector for an unknown operator."""
    return f"{go_quote(operator)} is not a valid label selector operator"


def not_supported_error(at: str, value: str, supported: Iterable[str]) -> str:
    """The message of field.NotSupported."""
    return f"{at}: Unsupported value: {go_quote(value)}: supported values: {', '.join(map(go_quote, supported))}"


def invalid_error(at: str, value: object, reason: str) -> str:
    """The message of field.Invalid, with the value as JSON."""
    return f"{at}: Invalid value: {_print_json(value)}: {reason}"


def _check_values(operator: Operator, values: Sequence[str]) -> list[str]:
    """Errors of the number of values, and of the values of `Gt` and `Lt`."""
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


def go_quote(text: str) -> str:
    """A string as Go's %q prints it."""
    return f'"{"".join(_ESCAPES.get(character) or _escape(character) for character in text)}"'


def _escape(character: str) -> str:
    number = ord(character)
    if character.isprintable():
        return character
    if number < 0x20 or number == 0x7F:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _print_json(value: object) -> str:
    """JSON as Go prints it: no spaces, HTML characters escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# ── Syntax of names and labels ───────────────────────────────────────────────────────────────────────────────────

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"

_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_VALUE = f"({_NAME})?"

_EDGES = "and must start and end with an alphanumeric character"

_LABEL_RULE = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_EDGES}"

_SUBDOMAIN_RULE = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_EDGES}"
)

_NAME_RULE = f"must consist of alphanumeric characters, '-', '_' or '.', {_EDGES}"

_VALUE_RULE = f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_EDGES}"

_LABEL_BYTES, _NAME_BYTES, _SUBDOMAIN_BYTES = 63, 63, 253


@functools.lru_cache(maxsize=4096)
def check_dns_label(name: str) -> tuple[str, ...]:
    """Errors of a lower-case RFC 1123 label, such as the name of a namespace or container."""
    errors = _check_length(name, _LABEL_BYTES)
    if not re.fullmatch(_DNS_LABEL, name):
        if re.fullmatch(_SUBDOMAIN, name):
            errors.append("must not contain dots")
        else:
            errors.append(_regex_error(_LABEL_RULE, _DNS_LABEL, "my-name", "123-abc"))
    return tuple(errors)


@functools.lru_cache(maxsize=4096)
def check_dns_subdomain(name: str) -> tuple[str, ...]:
    """Errors of a lower-case RFC 1123 subdomain, such as the name of most objects."""
    errors = _check_length(name, _SUBDOMAIN_BYTES)
    if not re.fullmatch(_SUBDOMAIN, name):
        errors.append(_regex_error(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return tuple(errors)


@functools.lru_cache(maxsize=4096)
def check_qualified_name(key: str) -> tuple[str, ...]:
    """Errors of the key of a label, annotation or taint: a name, optionally after a DNS subdomain and a slash."""
    prefix, slash, name = key.rpartition("/")
    syntax_error = _regex_error(_NAME_RULE, _NAME, "MyName", "my.name", "123-abc")
    if "/" in prefix:
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {syntax_error}{suffix}",)
    errors: list[str] = []
    if slash:
        prefix_errors = check_dns_subdomain(prefix) if prefix else ("must be non-empty",)
        errors += [f"prefix part {error}" for error in prefix_errors]
    if not name:
        errors.append("name part must be non-empty")
    else:
        errors += [f"name part {error}" for error in _check_length(name, _NAME_BYTES)]
    if not re.fullmatch(_NAME, name):
        errors.append(f"name part {syntax_error}")
    return tuple(errors)


@functools.lru_cache(maxsize=4096)
def check_label_value(value: str) -> tuple[str, ...]:
    """Errors of the value of a label."""
    errors = _check_length(value, _LABEL_BYTES)
    if not re.fullmatch(_VALUE, value):
        errors.append(_regex_error(_VALUE_RULE, _VALUE, "MyValue", "my_value", "12345"))
    return tuple(errors)


def _check_length(text: str, limit: int) -> list[str]:
    return [] if len(text.encode(errors="surrogatepass")) <= limit else [f"must be no more than {limit} bytes"]


def _regex_error(rule: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {listed}regex used for validation is '{pattern}')"
