"""Memory as plain values: what is durable, as dicts, lists, texts and numbers, and back.

The dataclasses are the schema: fields go by their names, and one that has its default is left out. So a field that is
added with a default needs no new version, and one that an older program does not know is passed over. Whatever changes
the meaning of what was saved before raises `memory.VERSION` and adds an upgrade here.
"""

import dataclasses
import enum
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from windlass import errors
from windlass.engine import memory

Plain = dict[str, Any]

UPGRADES: Mapping[int, Callable[[Plain], Plain]] = {}
"""By version: how what it saved becomes what the next version would have saved. None was needed so far."""


def to_plain(durable: memory.Durable) -> Plain:
    """The memory as builtins that JSON can spell."""
    return {"version": memory.VERSION, "durable": _flatten(durable)}


def from_plain(plain: object) -> memory.Durable:
    """The memory that was saved. `errors.InvalidInput` says where it cannot be read, and why."""
    if not isinstance(plain, dict):
        raise _wrong("", plain, "an object with version and durable")
    found = plain.get("version")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise _wrong("version", found, "a positive whole number")
    if found > memory.VERSION:
        raise _wrong("version", found, f"at most {memory.VERSION}: it was saved by a newer windlass")
    restored = _build(memory.Durable, upgrade(plain.get("durable"), found, memory.VERSION, UPGRADES), "durable")
    assert isinstance(restored, memory.Durable)
    return restored


def upgrade(saved: Any, found: int, wanted: int, upgrades: Mapping[int, Callable[[Plain], Plain]]) -> Any:
    """What was saved by one version as a later one would have saved it, version by version."""
    for version in range(found, wanted):
        if version not in upgrades:
            raise _wrong("version", version, f"one that can be upgraded to {wanted}")
        saved = upgrades[version](saved)
    return saved


def _flatten(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {field.name: _flatten(each) for field, each in fields if not _has_default(field, each)}
    if isinstance(value, Mapping):
        return {key: _flatten(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)  # sets have no order, but equal memories should be written alike
    if isinstance(value, tuple):
        return [_flatten(each) for each in value]
    return value.value if isinstance(value, enum.Enum) else value


def _has_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(value == field.default)
    return field.default_factory is not dataclasses.MISSING and bool(value == field.default_factory())


# ── Back ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _build(wanted: Any, plain: Any, path: str) -> Any:
    """The value of the wanted type that `plain` spells. The path says where it stands."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (types.UnionType, typing.Union):
        (wanted,) = (each for each in arguments if each is not types.NoneType)
        return None if plain is None else _build(wanted, plain, path)
    if origin is not None and issubclass(origin, Mapping):
        return {key: _build(arguments[1], each, f"{path}[{key}]") for key, each in _expect(dict, plain, path).items()}
    if origin in (tuple, frozenset):
        listed = enumerate(_expect(list, plain, path))
        return origin(_build(arguments[0], each, f"{path}[{place}]") for place, each in listed)
    if dataclasses.is_dataclass(wanted):
        return _build_dataclass(typing.cast("type[Any]", wanted), _expect(dict, plain, path), path)
    return _read_scalar(wanted, plain, path)


def _build_dataclass(wanted: type[Any], plain: Plain, path: str) -> Any:
    hints = typing.get_type_hints(wanted)
    given: Plain = {}
    for field in dataclasses.fields(wanted):
        if field.name in plain:
            given[field.name] = _build(hints[field.name], plain[field.name], f"{path}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise _wrong(f"{path}.{field.name}", None, "a value")
    return wanted(**given)


def _read_scalar(wanted: type[Any], plain: Any, path: str) -> Any:
    if issubclass(wanted, enum.Enum):
        if plain not in [each.value for each in wanted]:
            raise _wrong(path, plain, f"one of {', '.join(str(each.value) for each in wanted)}")
        return wanted(plain)
    if wanted is float and isinstance(plain, int | float) and not isinstance(plain, bool) and _is_finite(plain):
        return float(plain)
    if wanted is float:
        raise _wrong(path, plain, "a finite number")
    return _expect(wanted, plain, path)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that no float can hold
        return False


_WORDS = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "true or false"}


def _expect(wanted: type[Any], plain: Any, path: str) -> Any:
    if type(plain) is not wanted:  # a bool is an int to isinstance
        raise _wrong(path, plain, _WORDS[wanted])
    return plain


def _wrong(path: str, found: object, accepted: str) -> errors.InvalidInput:
    where = f"memory: {path}" if path else "memory"
    return errors.InvalidInput(f"{where}: found {found!r:.100}, expected {accepted}")
