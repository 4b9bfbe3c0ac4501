"""Drainability as values: the status that a drain rule gives a pod, and the pods to move off a node.

A status is formatted only when it is read. Blocking reasons have Cluster Autoscaler's names, because alerts depend on
them.
"""

import enum
from dataclasses import dataclass
from typing import Generic, TypeVar

from windlass.engine.model import facts


class DrainAction(enum.StrEnum):
    """What becomes of the pod when its node is drained."""

    DRAIN = "drain"
    """It is evicted."""
    BLOCK = "block"
    """It stays, and so must the whole node."""
    SKIP = "skip"
    """It holds up nothing and is left alone; it goes with the node."""
    WAIT = "wait_for_completion"
    """It is left to finish before the node goes."""


class BlockingPodReason(enum.StrEnum):
    """Why a pod keeps its node. Cluster Autoscaler's names, but for UnreadablePod, UnreadableDrainRules and
    DoNotDisruptAnnotation.
    """

    CONTROLLER_NOT_FOUND = "ControllerNotFound"
    MIN_REPLICAS_REACHED = "MinReplicasReached"
    NOT_REPLICATED = "NotReplicated"
    LOCAL_STORAGE_REQUESTED = "LocalStorageRequested"
    NOT_SAFE_TO_EVICT_ANNOTATION = "NotSafeToEvictAnnotation"
    UNMOVABLE_KUBE_SYSTEM_POD = "UnmovableKubeSystemPod"
    NOT_ENOUGH_PDB = "NotEnoughPdb"
    UNREADABLE_POD = "UnreadablePod"
    UNREADABLE_DRAIN_RULES = "UnreadableDrainRules"
    DO_NOT_DISRUPT_ANNOTATION = "DoNotDisruptAnnotation"
    UNEXPECTED_ERROR = "UnexpectedError"
    """No rule says this: facts are read before, and what could not be read has been set aside. Kept because those
    who count by reason expect it."""


@dataclass(frozen=True, slots=True)
class DrainabilityStatus:
    """One rule's opinion of one pod. `saying` continues a sentence that begins with the pod's name."""

    rule: str
    action: DrainAction
    saying: str
    values: tuple[object, ...] = ()
    """What decided; fills the braces of `saying`."""
    reason: BlockingPodReason | None = None
    """Set where the pod blocks, and only there."""

    @property
    def blocks(self) -> bool:
        return self.action is DrainAction.BLOCK

    def text(self, pod: facts.Pod) -> str:
        return f"{pod.key} {self.saying.format(*self.values)}"


def drainable_status(rule: str, saying: str, *values: object) -> DrainabilityStatus:
    return DrainabilityStatus(rule, DrainAction.DRAIN, saying, values)


def skip_status(rule: str, saying: str, *values: object) -> DrainabilityStatus:
    return DrainabilityStatus(rule, DrainAction.SKIP, saying, values)


def wait_status(rule: str, saying: str, *values: object) -> DrainabilityStatus:
    return DrainabilityStatus(rule, DrainAction.WAIT, saying, values)


def blocked_status(rule: str, reason: BlockingPodReason, saying: str, *values: object) -> DrainabilityStatus:
    return DrainabilityStatus(rule, DrainAction.BLOCK, saying, values, reason)


ControllerKey = tuple[str, str, str]
"""(kind, namespace, name)"""

Item = TypeVar("Item")
"""A pod, or what stands for one: its row in a snapshot."""


@dataclass(frozen=True, slots=True)
class BlockingPod(Generic[Item]):
    """The pod that keeps its node, and the outcome that says why."""

    pod: Item
    outcome: DrainabilityStatus


@dataclass(frozen=True, slots=True)
class PodsToMove(Generic[Item]):
    """What draining a node means for its pods. Where one blocks, the pods after it were not looked at."""

    move: tuple[Item, ...] = ()
    """To be evicted, and to find room elsewhere."""
    daemonset: tuple[Item, ...] = ()
    """May be evicted; need no room elsewhere."""
    on_completion: tuple[Item, ...] = ()
    """To be waited for."""
    blocking: BlockingPod[Item] | None = None
