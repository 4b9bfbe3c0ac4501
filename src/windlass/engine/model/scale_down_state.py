"""Scale-down as values: state between loops, unremovable nodes, utilization, and nodes to delete.

The planner fills them; memory, decision record, metrics and explain read them. Text is formatted only when it is
read.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from windlass.engine.model import arrays, drainability, facts, well_known
from windlass.engine.model.scale_up_status import ExceededQuota

# ── How many ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class LoopInterval:
    """The interval of scale-down evaluations: time of the last one, and the shortest interval so far."""

    latest_s: float | None = None
    shortest_s: float | None = None
    """None before the second evaluation."""

    def record_loop(self, now_s: float) -> "LoopInterval":
        """The interval with an evaluation at this time."""
        if self.latest_s is None:
            return LoopInterval(now_s, self.shortest_s)
        between_s = now_s - self.latest_s
        return LoopInterval(now_s, between_s if self.shortest_s is None else min(self.shortest_s, between_s))


@dataclass(frozen=True, slots=True)
class ScaleActivity:
    """Times of the last scale-up, deletion and failure, of the cluster or one group; None if there was none."""

    added_s: float | None = None
    deleted_s: float | None = None
    """In the cluster: when a removal was begun. In a group: when one was carried out, which is some seconds later."""
    failed_s: float | None = None


RecheckTimes = Mapping[str, float]
"""Nodes that could not be removed: until when they are not tried again."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NodeUtilization:
    """Requested fractions of a node's allocatable; `utilization` is that of `resource`, which is compared."""

    cpu: float
    memory: float
    gpu: float
    resource: str
    utilization: float
    devices: float = 0.0
    """Of the pool of devices that is used most, on a node that has pools of its own."""


CPU_COLUMN, MEMORY_COLUMN, GPU_COLUMN = range(3)
"""Columns of the arrays below, and codes in `Utilizations.resource`."""


@dataclass(frozen=True, slots=True)
class UtilizationColumns:
    """Utilization of n nodes."""

    fractions: Floats
    """float64 (n, 3): cpu, memory, GPU; 0 where it does not count."""
    resource: npt.NDArray[np.int8]
    """int8 (n,): the column that counts."""
    utilization: Floats
    """float64 (n,): the fraction that counts; 0 where it is unknown."""
    known: arrays.Mask
    """bool (n,): False where a node reports no cpu or no memory, so its utilization is unknown."""


@dataclass(frozen=True, slots=True)
class UtilizationTable:
    """Utilization of n nodes."""

    utilizations: UtilizationColumns
    gpu: arrays.Rows
    """intp (n,): the GPU that counts, as a position in `gpus.RESOURCES`; -1 for none."""
    changes_at_s: float
    """When the next terminating pod counts as gone; infinity if none is terminating."""
    devices: Mapping[int, NodeUtilization] = field(default_factory=dict)
    """Nodes, by their place, on which devices count instead."""

    def of(self, position: int) -> NodeUtilization:
        """The utilization of one of the nodes."""
        if position in self.devices:
            return self.devices[position]
        utilization_columns = self.utilizations
        cpu, memory, gpu = utilization_columns.fractions[position].tolist()
        return NodeUtilization(
            cpu, memory, gpu, self._resource(position), float(utilization_columns.utilization[position])
        )

    def _resource(self, position: int) -> str:
        code = int(self.utilizations.resource[position])
        if code == GPU_COLUMN:
            return well_known.GPU_RESOURCES[self.gpu[position]]
        return facts.CPU if code == CPU_COLUMN else facts.MEMORY


