"""Least waste: the options whose new nodes have the smallest unused share.

    waste = (cpu of the new nodes - cpu requested) / cpu of the new nodes + the same for memory

Capacity counts, not allocatable: the system's share is paid for as well. A resource that the new nodes do not have
counts as 0. Cluster Autoscaler divides by zero there, and its choice then depends on the order of the options (NaN
compares as false).
"""

from collections.abc import Sequence

from windlass.engine.model import facts
from windlass.engine.model.scale_up_status import ExpansionOption


def find_best_options(options: Sequence[ExpansionOption]) -> list[ExpansionOption]:
    scored = [(calculate_waste(option), option) for option in options]
    least = min((score for score, _ in scored), default=0.0)
    return [option for score, option in scored if score == least]


def calculate_waste(option: ExpansionOption) -> float:
    """From 0, all used, to 2, nothing used; negative where the pods request more than the capacity."""
    return _calculate_wasted_share(option, facts.CPU) + _calculate_wasted_share(option, facts.MEMORY)


def _calculate_wasted_share(option: ExpansionOption, resource: str) -> float:
    available = dict(option.template.capacity).get(resource, 0) * option.node_count
    requested = sum(dict(pods.pod.spec.requests).get(resource, 0) * pods.count for pods in option.pods)
    return (available - requested) / available if available else 0.0
