"""Scheduler framework: filter plugins, their rejections, and the FitError message with upstream's text.

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
    """Status codes of rejections, as in kube-scheduler."""

    UNSCHEDULABLE = "Unschedulable"
    """Rejected because of other pods: preemption might help."""
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """Rejected independently of other pods."""
    ERROR = "Error"
    """The filter failed. The pod is not placed in this cycle."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """The rejection of one filter, with kube-scheduler's reasons, sorted."""

    plugin: str
    code: StatusCode
    reasons: tuple[str, ...]


class FilterError(Exception):
    """Contradicting objects in a filter; the node's status becomes `Error` with this text."""


class FilterPlugin:
    """A filter prepared for one pod: results that are equal for all nodes are precomputed (upstream's PreFilter).

    `add_pod` and `remove_pod` simulate a pod on a node or its removal. A filter with counts over the whole cluster
    updates them there and copies them in `copy`; one that reads the node only does not implement them.
    """

    __slots__ = ()
    plugin: ClassVar[str]

    def filter(self, node: NodeView) -> Rejection | None:
        """The rejection of the pod on this node, or None."""
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
    """Reasons counted over all nodes; `others` is the reason for nodes without a rejection of their own."""
    reasons = Counter(reason for refusal in refusals.values() for reason in refusal.reasons)
    if len(refusals) < node_count:
        reasons[others] += node_count - len(refusals)
    # Sorted as text: 10 comes before 2.
    counted = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{node_count} nodes are available: {', '.join(counted)}."


def format_pre_filter_error(node_count: int, refusal: Rejection) -> str:
    return f"0/{node_count} nodes are available: {', '.join(refusal.reasons)}."
