"""The story: what a loop saw and why it did what it did, as values. Text is made by whoever reads it."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine import facts, health, repairs
from windlass.engine.buffers.scale_ups import BufferScaleUp
from windlass.engine.provisioning.docket import NOTHING, Dealings
from windlass.engine.scale_down import deletion_budgets, planning
from windlass.engine.scale_up import proposing
from windlass.engine.scale_up.templates import GroupTemplate


class ScaleDownResult(enum.StrEnum):
    """What came of scaling down in a loop. The names are the peer's."""

    NOT_TRIED = "NotTried"
    IN_COOLDOWN = "InCooldown"
    NO_CANDIDATES = "NoCandidates"
    NO_NODE_DELETED = "NoNodeDeleted"
    STARTED = "NodeDeleteStarted"


@dataclass(frozen=True, slots=True)
class ScaleDownStory:
    """What scale-down found."""

    result: ScaleDownResult
    look: planning.Look | None = None
    choice: planning.Choice | None = None
    started: deletion_budgets.Started | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """One loop."""

    at_s: float
    """When it was decided. What is told of how long something has been so, was so then."""
    health: health.Health
    repairs: repairs.Repairs
    scale_ups: tuple[proposing.Proposal, ...]
    """What was proposed, in order: for pods, perhaps in several rounds; then for groups below their minimum."""
    scale_down: ScaleDownStory
    upcoming: Mapping[str, int] = field(default_factory=dict)
    """Nodes asked for but not there yet when the loop ended, by group."""
    unhealthy: tuple[str, ...] = ()
    """Groups that lack too many nodes, as known when the loop ended."""
    requests: Dealings = NOTHING
    nodes: tuple[facts.Node, ...] = field(default=(), repr=False, compare=False)
    """As they were judged: one with a startup taint, or without its devices, is not ready, whatever it says."""
    templates: Mapping[str, GroupTemplate] = field(default_factory=dict, repr=False, compare=False)
    """What a new node of each group was taken to be like."""
    buffers: tuple[BufferScaleUp, ...] = ()
    """What was proposed for the pods of CapacityBuffers; they are in no proposal of `scale_ups`."""
