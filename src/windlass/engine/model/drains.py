"""Node drains as values: progress in durable memory, failure reasons, and status after a step.

Each time of the progress is when something was first observed or last requested. They only move forward, unless an
observation turns out to be wrong.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class DrainFailureReason(enum.StrEnum):
    """Why a drain failed."""

    MARK_REFUSED = "MarkRefused"
    """The taint or the cordon could not be set."""
    MARK_NOT_SEEN = "MarkNotSeen"
    """The request to set the taint succeeded, but the node does not show the taint."""
    BATCH_FAILED = "BatchFailed"
    """Another node of the same batch could not be tainted."""
    MARK_REMOVED = "MarkRemoved"
    """Another client removed the taint."""
    # BlockedByPod and NoPlaceToMovePods are also values of `UnremovableReason`.
    BLOCKED_BY_POD = "BlockedByPod"
    """Revalidation: a pod must not be evicted."""
    NO_PLACE_TO_MOVE_PODS = "NoPlaceToMovePods"
    """Revalidation: a pod fits on no other node."""
    NOT_EMPTY = "NotEmpty"
    """The node was chosen as an empty one and has pods now."""
    EVICTION_REFUSED = "EvictionRefused"
    """An eviction was refused until the eviction timeout."""
    PODS_STAYED = "PodsStayed"
    """Evicted pods still exist after their grace period."""
    GROUP_FAILED = "GroupFailed"
    """The group is removed only as a whole, and another of its nodes could not be removed."""
    MIN_SIZE_REACHED = "MinSizeReached"
    """The group would fall below its minimum size."""
    GROUP_MISSING = "GroupMissing"
    """The node's group no longer exists."""
    GROUP_HELD = "GroupHeld"
    """The group was paused or unreadable for too long."""
    GROUP_ROLLS_OUT = "GroupRollsOut"
    """Machines of the group are being replaced: the provider could delete another one instead."""
    REPLICAS_OWNED = "ReplicasOwned"
    """Another controller applies the group's size now and would create a replacement."""
    CANNOT_CHOOSE = "CannotChoose"
    """The group has further instances now, and the provider could delete one of them instead."""
    DELETION_REFUSED = "DeletionRefused"
    """The provider refused the deletion."""
    DELETION_TIMED_OUT = "DeletionTimedOut"
    """The provider accepted the deletion, and the machine was not deleted in time."""
    MACHINE_STAYED = "MachineStayed"
    """The provider stopped deleting the machine: another one was deleted instead, or it is needed again."""
    ABANDONED = "Abandoned"
    """The node carries the deletion taint, but no drain is remembered."""


@dataclass(frozen=True, slots=True)
class DrainFailure:
    """Why and when a drain failed."""

    why: DrainFailureReason
    at_s: float
    details: tuple[str, ...] = ()
    """The pods or nodes concerned, or the error message of the refusal."""


NO_TIER = -(2**62)
"""Below every tier."""


@dataclass(frozen=True, slots=True)
class EvictionProgress:
    """The state of a node's evictions, which begin after revalidation."""

    began_s: float
    known: frozenset[str] = frozenset()
    """Uids of the pods that must be gone before the node is deleted: those at revalidation, and later ones that may be
    evicted as well."""
    stage: int = 0
    """The current tier; see `evictor.PriorityTiers`. Pods of earlier tiers are evicted as well."""
    since_s: float = 0.0
    """Start of the tier."""
    accepted_s: float | None = None
    """When all pods of the tier were first terminating."""
    tried: Mapping[str, float] = field(default_factory=dict)
    """Time of a pod's last eviction request, by uid."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Message of a refused eviction, by uid, until the next attempt."""
    left_behind: frozenset[str] = frozenset()
    """Pods that did not terminate in time and are no longer waited for."""


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """The progress of one drain."""

    asked_s: float | None = None
    """When the taint was last requested."""
    marked_s: float | None = None
    """When all nodes of the batch were first observed with the taint."""
    evicting: EvictionProgress | None = None
    emptied_s: float | None = None
    """When no pods were left to wait for."""
    ready_s: float | None = None
    """When the deletion began to wait only for other nodes of the group."""
    deleting_s: float | None = None
    """When the deletion was requested."""
    leaving_s: float | None = None
    """When the instance was first observed as being deleted."""
    staying_s: float | None = None
    """When the instance was first observed as no longer being deleted."""
    gone_s: float | None = None
    """When the machine was first observed as gone while the Node still existed."""
    may_be_unheard: bool = False
    """The process that requested the deletion ended; the provider may not have received the request."""
    failure: DrainFailure | None = None
    undone_s: float | None = None
    """When the removal of taint and cordon was last requested."""


class DrainPhase(enum.StrEnum):
    """The phase of a drain: what it waits for, or how it ended."""

    MARKING = "marking"
    """Waits for taint and cordon to be observed on all nodes of the batch."""
    SETTLING = "settling"
    """Waits --node-delete-delay-after-taint, so that the scheduler observes the taint."""
    EVICTING = "evicting"
    """Waits for evictions to be accepted."""
    TERMINATING = "terminating"
    """Waits for evicted pods to terminate."""
    HELD = "held"
    """Waits for annotations that delay the deletion to be removed."""
    GATHERING = "gathering"
    """Waits for other nodes of the group, to be deleted in one batch."""
    DELETING = "deleting"
    """Waits for the provider to delete the machine."""
    ROLLING_BACK = "rolling back"
    """Waits for taint and cordon to be removed."""
    GONE = "gone"
    ROLLED_BACK = "rolled back"


ENDED_PHASES = frozenset({DrainPhase.GONE, DrainPhase.ROLLED_BACK})


@dataclass(frozen=True, slots=True)
class DrainStatus:
    """The status of one drain."""

    node: str
    group: str
    phase: DrainPhase
    until_s: float = float("inf")
    """When the phase ends or times out, if no observation changes before."""
    waits_for: tuple[str, ...] = ()
    """The pods, annotations or nodes concerned."""
    failure: DrainFailure | None = None


@dataclass(frozen=True, slots=True)
class TaintLatency:
    """One measurement, for one batch."""

    at_s: float
    """When the last node of the batch was observed with the taint."""
    duration_s: float
