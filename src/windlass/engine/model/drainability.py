"""Drainability as values: the status that a drain rule gives a pod, and the pods to move off a node.

A status is formatted only when it is read. Blocking reasons have Cluster Autoscaler's names, because alerts depend on
them.
"""

import enum
from dataclasses import dataclass
from typing import Generic, TypeVar

from windlass.engine.model import facts


class DrainAction(enum.StrEnum):
    """What a drain does with a pod."""

    DRAIN = "drain"
    """The pod is evicted."""
    BLOCK = "block"
    """The pod must not be evicted, so the node cannot be removed."""
    SKIP = "skip"
    """The pod is neither evicted nor waited for; it ends with the node."""
    WAIT = "wait_for_completion"
    """The drain waits until the pod has finished."""


class BlockingPodReason(enum.StrEnum):
    """Why a pod blocks the removal of its node. Cluster Autoscaler's names, except UnreadablePod, UnreadableDrainRules
    and DoNotDisruptAnnotation.
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
    """No rule returns it: unreadable facts are set aside before rules run. Kept because it is a value of Cluster
    Autoscaler's metric label."""


@dataclass(frozen=True, slots=True)
class DrainabilityStatus:
    """One rule's status for one pod. `saying` continues a sentence that begins with the pod's name."""

    rule: str
    action: DrainAction
    saying: str
    values: tuple[object, ...] = ()
    """The facts that decided; they fill the braces of `saying`."""
    reason: BlockingPodReason | None = None
    """Set if and only if the action is BLOCK."""

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
"""A pod, or its row in a snapshot."""


@dataclass(frozen=True, slots=True)
class BlockingPod(Generic[Item]):
    """The pod that blocks the removal of its node, with the status of the rule that decided."""

    pod: Item
    outcome: DrainabilityStatus


@dataclass(frozen=True, slots=True)
class PodsToMove(Generic[Item]):
    """A node's pods by what a drain does with them. If one blocks, the pods after it were not evaluated."""

    move: tuple[Item, ...] = ()
    """Pods to evict, which need room on other nodes."""
    daemonset: tuple[Item, ...] = ()
    """DaemonSet pods: evicted if settings say so; they need no room elsewhere."""
    on_completion: tuple[Item, ...] = ()
    """Pods that the drain waits for."""
    blocking: BlockingPod[Item] | None = None
