"""kube-scheduler configuration: its release, and which filters of its profile apply with which arguments.

Reads --scheduler-config-file like kube-scheduler: one profile, its plugins by extension point, and the arguments that
change filters. The release is --kube-scheduler-version or that of the API server.
"""

import dataclasses
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from windlass import errors, input_files, scheduler_releases, selectors
from windlass.engine.model import settings
from windlass.kube import client, fields, scheme, time_formats, transport, yaml_documents
from windlass.kube import errors as kube_errors
from windlass.kube import selectors as kube_selectors
from windlass.kube.models import kubescheduler

_log = logging.getLogger(__name__)

_VERSION_RETRY_S = 2.0
"""Retry interval for an API server that does not answer."""


class _ServerVersion(msgspec.Struct):
    git_version: str = msgspec.field(default="", name="gitVersion")


@dataclass(frozen=True, slots=True)
class SchedulerRelease:
    """Release and feature gates as flags give them."""

    version: str = ""
    """Empty: use the version of the API server."""
    gates: Mapping[str, bool] = field(default_factory=dict)

    def resolve(self, server_version: str) -> scheduler_releases.SchedulerRelease:
        """Return the release, with its feature gates, for a server of this version."""
        release = scheduler_releases.KNOWN_RELEASES.get(self.version) or scheduler_releases.nearest_release(
            server_version
        )
        return scheduler_releases.with_feature_gates(release, self.gates)


async def find_scheduler_release(
    api: client.Client, choice: SchedulerRelease, report: Callable[[kube_errors.KubeError], None]
) -> scheduler_releases.SchedulerRelease:
    """Return the scheduler release. Waits for the API server if its version is needed, and reports errors."""
    server_version = "" if choice.version else await _get_server_version(api, report)
    release = choice.resolve(server_version)
    _log.info(
        "applying kube-scheduler filters: release=%s server_version=%s", release.version, server_version or "unknown"
    )
    for gate in choice.gates:
        if gate in scheduler_releases.FEATURE_GATES and not scheduler_releases.gate_has_effect(gate, release):
            _log.warning("feature gate has no effect: gate=%s release=%s", gate, release.version)
    return release


async def _get_server_version(api: client.Client, report: Callable[[kube_errors.KubeError], None]) -> str:
    """Return the version of the API server; empty if it does not report one, which selects the oldest supported
    release.
    """
    request = transport.Request("GET", "/version", headers={"accept": "application/json"})
    while True:
        try:
            return msgspec.json.decode(await api.call(request), type=_ServerVersion).git_version
        except (kube_errors.Forbidden, kube_errors.NotFound, msgspec.MsgspecError) as error:
            _log.warning("failed to read API server version: error=%s", error)
            return ""
        except kube_errors.KubeError as error:
            _log.warning("failed to read API server version: retry_s=%g error=%s", _VERSION_RETRY_S, error)
            report(error)
        await api.clock.sleep(_VERSION_RETRY_S)


ALL_PLUGINS = "*"

DEFAULT_PLUGINS = (
    "SchedulingGates", "PrioritySort", "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",
    "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread",
    "InterPodAffinity", "DynamicResources", "DefaultPreemption", "NodeResourcesBalancedAllocation", "ImageLocality",
    "DefaultBinder", "NodeDeclaredFeatures",
)  # fmt: skip
"""Plugins that are enabled by default."""

KNOWN_PLUGINS = (*DEFAULT_PLUGINS, "GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount")
"""All plugins of kube-scheduler 1.36."""

_REMOVED_PLUGINS = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
"""Plugins of former releases, which existing files still disable."""

_FILTER_ONLY = frozenset(("NodeUnschedulable", "TaintToleration"))
"""Plugins without a preFilter."""

_STATEFUL_PREFILTERS = frozenset(
    ("NodePorts", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity", "NodeDeclaredFeatures", "VolumeBinding",
     "VolumeRestrictions", "DynamicResources")
)  # fmt: skip
"""Plugins whose filter fails for every pod without its preFilter."""

_PREFILTERS = _STATEFUL_PREFILTERS | {"NodeAffinity", "NodeName", "NodeVolumeLimits", "VolumeZone"}
"""Plugins with a preFilter. That of NodeName exists since release 1.37."""

_FILTERS = _PREFILTERS | _FILTER_ONLY

_EXTENSION_POINTS = {
    "preFilter": _PREFILTERS,
    "filter": _FILTERS,
    "queueSort": frozenset(("PrioritySort",)),
    "bind": frozenset(("DefaultBinder",)),
}
"""Plugins by extension point."""


