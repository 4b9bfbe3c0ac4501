"""Flags: parse decision settings and process options from text, and list flags without a field.

Flags are derived from the fields of `Settings` and `ProcessOptions`. Flags of Cluster Autoscaler that have no effect
here are accepted with a reason; renamed flags are aliases.
"""

import difflib
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from windlass import scheduler_releases
from windlass.autoscaler.options import flag_values, process_options
from windlass.engine.model import deviations, settings
from windlass.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class IgnoredFlag:
    """A flag of Cluster Autoscaler that is parsed and has no effect."""

    read: flag_values.ValueReader
    default: str
    why: str


_GCE_ONLY = "it applies to Google Cloud only"

_NO_AUTOPROVISIONING = "windlass does not create node groups"

_OBSOLETE = "Cluster Autoscaler ignores it, too"

_PARALLELISM = "it sets the number of threads of Cluster Autoscaler's scheduling simulation"

_NOT_NEEDED = (
    "equivalent pods are placed together, 50,000 pods of 100 templates in less than a second, so no search is cut off"
)

_UNBUFFERED = "log lines are not buffered"

_ONE_LOG_FILE = "one log file has all severities, and no file header"

IGNORED_FLAGS: Mapping[str, IgnoredFlag] = {
    "async-node-groups": IgnoredFlag(flag_values.read_bool, "false", _NO_AUTOPROVISIONING),
    "aws-use-static-instance-list": IgnoredFlag(flag_values.read_bool, "false", "it applies to AWS only"),
    "bulk-mig-instances-listing-enabled": IgnoredFlag(flag_values.read_bool, "false", _GCE_ONLY),
    "cloud-provider-gce-l7lb-src-cidrs": IgnoredFlag(flag_values.read_text, "130.211.0.0/22,35.191.0.0/16", _GCE_ONLY),
    "cloud-provider-gce-lb-src-cidrs": IgnoredFlag(
        flag_values.read_text, "130.211.0.0/22,209.85.152.0/22,209.85.204.0/22,35.191.0.0/16", _GCE_ONLY
    ),
    "cluster-snapshot-parallelism": IgnoredFlag(flag_values.read_int, "16", _PARALLELISM),
    "enable-dynamic-resource-allocation": IgnoredFlag(flag_values.read_locked, "true", "it is always enabled"),
    "enable-graceful-degradation": IgnoredFlag(flag_values.read_bool, "false", _NOT_NEEDED),
    "enable-inter-pod-affinity-hostname-fast-path": IgnoredFlag(
        flag_values.read_bool,
        "false",
        "it is an optimization of Cluster Autoscaler's filters without an effect on decisions",
    ),
    "estimator": IgnoredFlag(flag_values.read_estimator, "binpacking", "binpacking is the only estimator"),
    "gce-concurrent-refreshes": IgnoredFlag(flag_values.read_int, "1", _GCE_ONLY),
    "gce-expander-ephemeral-storage-support": IgnoredFlag(flag_values.read_bool, "true", _GCE_ONLY),
    "gce-mig-instances-min-refresh-wait-time": IgnoredFlag(flag_values.read_duration_s, "5s", _GCE_ONLY),
    "kube-api-content-type": IgnoredFlag(
        flag_values.read_text, "application/vnd.kubernetes.protobuf", "API requests use JSON"
    ),
    "leader-elect-resource-lock": IgnoredFlag(flag_values.read_lock, "leases", "only Leases are supported"),
    "log-backtrace-at": IgnoredFlag(
        flag_values.read_code_position, ":0", "unexpected errors are always logged with their traceback"
    ),
    "log-flush-frequency": IgnoredFlag(flag_values.read_duration_s, "5s", _UNBUFFERED),
    "log-json-info-buffer-size": IgnoredFlag(flag_values.read_quantity, "0", _UNBUFFERED),
    "log-text-info-buffer-size": IgnoredFlag(flag_values.read_quantity, "0", _UNBUFFERED),
    "max-autoprovisioned-node-group-count": IgnoredFlag(flag_values.read_int, "15", _NO_AUTOPROVISIONING),
    "node-autoprovisioning-enabled": IgnoredFlag(flag_values.read_bool, "false", _NO_AUTOPROVISIONING),
    "nodes": IgnoredFlag(
        flag_values.read_array, "", "annotations of a Cluster API node group set its minimum and maximum size"
    ),
    "one-output": IgnoredFlag(flag_values.read_bool, "false", _ONE_LOG_FILE),
    "pending-pods-batching-timeout": IgnoredFlag(flag_values.read_duration_s, "4m0s", _NOT_NEEDED),
    "predicate-parallelism": IgnoredFlag(flag_values.read_positive, "4", _PARALLELISM),
    "regional": IgnoredFlag(flag_values.read_bool, "false", _GCE_ONLY),
    "scale-down-candidates-pool-min-count": IgnoredFlag(flag_values.read_int, "50", _OBSOLETE),
    "scale-down-candidates-pool-ratio": IgnoredFlag(flag_values.read_float, "0.1", _OBSOLETE),
    "scale-down-non-empty-candidates-count": IgnoredFlag(flag_values.read_int, "30", _OBSOLETE),
    "scheduler-verbosity": IgnoredFlag(
        flag_values.read_int, "0", "it sets the log verbosity of Cluster Autoscaler's embedded scheduler"
    ),
    "skip-log-headers": IgnoredFlag(flag_values.read_bool, "false", _ONE_LOG_FILE),
}
"""Flags without effect, of other cloud providers or obsolete: accepted with a warning."""


