"""Least waste: the options whose new nodes are filled best.

    waste = (cpu of the new nodes - cpu asked for) / cpu of the new nodes, and the same for memory, added up

What a new node has is its capacity, not its allocatable part: what the system takes is paid for as well. A resource
that the new nodes have none of cannot be wasted and counts as 0, where Cluster Autoscaler's division by zero would
make the answer depend on the order of the options.
"""

from collections.abc import Sequence

from windlass.engine import facts
from windlass.engine.expanders.option import Option


def keep(options: Sequence[Option]) -> list[Option]:
    scored = [(waste(option), option) for option in options]
    least = min((score for score, _ in scored), default=0.0)
    return [option for score, option in scored if score == least]


def waste(option: Option) -> float:
    """From 0, all used, to 2, nothing used; negative where more is asked for than the capacity shows."""
    return _wasted(option, facts.CPU) + _wasted(option, facts.MEMORY)


def _wasted(option: Option, resource: str) -> float:
    available = dict(option.template.capacity).get(resource, 0) * option.node_count
    requested = sum(dict(helped.pod.spec.requests).get(resource, 0) * helped.count for helped in option.pods)
    return (available - requested) / available if available else 0.0
