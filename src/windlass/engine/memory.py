"""Memory: what one loop hands to the next.

Durable: losing it would change decisions. It is what must be saved, so that a restart forgets no timer, request or
backoff. Volatile: losing it costs time, or lets ties fall otherwise, never a decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from windlass.engine import plan, searching
from windlass.engine.draining.progress import Progress
from windlass.engine.draining.taint_latency import TaintLatency
from windlass.engine.health import Memory as HealthMemory
from windlass.engine.observation import Observation
from windlass.engine.provisioning import retries
from windlass.engine.quarantine import Faults
from windlass.engine.scale_down import cooldown, scene
from windlass.engine.scale_up.templates import GroupTemplate
from windlass.engine.settings import Settings
from windlass.engine.story import Story

VERSION = 1
"""Of the durable part. A reader that finds another one upgrades it, or starts anew where it cannot."""


@dataclass(frozen=True, slots=True)
class DrainBegun:
    """A node that was marked to go."""

    group: str
    since_s: float
    is_empty: bool
    """It has no pods to be moved."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where its pods found a place when it was chosen: node name by pod uid."""
    uid: str = ""
    """Of the node: another one may come under its name."""
    was_cordoned: bool = False
    """Someone else had cordoned it."""
    progress: Progress = field(default_factory=Progress)
    """What `advance` has brought about since."""


@dataclass(frozen=True, slots=True)
class Durable:
    """What must survive a restart."""

    loop: int = 0
    """How many loops were decided."""
    health: HealthMemory = field(default_factory=HealthMemory)
    activity: cooldown.Activity = field(default_factory=cooldown.Activity)
    """Of the cluster as a whole."""
    activities: Mapping[str, cooldown.Activity] = field(default_factory=dict)
    """Of each group."""
    scale_down: scene.State = field(default_factory=scene.State)
    drains: Mapping[str, DrainBegun] = field(default_factory=dict)
    """Nodes that are on their way out, by name."""
    requests: retries.Memory = field(default_factory=retries.Memory)
    """Of ProvisioningRequests."""
    held: Mapping[str, float] = field(default_factory=dict)
    """Groups that must be left alone for now, by id: since when."""
    taint_latencies: tuple[TaintLatency, ...] = ()
    """Of the last hour, where --dynamic-node-delete-delay-after-taint-enabled asks for them."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A decision that stands, and what it was made of."""

    seen: Observation
    generation: int
    """Of the snapshot, which is the caller's and may have changed since."""
    durable: Durable
    settings: Settings
    plan: plan.Plan
    story: Story
    until_s: float
    examples: frozenset[str] = frozenset()
    """Groups whose template was made from one of their nodes: they have it for as long as the decision stands."""

    def holds(self, seen: Observation, durable: Durable, settings: Settings, now_s: float) -> bool:
        """Would deciding again give the same?"""
        return (
            self.story.at_s <= now_s < self.until_s
            and seen.snapshot is self.seen.snapshot
            and seen.snapshot.generation == self.generation
            and (durable is self.durable or durable == self.durable)
            and (settings is self.settings or settings == self.settings)
            and (seen is self.seen or seen == self.seen)
        )


@dataclass(frozen=True, slots=True)
class Volatile:
    """What may be lost."""

    templates: Mapping[str, GroupTemplate] = field(default_factory=dict)
    """What nodes of a group were like when it last had a good one."""
    pending: searching.Search = field(default_factory=searching.Search)
    removal: searching.Search = field(default_factory=searching.Search)
    booking: searching.Search = field(default_factory=searching.Search)
    standing: Standing | None = None
    """The last decision, for as long as it stands."""
    faults: Faults = ()
    """Objects that could not be evaluated; they are left out while they are as they were."""
    learned_s: Mapping[str, float] = field(default_factory=dict)
    """When each of the templates was last made from a node. One that is not among them was just now."""
    began_s: float | None = None
    """When the first loop after a start was decided; None before it."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything that the next loop must know."""

    durable: Durable = field(default_factory=Durable)
    volatile: Volatile = field(default_factory=Volatile)


def but_loops(durable: Durable) -> Durable:
    """The same but for how many loops there were: for whoever wants to know whether anything is new."""
    return replace(durable, loop=0)
