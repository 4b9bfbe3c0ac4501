"""Durable memory: the state that must survive a restart, its codec, and its shift when the wall clock steps.

Decisions depend on it: timers, scale requests, drains and backoffs must outlive the process. The dataclasses are the
schema: fields are encoded by name, fields with their default are omitted, and unknown fields are ignored. A change of
meaning raises `VERSION` and adds an entry to `UPGRADES`.

All floats are points in time, except those in `DURATION_FIELDS`; when the wall clock steps, they are shifted with it.
"""

import dataclasses
import enum
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from windlass import errors
from windlass.engine.model import provisioning, scale_down_state
from windlass.engine.model.cluster_health import HealthMemory
from windlass.engine.model.drains import DrainProgress, TaintLatency

VERSION = 1
"""Version of the saved format. A reader upgrades an older one, and rejects a newer one."""


@dataclass(frozen=True, slots=True)
class StartedDrain:
    """A drain in progress."""

    group: str
    since_s: float
    is_empty: bool
    """The node has no pods to evict."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Destinations of its pods in the simulation that chose the node: node name by pod uid."""
    uid: str = ""
    """Of the Node, because a new Node may have the same name."""
    was_cordoned: bool = False
    """The node was cordoned before the drain."""
    progress: DrainProgress = field(default_factory=DrainProgress)
    """Updated by `drain_loop`."""


@dataclass(frozen=True, slots=True)
class DurableMemory:
    """The state that must survive a restart."""

    loop: int = 0
    """Number of loops decided."""
    health: HealthMemory = field(default_factory=HealthMemory)
    activity: scale_down_state.ScaleActivity = field(default_factory=scale_down_state.ScaleActivity)
    """Of the cluster as a whole."""
    activities: Mapping[str, scale_down_state.ScaleActivity] = field(default_factory=dict)
    """Of each group."""
    scale_down: scale_down_state.ScaleDownState = field(default_factory=scale_down_state.ScaleDownState)
    drains: Mapping[str, StartedDrain] = field(default_factory=dict)
    """Drains in progress, by node name."""
    requests: provisioning.ProvisioningMemory = field(default_factory=provisioning.ProvisioningMemory)
    """Of ProvisioningRequests."""
    held: Mapping[str, float] = field(default_factory=dict)
    """Groups that are paused or unreadable, by id: since when."""
    taint_latencies: tuple[TaintLatency, ...] = ()
    """Of the last hour; recorded with --dynamic-node-delete-delay-after-taint-enabled."""


def ignore_loop_count(durable: DurableMemory) -> DurableMemory:
    """The memory with the loop number reset, to compare two memories for changes."""
    return replace(durable, loop=0)


Plain = dict[str, Any]

UPGRADES: Mapping[int, Callable[[Plain], Plain]] = {}
"""By version: the function that converts its saved form to the next version's. None so far."""


def to_plain(durable: DurableMemory) -> Plain:
    """The memory as JSON-serialisable builtins."""
    return {"version": VERSION, "durable": _flatten(durable)}


def from_plain(plain: object) -> DurableMemory:
    """The saved memory. Raises `errors.InvalidInput` with the path that cannot be decoded."""
    if not isinstance(plain, dict):
        raise _invalid_input("", plain, "an object with version and durable")
    version = plain.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _invalid_input("version", version, "a positive whole number")
    if version > VERSION:
        raise _invalid_input("version", version, f"at most {VERSION}: it was saved by a newer windlass")
    restored = _decode(DurableMemory, upgrade(plain.get("durable"), version, VERSION, UPGRADES), "durable")
    assert isinstance(restored, DurableMemory)
    return restored


def upgrade(saved: Any, from_version: int, to_version: int, upgrades: Mapping[int, Callable[[Plain], Plain]]) -> Any:
    """The saved form of one version converted to that of a later one, version by version."""
    for version in range(from_version, to_version):
        if version not in upgrades:
            raise _invalid_input("version", version, f"one that can be upgraded to {to_version}")
        saved = upgrades[version](saved)
    return saved


