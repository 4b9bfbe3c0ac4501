"""Flags: the settings as text.

The table follows from `engine.settings`: a field's flag has its name, its type tells how the text is read, its default
is the flag's. Only what the peer spells in its own way is listed here. Flags that set no field are known by name, so
that a misspelt one is told from one that is read elsewhere.
"""

import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from windlass.autoscaler import flag_names as names
from windlass.autoscaler import flag_values as values
from windlass.engine import deviations, settings
from windlass.errors import InvalidInput

BEHAVIORS = {"windlass": deviations.WINDLASS, "cluster-autoscaler": deviations.NONE}
"""What --behavior chooses from. Flags of single deviations come on top."""

OWN_SPELLING: Mapping[str, tuple[str, values.Reader]] = {
    "allowed_scheduler_names": ("allowed-scheduler-names", values.read_names),
    "bypassed_scheduler_names": ("bypassed-scheduler-names", values.read_names),
    "cores_total": ("cores-total", values.read_bounds),
    "drain_priority_config": ("drain-priority-config", values.read_priority_graces),
    "expander": ("expander", values.read_expanders),
    "gpu_total": ("gpu-total", values.read_gpu_bounds),
    "max_graceful_termination_s": ("max-graceful-termination-sec", values.read_int),
    "memory_total_bytes": ("memory-total", values.read_gib_bounds),
}
"""Flag and reader by field, where they do not follow from its name and type."""

FIXED: Mapping[str, values.Reader] = {
    "estimator": values.read_estimator,
    "enable-dynamic-resource-allocation": values.read_locked,
}
"""Flags that accept one value only."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag and the field that it sets."""

    name: str
    group: str
    """The field of `Settings` that holds the field; empty for a field of `Settings` itself."""
    field: str
    read: values.Reader


def _derive() -> Iterator[Flag]:
    for group, kind in typing.get_type_hints(settings.Settings).items():
        if group == "seed":
            yield Flag("seed", "", "seed", values.read_int)
        elif group != "filters":
            for field, hint in typing.get_type_hints(kind).items():
                name, read = OWN_SPELLING.get(field) or (_name(field), _choose_reader(field, hint))
                yield Flag(name, group, field, read)


def _name(field: str) -> str:
    return field.removesuffix("_s").replace("_", "-")


def _choose_reader(field: str, hint: object) -> values.Reader:
    if hint is float:
        return values.read_duration_s if field.endswith("_s") else values.read_float
    readers: Mapping[object, values.Reader] = {
        bool: values.read_bool,
        int: values.read_int,
        str: values.read_text,
        tuple[str, ...]: values.read_array,
    }
    return readers[hint]


FLAGS: Mapping[str, Flag] = {flag.name: flag for flag in _derive() if flag.field != "zero_or_max"}
"""Every flag that a decision depends on, by name."""


def read_flags(given: Mapping[str, str | Sequence[str]]) -> settings.Settings:
    """The settings that flags spell: a text by name, or several for a flag given several times.

    InvalidInput names the flag, what was found and what is accepted.
    """
    texts = {name: [value] if isinstance(value, str) else list(value) for name, value in given.items()}
    _check_names(texts)
    chosen = settings.Settings(deviations=_read_behavior(texts.get("behavior", ["windlass"])))
    for name, read in FIXED.items():
        if name in texts:
            _read(name, read, texts[name])
    changes: dict[str, dict[str, typing.Any]] = {}
    for name, flag in FLAGS.items():
        called, found = _find(name, texts)
        if found:
            changes.setdefault(flag.group, {})[flag.field] = _read(called, flag.read, found)
    for group, fields in changes.items():
        changed = replace(getattr(chosen, group), **fields) if group else None
        chosen = replace(chosen, **(fields if changed is None else {group: changed}))
    _check_together(chosen.drain, chosen.pods)
    return chosen


def _check_names(texts: Mapping[str, Sequence[str]]) -> None:
    known = FLAGS.keys() | names.OLD_NAMES.keys() | FIXED.keys() | names.SETTING_NOTHING | {"behavior", "ignore-taint"}
    for name, found in texts.items():
        if name not in known:
            raise InvalidInput(f"--{name}: there is no such flag")
        if not found:
            raise InvalidInput(f"--{name}: found no value, expected at least one")


def _read_behavior(found: Sequence[str]) -> deviations.Deviations:
    if found[-1] not in BEHAVIORS:
        raise InvalidInput(f"--behavior: found {found[-1]!r}, expected {' or '.join(BEHAVIORS)}")
    return BEHAVIORS[found[-1]]


def _find(name: str, texts: Mapping[str, list[str]]) -> tuple[str, list[str]]:
    """The name by which the flag was given, if it was, and its values."""
    if name == "startup-taint":
        return name, texts.get("ignore-taint", []) + texts.get(name, [])
    if name not in texts:
        name = next((old for old, new in names.OLD_NAMES.items() if new == name and old in texts), name)
    return name, texts.get(name, [])


def _read(name: str, read: values.Reader, found: Sequence[str]) -> object:
    try:
        return read(found)
    except ValueError as error:
        shown = found[-1] if len(found) == 1 else list(found)
        raise InvalidInput(f"--{name}: found {shown!r}, expected {error}") from error


def _check_together(drain: settings.Drain, pods: settings.Pods) -> None:
    """Refuse what the peer refuses, because one flag would silently overrule the other."""
    if drain.drain_priority_config and drain.max_graceful_termination_s != settings.Drain().max_graceful_termination_s:
        raise InvalidInput(
            f"--max-graceful-termination-sec: found {drain.max_graceful_termination_s}, "
            "expected nothing beside --drain-priority-config, which gives each priority its own time"
        )
    outside = [name for name in pods.bypassed_scheduler_names if name not in pods.allowed_scheduler_names]
    if pods.allowed_scheduler_names and outside:
        raise InvalidInput(
            f"--bypassed-scheduler-names: found {outside[0]!r}, "
            f"expected only names of --allowed-scheduler-names ({', '.join(pods.allowed_scheduler_names)})"
        )
