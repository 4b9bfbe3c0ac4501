"""Unneeded nodes: since when they are unneeded, and which have been for long enough to be removed.

The time runs while a node is found unneeded in every loop; otherwise it starts anew. A node that is not ready waits
longer, since it may recover. The first of these that holds keeps a node:

    unneeded time of its group not known                 UnexpectedError
    annotated to be kept since it was found unneeded     ScaleDownDisabledAnnotation
    not unneeded for longer than that time               NotUnneededLongEnough, NotUnreadyLongEnough
    belongs to no group                                  NotAutoscaled
    its group, less nodes being deleted, is at minimum   NodeGroupMinSizeReached
    minimum resource limits of the cluster               MinimalResourceLimitExceeded

Nodes are checked in the order in which their removal was simulated, empty ones first; each that may go counts for
those that follow. So if not all may go, those that do are ones whose pods fit without the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.engine import resource_quotas, taints
from windlass.engine.cluster_state import readiness
from windlass.engine.model import facts, node_groups, scale_down_state, well_known
from windlass.engine.model.scale_down_state import NodeRemoval, UnremovableNode, UnremovableReason
from windlass.engine.model.settings import GroupDefaults


def update_unneeded_since(
    since: scale_down_state.UnneededSince, unneeded: Iterable[str], now_s: float
) -> dict[str, float]:
    """Unneeded since, by node: nodes that were unneeded before keep their time."""
    return {name: since.get(name, now_s) for name in unneeded}


def restore_unneeded_since(nodes: Iterable[facts.Node], ttl_s: float, now_s: float) -> dict[str, float]:
    """Unneeded times restored from soft taints. Taints older than the TTL are ignored; a TTL of 0 ignores all."""
    marked = {node.name: taints.marked_at_s(node, taints.DELETION_CANDIDATE_KEY) for node in nodes} if ttl_s else {}
    return {name: since_s for name, since_s in marked.items() if since_s is not None and since_s + ttl_s >= now_s}


def find_unneeded_time_s(node: facts.Node, group: GroupDefaults) -> float:
    """How long the node must be unneeded before it may be removed."""
    ready = readiness.assess_node(node).is_ready
    return group.scale_down_unneeded_time_s if ready else group.scale_down_unready_time_s


@dataclass(frozen=True, slots=True)
class UnneededNode:
    """An unneeded node: its pods fit elsewhere, or it has none."""

    node: facts.Node
    removal: NodeRemoval
    since_s: float
    group: node_groups.NodeGroup | None
    wait_s: float | None = 0.0
    """How long it must be unneeded; None if unknown."""

    @property
    def is_empty(self) -> bool:
        return not self.removal.moves.move


@dataclass(frozen=True, slots=True)
class RemovableNodes:
    """The unneeded nodes that may be removed, in order, and the reasons against the others."""

    empty: tuple[UnneededNode, ...] = ()
    drain: tuple[UnneededNode, ...] = ()
    kept: tuple[UnremovableNode, ...] = ()
    changes_at_s: float = float("inf")
    """When the next node has been unneeded for long enough."""


def find_removable_nodes(
    nodes: Sequence[UnneededNode], being_deleted: Mapping[str, int], minimum: resource_quotas.QuotaTracker, now_s: float
) -> RemovableNodes:
    """The unneeded nodes that may be removed now.

    `being_deleted` counts the nodes of each group that are on their way out; `minimum` is what the cluster must keep,
    and is not changed.
    """
    asking = _RemovalCheck(dict(being_deleted), minimum.fork(), now_s)
    ordered = [*(node for node in nodes if node.is_empty), *(node for node in nodes if not node.is_empty)]
    answers = [(node, asking.check(node)) for node in ordered]
    may_go = [node for node, kept in answers if kept is None]
    return RemovableNodes(
        tuple(node for node in may_go if node.is_empty),
        tuple(node for node in may_go if not node.is_empty),
        tuple(kept for _, kept in answers if kept is not None),
        min(
            (node.since_s + (node.wait_s or 0.0) for node, kept in answers if _is_too_early(kept)), default=float("inf")
        ),
    )


def _is_too_early(kept: UnremovableNode | None) -> bool:
    return kept is not None and kept.reason in _TOO_EARLY


_TOO_EARLY = (UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH, UnremovableReason.NOT_UNREADY_LONG_ENOUGH)


@dataclass(frozen=True, slots=True)
class _RemovalCheck:
    """Minimum sizes and quotas, with the nodes selected so far."""

    going: dict[str, int]
    """By group: nodes being deleted, and nodes selected."""
    minimum: resource_quotas.QuotaTracker
    now_s: float

    def check(self, unneeded: UnneededNode) -> UnremovableNode | None:
        """The reason against removing the node; None if it may be removed, and then it counts as selected."""
        node, group = unneeded.node, unneeded.group
        if unneeded.wait_s is None:
            return UnremovableNode(node.name, UnremovableReason.UNEXPECTED_ERROR)
        if well_known.has_scale_down_disabled(node):
            return UnremovableNode(node.name, UnremovableReason.SCALE_DOWN_DISABLED_ANNOTATION)
        if unneeded.wait_s > 0 and unneeded.since_s + unneeded.wait_s >= self.now_s:
            reason = _TOO_EARLY[0] if readiness.assess_node(node).is_ready else _TOO_EARLY[1]
            return UnremovableNode(node.name, reason, self.now_s - unneeded.since_s, unneeded.wait_s)
        if group is None:
            return UnremovableNode(node.name, UnremovableReason.NOT_AUTOSCALED)
        size = group.target_size - self.going.get(group.id, 0)
        if size <= group.min_size:
            return UnremovableNode(node.name, UnremovableReason.NODE_GROUP_MIN_SIZE_REACHED, size, group.min_size)
        answer = self.minimum.consume(group.id, node, 1)
        if answer.exceeded:
            return UnremovableNode(
                node.name, UnremovableReason.MINIMAL_RESOURCE_LIMIT_EXCEEDED, exceeded=answer.exceeded
            )
        self.going[group.id] = self.going.get(group.id, 0) + 1
        return None
