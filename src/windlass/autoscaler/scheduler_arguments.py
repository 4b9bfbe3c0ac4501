"""Arguments of kube-scheduler's plugins, as far as they change what filters say."""

import re
from collections.abc import Sequence
from typing import TypeVar

from windlass import selectors
from windlass.autoscaler import scheduler_plugins
from windlass.engine.predicates import config
from windlass.kube import durations, fields, manifests
from windlass.kube import selectors as kube_selectors
from windlass.kube.models import kubescheduler

_QUALIFIED_NAME = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

Given = dict[str, tuple[kubescheduler.Args, str]]
"""Arguments by plugin, each with the path at which they are."""
ArgsOf = TypeVar("ArgsOf", bound=kubescheduler.Args)


def read(configs: Sequence[kubescheduler.PluginConfig], at: str, disabled: frozenset[str]) -> config.FilterConfig:
    """What a profile's pluginConfig says to those filters that it does not disable.

    InvalidField if it cannot be honoured.
    """
    given = _decode(configs, at)
    spread, path = _of(given, "PodTopologySpread", kubescheduler.PodTopologySpreadArgs)
    _check_defaulting(spread, path)
    for i, constraint in enumerate(spread.default_constraints or ()):
        _check_constraint(constraint, f"{path}.defaultConstraints[{i}]", "PodTopologySpread" not in disabled)
    ignored, groups = _read_ignored(*_of(given, "NodeResourcesFit", kubescheduler.NodeResourcesFitArgs))
    return config.FilterConfig(
        disabled=disabled,
        ignored_resources=ignored,
        ignored_resource_groups=groups,
        added_affinity=_read_added(*_of(given, "NodeAffinity", kubescheduler.NodeAffinityArgs)),
        binding_timeout_s=_read_timeout(*_of(given, "DynamicResources", kubescheduler.DynamicResourcesArgs)),
    )


def _read_timeout(args: kubescheduler.DynamicResourcesArgs, at: str) -> float:
    """DynamicResources.bindingTimeout."""
    if args.binding_timeout is None:
        return config.DEFAULT.binding_timeout_s
    try:
        timeout_s = durations.parse(args.binding_timeout)
    except ValueError:
        timeout_s = 0.0
    if timeout_s < 1.0:
        raise fields.InvalidField(f"{at}.bindingTimeout", args.binding_timeout, "a duration of a second or more")
    return timeout_s


def _decode(configs: Sequence[kubescheduler.PluginConfig], at: str) -> Given:
    """The arguments given to each plugin, each plugin once and with arguments of its own kind."""
    given: Given = {}
    for i, one in enumerate(configs):
        fields.choose(one.name, tuple(sorted(scheduler_plugins.KNOWN)), f"{at}[{i}].name")
        if one.name in given:
            raise fields.InvalidField(f"{at}[{i}].name", one.name, "each plugin once")
        path = f"{at}[{i}].args"
        if bytes(one.args) == b"null":
            given[one.name] = kubescheduler.ARGS.get(one.name, kubescheduler.Args)(), path
            continue
        if one.name not in kubescheduler.ARGS:
            raise fields.InvalidField(path, bytes(one.args).decode(), f"nothing: {one.name} takes no arguments")
        args = manifests.decode(one.args, kubescheduler.ARGS[one.name], path)
        fields.choose(args.api_version or kubescheduler.API_VERSION, (kubescheduler.API_VERSION,), f"{path}.apiVersion")
        fields.choose(args.kind or f"{one.name}Args", (f"{one.name}Args",), f"{path}.kind")
        given[one.name] = args, path
    return given


def _of(given: Given, plugin: str, kind: type[ArgsOf]) -> tuple[ArgsOf, str]:
    args, path = given.get(plugin, (None, ""))
    return (args if isinstance(args, kind) else kind()), path


def _read_added(args: kubescheduler.NodeAffinityArgs, at: str) -> selectors.NodeSelector | None:
    """NodeAffinity.addedAffinity; what it merely prefers is no matter of filters."""
    added = args.added_affinity
    required = added.required_during_scheduling_ignored_during_execution if added else None
    return kube_selectors.read_nodes(required, f"{at}.addedAffinity.{_REQUIRED}")


def _read_ignored(args: kubescheduler.NodeResourcesFitArgs, at: str) -> tuple[frozenset[str], frozenset[str]]:
    """NodeResourcesFit.ignoredResources and ignoredResourceGroups."""
    for i, name in enumerate(args.ignored_resources or ()):
        if not _QUALIFIED_NAME.fullmatch(name):
            raise fields.InvalidField(f"{at}.ignoredResources[{i}]", name, "a name such as example.com/gpu")
    for i, name in enumerate(args.ignored_resource_groups or ()):
        if "/" in name or not _QUALIFIED_NAME.fullmatch(name):
            accepted = "the part of a resource's name before the slash"
            raise fields.InvalidField(f"{at}.ignoredResourceGroups[{i}]", name, accepted)
    return frozenset(args.ignored_resources or ()), frozenset(args.ignored_resource_groups or ())


def _check_defaulting(args: kubescheduler.PodTopologySpreadArgs, at: str) -> None:
    kind = fields.choose(args.defaulting_type or "System", ("System", "List"), f"{at}.defaultingType")
    if kind == "System" and args.default_constraints:
        raise fields.InvalidField(f"{at}.defaultingType", kind, "List, where there are defaultConstraints")
    seen: list[tuple[str | None, str | None]] = []
    for i, constraint in enumerate(args.default_constraints or ()):
        pair = constraint.topology_key, constraint.when_unsatisfiable
        if pair in seen:
            raise fields.InvalidField(f"{at}.defaultConstraints[{i}]", pair, "each topologyKey once for each effect")
        seen.append(pair)


def _check_constraint(constraint: kubescheduler.SpreadConstraint, at: str, filters: bool) -> None:
    """A default that only prefers is no matter of filters; one that refuses cannot be honoured yet.

    Whom it counts depends on the Services and controllers that select a pod, which the engine does not know.
    """
    if (constraint.max_skew or 0) < 1:
        raise fields.InvalidField(f"{at}.maxSkew", constraint.max_skew, "1 or more")
    if not constraint.topology_key:
        raise fields.InvalidField(f"{at}.topologyKey", constraint.topology_key, "the key of a node label")
    if constraint.label_selector is not None:
        raise fields.InvalidField(f"{at}.labelSelector", "a selector", "none: it is deduced for each pod")
    effects = ("DoNotSchedule", "ScheduleAnyway")
    when = fields.choose(constraint.when_unsatisfiable, effects, f"{at}.whenUnsatisfiable")
    if when == "DoNotSchedule" and filters:
        accepted = "ScheduleAnyway: defaults that refuse nodes depend on Services, which windlass does not read yet"
        raise fields.InvalidField(f"{at}.whenUnsatisfiable", when, accepted)
