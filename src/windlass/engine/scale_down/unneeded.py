"""Unneeded: since when nodes are, and which of them have been for long enough and may go.

A node's time runs while it is found unneeded every time that it is looked at; once it is not, it starts anew. A node
that is not ready waits longer, since it may recover. The first of these that holds keeps a node:

    its group does not tell how long to wait             UnexpectedError
    annotated to be kept since it was found unneeded     ScaleDownDisabledAnnotation
    not for longer than that; exactly as long is not longer
                                                         NotUnneededLongEnough, NotUnreadyLongEnough
    belongs to no group                                  NotAutoscaled
    its group, less what is being deleted, is at its minimum
                                                         NodeGroupMinSizeReached
    the cluster must keep what the node has              MinimalResourceLimitExceeded

Nodes are asked in the order in which their removal was simulated, empty ones first; each that may go counts for those
that follow. So where not all may go, those that do are ones whose pods were found a place without the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.engine import facts, readiness, taints
from windlass.engine.scale_down import eligibility
from windlass.engine.scale_down.kept import Kept
from windlass.engine.scale_down.removal import Removal, Unremovable
from windlass.engine.scale_up import quotas
from windlass.engine.settings import GroupDefaults

Since = Mapping[str, float]
"""Unneeded nodes: since when."""


def update(since: Since, unneeded: Iterable[str], now_s: float) -> dict[str, float]:
    """Nodes that are unneeded now: those that were before keep their time."""
    return {name: since.get(name, now_s) for name in unneeded}


def restore(nodes: Iterable[facts.Node], ttl_s: float, now_s: float) -> dict[str, float]:
    """What the marks on nodes tell of times that were lost. Marks older than the limit tell nothing; at 0 none do."""
    marked = {node.name: taints.marked_at_s(node, taints.DELETION_CANDIDATE) for node in nodes} if ttl_s else {}
    return {name: since_s for name, since_s in marked.items() if since_s is not None and since_s + ttl_s >= now_s}


def find_wait_s(node: facts.Node, group: GroupDefaults) -> float:
    """How long the node must be unneeded before it may go."""
    ready = readiness.judge(node).is_ready
    return group.scale_down_unneeded_time_s if ready else group.scale_down_unready_time_s


@dataclass(frozen=True, slots=True)
class Unneeded:
    """A node whose pods have a place elsewhere, or that has none."""

    node: facts.Node
    removal: Removal
    since_s: float
    group: facts.NodeGroup | None
    wait_s: float | None = 0.0
    """How long it must be unneeded; None where nobody can tell."""

    @property
    def is_empty(self) -> bool:
        return not self.removal.moves.move


@dataclass(frozen=True, slots=True)
class Removable:
    """The unneeded nodes that may go, in their order, and why the others may not."""

    empty: tuple[Unneeded, ...] = ()
    drain: tuple[Unneeded, ...] = ()
    kept: tuple[Kept, ...] = ()
    changes_at_s: float = float("inf")
    """When the next one has been unneeded for long enough."""


def find_removable(
    nodes: Sequence[Unneeded], being_deleted: Mapping[str, int], minimum: quotas.Tracker, now_s: float
) -> Removable:
    """Which of the unneeded nodes may go now.

    `being_deleted` counts the nodes of each group that are on their way out; `minimum` is what the cluster must keep,
    and is not changed.
    """
    asking = _Asking(dict(being_deleted), minimum.fork(), now_s)
    ordered = [*(node for node in nodes if node.is_empty), *(node for node in nodes if not node.is_empty)]
    answers = [(node, asking.ask(node)) for node in ordered]
    may_go = [node for node, kept in answers if kept is None]
    return Removable(
        tuple(node for node in may_go if node.is_empty),
        tuple(node for node in may_go if not node.is_empty),
        tuple(kept for _, kept in answers if kept is not None),
        min(
            (node.since_s + (node.wait_s or 0.0) for node, kept in answers if _is_too_early(kept)), default=float("inf")
        ),
    )


def _is_too_early(kept: Kept | None) -> bool:
    return kept is not None and kept.reason in _TOO_EARLY


_TOO_EARLY = (Unremovable.NOT_UNNEEDED_LONG_ENOUGH, Unremovable.NOT_UNREADY_LONG_ENOUGH)


@dataclass(frozen=True, slots=True)
class _Asking:
    """What has been given away so far."""

    going: dict[str, int]
    """By group: nodes being deleted, and nodes that may go."""
    minimum: quotas.Tracker
    now_s: float

    def ask(self, unneeded: Unneeded) -> Kept | None:
        """What keeps the node; None if it may go, and then it counts as going."""
        node, group = unneeded.node, unneeded.group
        if unneeded.wait_s is None:
            return Kept(node.name, Unremovable.UNEXPECTED_ERROR)
        if eligibility.has_scale_down_disabled(node):
            return Kept(node.name, Unremovable.SCALE_DOWN_DISABLED_ANNOTATION)
        if unneeded.wait_s > 0 and unneeded.since_s + unneeded.wait_s >= self.now_s:
            reason = _TOO_EARLY[0] if readiness.judge(node).is_ready else _TOO_EARLY[1]
            return Kept(node.name, reason, self.now_s - unneeded.since_s, unneeded.wait_s)
        if group is None:
            return Kept(node.name, Unremovable.NOT_AUTOSCALED)
        size = group.target_size - self.going.get(group.id, 0)
        if size <= group.min_size:
            return Kept(node.name, Unremovable.NODE_GROUP_MIN_SIZE_REACHED, size, group.min_size)
        answer = self.minimum.consume(group.id, node, 1)
        if answer.exceeded:
            return Kept(node.name, Unremovable.MINIMAL_RESOURCE_LIMIT_EXCEEDED, exceeded=answer.exceeded)
        self.going[group.id] = self.going.get(group.id, 0) + 1
        return None
