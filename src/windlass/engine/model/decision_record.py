"""The decision record: what a loop found and why it decided as it did, as values.

Metrics, events, the status API and `explain` make their text from it.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine.model import cluster_health, facts, scale_down_state, scale_up_status
from windlass.engine.model.cluster_health import UpcomingNodes
from windlass.engine.model.provisioning import EMPTY_REPORT, ProvisioningReport
from windlass.engine.model.scale_up_status import GroupTemplate


class ScaleDownResult(enum.StrEnum):
    """What came of scaling down in a loop. The names are the peer's."""

    NOT_TRIED = "NotTried"
    IN_COOLDOWN = "InCooldown"
    NO_CANDIDATES = "NoCandidates"
    NO_NODE_DELETED = "NoNodeDeleted"
    STARTED = "NodeDeleteStarted"


@dataclass(frozen=True, slots=True)
class ScaleDownRecord:
    """What scale-down found."""

    result: ScaleDownResult
    look: scale_down_state.CandidateEvaluation | None = None
    choice: scale_down_state.NodesToDelete | None = None
    started: scale_down_state.StartedDeletions | None = None


@dataclass(frozen=True, slots=True)
class GroupSize:
    """A group's target size and the number of its instances."""

    target: int
    instances: int


GroupSizes = Mapping[str, GroupSize]
"""By group."""


@dataclass(frozen=True, slots=True)
class SizeDecrease:
    """Lower a group's target size; no instance may be touched by it."""

    group: str
    by: int
    before: GroupSize

    @property
    def is_possible(self) -> bool:
        return self.before.target - self.by >= self.before.instances


@dataclass(frozen=True, slots=True)
class InstanceRemoval:
    """Delete instances of a group, which lowers its target size by as many."""

    group: str
    instances: tuple[str, ...]
    is_forced: bool
    """Even below the group's minimum."""
    min_size: int
    before: GroupSize

    @property
    def is_possible(self) -> bool:
        return self.is_forced or self.before.target - len(self.instances) >= self.min_size


class LoopStop(enum.StrEnum):
    """Why nothing else is decided in a loop."""

    UNHEALTHY = "cluster is unhealthy"
    FIXED = "a size was fixed"
    REFUSED = "a size could not be fixed"
    NO_NODES = "cluster has no nodes"
    NO_READY_NODES = "cluster has no ready nodes"
    NO_READY_NODES_YET = "cluster has no ready nodes yet"


NOT_ACTIONABLE = frozenset({LoopStop.NO_NODES, LoopStop.NO_READY_NODES, LoopStop.NO_READY_NODES_YET})
"""The loop ended before groups were looked at: nothing is known of their health."""


@dataclass(frozen=True, slots=True)
class Remediation:
    """What to do, and where it leads."""

    reverts: tuple[SizeDecrease, ...]
    unregistered: tuple[InstanceRemoval, ...]
    uncreated: tuple[InstanceRemoval, ...]
    fixes: tuple[SizeDecrease, ...]
    sizes: GroupSizes
    upcoming: Mapping[str, UpcomingNodes]
    """Nodes to come when all this is done."""
    stop: LoopStop | None = None
    """Set if the loop ends here."""


@dataclass(frozen=True, slots=True)
class BufferScaleUp:
    """What one proposal does for the pods of one buffer, or why it does nothing for them."""

    like: facts.Pod
    """The buffer's pods; their owner is the buffer."""
    pods: int
    proposal: scale_up_status.ScaleUpProposal
    remaining: tuple[scale_up_status.PodEquivalenceGroup, ...] = ()
    """Pods that no group accepts; none if the proposal helps the pods."""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One loop."""

    at_s: float
    """When it was decided. What is told of how long something has been so, was so then."""
    health: cluster_health.ClusterHealth
    repairs: Remediation
    scale_ups: tuple[scale_up_status.ScaleUpProposal, ...]
    """What was proposed, in order: for pods, perhaps in several rounds; then for groups below their minimum."""
    scale_down: ScaleDownRecord
    upcoming: Mapping[str, int] = field(default_factory=dict)
    """Nodes asked for but not there yet when the loop ended, by group."""
    unhealthy: tuple[str, ...] = ()
    """Groups that lack too many nodes, as known when the loop ended."""
    requests: ProvisioningReport = EMPTY_REPORT
    nodes: tuple[facts.Node, ...] = field(default=(), repr=False, compare=False)
    """As they were judged: one with a startup taint, or without its devices, is not ready, whatever it says."""
    templates: Mapping[str, GroupTemplate] = field(default_factory=dict, repr=False, compare=False)
    """What a new node of each group was taken to be like."""
    buffers: tuple[BufferScaleUp, ...] = ()
    """What was proposed for the pods of CapacityBuffers; they are in no proposal of `scale_ups`."""