class UnremovableReason(enum.StrEnum):
    """Why a node cannot be removed. Cluster Autoscaler's names, except UnreadableNode."""

    SCALE_DOWN_DISABLED_ANNOTATION = "ScaleDownDisabledAnnotation"
    SCALE_DOWN_UNREADY_DISABLED = "ScaleDownUnreadyDisabled"
    NOT_AUTOSCALED = "NotAutoscaled"
    NOT_UNNEEDED_LONG_ENOUGH = "NotUnneededLongEnough"
    NOT_UNREADY_LONG_ENOUGH = "NotUnreadyLongEnough"
    NODE_GROUP_MIN_SIZE_REACHED = "NodeGroupMinSizeReached"
    NODE_GROUP_MAX_DELETION_COUNT_REACHED = "NodeGroupMaxDeletionCountReached"
    ATOMIC_SCALE_DOWN_FAILED = "AtomicScaleDownFailed"
    MINIMAL_RESOURCE_LIMIT_EXCEEDED = "MinimalResourceLimitExceeded"
    CURRENTLY_BEING_DELETED = "CurrentlyBeingDeleted"
    NOT_UNDERUTILIZED = "NotUnderutilized"
    NOT_UNNEEDED_OTHER_REASON = "NotUnneededOtherReason"
    RECENTLY_UNREMOVABLE = "RecentlyUnremovable"
    NO_PLACE_TO_MOVE_PODS = "NoPlaceToMovePods"
    BLOCKED_BY_POD = "BlockedByPod"
    UNEXPECTED_ERROR = "UnexpectedError"
    NO_NODE_INFO = "NoNodeInfo"
    BLOCKED_BY_ON_COMPLETION_POD = "BlockedByOnCompletionPod"
    UNREADABLE_NODE = "UnreadableNode"


_DESCRIPTIONS = {
    UnremovableReason.SCALE_DOWN_DISABLED_ANNOTATION: "is annotated to be kept",
    UnremovableReason.SCALE_DOWN_UNREADY_DISABLED: "is not ready, and nodes that are not ready are not removed",
    UnremovableReason.NOT_AUTOSCALED: "belongs to no group",
    UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH:
        "has been unneeded for {found:g} s, and must be for more than {limit:g} s",
    UnremovableReason.NOT_UNREADY_LONG_ENOUGH:
        "is not ready and has been unneeded for {found:g} s, and must be for more than {limit:g} s",
    UnremovableReason.NODE_GROUP_MIN_SIZE_REACHED:
        "is one of {found:g} nodes of its group, which keeps at least {limit:g}",
    UnremovableReason.NODE_GROUP_MAX_DELETION_COUNT_REACHED: "is one too many to remove of its group at once",
    UnremovableReason.ATOMIC_SCALE_DOWN_FAILED:
        "is one of {found:g} nodes of its group that could go, and only all {limit:g} may go together",
    UnremovableReason.MINIMAL_RESOURCE_LIMIT_EXCEEDED: "is needed for what the cluster must keep at least",
    UnremovableReason.CURRENTLY_BEING_DELETED:
        "was marked for deletion {found:g} s ago, which is given {limit:g} s to be carried out",
    UnremovableReason.NOT_UNDERUTILIZED: "is used to {found:.4g} of what it has, and may be removed up to {limit:g}",
    UnremovableReason.NOT_UNNEEDED_OTHER_REASON: "was not looked at",
    UnremovableReason.RECENTLY_UNREMOVABLE: "could not be removed lately, and is looked at again in {limit:g} s",
    UnremovableReason.NO_PLACE_TO_MOVE_PODS: "has pods that find no place elsewhere",
    UnremovableReason.BLOCKED_BY_POD: "has a pod that must not be moved",
    UnremovableReason.UNEXPECTED_ERROR: "does not tell what it has, or is not known well enough",
    UnremovableReason.NO_NODE_INFO: "does not exist any more",
    UnremovableReason.BLOCKED_BY_ON_COMPLETION_POD: "waits for {found:g} pods to finish",
    UnremovableReason.UNREADABLE_NODE: "cannot be read in full, and may be in use",
}  # fmt: skip
"""Each text continues a sentence that begins with the node's name."""


@dataclass(frozen=True, slots=True)
class NodeRemoval:
    """The simulated removal of one node. Pods are rows of the snapshot."""

    node_name: str
    reason: UnremovableReason | None = None
    """Why it cannot be removed; None if it can."""
    moves: drainability.PodsToMove[int] = field(default_factory=drainability.PodsToMove)
    homeless: int | None = None
    """The first pod that fits on no other node, if that is the reason."""
    is_risky: bool = False
    """Disruption budgets do not allow all its pods to be evicted at once."""

    @property
    def is_removable(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True)
