"""The built-in kinds' shapes, read from `tables` when first asked for."""

import functools
import importlib.resources
import re
from collections.abc import Iterator

from windlass.apiserver.types import model, normalise

_TYPE = r"(?:\[[^\]]*\]|\{!?\})*~?[\w.]+"
_FIELD = re.compile(rf"(?P<name>\w+):(?P<pointer>\*?)(?P<type>{_TYPE})(?P<omit>\??)(?P<default>=\w*)?")
_LIST = re.compile(r"\[(?P<keys>[^\]]*)\](?P<element>.+)")
_MAP = re.compile(r"\{(?P<atomic>!?)\}(?P<element>.+)")
_SCALARS = {
    **dict.fromkeys("sy", "string"),
    **dict.fromkeys("ilf", "numeric"),
    "b": "boolean",
    **dict.fromkeys("qxtmd", "untyped"),
}


@functools.cache
def find(group: str, name: str) -> normalise.Struct:
    """A struct by its table (`core`, `apps`, …) and name."""
    line = _read_table(group)[name]
    is_atomic, line = line.startswith("!"), line.lstrip("!")
    fields = tuple(_read_field(group, match) for match in _FIELD.finditer(line))
    return normalise.Struct(name, fields, is_atomic)


@functools.cache
def _read_table(group: str) -> dict[str, str]:
    text = (importlib.resources.files(__package__) / "tables" / f"{group}.txt").read_text()
    types: dict[str, str] = {}
    for line in _join_lines(text):
        head, _, body = line.partition(" = ")
        types[head.lstrip("!")] = ("!" if head.startswith("!") else "") + body
    return types


def _join_lines(text: str) -> Iterator[str]:
    joined = text.replace("\n  ", " ")
    return (line for line in joined.splitlines() if line)


def _read_field(group: str, match: re.Match[str]) -> normalise.Field:
    part = _read_type(group, match["type"])
    default = match["default"][1:] if match["default"] else None
    return normalise.Field(match["name"], part, bool(match["pointer"]), bool(match["omit"]), default)


def _read_type(group: str, text: str) -> normalise.Part:
    if found := _LIST.fullmatch(text):
        keys = tuple(key for key in found["keys"].split(",") if key and key != "=")
        return normalise.Items(_read_type(group, found["element"]), bool(found["keys"]), keys)
    if found := _MAP.fullmatch(text):
        return normalise.Entries(_read_type(group, found["element"]), bool(found["atomic"]))
    if text == "any":
        return normalise.Anything()
    if text in _SCALARS:
        return normalise.Scalar(text, model.Type(_SCALARS[text]))
    table, _, name = text.lstrip("~").rpartition(".")
    struct = find(table or group, name)
    return struct.granular() if text.startswith("~") else struct
