"""What a filter is, and what it says when it refuses a node."""

import enum
from dataclasses import dataclass
from typing import ClassVar

from windlass.simulator.scheduler.cluster import Json, NodeView


class Code(enum.StrEnum):
    """Why a node is refused, in the scheduler's own words."""

    UNSCHEDULABLE = "Unschedulable"
    """Other pods are in the way: preemption might help."""
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """It would be the same without any other pod."""
    ERROR = "Error"
    """The filter could not tell. The pod is not placed anywhere in this cycle."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One filter's no, with the scheduler's own reason texts, sorted."""

    plugin: str
    code: Code
    reasons: tuple[str, ...]


class CannotTell(Exception):
    """A filter meets objects that contradict each other; the node's verdict becomes an `Error` with this text."""


class Check:
    """A filter made ready for one pod: what is the same for every node is worked out (upstream's PreFilter).

    `add` and `remove` imagine a pod on a node or away from it. A check that counts pods over the whole cluster keeps
    its counts up to date there and copies them in `copy`; one that only reads the node in question leaves them alone.
    """

    __slots__ = ()
    plugin: ClassVar[str]

    def refuse(self, node: NodeView) -> Refusal | None:
        """Why the pod may not run on this node, or None if this filter lets it."""
        raise NotImplementedError

    def add(self, pod: Json, node: NodeView) -> None:
        """`pod` is now on `node`."""

    def remove(self, pod: Json, node: NodeView) -> None:
        """`pod` is no longer on `node`."""

    def copy(self) -> "Check":
        return self

    def unschedulable(self, *reasons: str) -> Refusal:
        return Refusal(self.plugin, Code.UNSCHEDULABLE, tuple(sorted(reasons)))

    def unresolvable(self, *reasons: str) -> Refusal:
        return Refusal(self.plugin, Code.UNRESOLVABLE, tuple(sorted(reasons)))