def read_filter_plugins(plugins: kubescheduler.Plugins, at: str) -> settings.FilterConfig:
    """Read which filters are disabled, and which of these still have their preFilter.

    InvalidField for a configuration that kube-scheduler rejects, or in which a plugin would fail for every pod.
    """
    for name, plugin_set in _by_point(plugins).items():
        _check_plugin_names(plugin_set, name, f"{at}.{name}")
    for name in ("queueSort", "bind"):
        if not _enabled_plugins(plugins, name):
            (needed,) = _EXTENSION_POINTS[name]
            raise fields.InvalidField(
                f"{at}.{name}", "no plugin that is enabled", f"{needed}, enabled here or at multiPoint"
            )
    filters, prefilters = _enabled_plugins(plugins, "filter"), _enabled_plugins(plugins, "preFilter")
    for name in sorted(filters & _STATEFUL_PREFILTERS - prefilters):
        both = f"{name} disabled at filter, too, or not at all: it cannot filter without its preFilter"
        raise fields.InvalidField(f"{at}.preFilter.disabled", name, both)
    return settings.FilterConfig(disabled=_FILTERS - filters, prefilter_only=prefilters - filters)


def _by_point(plugins: kubescheduler.Plugins) -> dict[str, kubescheduler.PluginSet]:
    names = {field.name: field.encode_name for field in msgspec.structs.fields(plugins)}
    plugin_sets = ((encoded, getattr(plugins, name)) for name, encoded in names.items())
    return {encoded: chosen for encoded, chosen in plugin_sets if chosen is not None}


def _check_plugin_names(plugin_set: kubescheduler.PluginSet, point: str, at: str) -> None:
    """Check that every plugin is known and implements the extension point, and none is enabled twice."""
    usable = tuple(sorted(_EXTENSION_POINTS.get(point, KNOWN_PLUGINS)))
    names = _plugin_names(plugin_set.enabled)
    for i, name in enumerate(names):
        fields.read_enum(name, usable, f"{at}.enabled[{i}].name")
        if name in names[:i]:
            raise fields.InvalidField(f"{at}.enabled[{i}].name", name, "each plugin once")
    for i, name in enumerate(_plugin_names(plugin_set.disabled)):
        if name not in _REMOVED_PLUGINS:
            fields.read_enum(name, (*sorted(KNOWN_PLUGINS), ALL_PLUGINS), f"{at}.disabled[{i}].name")


def _enabled_plugins(plugins: kubescheduler.Plugins, point: str) -> frozenset[str]:
    """Return the plugins that are enabled at an extension point."""
    plugin_sets = _by_point(plugins)
    nothing = kubescheduler.PluginSet()
    everywhere, here = plugin_sets.get("multiPoint", nothing), plugin_sets.get(point, nothing)
    common = _without_disabled(DEFAULT_PLUGINS, everywhere) | set(_plugin_names(everywhere.enabled))
    return _EXTENSION_POINTS[point] & (_without_disabled(common, here) | set(_plugin_names(here.enabled)))


def _without_disabled(names: Sequence[str] | set[str], plugin_set: kubescheduler.PluginSet) -> set[str]:
    disabled = _plugin_names(plugin_set.disabled)
    return set() if ALL_PLUGINS in disabled else set(names) - set(disabled)


def _plugin_names(plugins: Sequence[kubescheduler.Plugin] | None) -> list[str]:
    return [plugin.name for plugin in plugins or ()]


_QUALIFIED_NAME = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

PluginArgs = dict[str, tuple[kubescheduler.Args, str]]
"""Arguments by plugin, each with its path in the file."""

ArgsOf = TypeVar("ArgsOf", bound=kubescheduler.Args)


def read_plugin_args(
    configs: Sequence[kubescheduler.PluginConfig], at: str, plugins: settings.FilterConfig
) -> settings.FilterConfig:
    """Read the arguments of enabled filter plugins from a profile's pluginConfig.

    InvalidField for arguments that are not supported.
    """
    given = _decode_args(configs, at)
    spread, path = _args_of(given, "PodTopologySpread", kubescheduler.PodTopologySpreadArgs)
    _check_defaulting(spread, path)
    for i, constraint in enumerate(spread.default_constraints or ()):
        _check_constraint(constraint, f"{path}.defaultConstraints[{i}]", "PodTopologySpread" not in plugins.disabled)
    ignored, groups = _read_ignored_resources(*_args_of(given, "NodeResourcesFit", kubescheduler.NodeResourcesFitArgs))
    return dataclasses.replace(
        plugins,
        ignored_resources=ignored,
        ignored_resource_groups=groups,
        added_affinity=_read_added_affinity(*_args_of(given, "NodeAffinity", kubescheduler.NodeAffinityArgs)),
        binding_timeout_s=_read_timeout(*_args_of(given, "DynamicResources", kubescheduler.DynamicResourcesArgs)),
    )


