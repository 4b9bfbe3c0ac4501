"""Newcomers: nodes that have registered, and of which nobody says yet to which group they belong.

A node is told of by one watch and its machine by another, and a node knows its own provider id only when a cloud
controller has told it. So a node that is awaited may be there already, beside the one that is awaited in its place. As
long as it can be used, no harm is done. While it cannot, it is an empty domain all the same, over which pods must be
spread, and one that is awaited seems to be one too few.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from windlass.engine import facts, following, health, readiness, requests
from windlass.engine.devices.readiness import are_pools_ready
from windlass.engine.devices.stock import Stock
from windlass.engine.scale_up.templates import TEMPLATE_LABEL, GroupTemplate

_OF_ITS_OWN = frozenset({facts.HOSTNAME, TEMPLATE_LABEL})
"""Labels by which a node differs from its template."""


def recognise(
    upcoming: Mapping[str, health.Upcoming],
    scale_ups: Mapping[str, requests.ScaleUp],
    made: Mapping[str, GroupTemplate],
    nodes: Sequence[facts.Node],
    group_of: Mapping[str, facts.NodeGroup],
    stock: Stock,
) -> dict[str, health.Upcoming]:
    """The nodes to come; newcomers that cannot be used yet are among those that have registered, as far as any lack."""
    found = dict(upcoming)
    open_places = {group: one.nodes - len(one.not_started) for group, one in upcoming.items() if group in made}
    if not any(places > 0 for places in open_places.values()):
        return found
    began_s = min(scale_ups[group].began_s for group in open_places)
    left = [node for node in nodes if node.name not in group_of and _came_since(node, began_s)]
    for group, places in open_places.items():
        template, since_s = made[group].node, scale_ups[group].began_s
        own = [node for node in left if _came_since(node, since_s) and _may_become(node, template, stock)][
            : max(places, 0)
        ]
        if own:
            found[group] = replace(found[group], not_started=(*found[group].not_started, *(node.name for node in own)))
            left = [node for node in left if node not in own]
    return found


def _came_since(node: facts.Node, began_s: float) -> bool:
    return node.created_s + following.RESOLUTION_S > began_s


def _may_become(node: facts.Node, template: facts.Node, stock: Stock) -> bool:
    """Can it not be used yet, and does nothing that it says of itself speak against the template?"""
    if readiness.judge(node).is_ready and are_pools_ready(stock.local(node.name), template.slices):
        return False
    return all(node.labels.get(key, value) == value for key, value in template.labels.items() if key not in _OF_ITS_OWN)
