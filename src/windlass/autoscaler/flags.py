"""Flags: the settings and the wiring as text.

The tables follow from `engine.settings` and `autoscaler.wiring`: a field's flag has its name, its type tells how the
text is read, its default is the flag's. Only what the peer spells in its own way is listed here. Flags that set no
field are in `flag_names`, so that a misspelt one is told from one that changes nothing.
"""

import difflib
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from windlass import releases
from windlass.autoscaler import flag_names as names
from windlass.autoscaler import flag_values as values
from windlass.autoscaler import wiring
from windlass.engine import deviations, settings
from windlass.errors import InvalidInput

Given = Mapping[str, str | Sequence[str]]
"""A text by name, or several for a flag given several times."""
T = typing.TypeVar("T", settings.Settings, wiring.Wiring)

BEHAVIORS = {"windlass": deviations.WINDLASS, "cluster-autoscaler": deviations.NONE}
"""What --behavior chooses from. Flags of single deviations come on top."""

OWN_SPELLING: Mapping[str, tuple[str, values.Reader]] = {
    "address": ("address", values.read_address),
    "allowed_scheduler_names": ("allowed-scheduler-names", values.read_names),
    "bypassed_scheduler_names": ("bypassed-scheduler-names", values.read_names),
    "cloud_provider": ("cloud-provider", values.read_provider),
    "cores_total": ("cores-total", values.read_bounds),
    "drain_priority_config": ("drain-priority-config", values.read_priority_graces),
    "expander": ("expander", values.read_expanders),
    "feature_gates": ("feature-gates", values.read_gates),
    "gpu_total": ("gpu-total", values.read_gpu_bounds),
    "kube_scheduler_version": ("kube-scheduler-version", values.read_release),
    "logging_format": ("logging-format", values.read_log_format),
    "max_graceful_termination_s": ("max-graceful-termination-sec", values.read_int),
    "memory_total_bytes": ("memory-total", values.read_gib_bounds),
    "record_limit_mib": ("record-limit", values.read_positive),
    "stderrthreshold": ("stderrthreshold", values.read_severity),
    "v": ("v", values.read_verbosity),
    "vmodule": ("vmodule", values.read_log_patterns),
}
"""Flag and reader by field, where they do not follow from its name and type."""

NO_FLAGS = frozenset({"filters", "zero_or_max", "allow_non_atomic_scale_up_to_max"})
"""Fields that something else sets: a file, a group's annotation."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag and the field that it sets."""

    name: str
    group: str
    """The field of `Settings` or `Wiring` that holds the field; empty for a field of `Settings` itself."""
    field: str
    read: values.Reader
    default: object


def _derive(whole: settings.Settings | wiring.Wiring) -> Iterator[Flag]:
    for group, kind in typing.get_type_hints(type(whole)).items():
        if group == "seed":
            yield Flag("seed", "", "seed", values.read_int, settings.Settings().seed)
        elif group not in NO_FLAGS:
            defaults = getattr(whole, group)
            for field, hint in typing.get_type_hints(kind).items():
                if field not in NO_FLAGS:
                    name, read = OWN_SPELLING.get(field) or (_name(field), _choose_reader(field, hint))
                    yield Flag(name, group, field, read, getattr(defaults, field))


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


FLAGS: Mapping[str, Flag] = {flag.name: flag for flag in _derive(settings.Settings())}
"""Every flag that a decision depends on, by name."""

WIRING: Mapping[str, Flag] = {flag.name: flag for flag in _derive(wiring.Wiring())}
"""Every flag that the process is built from, by name."""

READERS: Mapping[str, values.Reader] = {
    **{name: flag.read for name, flag in {**FLAGS, **WIRING}.items()},
    **{name: flag.read for name, flag in names.WITHOUT_EFFECT.items()},
    **{old: {**FLAGS, **WIRING}[new].read for old, new in {**names.OLD_NAMES, **names.ADDED_NAMES}.items()},
    "behavior": values.read_text,
}
"""How to read each flag there is, by name."""


def read_flags(given: Given) -> settings.Settings:
    """The settings that flags spell. InvalidInput names the flag, what was found and what is accepted."""
    texts = _check(given)
    preset = settings.Settings(deviations=_read_behavior(texts.get("behavior", ["windlass"])))
    chosen = _fill(preset, FLAGS, texts)
    _check_together(chosen)
    return chosen


