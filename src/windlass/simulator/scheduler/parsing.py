"""Selectors that kube-scheduler cannot parse, and its words for what is wrong with them.

An API server keeps what older releases admitted: values that are no label values, say. Written here a second time on
purpose: the simulator's scheduler shares no rule with the engine.
"""

import json
import re
from collections.abc import Sequence
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
_OPERATORS = {*_SET_OPERATORS, "Exists", "DoesNotExist"}
_ESCAPED = {'"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def fault_of(selector: Json | None) -> str:
    """What is wrong with the first part of a label selector that cannot be parsed; empty if all of it can be."""
    for key, value in sorted(((selector or {}).get("matchLabels") or {}).items()):
        if faults := faults_of(key, "In", [value]):
            return aggregate(faults)
    for expression in (selector or {}).get("matchExpressions") or ():
        operator = expression.get("operator") or ""
        if operator not in _OPERATORS:
            return f"{_quote(operator)} is not a valid label selector operator"
        if faults := faults_of(expression.get("key") or "", operator, expression.get("values") or []):
            return aggregate(faults)
    return ""


def faults_of(key: str, operator: str, values: Sequence[str]) -> list[str]:
    """What is wrong with a requirement: its key, the number of its values, each value."""
    faults = [f"key: Invalid value: {_quote(key)}: {'; '.join(wrong)}" for wrong in [_wrong_with_key(key)] if wrong]
    listed = json.dumps(list(values), ensure_ascii=False, separators=(",", ":")) if values else "null"
    faults += [f"values: Invalid value: {listed}: {why}" for why in _wrong_with_number(operator, len(values))]
    for number, value in enumerate(values):
        if operator in ("Gt", "Lt") and not is_int64(value):
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            faults.append(f"values[{number}]: Invalid value: {_quote(value)}: {why}")
    for number, value in enumerate(values):
        if wrong := _wrong_with_value(value):
            faults.append(f"values[{number}][{key}]: Invalid value: {_quote(value)}: {'; '.join(wrong)}")
    return faults


def aggregate(faults: Sequence[str]) -> str:
    """Several errors as one: each text once."""
    texts = sorted(set(faults), key=faults.index)
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"


def is_int64(text: str) -> bool:
    return bool(_INTEGER.fullmatch(text)) and -(2**63) <= int(text) < 2**63


def _wrong_with_key(key: str) -> list[str]:
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


def _wrong_with_number(operator: str, count: int) -> list[str]:
    if operator in _SET_OPERATORS and count == 0:
        return ["for 'in', 'notin' operators, values set can't be empty"]
    if operator in ("Exists", "DoesNotExist") and count > 0:
        return ["values set must be empty for exists and does not exist"]
    if operator in ("Gt", "Lt") and count != 1:
        return ["for 'Gt', 'Lt' operators, exactly one value is required"]
    return []


def _wrong_with_value(value: str) -> list[str]:
    wrong = ["must be no more than 63 bytes"] if len(value.encode()) > 63 else []
    return wrong if re.fullmatch(f"({_NAME})?", value) else [*wrong, _BAD_VALUE]


def _quote(text: str) -> str:
    """As Go quotes it; what no terminal shows goes by its number."""
    return '"' + "".join(_ESCAPED.get(one) or (one if one.isprintable() else _number(one)) for one in text) + '"'


def _number(character: str) -> str:
    number = ord(character)
    if character == "\v":
        return "\\v"
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
