"""Types of the built-in kinds, read from `tables`, and normalization of objects by them.

Normalization is what decoding into the Go structs and encoding again does: unknown fields go, nulls become absent or
empty, quantities and times take their canonical form. A value of the wrong kind raises `Mismatch` with its path.

The tables (Kubernetes 1.36) hold one type on a line, continued where indented:

Name = field:type field:type …      a leading `!` makes the struct atomic

s string · b bool · i int32 · l int64 · f float · q quantity · x int or string · t time · m time with
microseconds · d duration · y bytes · any anything · Name or group.Name a struct (`~` makes it granular)
[]T atomic list · [=]T set · [key,…]T list by keys · {}T map · {!}T atomic map
*T absent unless given · T? left out when empty · T always written, empty or not · =word what a key defaults to
"""

import functools
import importlib.resources
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from windlass import quantity
from windlass.apiserver import value_types
from windlass.kube import time_formats

_QUANTITY_PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"


class Mismatch(ValueError):
    """A value that the field at `path` cannot hold."""

    def __init__(self, found: object, go_type: str, message: str = "") -> None:
        super().__init__()
        self.found, self.go_type, self.message = found, go_type, message
        self.path: list[str] = []
        """Innermost first, as the error travels outwards."""
        self.struct = ""

    def __str__(self) -> str:
        if self.message:
            return self.message
        where = ".".join(reversed(self.path))
        return (
            f"json: cannot unmarshal {go_json_kind(self.found)} into Go struct field {self.struct}.{where} "
            f"of type {self.go_type}"
        )


def go_json_kind(value: object) -> str:
    """Go's name of the type of a JSON value, for error messages."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return f"number {value}" if isinstance(value, float) else "number"
        case list():
            return "array"
        case _:
            return "object"


class TypePart(Protocol):
    """One shape: its type, and how a value of it is read."""

    type: value_types.ValueType
    go_type: str
    """Go's name of the type, for error messages."""

    def read(self, value: Any, unknown: list[str]) -> Any:
        """The normalized value, never null. Names of unknown fields are added to `unknown`."""

    def zero(self) -> Any:
        """The value of an absent field that is always written."""


class AnyPart:
    """A value that is not normalized."""

    def __init__(self, type_: value_types.ValueType = value_types.ATOMIC) -> None:
        self.type = type_
        self.go_type = "interface {}"

    def read(self, value: Any, unknown: list[str]) -> Any:
        return value

    def zero(self) -> Any:
        return None


def _canonical_quantity(value: Any) -> str:
    try:
        return _format_quantity(value) if isinstance(value, str) else str(quantity.read_quantity(value))
    except ValueError:
        raise Mismatch(value, "", f"quantities must match the regular expression '{_QUANTITY_PATTERN}'") from None


@functools.lru_cache(maxsize=65536)
def _format_quantity(text: str) -> str:
    return str(quantity.parse_quantity(text.strip()))


_READERS: dict[str, tuple[type | tuple[type, ...], str, Any, Callable[[Any], Any] | None]] = {
    "s": (str, "string", "", None),
    "b": (bool, "bool", False, None),
    "i": (int, "int32", 0, None),
    "l": (int, "int64", 0, None),
    "f": ((int, float), "float64", 0, None),
    "q": ((str, int, float), "resource.Quantity", "0", _canonical_quantity),
    "x": ((int, str), "intstr.IntOrString", 0, None),
    "t": (str, "time.Time", None, time_formats.canonical_time),
    "m": (str, "time.Time", None, time_formats.canonical_micro_time),
    "d": (str, "string", "0s", None),
    "y": (str, "[]uint8", "", None),
}

_INTEGER_MAX = {"i": 2**31 - 1, "l": 2**63 - 1}
"""The largest integers of a type."""


class ScalarPart:
    """A string, number, truth value, quantity or time."""

    __slots__ = ("_accepts", "_canonical", "_is_bool", "_most", "_zero", "go_type", "type")

    def __init__(self, code: str, type_: value_types.ValueType) -> None:
        self.type = type_
        self._accepts, self.go_type, self._zero, self._canonical = _READERS[code]
        self._is_bool = code == "b"
        self._most = _INTEGER_MAX.get(code)

    def read(self, value: Any, unknown: list[str]) -> Any:
        if not isinstance(value, self._accepts) or (value.__class__ is bool and not self._is_bool):
            raise Mismatch(value, self.go_type)
        if self._most is not None and isinstance(value, int) and not -self._most - 1 <= value <= self._most:
            raise Mismatch(value, self.go_type)
        return value if self._canonical is None else self._canonical(value)

    def zero(self) -> Any:
        return self._zero


class ListPart:
    """A list."""

    __slots__ = ("_element", "go_type", "type")

    def __init__(self, element: TypePart, is_associative: bool, keys: tuple[str, ...]) -> None:
        self._element = element
        self.go_type = f"[]{element.go_type}"
        shape = value_types.ListType(element.type, is_associative, keys)
        if isinstance(element, StructPart):
            shape.key_defaults = {key: element.key_default(key) for key in keys if element.has_key_default(key)}
        self.type = value_types.ValueType(list_=shape)

    def read(self, value: Any, unknown: list[str]) -> Any:
        if value.__class__ is not list:
            raise Mismatch(value, self.go_type)
        element = self._element
        return [element.zero() if item is None else element.read(item, unknown) for item in value]

    def zero(self) -> Any:
        return None


