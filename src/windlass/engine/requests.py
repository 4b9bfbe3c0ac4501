"""Requests: nodes that were asked for and are awaited, and nodes that are on their way out.

A group has at most one request to grow. Asking for more extends it and starts its time anew, because the provider
starts anew; what turns out not to come shortens it. It ends when nothing of the group is missing any more, when its
time is up, or when nothing of it is left.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

MAX_NODE_DELETION_S = 300.0
"""How long the provider may take to delete a node."""


@dataclass(frozen=True, slots=True)
class ScaleUp:
    """Nodes that a group is to get."""

    increase: int
    """How many were asked for here. They are taken back if they do not come."""
    began_s: float
    """Since when the group has been growing without a break."""
    requested_s: float
    """When the last of them were asked for."""
    expected_by_s: float
    external: int = 0
    """How many more are awaited that someone else asked for. They are not taken back."""


@dataclass(frozen=True, slots=True)
class ScaleDown:
    """A node that the provider was told to delete."""

    group: str
    node: str
    requested_s: float
    expected_by_s: float


@dataclass(frozen=True, slots=True)
class Requests:
    """All that is under way."""

    scale_ups: Mapping[str, ScaleUp] = field(default_factory=dict)
    """By group."""
    scale_downs: tuple[ScaleDown, ...] = ()


class Ending(enum.StrEnum):
    """How a request to grow ended."""

    FULFILLED = "fulfilled"
    TIMED_OUT = "timed out"


def grow(requests: Requests, group: str, by: int, now_s: float, max_node_provision_time_s: float) -> Requests:
    """Note that the group was raised."""
    request = extend(requests.scale_ups.get(group), by, now_s, max_node_provision_time_s)
    return replace(requests, scale_ups={**requests.scale_ups, group: request})


def extend(request: ScaleUp | None, by: int, now_s: float, max_node_provision_time_s: float) -> ScaleUp:
    """The request with so many nodes more, all of which may take the whole time from now."""
    if request is None:
        return ScaleUp(by, now_s, now_s, now_s + max_node_provision_time_s)
    return replace(
        request,
        increase=request.increase + by,
        requested_s=now_s,
        expected_by_s=now_s + max_node_provision_time_s,
    )


def shorten(request: ScaleUp, by: int) -> ScaleUp | None:
    """The request without so many of its nodes, its own first; None if nothing is left of it."""
    own = max(request.increase - by, 0)
    others = max(request.external - max(by - request.increase, 0), 0)
    return replace(request, increase=own, external=others) if own + others > 0 else None


def await_external(nodes: int, now_s: float, max_node_provision_time_s: float) -> ScaleUp:
    """A request for nodes that someone else asked for."""
    return ScaleUp(0, now_s, now_s, now_s + max_node_provision_time_s, external=nodes)


def end(request: ScaleUp, missing: int, now_s: float) -> Ending | None:
    """How the request ended, if it did. At the very moment when it is expected it may still be fulfilled."""
    if missing <= 0:
        return Ending.FULFILLED
    return Ending.TIMED_OUT if request.expected_by_s < now_s else None


def shrink(requests: Requests, group: str, node: str, now_s: float) -> Requests:
    """Note that a node of the group is being deleted."""
    return shrink_all(requests, [(group, node)], now_s)


def shrink_all(requests: Requests, going: Iterable[tuple[str, str]], now_s: float) -> Requests:
    """Note that nodes are being deleted, each with its group: (group, node)."""
    begun = (ScaleDown(group, node, now_s, now_s + MAX_NODE_DELETION_S) for group, node in going)
    return replace(requests, scale_downs=(*requests.scale_downs, *begun))


def forget_deleted(scale_downs: tuple[ScaleDown, ...], now_s: float) -> tuple[ScaleDown, ...]:
    """Those that the provider may still be busy with."""
    return tuple(request for request in scale_downs if request.expected_by_s > now_s)
