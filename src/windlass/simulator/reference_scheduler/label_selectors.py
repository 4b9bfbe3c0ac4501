"""Label and node selectors: matching, and kube-scheduler's texts for selectors that it cannot parse.

Absent is not empty: no label selector (None) selects nothing, an empty one (`{}`) selects everything. An API server
keeps what older releases admitted, such as invalid label values. Implemented a second time on purpose: the reference
scheduler shares no rule with the engine.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"

_INTEGER = re.compile(r"[+-]?[0-9]+")

_CHARACTERS = "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"

_NAME_EXAMPLES = f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"

_VALUE_EXAMPLES = f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({_NAME})?')"

_BAD_NAME = f"must consist of {_CHARACTERS} {_NAME_EXAMPLES}"

_BAD_VALUE = f"a valid label must be an empty string or consist of {_CHARACTERS} {_VALUE_EXAMPLES}"

_BAD_SUBDOMAIN = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)

_SET_OPERATORS = {"In", "NotIn"}

_LABEL_OPERATORS = {*_SET_OPERATORS, "Exists", "DoesNotExist"}

_ESCAPED = {'"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def selector_error(selector: Json | None) -> str:
    """What is wrong with the first part of a label selector that cannot be parsed; empty if all of it can be."""
    for key, value in sorted(((selector or {}).get("matchLabels") or {}).items()):
        if faults := requirement_errors(key, "In", [value]):
            return aggregate_errors(faults)
    for expression in (selector or {}).get("matchExpressions") or ():
        operator = expression.get("operator") or ""
        if operator not in _LABEL_OPERATORS:
            return f"{_quote(operator)} is not a valid label selector operator"
        if faults := requirement_errors(expression.get("key") or "", operator, expression.get("values") or []):
            return aggregate_errors(faults)
    return ""


def requirement_errors(key: str, operator: str, values: Sequence[str]) -> list[str]:
    """What is wrong with a requirement: its key, the number of its values, each value."""
    faults = [f"key: Invalid value: {_quote(key)}: {'; '.join(wrong)}" for wrong in [_key_errors(key)] if wrong]
    listed = _list_values(values)
    faults += [f"values: Invalid value: {listed}: {reason}" for reason in _value_count_errors(operator, len(values))]
    for number, value in enumerate(values):
        if operator in ("Gt", "Lt") and not is_int64(value):
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            faults.append(f"values[{number}]: Invalid value: {_quote(value)}: {why}")
    for number, value in enumerate(values):
        if wrong := _value_errors(value):
            faults.append(f"values[{number}][{key}]: Invalid value: {_quote(value)}: {'; '.join(wrong)}")
    return faults


def preferred_terms_error(terms: Sequence[Json]) -> str:
    """What is wrong with preferred node selector terms (`weight`, `preference`); empty if all can be parsed."""
    faults = [
        fault
        for index, term in enumerate(terms)
        if term["weight"]
        for name, read in (("matchExpressions", _node_requirement_errors), ("matchFields", _node_field_errors))
        for number, expression in enumerate(term["preference"].get(name) or ())
        for fault in (f"[{index}].{name}[{number}].{text}" for text in read(expression))
    ]
    return aggregate_errors(faults) if faults else ""


def _node_requirement_errors(expression: Json) -> list[str]:
    operator = expression.get("operator") or ""
    if operator not in _NODE_OPERATORS:
        return [_unsupported_operator(operator, _NODE_OPERATORS)]
    return requirement_errors(expression.get("key") or "", operator, expression.get("values") or [])


def _node_field_errors(field: Json) -> list[str]:
    operator, values = field.get("operator") or "", field.get("values") or []
    if operator not in _FIELD_OPERATORS:
        return [_unsupported_operator(operator, _FIELD_OPERATORS)]
    listed = _list_values(values)
    return [] if len(values) == 1 else [f"values: Invalid value: {listed}: must have one element"]


def _unsupported_operator(operator: str, supported: Sequence[str]) -> str:
    listed = ", ".join(map(_quote, supported))
    return f"operator: Unsupported value: {_quote(operator)}: supported values: {listed}"


def aggregate_errors(faults: Sequence[str]) -> str:
    """Several errors as one: each text once."""
    texts = sorted(set(faults), key=faults.index)
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"


def _list_values(values: Sequence[str]) -> str:
    return json.dumps(list(values), ensure_ascii=False, separators=(",", ":")) if values else "null"


def is_int64(text: str) -> bool:
    return bool(_INTEGER.fullmatch(text)) and -(2**63) <= int(text) < 2**63


def _key_errors(key: str) -> list[str]:
    parts = key.split("/")
    if len(parts) > 2:
        return [
            f"a valid label key {_BAD_NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    wrong = []
    if len(parts) == 2 and not parts[0]:
        wrong.append("prefix part must be non-empty")
    elif len(parts) == 2:
        if len(parts[0].encode()) > 253:
            wrong.append("prefix part must be no more than 253 bytes")
        if not re.fullmatch(_SUBDOMAIN, parts[0]):
            wrong.append(_BAD_SUBDOMAIN)
    if not parts[-1]:
        wrong.append("name part must be non-empty")
    elif len(parts[-1].encode()) > 63:
        wrong.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_NAME, parts[-1]):
        wrong.append(f"name part {_BAD_NAME}")
    return wrong


def _value_count_errors(operator: str, count: int) -> list[str]:
    if operator in _SET_OPERATORS and count == 0:
        return ["for 'in', 'notin' operators, values set can't be empty"]
    if operator in ("Exists", "DoesNotExist") and count > 0:
        return ["values set must be empty for exists and does not exist"]
    if operator in ("Gt", "Lt") and count != 1:
        return ["for 'Gt', 'Lt' operators, exactly one value is required"]
    return []


def _value_errors(value: str) -> list[str]:
    wrong = ["must be no more than 63 bytes"] if len(value.encode()) > 63 else []
    return wrong if re.fullmatch(f"({_NAME})?", value) else [*wrong, _BAD_VALUE]


def _quote(text: str) -> str:
    """Quoted as in Go, with escapes for unprintable characters."""
    return '"' + "".join(_ESCAPED.get(item) or (item if item.isprintable() else _escape(item)) for item in text) + '"'


def _escape(character: str) -> str:
    number = ord(character)
    if character == "\v":
        return "\\v"
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


Labels = Mapping[str, str]

_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")

_FIELD_OPERATORS = ("In", "NotIn")


def matches_selector(selector: Json | None, labels: Labels) -> bool:
    """Does a label selector (matchLabels, matchExpressions) select these labels? Invalid
    selectors are handled by the callers.
    """
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_requirement_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def is_empty_selector(selector: Json | None) -> bool:
    """Is this the empty selector, which selects every object there is?"""
    return selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")


def matches_node_selector(selector: Json, labels: Labels, name: str) -> bool:
    """Does any term of a node selector match a node? Terms that cannot be read match no node."""
    return any(_term_matches(term, labels, name) for term in selector.get("nodeSelectorTerms") or ())


def _term_matches(term: Json, labels: Labels, name: str) -> bool:
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    if not all(is_valid_requirement(expression) for expression in expressions):
        return False
    if not all(field["operator"] in ("In", "NotIn") and len(field.get("values") or ()) == 1 for field in fields):
        return False
    own_fields = {"metadata.name": name}
    return all(_requirement_holds(expression, labels) for expression in expressions) and all(
        _field_holds(field, own_fields) for field in fields if name
    )


def is_valid_requirement(expression: Json) -> bool:
    """Can the scheduler parse this requirement? The API server admits some that it cannot."""
    operator = expression.get("operator") or ""
    faults = requirement_errors(expression.get("key") or "", operator, expression.get("values") or [])
    return operator in _NODE_OPERATORS and not faults


def _requirement_holds(expression: Json, labels: Labels) -> bool:
    value = labels.get(expression["key"])
    values: list[str] = expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            left, right = _int64(value), _int64(values[0])
            if left is None or right is None:
                return False
            return left > right if operator == "Gt" else left < right
    return False


def _field_holds(field: Json, own_fields: Mapping[str, str]) -> bool:
    is_equal = own_fields.get(field["key"], "") == field["values"][0]
    return is_equal if field["operator"] == "In" else not is_equal


def _int64(text: str | None) -> int | None:
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