def _read_timeout(args: kubescheduler.DynamicResourcesArgs, at: str) -> float:
    """Read DynamicResources.bindingTimeout."""
    if args.binding_timeout is None:
        return settings.DEFAULT_FILTER_CONFIG.binding_timeout_s
    try:
        timeout_s = time_formats.parse_duration(args.binding_timeout)
    except ValueError:
        timeout_s = 0.0
    if timeout_s < 1.0:
        raise fields.InvalidField(f"{at}.bindingTimeout", args.binding_timeout, "a duration of a second or more")
    return timeout_s


def _decode_args(configs: Sequence[kubescheduler.PluginConfig], at: str) -> PluginArgs:
    """Decode the arguments of each plugin; each plugin once, with arguments of its own kind."""
    given: PluginArgs = {}
    for i, plugin_config in enumerate(configs):
        fields.read_enum(plugin_config.name, tuple(sorted(KNOWN_PLUGINS)), f"{at}[{i}].name")
        if plugin_config.name in given:
            raise fields.InvalidField(f"{at}[{i}].name", plugin_config.name, "each plugin once")
        path = f"{at}[{i}].args"
        if bytes(plugin_config.args) == b"null":
            given[plugin_config.name] = kubescheduler.ARGS.get(plugin_config.name, kubescheduler.Args)(), path
            continue
        if plugin_config.name not in kubescheduler.ARGS:
            raise fields.InvalidField(
                path, bytes(plugin_config.args).decode(), f"nothing: {plugin_config.name} takes no arguments"
            )
        args = yaml_documents.decode_strict(plugin_config.args, kubescheduler.ARGS[plugin_config.name], path)
        fields.read_enum(
            args.api_version or kubescheduler.API_VERSION, (kubescheduler.API_VERSION,), f"{path}.apiVersion"
        )
        fields.read_enum(args.kind or f"{plugin_config.name}Args", (f"{plugin_config.name}Args",), f"{path}.kind")
        given[plugin_config.name] = args, path
    return given


def _args_of(given: PluginArgs, plugin: str, kind: type[ArgsOf]) -> tuple[ArgsOf, str]:
    args, path = given.get(plugin, (None, ""))
    return (args if isinstance(args, kind) else kind()), path


def _read_added_affinity(args: kubescheduler.NodeAffinityArgs, at: str) -> selectors.NodeSelector | None:
    """Read NodeAffinity.addedAffinity; preferred terms do not affect filters."""
    added = args.added_affinity
    required = added.required_during_scheduling_ignored_during_execution if added else None
    return kube_selectors.parse_node_selector(required, f"{at}.addedAffinity.{_REQUIRED}")


def _read_ignored_resources(args: kubescheduler.NodeResourcesFitArgs, at: str) -> tuple[frozenset[str], frozenset[str]]:
    """Read NodeResourcesFit.ignoredResources and ignoredResourceGroups."""
    for i, name in enumerate(args.ignored_resources or ()):
        if not _QUALIFIED_NAME.fullmatch(name):
            raise fields.InvalidField(f"{at}.ignoredResources[{i}]", name, "a name such as example.com/gpu")
    for i, name in enumerate(args.ignored_resource_groups or ()):
        if "/" in name or not _QUALIFIED_NAME.fullmatch(name):
            accepted = "the part of a resource's name before the slash"
            raise fields.InvalidField(f"{at}.ignoredResourceGroups[{i}]", name, accepted)
    return frozenset(args.ignored_resources or ()), frozenset(args.ignored_resource_groups or ())


def _check_defaulting(args: kubescheduler.PodTopologySpreadArgs, at: str) -> None:
    kind = fields.read_enum(args.defaulting_type or "System", ("System", "List"), f"{at}.defaultingType")
    if kind == "System" and args.default_constraints:
        raise fields.InvalidField(f"{at}.defaultingType", kind, "List, where there are defaultConstraints")
    seen: list[tuple[str | None, str | None]] = []
    for i, constraint in enumerate(args.default_constraints or ()):
        pair = constraint.topology_key, constraint.when_unsatisfiable
        if pair in seen:
            raise fields.InvalidField(f"{at}.defaultConstraints[{i}]", pair, "each topologyKey once for each effect")
        seen.append(pair)


def _check_constraint(constraint: kubescheduler.SpreadConstraint, at: str, filters: bool) -> None:
    """Check a default constraint: soft ones do not affect filters, hard ones are not supported.

    Hard ones depend on the Services and controllers that select a pod, which the engine does not know.
    """
    if (constraint.max_skew or 0) < 1:
        raise fields.InvalidField(f"{at}.maxSkew", constraint.max_skew, "1 or more")
    if not constraint.topology_key:
        raise fields.InvalidField(f"{at}.topologyKey", constraint.topology_key, "the key of a node label")
    if constraint.label_selector is not None:
        raise fields.InvalidField(f"{at}.labelSelector", "a selector", "none: it is deduced for each pod")
    effects = ("DoNotSchedule", "ScheduleAnyway")
    when = fields.read_enum(constraint.when_unsatisfiable, effects, f"{at}.whenUnsatisfiable")
    if when == "DoNotSchedule" and filters:
        accepted = "ScheduleAnyway: defaults that refuse nodes depend on Services, which windlass does not read yet"
        raise fields.InvalidField(f"{at}.whenUnsatisfiable", when, accepted)


