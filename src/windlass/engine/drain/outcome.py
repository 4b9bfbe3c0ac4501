"""Outcomes: what a rule makes of a pod, as a value; text only when someone asks for it."""

import enum
from dataclasses import dataclass

from windlass.engine import facts


class Action(enum.StrEnum):
    """What becomes of the pod when its node is drained."""

    DRAIN = "drain"
    """It is evicted."""
    BLOCK = "block"
    """It stays, and so must the whole node."""
    SKIP = "skip"
    """It holds up nothing and is left alone; it goes with the node."""
    WAIT = "wait_for_completion"
    """It is left to finish before the node goes."""


class Reason(enum.StrEnum):
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
class Outcome:
    """One rule's opinion of one pod. `saying` continues a sentence that begins with the pod's name."""

    rule: str
    action: Action
    saying: str
    values: tuple[object, ...] = ()
    """What decided; fills the braces of `saying`."""
    reason: Reason | None = None
    """Set where the pod blocks, and only there."""

    @property
    def blocks(self) -> bool:
        return self.action is Action.BLOCK

    def text(self, pod: facts.Pod) -> str:
        return f"{pod.key} {self.saying.format(*self.values)}"


def drain(rule: str, saying: str, *values: object) -> Outcome:
    return Outcome(rule, Action.DRAIN, saying, values)


def skip(rule: str, saying: str, *values: object) -> Outcome:
    return Outcome(rule, Action.SKIP, saying, values)


def wait(rule: str, saying: str, *values: object) -> Outcome:
    return Outcome(rule, Action.WAIT, saying, values)


def block(rule: str, reason: Reason, saying: str, *values: object) -> Outcome:
    return Outcome(rule, Action.BLOCK, saying, values, reason)
