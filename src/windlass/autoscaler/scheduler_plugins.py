"""Which of kube-scheduler's plugins a profile lets filter.

A plugin filters if it is enabled at the point `filter`, or at `multiPoint` and not disabled at `filter`. The same goes
for `preFilter`. Most filters need what their own preFilter prepares, and some preFilters refuse pods themselves: a
plugin that has only one half enabled is accepted where the other half makes no difference, and refused where it does.
"""

from collections.abc import Sequence

import msgspec

from windlass.kube import fields
from windlass.kube.models import kubescheduler

EVERY = "*"

DEFAULT = (
    "SchedulingGates", "PrioritySort", "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",
    "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread",
    "InterPodAffinity", "DynamicResources", "DefaultPreemption", "NodeResourcesBalancedAllocation", "ImageLocality",
    "DefaultBinder", "NodeDeclaredFeatures",
)  # fmt: skip
"""On unless a profile says otherwise."""

KNOWN = (*DEFAULT, "GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount")
"""All that kube-scheduler 1.36 has."""

_REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
"""Plugins of former versions: files that disable them are still about."""

_FILTERS_ALONE = frozenset(("NodeUnschedulable", "NodeName", "TaintToleration"))
"""They have no preFilter."""
_PREPARED = frozenset(
    ("NodePorts", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity", "NodeDeclaredFeatures", "VolumeBinding",
     "VolumeRestrictions", "DynamicResources")
)  # fmt: skip
"""Their filter fails for every pod without what their preFilter prepares."""
_REFUSE_EARLY = frozenset(("NodeAffinity", "VolumeBinding", "VolumeRestrictions", "VolumeZone"))
"""Their preFilter refuses pods, or nodes, on its own."""

_PREFILTERS = _PREPARED | _REFUSE_EARLY | {"NodeVolumeLimits"}
_FILTERS = _PREFILTERS | _FILTERS_ALONE
_EXTENDS = {
    "preFilter": _PREFILTERS,
    "filter": _FILTERS,
    "queueSort": frozenset(("PrioritySort",)),
    "bind": frozenset(("DefaultBinder",)),
}
"""The plugins that have something to do at a point."""


def read_disabled(plugins: kubescheduler.Plugins, at: str) -> frozenset[str]:
    """Names of the plugins that do not filter. InvalidField if that cannot be said, or kube-scheduler would refuse."""
    for name, chosen in _by_point(plugins).items():
        _check_names(chosen, name, f"{at}.{name}")
    for name in ("queueSort", "bind"):
        if not _enabled(plugins, name):
            (needed,) = _EXTENDS[name]
            raise fields.InvalidField(
                f"{at}.{name}", "no plugin that is enabled", f"{needed}, enabled here or at multiPoint"
            )
    filters, prefilters = _enabled(plugins, "filter"), _enabled(plugins, "preFilter")
    for name in sorted(filters & _PREPARED - prefilters):
        both = f"{name} disabled at filter, too, or not at all: it cannot filter without its preFilter"
        raise fields.InvalidField(f"{at}.preFilter.disabled", name, both)
    for name in sorted(prefilters & _REFUSE_EARLY - filters):
        both = f"{name} disabled at preFilter, too, or at multiPoint: its preFilter refuses pods by itself"
        raise fields.InvalidField(f"{at}.filter.disabled", name, both)
    return _FILTERS - filters


def _by_point(plugins: kubescheduler.Plugins) -> dict[str, kubescheduler.PluginSet]:
    names = {field.name: field.encode_name for field in msgspec.structs.fields(plugins)}
    found = ((encoded, getattr(plugins, name)) for name, encoded in names.items())
    return {encoded: chosen for encoded, chosen in found if chosen is not None}


def _check_names(chosen: kubescheduler.PluginSet, point: str, at: str) -> None:
    """Every plugin is known and has something to do at the point; none is enabled twice."""
    usable = tuple(sorted(_EXTENDS.get(point, KNOWN)))
    names = _names(chosen.enabled)
    for i, name in enumerate(names):
        fields.choose(name, usable, f"{at}.enabled[{i}].name")
        if name in names[:i]:
            raise fields.InvalidField(f"{at}.enabled[{i}].name", name, "each plugin once")
    for i, name in enumerate(_names(chosen.disabled)):
        if name not in _REMOVED:
            fields.choose(name, (*sorted(KNOWN), EVERY), f"{at}.disabled[{i}].name")


def _enabled(plugins: kubescheduler.Plugins, point: str) -> frozenset[str]:
    """The plugins that work at a point."""
    chosen = _by_point(plugins)
    nothing = kubescheduler.PluginSet()
    everywhere, here = chosen.get("multiPoint", nothing), chosen.get(point, nothing)
    common = _but_disabled(DEFAULT, everywhere) | set(_names(everywhere.enabled))
    return _EXTENDS[point] & (_but_disabled(common, here) | set(_names(here.enabled)))


def _but_disabled(names: Sequence[str] | set[str], chosen: kubescheduler.PluginSet) -> set[str]:
    disabled = _names(chosen.disabled)
    return set() if EVERY in disabled else set(names) - set(disabled)


def _names(plugins: Sequence[kubescheduler.Plugin] | None) -> list[str]:
    return [plugin.name for plugin in plugins or ()]
