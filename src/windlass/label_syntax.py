"""Labels and selectors: what is wrong with them, in the words of the API server and of kube-scheduler.

The words matter: people look them up, and tools compare them.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.selectors import LabelSelector, Operator, Requirement, parse_int64

_OPERATORS = {
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


class BadSelector(ValueError):
    """A selector that the API's own rules refuse; the message is theirs."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A requirement as it was written, operator and all."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenSelector:
    """A label selector as it was written."""

    match_labels: Mapping[str, str] = field(default_factory=dict)
    match_expressions: tuple[Expression, ...] = ()

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


def read_selector(written: WrittenSelector) -> LabelSelector:
    """The selector that was meant. BadSelector names what is wrong first, labels by key before expressions."""
    requirements = []
    for key, value in sorted(written.match_labels.items()):
        _refuse_faults(key, Operator.IN, (value,))
        requirements.append(Requirement(key, Operator.IN, (value,)))
    for expression in written.match_expressions:
        operator = _OPERATORS.get(expression.operator)
        if operator is None:
            raise BadSelector(unknown_operator(expression.operator))
        _refuse_faults(expression.key, operator, expression.values)
        requirements.append(Requirement(expression.key, operator, tuple(sorted(expression.values))))
    return LabelSelector(tuple(requirements))


def _refuse_faults(key: str, operator: Operator, values: Sequence[str]) -> None:
    if faults := find_faults(key, operator, values):
        raise BadSelector(join_faults(faults))


def find_faults(key: str, operator: Operator, values: Sequence[str], at: str = "") -> list[str]:
    """What labels.NewRequirement of apimachinery finds wrong with a requirement, in its words; empty if nothing is.

    `at` is the path of the requirement, where the caller of NewRequirement gives one.
    """
    prefix = f"{at}." if at else ""
    faults = [f"{prefix}key: Invalid value: {quote(key)}: {'; '.join(wrong)}" for wrong in [_check_key(key)] if wrong]
    faults += [f"{prefix}{fault}" for fault in _check_values(operator, values)]
    for position, value in enumerate(values):
        if wrong := _check_value(value):
            faults.append(f"{prefix}values[{position}][{key}]: Invalid value: {quote(value)}: {'; '.join(wrong)}")
    return faults


def join_faults(faults: Iterable[str]) -> str:
    """Faults as an aggregate error prints them: each once, in brackets if there are several."""
    distinct = list(dict.fromkeys(faults))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def unknown_operator(operator: str) -> str:
    """What metav1.LabelSelectorAsSelector says of an operator that label selectors do not have."""
    return f"{quote(operator)} is not a valid label selector operator"


def unsupported(at: str, value: str, supported: Iterable[str]) -> str:
    """What field.NotSupported of apimachinery says."""
    return f"{at}: Unsupported value: {quote(value)}: supported values: {', '.join(map(quote, supported))}"


def invalid(at: str, value: object, why: str) -> str:
    """What field.Invalid of apimachinery says of a value that it prints as JSON."""
    return f"{at}: Invalid value: {_print_json(value)}: {why}"


def _check_values(operator: Operator, values: Sequence[str]) -> list[str]:
    """The number of values, and of `Gt` and `Lt` the values."""
    match operator:
        case Operator.IN | Operator.NOT_IN:
            if not values:
                return [invalid("values", None, "for 'in', 'notin' operators, values set can't be empty")]
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            if values:
                return [invalid("values", list(values), "values set must be empty for exists and does not exist")]
        case Operator.GT | Operator.LT:
            return _check_integers(values)
    return []


def _check_integers(values: Sequence[str]) -> list[str]:
    rule = "for 'Gt', 'Lt' operators"
    faults = []
    if len(values) != 1:
        faults.append(invalid("values", list(values) or None, f"{rule}, exactly one value is required"))
    return faults + [
        f"values[{position}]: Invalid value: {quote(value)}: {rule}, the value must be an integer"
        for position, value in enumerate(values)
        if parse_int64(value) is None
    ]


def _check_key(key: str) -> list[str]:
    """What is wrong with a label key: a name, or a DNS subdomain, a slash and a name."""
    if key.count("/") > 1:
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_explain_name()}{suffix}"]
    prefix, slash, name = key.rpartition("/")
    faults = [f"prefix part {fault}" for fault in _check_prefix(prefix)] if slash else []
    if not name:
        faults.append("name part must be non-empty")
    elif len(name.encode()) > _NAME_BYTES:
        faults.append(f"name part must be no more than {_NAME_BYTES} bytes")
    if not re.fullmatch(_NAME, name):
        faults.append(f"name part {_explain_name()}")
    return faults


def _check_prefix(prefix: str) -> list[str]:
    if not prefix:
        return ["must be non-empty"]
    faults = []
    if len(prefix.encode()) > _SUBDOMAIN_BYTES:
        faults.append(f"must be no more than {_SUBDOMAIN_BYTES} bytes")
    if not re.fullmatch(_SUBDOMAIN, prefix):
        faults.append(_explain(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return faults


def _check_value(value: str) -> list[str]:
    faults = []
    if len(value.encode()) > _NAME_BYTES:
        faults.append(f"must be no more than {_NAME_BYTES} bytes")
    if value and not re.fullmatch(_NAME, value):
        rule = _NAME_RULE.replace("must", "a valid label must be an empty string or", 1)
        faults.append(_explain(rule, f"({_NAME})?", "MyValue", "my_value", "12345"))
    return faults


def _explain_name() -> str:
    return _explain(_NAME_RULE, _NAME, "MyName", "my.name", "123-abc")


def _explain(rule: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {listed}regex used for validation is '{pattern}')"


def quote(text: str) -> str:
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
