"""Durable memory: what must survive a restart, its codec, and its shift when the wall clock steps.

Losing it would change decisions: a restart must forget no timer, scale request, drain or backoff. The dataclasses are
the schema: fields go by name, one that has its default is left out, and one that an older program does not know is
ignored. A change of meaning raises `VERSION` and adds an entry to `UPGRADES`.

All numbers are moments, but for those in `DURATION_FIELDS`; when the wall clock is set, moments move with it.
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
"""Of the durable part. A reader that finds another one upgrades it, or starts anew where it cannot."""


@dataclass(frozen=True, slots=True)
class StartedDrain:
    """A node that was marked to go."""

    group: str
    since_s: float
    is_empty: bool
    """It has no pods to be moved."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where its pods found a place when it was chosen: node name by pod uid."""
    uid: str = ""
    """Of the node: another one may come under its name."""
    was_cordoned: bool = False
    """Someone else had cordoned it."""
    progress: DrainProgress = field(default_factory=DrainProgress)
    """What `advance` has brought about since."""


@dataclass(frozen=True, slots=True)
class DurableMemory:
    """What must survive a restart."""

    loop: int = 0
    """How many loops were decided."""
    health: HealthMemory = field(default_factory=HealthMemory)
    activity: scale_down_state.ScaleActivity = field(default_factory=scale_down_state.ScaleActivity)
    """Of the cluster as a whole."""
    activities: Mapping[str, scale_down_state.ScaleActivity] = field(default_factory=dict)
    """Of each group."""
    scale_down: scale_down_state.ScaleDownState = field(default_factory=scale_down_state.ScaleDownState)
    drains: Mapping[str, StartedDrain] = field(default_factory=dict)
    """Nodes that are on their way out, by name."""
    requests: provisioning.ProvisioningMemory = field(default_factory=provisioning.ProvisioningMemory)
    """Of ProvisioningRequests."""
    held: Mapping[str, float] = field(default_factory=dict)
    """Groups that must be left alone for now, by id: since when."""
    taint_latencies: tuple[TaintLatency, ...] = ()
    """Of the last hour, where --dynamic-node-delete-delay-after-taint-enabled asks for them."""


def ignore_loop_count(durable: DurableMemory) -> DurableMemory:
    """The same but for how many loops there were: for whoever wants to know whether anything is new."""
    return replace(durable, loop=0)


Plain = dict[str, Any]

UPGRADES: Mapping[int, Callable[[Plain], Plain]] = {}
"""By version: how what it saved becomes what the next version would have saved. None was needed so far."""


def to_plain(durable: DurableMemory) -> Plain:
    """The memory as builtins that JSON can spell."""
    return {"version": VERSION, "durable": _flatten(durable)}


def from_plain(plain: object) -> DurableMemory:
    """The memory that was saved. `errors.InvalidInput` says where it cannot be read, and why."""
    if not isinstance(plain, dict):
        raise _invalid_input("", plain, "an object with version and durable")
    found = plain.get("version")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise _invalid_input("version", found, "a positive whole number")
    if found > VERSION:
        raise _invalid_input("version", found, f"at most {VERSION}: it was saved by a newer windlass")
    restored = _decode(DurableMemory, upgrade(plain.get("durable"), found, VERSION, UPGRADES), "durable")
    assert isinstance(restored, DurableMemory)
    return restored


def upgrade(saved: Any, found: int, wanted: int, upgrades: Mapping[int, Callable[[Plain], Plain]]) -> Any:
    """What was saved by one version as a later one would have saved it, version by version."""
    for version in range(found, wanted):
        if version not in upgrades:
            raise _invalid_input("version", version, f"one that can be upgraded to {wanted}")
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


def _decode(wanted: Any, plain: Any, path: str) -> Any:
    """The value of the wanted type that `plain` spells. The path says where it stands."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (types.UnionType, typing.Union):
        (wanted,) = (each for each in arguments if each is not types.NoneType)
        return None if plain is None else _decode(wanted, plain, path)
    if origin is not None and issubclass(origin, Mapping):
        return {
            key: _decode(arguments[1], each, f"{path}[{key}]") for key, each in _require_type(dict, plain, path).items()
        }
    if origin in (tuple, frozenset):
        listed = enumerate(_require_type(list, plain, path))
        return origin(_decode(arguments[0], each, f"{path}[{place}]") for place, each in listed)
    if dataclasses.is_dataclass(wanted):
        return _decode_dataclass(typing.cast("type[Any]", wanted), _require_type(dict, plain, path), path)
    return _decode_scalar(wanted, plain, path)


def _decode_dataclass(wanted: type[Any], plain: Plain, path: str) -> Any:
    hints = typing.get_type_hints(wanted)
    given: Plain = {}
    for one in dataclasses.fields(wanted):
        if one.name in plain:
            given[one.name] = _decode(hints[one.name], plain[one.name], f"{path}.{one.name}")
        elif one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
            raise _invalid_input(f"{path}.{one.name}", None, "a value")
    return wanted(**given)


def _decode_scalar(wanted: type[Any], plain: Any, path: str) -> Any:
    if issubclass(wanted, enum.Enum):
        if plain not in [each.value for each in wanted]:
            raise _invalid_input(path, plain, f"one of {', '.join(str(each.value) for each in wanted)}")
        return wanted(plain)
    if wanted is float and isinstance(plain, int | float) and not isinstance(plain, bool) and _is_finite(plain):
        return float(plain)
    if wanted is float:
        raise _invalid_input(path, plain, "a finite number")
    return _require_type(wanted, plain, path)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that no float can hold
        return False


_TYPE_NAMES = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "true or false"}


def _require_type(wanted: type[Any], plain: Any, path: str) -> Any:
    if type(plain) is not wanted:  # a bool is an int to isinstance
        raise _invalid_input(path, plain, _TYPE_NAMES[wanted])
    return plain


def _invalid_input(path: str, found: object, accepted: str) -> errors.InvalidInput:
    where = f"memory: {path}" if path else "memory"
    return errors.InvalidInput(f"{where}: found {found!r:.100}, expected {accepted}")


Shifted = TypeVar("Shifted")

DURATION_FIELDS = frozenset({"duration_s", "shortest_s", "delays"})
"""Fields that hold no moments."""

FUTURE_FIELDS = frozenset({"until_s", "expected_by_s", "rechecks"})
"""Fields whose moments may be still to come."""


def shift_memory(durable: DurableMemory, by_s: float) -> DurableMemory:
    """The same, as if every moment had been so much later."""
    return shift_times(durable, by_s) if by_s else durable


def find_latest_s(durable: DurableMemory) -> float:
    """The last moment of which is remembered that something was so. Before all time if there is none."""
    return max(_moments(durable), default=float("-inf"))


def shift_times(value: Shifted, by_s: float) -> Shifted:
    """The value, as if every moment in it had been so much later."""
    if isinstance(value, float):
        return value + by_s  # type: ignore[return-value]
    if isinstance(value, Mapping):
        return {key: shift_times(each, by_s) for key, each in value.items()}  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(shift_times(each, by_s) for each in value)  # type: ignore[return-value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        moved = {name: shift_times(each, by_s) for name, each in _parts(value) if name not in DURATION_FIELDS}
        return dataclasses.replace(value, **moved)
    return value


def _moments(value: object) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, Mapping | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _moments(each)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for name, each in _parts(value):
            if name not in DURATION_FIELDS | FUTURE_FIELDS:
                yield from _moments(each)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    return ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
