"""Scheduler framework: filter plugins, their rejections, and the FitError message, word for word as upstream.

0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s). no new claims to deallocate,
preemption: 0/5 nodes are available: 3 Preemption is not helpful for scheduling, 2 No preemption victims found …
"""

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from windlass.simulator.reference_scheduler.cluster_view import Json, NodeView


class StatusCode(enum.StrEnum):
    """Why a node is refused, in the scheduler's own words."""

    UNSCHEDULABLE = "Unschedulable"
    """Other pods are in the way: preemption might help."""
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """It would be the same without any other pod."""
    ERROR = "Error"
    """The filter could not tell. The pod is not placed anywhere in this cycle."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """One filter's no, with the scheduler's own reason texts, sorted."""

    plugin: str
    code: StatusCode
    reasons: tuple[str, ...]


class FilterError(Exception):
    """A filter meets objects that contradict each other; the node's verdict becomes an `Error` with this text."""


class FilterPlugin:
    """A filter made ready for one pod: what is the same for every node is worked out (upstream's PreFilter).

    `add` and `remove` imagine a pod on a node or away from it. A check that counts pods over the whole cluster keeps
    its counts up to date there and copies them in `copy`; one that only reads the node in question leaves them alone.
    """

    __slots__ = ()
    plugin: ClassVar[str]

    def filter(self, node: NodeView) -> Rejection | None:
        """Why the pod may not run on this node, or None if this filter lets it."""
        raise NotImplementedError

    def add_pod(self, pod: Json, node: NodeView) -> None:
        """`pod` is now on `node`."""

    def remove_pod(self, pod: Json, node: NodeView) -> None:
        """`pod` is no longer on `node`."""

    def copy(self) -> "FilterPlugin":
        return self

    def unschedulable(self, *reasons: str) -> Rejection:
        return Rejection(self.plugin, StatusCode.UNSCHEDULABLE, tuple(sorted(reasons)))

    def unresolvable(self, *reasons: str) -> Rejection:
        return Rejection(self.plugin, StatusCode.UNRESOLVABLE, tuple(sorted(reasons)))


NO_NODES_AVAILABLE = "no nodes available to schedule pods"


def format_fit_error(node_count: int, refusals: Mapping[str, Rejection], others: str) -> str:
    """Reasons counted over all nodes; `others` is the reason for the nodes without a refusal of their own."""
    reasons = Counter(reason for refusal in refusals.values() for reason in refusal.reasons)
    if len(refusals) < node_count:
        reasons[others] += node_count - len(refusals)
    # Sorted as text: 10 comes before 2.
    counted = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{node_count} nodes are available: {', '.join(counted)}."


def format_pre_filter_error(node_count: int, refusal: Rejection) -> str:
    return f"0/{node_count} nodes are available: {', '.join(refusal.reasons)}."