def change(chosen: settings.Settings, given: Given) -> settings.Settings:
    """Settings with some flags changed. InvalidInput as for `read_flags`, and for flags that no decision depends on."""
    texts = _check(given)
    for name in texts:
        if name in WIRING:
            raise InvalidInput(f"--{name}: found it among settings of a decision, expected one that it depends on")
    if "behavior" in texts:
        chosen = replace(chosen, deviations=_read_behavior(texts["behavior"]))
    changed = _fill(chosen, FLAGS, texts)
    _check_together(changed)
    return changed


def read_wiring(given: Given) -> wiring.Wiring:
    """The wiring that flags spell. InvalidInput names the flag, what was found and what is accepted."""
    chosen = _fill(wiring.Wiring(), WIRING, _check(given))
    if chosen.mode.dry_run and chosen.mode.shadow:
        raise InvalidInput("--dry-run: found it beside --shadow, expected one of both; a shadow changes nothing anyway")
    loop = chosen.loop
    startup_s = max(loop.max_startup_time_s, loop.max_failing_time_s, loop.max_inactivity_s)
    return replace(chosen, loop=replace(loop, max_startup_time_s=startup_s))


def find_warnings(given: Given) -> Iterator[str]:
    """What is worth telling about flags that are accepted, one sentence each."""
    chosen = read_flags(given).deviations
    for name in given:
        if name in names.WITHOUT_EFFECT:
            yield f"--{name}: changes nothing: {names.WITHOUT_EFFECT[name].why}"
        elif name in names.OLD_NAMES or name in names.ADDED_NAMES:
            new = {**names.OLD_NAMES, **names.ADDED_NAMES}[name]
            overruled = name in names.OLD_NAMES and new in given
            yield f"--{name}: an old name of --{new}{', which is given, too, and counts' if overruled else ''}"
        elif name in names.OVERRULED and getattr(chosen, FLAGS[names.OVERRULED[name].by].field):
            overruling = names.OVERRULED[name]
            yield f"--{name}: changes nothing while --{overruling.by} is on, which {overruling.why}"
        elif name == "feature-gates":
            gates = dict(read_wiring(given).scheduler.feature_gates)
            for gate in sorted(gates.keys() - releases.GATES.keys()):
                yield f"--{name}: {gate} changes nothing: no filter depends on it"
        elif name == "scale-down-enabled":
            yield f"--{name}: the peer wants to do without it some day"


def suggest(name: str) -> str:
    """The flag that was perhaps meant, as the end of a sentence; empty if none comes near."""
    near = difflib.get_close_matches(name, READERS, n=1, cutoff=0.75)
    return f"; did you mean --{near[0]}?" if near else ""


def _check(given: Given) -> dict[str, list[str]]:
    """The texts by name, of flags that exist, with values that those without effect accept as well."""
    texts = {name: [value] if isinstance(value, str) else list(value) for name, value in given.items()}
    for name, found in texts.items():
        if name not in READERS:
            raise InvalidInput(f"--{name}: there is no such flag{suggest(name)}")
        if not found:
            raise InvalidInput(f"--{name}: found no value, expected at least one")
        if name in names.WITHOUT_EFFECT:
            _read(name, READERS[name], found)
    return texts


def _fill(whole: T, table: Mapping[str, Flag], texts: Mapping[str, list[str]]) -> T:
    changes: dict[str, dict[str, typing.Any]] = {}
    for name, flag in table.items():
        called, found = _find(name, texts)
        if found:
            changes.setdefault(flag.group, {})[flag.field] = _read(called, flag.read, found)
    for group, fields in changes.items():
        changed = replace(getattr(whole, group), **fields) if group else None
        whole = replace(whole, **(fields if changed is None else {group: changed}))
    return whole


def _read_behavior(found: Sequence[str]) -> deviations.Deviations:
    if found[-1] not in BEHAVIORS:
        raise InvalidInput(f"--behavior: found {found[-1]!r}, expected {' or '.join(BEHAVIORS)}")
    return BEHAVIORS[found[-1]]


def _find(name: str, texts: Mapping[str, list[str]]) -> tuple[str, list[str]]:
    """The name by which the flag was given, if it was, and its values."""
    added = [text for old, new in names.ADDED_NAMES.items() if new == name for text in texts.get(old, [])]
    if name not in texts:
        name = next((old for old, new in names.OLD_NAMES.items() if new == name and old in texts), name)
    return name, added + texts.get(name, [])


def _read(name: str, read: values.Reader, found: Sequence[str]) -> object:
    try:
        return read(found)
    except ValueError as error:
        shown = found[-1] if len(found) == 1 else list(found)
        raise InvalidInput(f"--{name}: found {shown!r}, expected {error}") from error


def _check_together(chosen: settings.Settings) -> None:
    """Refuse what the peer refuses, because one flag would silently overrule the other."""
    drain, pods = chosen.drain, chosen.pods
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
