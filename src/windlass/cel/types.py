"""Types, as far as they are known before an expression is evaluated, and the calls that no overload takes.

A type is named as cel-go prints it. `any` takes every value, and an empty name is a type that is not known: neither is
ever found wanting. So what is refused here cel-go refuses, too; the reverse need not hold.
"""

from collections.abc import Mapping, Sequence
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
_RELATIONS = frozenset(("==", "!=", "<", "<=", ">", ">="))
_RESULTS = {**dict.fromkeys(_OF_TEXT, BOOL), **_FROM_TEXT, **dict.fromkeys(_RELATIONS, BOOL), "size": INT, "!_": BOOL,
            "in": BOOL}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Record:
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
    """The type of what a call returns."""
    if name == "?:":
        return given[1] if given[1] == given[2] else UNKNOWN
    if name in _OPERANDS:
        return given[0] if len(set(given)) == 1 and given[0] in _SCALARS else UNKNOWN
    return _RESULTS.get(name, UNKNOWN)


def has_overload(name: str, given: Sequence[str]) -> bool:
    """May a call be made with arguments of these types?"""
    known = [one for one in given if one not in (ANY, UNKNOWN)]
    if name in _OPERANDS:
        return all(one in _OPERANDS[name] for one in known if one in _SCALARS) and _agree(known)
    if name == "?:":
        return given[0] in (ANY, UNKNOWN, BOOL) and _agree(given[1:])
    if name in _SIGNS:
        return all(one in _SIGNS[name] for one in known if one in _SCALARS)
    if name in ("==", "!="):
        return _agree(known)
    if name in _RELATIONS:
        return _agree(known) or _NUMBERS.issuperset(known)
    if name in _OF_TEXT or name in _FROM_TEXT:
        return all(one in (ANY, UNKNOWN, STRING) for one in given[: 2 if name in _OF_TEXT else 1])
    return name != "size" or not _SCALARS.difference((STRING, "bytes")).intersection(given[:1])


def _agree(known: Sequence[str]) -> bool:
    return len({one for one in known if one in _SCALARS}) < 2


def spell_call(given: Sequence[str], is_method: bool) -> str:
    """The types of a call as cel-go prints them; empty if one is not known."""
    if UNKNOWN in given:
        return ""
    target = f"{given[0]}." if is_method else ""
    return f"{target}({', '.join(given[1:] if is_method else given)})"