@dataclass(frozen=True, slots=True)
class OverriddenFlag:
    """A flag that a deviation leaves without effect."""

    by: str
    """Flag of the deviation."""
    why: str


OVERRIDDEN_FLAGS: Mapping[str, OverriddenFlag] = {
    "parallel-scale-up": OverriddenFlag("joint-scale-up", "always scales up groups in parallel"),
    "salvo-scale-up": OverriddenFlag("joint-scale-up", "always repeats the scale-up within a loop"),
    "unremovable-node-recheck-timeout": OverriddenFlag(
        "recheck-unremovable-nodes", "evaluates each node in every loop"
    ),
}
"""Flags of Cluster Autoscaler that a default deviation leaves without effect."""

RENAMED_FLAGS: Mapping[str, str] = {
    "batch-timebox": "check-capacity-provisioning-request-batch-timebox",
    "lease-resource-name": "leader-elect-resource-name",
    "max-batch-size": "check-capacity-provisioning-request-max-batch-size",
    "max-empty-bulk-delete": "max-scale-down-parallelism",
}
"""Renamed flags; if both names are given, the new one applies."""

FLAG_ALIASES: Mapping[str, str] = {"ignore-taint": "startup-taint"}
"""Older names whose values are added to those of the new one."""

FlagTexts = Mapping[str, str | Sequence[str]]
"""Text of each flag, or several texts for a repeated flag."""

T = typing.TypeVar("T", settings.Settings, process_options.ProcessOptions)

BEHAVIOR_PRESETS = {"windlass": deviations.ALL_DEVIATIONS, "cluster-autoscaler": deviations.NO_DEVIATIONS}
"""Presets of --behavior. Flags of single deviations override them."""

SPECIAL_FLAGS: Mapping[str, tuple[str, flag_values.ValueReader]] = {
    "address": ("address", flag_values.read_address),
    "allowed_scheduler_names": ("allowed-scheduler-names", flag_values.read_names),
    "bypassed_scheduler_names": ("bypassed-scheduler-names", flag_values.read_names),
    "cloud_provider": ("cloud-provider", flag_values.read_provider),
    "cores_total": ("cores-total", flag_values.read_bounds),
    "drain_priority_config": ("drain-priority-config", flag_values.read_priority_graces),
    "expander": ("expander", flag_values.read_expanders),
    "feature_gates": ("feature-gates", flag_values.read_gates),
    "gpu_total": ("gpu-total", flag_values.read_gpu_bounds),
    "kube_scheduler_version": ("kube-scheduler-version", flag_values.read_release),
    "leader_elect_resource_name": ("leader-elect-resource-name", flag_values.read_object_name),
    "leader_elect_resource_namespace": ("leader-elect-resource-namespace", flag_values.read_namespace),
    "logging_format": ("logging-format", flag_values.read_log_format),
    "max_graceful_termination_s": ("max-graceful-termination-sec", flag_values.read_int),
    "memory_total_bytes": ("memory-total", flag_values.read_gib_bounds),
    "memory_config_map": ("memory-config-map", flag_values.read_object_name),
    "namespace": ("namespace", flag_values.read_namespace),
    "record_limit_mib": ("record-limit", flag_values.read_positive),
    "status_config_map_name": ("status-config-map-name", flag_values.read_object_name),
    "stderrthreshold": ("stderrthreshold", flag_values.read_severity),
    "v": ("v", flag_values.read_verbosity),
    "vmodule": ("vmodule", flag_values.read_log_patterns),
}
"""Flag and reader by field, where they do not follow from name and type."""