class UnremovableNode:
    """A node that cannot be removed now. `found` was compared with `limit`; the reason determines their meaning."""

    node_name: str
    reason: UnremovableReason
    found: float | None = None
    limit: float | None = None
    removal: NodeRemoval | None = None
    """The simulation that failed, where one did."""
    exceeded: tuple[ExceededQuota, ...] = ()
    """The exceeded quotas, if that is the reason."""

    def __str__(self) -> str:
        return f"{self.node_name} {_DESCRIPTIONS[self.reason].format(found=self.found, limit=self.limit)}"


@dataclass(frozen=True, slots=True)
class EligibilityResult:
    """Eligibility of n candidates, in their order, as columns; objects are created on access."""

    names: Sequence[str]
    reasons: Sequence[UnremovableReason | None]
    """None where the node is eligible."""
    found: Floats
    """float64 (n,): the number that decided, compared with `limits`; its meaning follows from the reason."""
    limits: Floats
    measured: Mapping[str, int]
    """Nodes whose utilization was measured, with their position in `usage`."""
    usage: UtilizationTable
    changes_at_s: float
    """The earliest time at which the result for the same nodes would change."""

    @property
    def eligible(self) -> list[str]:
        return [name for name, reason in zip(self.names, self.reasons, strict=True) if reason is None]

    @property
    def kept(self) -> list[UnremovableNode]:
        return [
            UnremovableNode(name, reason, float(self.found[i]), float(self.limits[i]))
            for i, (name, reason) in enumerate(zip(self.names, self.reasons, strict=True))
            if reason is not None
        ]

    def utilization_of(self, name: str) -> NodeUtilization | None:
        """None if it was not measured because an earlier check decided."""
        position = self.measured.get(name)
        return None if position is None else self.usage.of(position)


@dataclass(frozen=True, slots=True)
class SimulatedRemovals:
    """Results of simulated removals, in the order of simulation."""

    removals: tuple[NodeRemoval, ...] = ()
    failed: tuple[NodeRemoval, ...] = ()
    skipped: tuple[str, ...] = ()
    """Not simulated: enough unneeded nodes were found, or the simulation timed out."""


UnneededSince = Mapping[str, float]
"""Unneeded nodes: since when."""


@dataclass(frozen=True, slots=True)
class ScaleDownState:
    """The scale-down state that the next loop needs."""

    since: UnneededSince = field(default_factory=dict)
    previous: frozenset[str] = frozenset()
    """Nodes unneeded in the last evaluation; they are simulated first, also after their times were cleared."""
    rechecks: RecheckTimes = field(default_factory=dict)
    pace: LoopInterval = field(default_factory=LoopInterval)

    def clear(self) -> "ScaleDownState":
        """The state without unneeded times, for a cluster that is unhealthy."""
        return replace(self, since={})


@dataclass(frozen=True, slots=True)
class NodeGroupView:
    """Nodes of one group to delete, in order."""

    group: str
    nodes: tuple[str, ...]
    batch_size: int = 0
    """Of an all-or-nothing group: how many nodes must be ready before any is deleted; 0: each is deleted by itself."""


@dataclass(frozen=True, slots=True)
class StartedDeletions:
    """Deletions that start now, by group: empty nodes, and nodes to drain."""

    empty: tuple[NodeGroupView, ...] = ()
    drain: tuple[NodeGroupView, ...] = ()


# ── Unneeded nodes ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class CandidateEvaluation:
    """One evaluation of the scale-down candidates."""

    state: ScaleDownState
    eligibility: EligibilityResult
    trials: SimulatedRemovals
    changes_at_s: float
    """The earliest time at which the same input would be evaluated differently."""

    @property
    def kept(self) -> list[UnremovableNode]:
        """The candidates that are needed, and why."""
        failed = [
            UnremovableNode(removal.node_name, removal.reason, removal=removal)
            for removal in self.trials.failed
            if removal.reason is not None
        ]
        return [*self.eligibility.kept, *failed]


# ── Nodes that may go ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NodesToDelete:
    """The nodes to delete now, in order, and the reasons that keep other unneeded nodes."""

    empty: tuple[NodeRemoval, ...] = ()
    drain: tuple[NodeRemoval, ...] = ()
    kept: tuple[UnremovableNode, ...] = ()
    changes_at_s: float = float("inf")
    """The earliest time at which more nodes may be deleted."""
