"""Selectors, as the API spells them, held against labels.

Absent is not empty: no label selector (None) selects nothing, an empty one (`{}`) selects everything. Written here a
second time on purpose: the simulator's scheduler shares no rule with the engine.
"""

import re
from collections.abc import Mapping
from typing import Any

from windlass.simulator.scheduler import parsing

Json = dict[str, Any]
Labels = Mapping[str, str]

_OPERATORS = {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}
_INTEGER = re.compile(r"[+-]?[0-9]+")


def selects(selector: Json | None, labels: Labels) -> bool:
    """Does a label selector (matchLabels, matchExpressions) select these labels? One that cannot be parsed is not for
    this: whoever reads a selector says what it then means.
    """
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def is_everything(selector: Json | None) -> bool:
    """Is this the empty selector, which selects every object there is?"""
    return selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")


def selects_node(selector: Json, labels: Labels, name: str) -> bool:
    """Does any term of a node selector match a node? Terms that cannot be read match no node."""
    return any(_term_matches(term, labels, name) for term in selector.get("nodeSelectorTerms") or ())


def _term_matches(term: Json, labels: Labels, name: str) -> bool:
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    if not all(is_readable(expression) for expression in expressions):
        return False
    if not all(field["operator"] in ("In", "NotIn") and len(field.get("values") or ()) == 1 for field in fields):
        return False
    own_fields = {"metadata.name": name}
    return all(_holds(expression, labels) for expression in expressions) and all(
        _field_holds(field, own_fields) for field in fields if name
    )


def is_readable(expression: Json) -> bool:
    """Can the scheduler read this requirement? What the API server lets pass, it may still not make sense of."""
    operator = expression.get("operator") or ""
    faults = parsing.faults_of(expression.get("key") or "", operator, expression.get("values") or [])
    return operator in _OPERATORS and not faults


def _holds(expression: Json, labels: Labels) -> bool:
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