FIELDS_WITHOUT_FLAG = frozenset({"filters", "zero_or_max", "allow_non_atomic_scale_up_to_max"})
"""Fields that are set otherwise: by a file, or by a group's annotation."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag and the field that it sets."""

    name: str
    group: str
    """Field of `Settings` or `ProcessOptions` that holds the field; empty for a field of `Settings` itself."""
    field: str
    read: flag_values.ValueReader
    default: object


def _derive_flags(whole: settings.Settings | process_options.ProcessOptions) -> Iterator[Flag]:
    for group, kind in typing.get_type_hints(type(whole)).items():
        if group == "seed":
            yield Flag("seed", "", "seed", flag_values.read_int, settings.Settings().seed)
        elif group not in FIELDS_WITHOUT_FLAG:
            defaults = getattr(whole, group)
            for field, hint in typing.get_type_hints(kind).items():
                if field not in FIELDS_WITHOUT_FLAG:
                    name, read = SPECIAL_FLAGS.get(field) or (_flag_name(field), _choose_reader(field, hint))
                    yield Flag(name, group, field, read, getattr(defaults, field))


def _flag_name(field: str) -> str:
    return field.removesuffix("_s").replace("_", "-")


def _choose_reader(field: str, hint: object) -> flag_values.ValueReader:
    if hint is float:
        return flag_values.read_duration_s if field.endswith("_s") else flag_values.read_float
    readers: Mapping[object, flag_values.ValueReader] = {
        bool: flag_values.read_bool,
        int: flag_values.read_int,
        str: flag_values.read_text,
        tuple[str, ...]: flag_values.read_array,
    }
    return readers[hint]


DECISION_FLAGS: Mapping[str, Flag] = {flag.name: flag for flag in _derive_flags(settings.Settings())}
"""Flags of decision settings, by name."""

PROCESS_FLAGS: Mapping[str, Flag] = {flag.name: flag for flag in _derive_flags(process_options.ProcessOptions())}
"""Flags of process options, by name."""

READERS: Mapping[str, flag_values.ValueReader] = {
    **{name: flag.read for name, flag in {**DECISION_FLAGS, **PROCESS_FLAGS}.items()},
    **{name: flag.read for name, flag in IGNORED_FLAGS.items()},
    **{old: {**DECISION_FLAGS, **PROCESS_FLAGS}[new].read for old, new in {**RENAMED_FLAGS, **FLAG_ALIASES}.items()},
    "behavior": flag_values.read_text,
}
"""Reader of each flag, by name."""


def parse_settings(given: FlagTexts) -> settings.Settings:
    """Parse the settings. InvalidInput names the flag, the value and what is accepted."""
    texts = _check_flags(given)
    preset = settings.Settings(deviations=_read_behavior(texts.get("behavior", ["windlass"])))
    selected = _fill_options(preset, DECISION_FLAGS, texts)
    _check_together(selected)
    return selected


def override_settings(active_settings: settings.Settings, given: FlagTexts) -> settings.Settings:
    """Return settings with some flags changed. InvalidInput as for `parse_settings`, and for flags that no decision
    depends on.
    """
    texts = _check_flags(given)
    for name in texts:
        if name in PROCESS_FLAGS:
            raise InvalidInput(f"--{name}: found a flag of the process, expected a flag that decisions depend on")
    if "behavior" in texts:
        active_settings = replace(active_settings, deviations=_read_behavior(texts["behavior"]))
    changed = _fill_options(active_settings, DECISION_FLAGS, texts)
    _check_together(changed)
    return changed


def parse_process_options(given: FlagTexts) -> process_options.ProcessOptions:
    """Parse the process options. InvalidInput names the flag, the value and what is accepted."""
    selected = _fill_options(process_options.ProcessOptions(), PROCESS_FLAGS, _check_flags(given))
    if selected.mode.dry_run and selected.mode.shadow:
        raise InvalidInput(
            "--dry-run: found it together with --shadow, expected one of them; --shadow changes nothing, too"
        )
    loop = selected.loop
    startup_s = max(loop.max_startup_time_s, loop.max_failing_time_s, loop.max_inactivity_s)
    return replace(selected, loop=replace(loop, max_startup_time_s=startup_s))


