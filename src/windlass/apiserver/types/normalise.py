"""What decoding into the server's structs and encoding again makes of an object.

Unknown fields go, nulls become absent or empty, what is empty is left out or written as its field demands, quantities
and times take their canonical form. A value of the wrong kind raises `Mismatch` with its path.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from windlass.apiserver import times
from windlass.apiserver.types import model
from windlass.kube import quantity

_QUANTITY_PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"


class Mismatch(ValueError):
    """A value that the field at `path` cannot hold."""

    def __init__(self, found: object, go_type: str, complaint: str = "") -> None:
        super().__init__()
        self.found, self.go_type, self.complaint = found, go_type, complaint
        self.path: list[str] = []
        """Innermost first, as the error travels outwards."""
        self.struct = ""

    def __str__(self) -> str:
        if self.complaint:
            return self.complaint
        where = ".".join(reversed(self.path))
        return (
            f"json: cannot unmarshal {json_kind(self.found)} into Go struct field {self.struct}.{where} "
            f"of type {self.go_type}"
        )


def json_kind(value: object) -> str:
    """What Go calls a JSON value that it cannot put somewhere."""
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


class Part(Protocol):
    """One shape: its type, and how a value of it is read."""

    type: model.Type
    go_type: str
    """What Go calls it in complaints."""

    def read(self, value: Any, unknown: list[str]) -> Any:
        """The value as it will be written. Never null itself. Names of unknown fields are added to `unknown`."""

    def zero(self) -> Any:
        """What is written where nothing was given."""


class Anything:
    """A value that is passed on as it is."""

    def __init__(self, type_: model.Type = model.ATOMIC) -> None:
        self.type = type_
        self.go_type = "interface {}"

    def read(self, value: Any, unknown: list[str]) -> Any:
        return value

    def zero(self) -> Any:
        return None


def _canonical_quantity(value: Any) -> str:
    try:
        return _spell_quantity(value) if isinstance(value, str) else str(quantity.read(value))
    except ValueError:
        raise Mismatch(value, "", f"quantities must match the regular expression '{_QUANTITY_PATTERN}'") from None


@functools.lru_cache(maxsize=65536)
def _spell_quantity(text: str) -> str:
    return str(quantity.parse(text.strip()))


_READERS: dict[str, tuple[type | tuple[type, ...], str, Any, Callable[[Any], Any] | None]] = {
    "s": (str, "string", "", None),
    "b": (bool, "bool", False, None),
    "i": (int, "int32", 0, None),
    "l": (int, "int64", 0, None),
    "f": ((int, float), "float64", 0, None),
    "q": ((str, int, float), "resource.Quantity", "0", _canonical_quantity),
    "x": ((int, str), "intstr.IntOrString", 0, None),
    "t": (str, "time.Time", None, times.canonical),
    "m": (str, "time.Time", None, times.canonical_micro),
    "d": (str, "string", "0s", None),
    "y": (str, "[]uint8", "", None),
}


_MOST = {"i": 2**31 - 1, "l": 2**63 - 1}
"""The largest integers of a type."""


class Scalar:
    """A string, number, truth value, quantity or time."""

    __slots__ = ("_accepts", "_canonical", "_is_bool", "_most", "_zero", "go_type", "type")

    def __init__(self, code: str, type_: model.Type) -> None:
        self.type = type_
        self._accepts, self.go_type, self._zero, self._canonical = _READERS[code]
        self._is_bool = code == "b"
        self._most = _MOST.get(code)

    def read(self, value: Any, unknown: list[str]) -> Any:
        if not isinstance(value, self._accepts) or (value.__class__ is bool and not self._is_bool):
            raise Mismatch(value, self.go_type)
        if self._most is not None and isinstance(value, int) and not -self._most - 1 <= value <= self._most:
            raise Mismatch(value, self.go_type)
        return value if self._canonical is None else self._canonical(value)

    def zero(self) -> Any:
        return self._zero


class Items:
    """A list."""

    __slots__ = ("_element", "go_type", "type")

    def __init__(self, element: Part, is_associative: bool, keys: tuple[str, ...]) -> None:
        self._element = element
        self.go_type = f"[]{element.go_type}"
        shape = model.List(element.type, is_associative, keys)
        if isinstance(element, Struct):
            shape.key_defaults = {key: element.key_default(key) for key in keys if element.has_key_default(key)}
        self.type = model.Type(list_=shape)

    def read(self, value: Any, unknown: list[str]) -> Any:
        if value.__class__ is not list:
            raise Mismatch(value, self.go_type)
        element = self._element
        return [element.zero() if item is None else element.read(item, unknown) for item in value]

    def zero(self) -> Any:
        return None


class Entries:
    """A map."""

    __slots__ = ("_element", "go_type", "type")

    def __init__(self, element: Part, is_atomic: bool) -> None:
        self._element = element
        self.go_type = f"map[string]{element.go_type}"
        self.type = model.Type(map_=model.Map({}, element.type, is_atomic))

    def read(self, value: Any, unknown: list[str]) -> Any:
        if value.__class__ is not dict:
            raise Mismatch(value, self.go_type)
        element = self._element
        return {key: element.zero() if item is None else element.read(item, unknown) for key, item in value.items()}

    def zero(self) -> Any:
        return None


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct."""

    name: str
    part: Part
    is_pointer: bool
    """Absent unless given."""
    is_omitted_empty: bool
    key_default: str | None = None
    """What the field counts as where it is a list's key and not given."""

    @property
    def is_always_written(self) -> bool:
        return not self.is_pointer and not self.is_omitted_empty


class Struct:
    """Declared fields, and nothing else."""

    def __init__(self, name: str, fields: tuple[Field, ...], is_atomic: bool = False) -> None:
        self.name = name
        self.go_type = f"v1.{name}"
        self.fields = fields
        shape = model.Map({field.name: field.part.type for field in fields}, None, is_atomic)
        self.type = model.Type(map_=shape)
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

    def granular(self) -> "Struct":
        """The same struct where its fields have owners of their own."""
        return Struct(self.name, self.fields)

    def has_key_default(self, name: str) -> bool:
        field = self._find(name)
        return field.key_default is not None or field.is_always_written

    def key_default(self, name: str) -> Any:
        field = self._find(name)
        return field.part.zero() if field.key_default is None else field.key_default

    def _find(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)


def find_unknown(value: Any, type_: model.Type, at: str = "") -> list[str]:
    """Paths of the fields that a type does not declare: `spec.containers[0].imge`."""
    found: list[str] = []
    if isinstance(value, dict) and type_.map is not None:
        for key, item in value.items():
            part = type_.map.field(key)
            path = f"{at}.{key}" if at else key
            found += [path] if part is None else find_unknown(item, part, path)
    elif isinstance(value, list) and type_.list is not None:
        for i, item in enumerate(value):
            found += find_unknown(item, type_.list.element, f"{at}[{i}]")
    return found