_PROFILE_FIELD = "profiles[0]"


@dataclass(frozen=True, slots=True)
class SchedulerProfile:
    """A profile: the pods that it applies to, by `spec.schedulerName`, and its filter configuration."""

    scheduler_name: str = "default-scheduler"
    filters: settings.FilterConfig = settings.DEFAULT_FILTER_CONFIG


DEFAULT_PROFILE = SchedulerProfile()


def load_profile(path: Path) -> SchedulerProfile:
    """Load the profile of a file. InvalidInput says where, what was found and what is accepted."""
    try:
        text = input_files.read_bytes(path)
    except OSError as error:
        raise errors.InvalidInput(f"{path}: {error.strerror}") from error
    return parse_profile(text, str(path))


def parse_profile(text: bytes | str, source: str) -> SchedulerProfile:
    """Parse a profile in YAML or JSON; `source` names it in errors."""
    documents = list(yaml_documents.read_documents(text, source, strict=True))
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise errors.InvalidInput(f"{source}: expected one {kubescheduler.KIND}, found {len(documents)} documents")
    try:
        kube_scheduler_configuration = yaml_documents.decode_strict(
            scheme.as_json(documents[0]), kubescheduler.KubeSchedulerConfiguration
        )
        _check_configuration(kube_scheduler_configuration)
        return _read_profile(
            kube_scheduler_configuration.profiles[0]
            if kube_scheduler_configuration.profiles
            else kubescheduler.Profile()
        )
    except fields.InvalidField as error:
        raise errors.InvalidInput(f"{source}: {error}") from error
    except errors.InvalidObject as error:
        raise errors.InvalidInput(f"{source}: found {error.found!r}, expected {error.accepted}") from error


def _check_configuration(kube_scheduler_configuration: kubescheduler.KubeSchedulerConfiguration) -> None:
    """Check what kube-scheduler requires in any configuration."""
    fields.read_enum(kube_scheduler_configuration.api_version, (kubescheduler.API_VERSION,), "apiVersion")
    fields.read_enum(kube_scheduler_configuration.kind, (kubescheduler.KIND,), "kind")
    if kube_scheduler_configuration.profiles and len(kube_scheduler_configuration.profiles) > 1:
        names = [profile.scheduler_name for profile in kube_scheduler_configuration.profiles]
        raise fields.InvalidField("profiles", names, "exactly one profile")
    first_s = (
        1
        if kube_scheduler_configuration.pod_initial_backoff_seconds is None
        else kube_scheduler_configuration.pod_initial_backoff_seconds
    )
    last_s = (
        10
        if kube_scheduler_configuration.pod_max_backoff_seconds is None
        else kube_scheduler_configuration.pod_max_backoff_seconds
    )
    burst = (
        kube_scheduler_configuration.client_connection.burst if kube_scheduler_configuration.client_connection else None
    )
    _check_range(kube_scheduler_configuration.parallelism, 1, None, "parallelism")
    _check_range(kube_scheduler_configuration.percentage_of_nodes_to_score, 0, 100, "percentageOfNodesToScore")
    _check_range(first_s, 1, None, "podInitialBackoffSeconds")
    _check_range(last_s, first_s, None, "podMaxBackoffSeconds")
    _check_range(burst, 0, None, "clientConnection.burst")


def _check_range(number: int | None, low: int, high: int | None, at: str) -> None:
    if number is not None and (number < low or (high is not None and number > high)):
        raise fields.InvalidField(at, number, f"{low} or more" if high is None else f"{low} to {high}")


def _read_profile(profile: kubescheduler.Profile) -> SchedulerProfile:
    if profile.scheduler_name == "":
        raise fields.InvalidField(
            f"{_PROFILE_FIELD}.schedulerName", "", "the name that pods ask for in spec.schedulerName"
        )
    _check_range(profile.percentage_of_nodes_to_score, 0, 100, f"{_PROFILE_FIELD}.percentageOfNodesToScore")
    plugins = read_filter_plugins(profile.plugins or kubescheduler.Plugins(), f"{_PROFILE_FIELD}.plugins")
    filters = read_plugin_args(profile.plugin_config or (), f"{_PROFILE_FIELD}.pluginConfig", plugins)
    return SchedulerProfile(
        DEFAULT_PROFILE.scheduler_name if profile.scheduler_name is None else profile.scheduler_name, filters
    )
