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
    """The taint was set, or so it seemed, and does not appear."""
    BATCH_FAILED = "BatchFailed"
    """Another node that was to be marked together with it could not be."""
    MARK_REMOVED = "MarkRemoved"
    """Someone else took the taint off."""
    # This one and the next have the names that they have in `Unremovable`.
    BLOCKED_BY_POD = "BlockedByPod"
    """When checked again, a pod must not leave."""
    NO_PLACE_TO_MOVE_PODS = "NoPlaceToMovePods"
    """When checked again, a pod finds no place elsewhere."""
    NOT_EMPTY = "NotEmpty"
    """Chosen because it was empty, it has pods now."""
    EVICTION_REFUSED = "EvictionRefused"
    """An eviction was refused for too long."""
    PODS_STAYED = "PodsStayed"
    """Evicted pods are still there after their grace period."""
    GROUP_FAILED = "GroupFailed"
    """Its group goes as a whole, and another node of it could not go."""
    MIN_SIZE_REACHED = "MinSizeReached"
    """Its group would have too few nodes."""
    GROUP_MISSING = "GroupMissing"
    """Nobody knows its group any more."""
    GROUP_HELD = "GroupHeld"
    """Its group had to be left alone for too long: it is paused, or cannot be read."""
    GROUP_ROLLS_OUT = "GroupRollsOut"
    """Machines of its group are being replaced: another one might go in its place."""
    REPLICAS_OWNED = "ReplicasOwned"
    """Another controller applies the size of its group by now, and would make a node in its place."""
    CANNOT_CHOOSE = "CannotChoose"
    """Its group has other instances by now, and one of them might go in its place."""
    DELETION_REFUSED = "DeletionRefused"
    """The provider refused to delete it."""
    DELETION_TIMED_OUT = "DeletionTimedOut"
    """The provider agreed and did nothing."""
    MACHINE_STAYED = "MachineStayed"
    """The provider was deleting its machine and does not any more: another one went instead, or it is needed again."""
    ABANDONED = "Abandoned"
    """It was found marked, and nobody remembers why."""


@dataclass(frozen=True, slots=True)
class DrainFailure:
    """What ended a drain that should have ended in a deletion."""

    why: DrainFailureReason
    at_s: float
    details: tuple[str, ...] = ()
    """The pods or nodes concerned, or what the one who refused said."""


NO_TIER = -(2**62)
"""Before every turn."""


@dataclass(frozen=True, slots=True)
class EvictionProgress:
    """Where the evictions of a node stand. It begins when the node has been checked again."""

    began_s: float
    known: frozenset[str] = frozenset()
    """Pods that must have left before the node goes, by uid: those that were there when it was checked, and those that
    came later and may leave, too."""
    stage: int = 0
    """Whose turn it is; see `turns.Turns`. Pods of turns before it go, too."""
    since_s: float = 0.0
    """When the turn began."""
    accepted_s: float | None = None
    """When all pods of the turn were on their way out for the first time."""
    tried: Mapping[str, float] = field(default_factory=dict)
    """When the eviction of a pod was last asked for, by uid."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """What was said, where that was refused; until it is asked for again."""
    left_behind: frozenset[str] = frozenset()
    """Pods that did not end in time and are not waited for any more."""


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """How far a node has come."""

    asked_s: float | None = None
    """When the mark was last asked for."""
    marked_s: float | None = None
    """When all nodes of its batch were first seen marked."""
    evicting: EvictionProgress | None = None
    emptied_s: float | None = None
    """When there were first no pods left to wait for."""
    ready_s: float | None = None
    """When nothing was first in the way of its deletion but others of its group."""
    deleting_s: float | None = None
    """When its deletion was asked for."""
    leaving_s: float | None = None
    """When the provider was first seen to delete it."""
    staying_s: float | None = None
    """When the provider was first seen not to do so any more."""
    gone_s: float | None = None
    """When its machine was first seen to be gone, while the node was still there."""
    may_be_unheard: bool = False
    """Whoever asked for it is gone, and nobody knows whether the provider heard of it."""
    failure: DrainFailure | None = None
    undone_s: float | None = None
    """When its marks were last asked to be removed."""


class DrainPhase(enum.StrEnum):
    """What a node on its way out waits for, or how it ended."""

    MARKING = "marking"
    """For the taint and the cordon to be seen, on all nodes that were chosen with it."""
    SETTLING = "settling"
    """For everyone else to see the taint."""
    EVICTING = "evicting"
    """For evictions to be accepted."""
    TERMINATING = "terminating"
    """For evicted pods to end."""
    HELD = "held"
    """For those whose annotations delay the deletion."""
    GATHERING = "gathering"
    """For other nodes of its group, to be deleted with them."""
    DELETING = "deleting"
    """For the provider to delete it."""
    ROLLING_BACK = "rolling back"
    """For taint and cordon to be gone."""
    GONE = "gone"
    ROLLED_BACK = "rolled back"


ENDED_PHASES = frozenset({DrainPhase.GONE, DrainPhase.ROLLED_BACK})


@dataclass(frozen=True, slots=True)
class DrainStatus:
    """One node on its way out."""

    node: str
    group: str
    phase: DrainPhase
    until_s: float = float("inf")
    """When it moves on or gives up, if nothing changes before."""
    waits_for: tuple[str, ...] = ()
    """The pods, annotations or nodes concerned."""
    failure: DrainFailure | None = None


@dataclass(frozen=True, slots=True)
class TaintLatency:
    """One measurement, of one batch."""

    at_s: float
    """When the last node of the batch was seen with the taint."""
    duration_s: float
