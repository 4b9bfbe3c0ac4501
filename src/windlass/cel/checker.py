"""Static type checks and compile errors, with the messages of cel-go.

A type is named as cel-go prints it. `any` accepts every value; an empty name is an unknown type and is never refused.
Every expression refused here cel-go refuses too; the reverse does not hold. An `Issue` is printed with its position and
the line of the expression.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.cel.values import Uint, Value

UNKNOWN = ""

ANY = "any"

BOOL, INT, STRING = "bool", "int", "string"

_NUMBERS = frozenset(("int", "uint", "double"))

_SCALARS = _NUMBERS | {"bool", "string", "bytes"}

_OF_TEXT = frozenset(("startsWith", "endsWith", "contains", "matches"))

_FROM_TEXT = {"quantity": "kubernetes.Quantity", "isQuantity": BOOL, "isSemver": BOOL, "semver": "kubernetes.Semver"}

_ADDED = _NUMBERS | {"string", "bytes"}

_OPERANDS: Mapping[str, frozenset[str]] = {
    "+": _ADDED, "-": _NUMBERS, "*": _NUMBERS, "/": _NUMBERS, "%": frozenset(("int", "uint")),
}  # fmt: skip

_SIGNS = {"!_": frozenset((BOOL,)), "-_": frozenset(("int", "double"))}

_RELATION_OPERATORS = frozenset(("==", "!=", "<", "<=", ">", ">="))

_RESULTS = {**dict.fromkeys(_OF_TEXT, BOOL), **_FROM_TEXT, **dict.fromkeys(_RELATION_OPERATORS, BOOL), "size": INT,
            "!_": BOOL, "in": BOOL}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordType:
    """A type with these fields, by name and type, and no others."""

    name: str
    fields: Mapping[str, str] = field(default_factory=dict)


def of_literal(value: Value) -> str:
    match value:
        case bool():
            return BOOL
        case Uint():
            return "uint"
        case int():
            return INT
        case float():
            return "double"
        case str():
            return STRING
        case bytes():
            return "bytes"
        case _:
            return UNKNOWN


def of_item(container: str) -> str:
    """The type of the values of a map."""
    return container.removeprefix("map(string, ").removesuffix(")") if container.startswith("map(string, ") else UNKNOWN


def of_call(name: str, given: Sequence[str]) -> str:
    """The type of a call's result."""
    if name == "?:":
        return given[1] if given[1] == given[2] else UNKNOWN
    if name in _OPERANDS:
        return given[0] if len(set(given)) == 1 and given[0] in _SCALARS else UNKNOWN
    return _RESULTS.get(name, UNKNOWN)


def has_overload(name: str, given: Sequence[str]) -> bool:
    """Is there an overload for arguments of these types?"""
    known = [item for item in given if item not in (ANY, UNKNOWN)]
    if name in _OPERANDS:
        return all(entry in _OPERANDS[name] for entry in known if entry in _SCALARS) and _agree(known)
    if name == "?:":
        return given[0] in (ANY, UNKNOWN, BOOL) and _agree(given[1:])
    if name in _SIGNS:
        return all(operand in _SIGNS[name] for operand in known if operand in _SCALARS)
    if name in ("==", "!="):
        return _agree(known)
    if name in _RELATION_OPERATORS:
        return _agree(known) or _NUMBERS.issuperset(known)
    if name in _OF_TEXT or name in _FROM_TEXT:
        return all(operand in (ANY, UNKNOWN, STRING) for operand in given[: 2 if name in _OF_TEXT else 1])
    return name != "size" or not _SCALARS.difference((STRING, "bytes")).intersection(given[:1])


def _agree(known: Sequence[str]) -> bool:
    return len({item for item in known if item in _SCALARS}) < 2


def format_call_types(given: Sequence[str], is_method: bool) -> str:
    """The types of a call as cel-go prints them; empty if one is not known."""
    if UNKNOWN in given:
        return ""
    target = f"{given[0]}." if is_method else ""
    return f"{target}({', '.join(given[1:] if is_method else given)})"


_OPERATOR_NAMES = {
    **{name: f"_{name}_" for name in ("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%")}, "in": "@in",
    "?:": "_?_:_",
}  # fmt: skip
"""cel-go's names of operators that differ from those of the parser."""

_DOTS = {False: ".", True: "．"}

_MARKS = {False: "^", True: "＾"}
"""Marker by whether the character takes more than one byte."""


@dataclass(frozen=True, slots=True, order=True)
class Issue:
    """An error at a position of the expression; -1 without a position."""

    at: int
    text: str


def undeclared_reference(name: str, at: int) -> Issue:
    return Issue(at, f"undeclared reference to '{name}' (in container '')")


def undefined_field(field: str, at: int) -> Issue:
    return Issue(at, f"undefined field '{field}'")


def no_overload(name: str, given: Sequence[str], at: int, is_method: bool = False) -> Issue:
    """Unlike cel-go's, it names no types if the type of an argument is unknown."""
    spelled = format_call_types(given, is_method)
    applied = f"'{spelled}'" if spelled else f"{len(given)} arguments"
    return Issue(at, f"found no matching overload for '{_OPERATOR_NAMES.get(name, name)}' applied to {applied}")


def expected_bool(type_name: str, at: int) -> Issue:
    return Issue(at, f"expected type 'bool' but found '{type_name}'")


def format_issues(expression: str, issues: Iterable[Issue]) -> str:
    """Issues in the order of their positions, each with its line of the expression."""
    return "\n".join(_format_issue(expression, issue) for issue in sorted(issues))


def _format_issue(expression: str, issue: Issue) -> str:
    if issue.at < 0:
        return f"ERROR: <input>:-1:0: {issue.text}"
    start = expression.rfind("\n", 0, issue.at) + 1
    line = expression.count("\n", 0, issue.at) + 1
    source = expression[start:].split("\n", 1)[0].replace("\t", " ")
    column = issue.at - start
    before = "".join(_DOTS[not character.isascii()] for character in source[:column])
    mark = _MARKS[not source[column : column + 1].isascii()]
    return f"ERROR: <input>:{line}:{column + 1}: {issue.text}\n | {source}\n | {before}{mark}"