def find_flag_warnings(given: FlagTexts) -> Iterator[str]:
    """Yield a warning for each accepted flag that has no effect or is deprecated."""
    selected = parse_settings(given).deviations
    for name in given:
        if name in IGNORED_FLAGS:
            yield f"--{name}: no effect: {IGNORED_FLAGS[name].why}"
        elif name in RENAMED_FLAGS or name in FLAG_ALIASES:
            new = {**RENAMED_FLAGS, **FLAG_ALIASES}[name]
            is_overridden = name in RENAMED_FLAGS and new in given
            yield f"--{name}: an old name of --{new}{', which is set as well and applies' if is_overridden else ''}"
        elif name in OVERRIDDEN_FLAGS and getattr(selected, DECISION_FLAGS[OVERRIDDEN_FLAGS[name].by].field):
            override = OVERRIDDEN_FLAGS[name]
            yield f"--{name}: no effect while --{override.by} is enabled, which {override.why}"
        elif name == "feature-gates":
            gates = dict(parse_process_options(given).scheduler.feature_gates)
            for gate in sorted(gates.keys() - scheduler_releases.FEATURE_GATES.keys()):
                yield f"--{name}: {gate} has no effect: no filter depends on it"
        elif name == "scale-down-enabled":
            yield f"--{name}: deprecated in Cluster Autoscaler"


def describe_behavior(given: FlagTexts) -> str:
    """Return a line for the log: which autoscaler the decisions follow, and the flags that make exceptions."""
    selected = parse_settings(given).deviations
    name = given["behavior"][-1] if "behavior" in given else "windlass"
    preset = BEHAVIOR_PRESETS[name]
    changed = [
        f"--{flag.name}"
        for flag in DECISION_FLAGS.values()
        if flag.group == "deviations" and getattr(selected, flag.field) != getattr(preset, flag.field)
    ]
    return f"decisions follow behavior={name} changed_by={','.join(changed) or 'none'}"


def suggest_flag(name: str) -> str:
    """Return a suggestion for a misspelled flag, as the end of a sentence; empty if none is similar."""
    near = difflib.get_close_matches(name, READERS, n=1, cutoff=0.75)
    return f"; did you mean --{near[0]}?" if near else ""


def _check_flags(given: FlagTexts) -> dict[str, list[str]]:
    """Return texts by name, after checking that the flags exist and that values of ignored flags are valid."""
    texts = {name: [value] if isinstance(value, str) else list(value) for name, value in given.items()}
    for name, found in texts.items():
        if name not in READERS:
            raise InvalidInput(f"--{name}: unknown flag{suggest_flag(name)}")
        if not found:
            raise InvalidInput(f"--{name}: found no value, expected at least one")
        if name in IGNORED_FLAGS:
            _read_value(name, READERS[name], found)
    return texts


def _fill_options(whole: T, table: Mapping[str, Flag], texts: Mapping[str, list[str]]) -> T:
    changes: dict[str, dict[str, typing.Any]] = {}
    for name, flag in table.items():
        called, found = _find_values(name, texts)
        if found:
            changes.setdefault(flag.group, {})[flag.field] = _read_value(called, flag.read, found)
    for group, fields in changes.items():
        changed = replace(getattr(whole, group), **fields) if group else None
        whole = replace(whole, **(fields if changed is None else {group: changed}))
    return whole


def _read_behavior(found: Sequence[str]) -> deviations.Deviations:
    if found[-1] not in BEHAVIOR_PRESETS:
        raise InvalidInput(f"--behavior: found {found[-1]!r}, expected {' or '.join(BEHAVIOR_PRESETS)}")
    return BEHAVIOR_PRESETS[found[-1]]


def _find_values(name: str, texts: Mapping[str, list[str]]) -> tuple[str, list[str]]:
    """Return the name under which the flag was given, and its values."""
    added = [text for old, new in FLAG_ALIASES.items() if new == name for text in texts.get(old, [])]
    if name not in texts:
        name = next((old for old, new in RENAMED_FLAGS.items() if new == name and old in texts), name)
    return name, added + texts.get(name, [])


def _read_value(name: str, read: flag_values.ValueReader, found: Sequence[str]) -> object:
    try:
        return read(found)
    except ValueError as error:
        shown = found[-1] if len(found) == 1 else list(found)
        raise InvalidInput(f"--{name}: found {shown!r}, expected {error}") from error


def _check_together(active_settings: settings.Settings) -> None:
    """Reject combinations that Cluster Autoscaler rejects, because one flag would silently override the other."""
    drain, pods = active_settings.drain, active_settings.pods
    if (
        drain.drain_priority_config
        and drain.max_graceful_termination_s != settings.DrainSettings().max_graceful_termination_s
    ):
        raise InvalidInput(
            f"--max-graceful-termination-sec: found {drain.max_graceful_termination_s}, "
            "expected it unset with --drain-priority-config, which sets a grace period per priority"
        )
    outside = [name for name in pods.bypassed_scheduler_names if name not in pods.allowed_scheduler_names]
    if pods.allowed_scheduler_names and outside:
        raise InvalidInput(
            f"--bypassed-scheduler-names: found {outside[0]!r}, "
            f"expected only names of --allowed-scheduler-names ({', '.join(pods.allowed_scheduler_names)})"
        )
