"""What a scheduler profile changes about the filters: those it disables, and the arguments it gives them."""

from dataclasses import dataclass

from windlass.engine.facts import SpreadConstraint
from windlass.selectors import NodeSelector


@dataclass(frozen=True, slots=True)
class FilterConfig:
    """One profile of a KubeSchedulerConfiguration, as far as filters are concerned."""

    disabled: frozenset[str] = frozenset()
    """Names of plugins that do not filter."""
    ignored_resources: frozenset[str] = frozenset()
    """NodeResourcesFit: extended resources that are not checked."""
    ignored_resource_groups: frozenset[str] = frozenset()
    """NodeResourcesFit: prefixes (before the slash) of extended resources that are not checked."""
    added_affinity: NodeSelector | None = None
    """NodeAffinity: what every pod of this profile needs on top of its own affinity."""
    binding_timeout_s: float = 600.0
    """DynamicResources: how long an allocated claim may wait for its devices to become ready."""
    default_constraints: tuple[SpreadConstraint, ...] = ()
    """PodTopologySpread: hard constraints for pods that have none."""


DEFAULT = FilterConfig()