class MapPart:
    """A map."""

    __slots__ = ("_element", "go_type", "type")

    def __init__(self, element: TypePart, is_atomic: bool) -> None:
        self._element = element
        self.go_type = f"map[string]{element.go_type}"
        self.type = value_types.ValueType(map_=value_types.MapType({}, element.type, is_atomic))

    def read(self, value: Any, unknown: list[str]) -> Any:
        if value.__class__ is not dict:
            raise Mismatch(value, self.go_type)
        element = self._element
        return {key: element.zero() if item is None else element.read(item, unknown) for key, item in value.items()}

    def zero(self) -> Any:
        return None


@dataclass(frozen=True, slots=True)
class StructField:
    """One field of a struct."""

    name: str
    part: TypePart
    is_pointer: bool
    """Absent unless given."""
    is_omitted_empty: bool
    key_default: str | None = None
    """Default of the field if it is an absent key of a list."""

    @property
    def is_always_written(self) -> bool:
        return not self.is_pointer and not self.is_omitted_empty


class StructPart:
    """A struct with declared fields only."""

    def __init__(self, name: str, fields: tuple[StructField, ...], is_atomic: bool = False) -> None:
        self.name = name
        self.go_type = f"v1.{name}"
        self.fields = fields
        shape = value_types.MapType({field.name: field.part.type for field in fields}, None, is_atomic)
        self.type = value_types.ValueType(map_=shape)
        self._by_name = {field.name: (field.part, field.is_omitted_empty) for field in fields}
        self._always = tuple((field.name, field.part) for field in fields if field.is_always_written)

    def read(self, value: Any, unknown: list[str]) -> Any:
        if value.__class__ is not dict:
            raise Mismatch(value, self.go_type)
        by_name = self._by_name
        out = {}
        key = ""
        try:
            for key, item in value.items():
                found = by_name.get(key)
                if found is None:
                    unknown.append(key)
                elif item is not None:
                    part, is_omitted_empty = found
                    item = part.read(item, unknown)
                    if item or not is_omitted_empty:
                        out[key] = item
        except Mismatch as mismatch:
            mismatch.path.append(key)
            mismatch.struct = mismatch.struct or self.name
            raise
        for key, part in self._always:
            if key not in out:
                out[key] = part.zero()
        return out

    def zero(self) -> Any:
        return {key: part.zero() for key, part in self._always}

    def granular(self) -> "StructPart":
        """The same struct with field ownership per field."""
        return StructPart(self.name, self.fields)

    def has_key_default(self, name: str) -> bool:
        field = self._find(name)
        return field.key_default is not None or field.is_always_written

    def key_default(self, name: str) -> Any:
        field = self._find(name)
        return field.part.zero() if field.key_default is None else field.key_default

    def _find(self, name: str) -> StructField:
        return next(field for field in self.fields if field.name == name)


def find_unknown_fields(value: Any, type_: value_types.ValueType, at: str = "") -> list[str]:
    """Paths of the fields that a type does not declare: `spec.containers[0].imge`."""
    unknown_fields: list[str] = []
    if isinstance(value, dict) and type_.map is not None:
        for key, item in value.items():
            part = type_.map.field(key)
            path = f"{at}.{key}" if at else key
            unknown_fields += [path] if part is None else find_unknown_fields(item, part, path)
    elif isinstance(value, list) and type_.list is not None:
        for i, item in enumerate(value):
            unknown_fields += find_unknown_fields(item, type_.list.element, f"{at}[{i}]")
    return unknown_fields


_TYPE_PATTERN = r"(?:\[[^\]]*\]|\{!?\})*~?[\w.]+"

_FIELD_PATTERN = re.compile(rf"(?P<name>\w+):(?P<pointer>\*?)(?P<type>{_TYPE_PATTERN})(?P<omit>\??)(?P<default>=\w*)?")

_LIST_PATTERN = re.compile(r"\[(?P<keys>[^\]]*)\](?P<element>.+)")

_MAP_PATTERN = re.compile(r"\{(?P<atomic>!?)\}(?P<element>.+)")

_SCALARS = {
    **dict.fromkeys("sy", "string"),
    **dict.fromkeys("ilf", "numeric"),
    "b": "boolean",
    **dict.fromkeys("qxtmd", "untyped"),
}


@functools.cache
def find_struct(group: str, name: str) -> StructPart:
    """A struct by its table (`core`, `apps`, …) and name."""
    line = _read_table(group)[name]
    is_atomic, line = line.startswith("!"), line.lstrip("!")
    fields = tuple(_read_field(group, match) for match in _FIELD_PATTERN.finditer(line))
    return StructPart(name, fields, is_atomic)


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


def _read_field(group: str, match: re.Match[str]) -> StructField:
    part = _read_type(group, match["type"])
    default = match["default"][1:] if match["default"] else None
    return StructField(match["name"], part, bool(match["pointer"]), bool(match["omit"]), default)


def _read_type(group: str, text: str) -> TypePart:
    if match := _LIST_PATTERN.fullmatch(text):
        keys = tuple(key for key in match["keys"].split(",") if key and key != "=")
        return ListPart(_read_type(group, match["element"]), bool(match["keys"]), keys)
    if match := _MAP_PATTERN.fullmatch(text):
        return MapPart(_read_type(group, match["element"]), bool(match["atomic"]))
    if text == "any":
        return AnyPart()
    if text in _SCALARS:
        return ScalarPart(text, value_types.ValueType(_SCALARS[text]))
    table, _, name = text.lstrip("~").rpartition(".")
    struct = find_struct(table or group, name)
    return struct.granular() if text.startswith("~") else struct
