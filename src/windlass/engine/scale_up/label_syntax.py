"""Labels and selectors that users write by hand: what is wrong with them, in the API server's own words.

The words matter: people look them up, and tools compare them.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.selectors import LabelSelector, Operator, Requirement

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
        _check_requirement(key, (value,), [])
        requirements.append(Requirement(key, Operator.IN, (value,)))
    for expression in written.match_expressions:
        operator = _OPERATORS.get(expression.operator)
        if operator is None:
            raise BadSelector(f"{_quote(expression.operator)} is not a valid label selector operator")
        _check_requirement(expression.key, expression.values, _check_number(operator, expression.values))
        requirements.append(Requirement(expression.key, operator, tuple(sorted(expression.values))))
    return LabelSelector(tuple(requirements))


def _check_number(operator: Operator, values: tuple[str, ...]) -> list[str]:
    if operator in (Operator.IN, Operator.NOT_IN) and not values:
        return ["values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"]
    if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and values:
        printed = _print_json(list(values))
        return [f"values: Invalid value: {printed}: values set must be empty for exists and does not exist"]
    return []


def _check_requirement(key: str, values: tuple[str, ...], more: list[str]) -> None:
    faults = [f"key: Invalid value: {_quote(key)}: {'; '.join(wrong)}" for wrong in [_check_key(key)] if wrong]
    faults += more
    for position, value in enumerate(values):
        if wrong := _check_value(value):
            faults.append(f"values[{position}][{key}]: Invalid value: {_quote(value)}: {'; '.join(wrong)}")
    if faults:
        raise BadSelector(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")


def _check_key(key: str) -> list[str]:
    """What is wrong with a label key: a name, or a DNS subdomain, a slash and a name."""
    rule = _explain(_NAME_RULE, _NAME, "MyName", "my.name", "123-abc")
    if key.count("/") > 1:
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {rule}{suffix}"]
    prefix, slash, name = key.rpartition("/")
    faults = [f"prefix part {fault}" for fault in _check_prefix(prefix)] if slash else []
    if not name:
        faults.append("name part must be non-empty")
    elif len(name.encode()) > _NAME_BYTES:
        faults.append(f"name part must be no more than {_NAME_BYTES} bytes")
    if not re.fullmatch(_NAME, name):
        faults.append(f"name part {rule}")
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


def _explain(rule: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {listed}regex used for validation is '{pattern}')"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _print_json(value: object) -> str:
    """As Go prints it: no spaces, and nothing that a browser could take for a tag."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