def _flatten(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {field.name: _flatten(item) for field, item in fields if not _has_default(field, item)}
    if isinstance(value, Mapping):
        return {key: _flatten(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)  # sets have no order; equal memories must be encoded identically
    if isinstance(value, tuple):
        return [_flatten(item) for item in value]
    return value.value if isinstance(value, enum.Enum) else value


def _has_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(value == field.default)
    return field.default_factory is not dataclasses.MISSING and bool(value == field.default_factory())


# ── Decoding ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _decode(desired: Any, plain: Any, path: str) -> Any:
    """The value of the wanted type encoded by `plain`, at this path of the document."""
    origin, arguments = typing.get_origin(desired), typing.get_args(desired)
    if origin in (types.UnionType, typing.Union):
        (desired,) = (argument for argument in arguments if argument is not types.NoneType)
        return None if plain is None else _decode(desired, plain, path)
    if origin is not None and issubclass(origin, Mapping):
        return {
            key: _decode(arguments[1], item, f"{path}[{key}]") for key, item in _require_type(dict, plain, path).items()
        }
    if origin in (tuple, frozenset):
        items = enumerate(_require_type(list, plain, path))
        return origin(_decode(arguments[0], item, f"{path}[{position}]") for position, item in items)
    if dataclasses.is_dataclass(desired):
        return _decode_dataclass(typing.cast("type[Any]", desired), _require_type(dict, plain, path), path)
    return _decode_scalar(desired, plain, path)


def _decode_dataclass(desired: type[Any], plain: Plain, path: str) -> Any:
    hints = typing.get_type_hints(desired)
    given: Plain = {}
    for declared in dataclasses.fields(desired):
        name = declared.name
        if name in plain:
            given[name] = _decode(hints[name], plain[name], f"{path}.{name}")
        elif declared.default is dataclasses.MISSING and declared.default_factory is dataclasses.MISSING:
            raise _invalid_input(f"{path}.{name}", None, "a value")
    return desired(**given)


def _decode_scalar(desired: type[Any], plain: Any, path: str) -> Any:
    if issubclass(desired, enum.Enum):
        if plain not in [member.value for member in desired]:
            raise _invalid_input(path, plain, f"one of {', '.join(str(member.value) for member in desired)}")
        return desired(plain)
    if desired is float and isinstance(plain, int | float) and not isinstance(plain, bool) and _is_finite(plain):
        return float(plain)
    if desired is float:
        raise _invalid_input(path, plain, "a finite number")
    return _require_type(desired, plain, path)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an int beyond the range of float
        return False


_TYPE_NAMES = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "true or false"}


def _require_type(desired: type[Any], plain: Any, path: str) -> Any:
    if type(plain) is not desired:  # not isinstance: bool is a subclass of int
        raise _invalid_input(path, plain, _TYPE_NAMES[desired])
    return plain


def _invalid_input(path: str, value: object, expected: str) -> errors.InvalidInput:
    where = f"memory: {path}" if path else "memory"
    return errors.InvalidInput(f"{where}: found {value!r:.100}, expected {expected}")


Shifted = TypeVar("Shifted")

DURATION_FIELDS = frozenset({"duration_s", "shortest_s", "delays"})
"""Fields whose floats are durations, not points in time."""

FUTURE_FIELDS = frozenset({"until_s", "expected_by_s", "rechecks"})
"""Fields whose points in time may lie in the future."""


def shift_memory(durable: DurableMemory, by_s: float) -> DurableMemory:
    """The memory with every point in time shifted."""
    return shift_times(durable, by_s) if by_s else durable


def find_latest_s(durable: DurableMemory) -> float:
    """The latest observed point in time in the memory; -inf if there is none."""
    return max(_iterate_past_times(durable), default=float("-inf"))


def shift_times(value: Shifted, by_s: float) -> Shifted:
    """The value with every point in time in it shifted."""
    if isinstance(value, float):
        return value + by_s  # type: ignore[return-value]
    if isinstance(value, Mapping):
        return {key: shift_times(item, by_s) for key, item in value.items()}  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(shift_times(item, by_s) for item in value)  # type: ignore[return-value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shifted = {
            name: shift_times(item, by_s) for name, item in _iterate_fields(value) if name not in DURATION_FIELDS
        }
        return dataclasses.replace(value, **shifted)
    return value


def _iterate_past_times(value: object) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, Mapping | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _iterate_past_times(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for name, item in _iterate_fields(value):
            if name not in DURATION_FIELDS | FUTURE_FIELDS:
                yield from _iterate_past_times(item)


def _iterate_fields(value: Any) -> Iterator[tuple[str, Any]]:
    return ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
