"""What is told of a drain: what it waits for, until when, or how it ended."""

import enum
from dataclasses import dataclass

from windlass.engine.draining.progress import Failure


class Phase(enum.StrEnum):
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


ENDED = frozenset({Phase.GONE, Phase.ROLLED_BACK})


@dataclass(frozen=True, slots=True)
class DrainStory:
    """One node on its way out."""

    node: str
    group: str
    phase: Phase
    until_s: float = float("inf")
    """When it moves on or gives up, if nothing changes before."""
    waits_for: tuple[str, ...] = ()
    """The pods, annotations or nodes concerned."""
    failure: Failure | None = None
