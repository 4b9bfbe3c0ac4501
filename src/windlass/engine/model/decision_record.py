"""Decision record: the results of each step of a loop and their reasons, as values.

Metrics, events, the status API and `explain` format it.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine.model import cluster_health, facts, scale_down_state, scale_up_status
from windlass.engine.model.cluster_health import UpcomingNodes
from windlass.engine.model.provisioning import EMPTY_REPORT, ProvisioningReport
from windlass.engine.model.scale_up_status import GroupTemplate


class ScaleDownResult(enum.StrEnum):
    """The result of scale-down in a loop, by Cluster Autoscaler's names."""

    NOT_TRIED = "NotTried"
    IN_COOLDOWN = "InCooldown"
    NO_CANDIDATES = "NoCandidates"
    NO_NODE_DELETED = "NoNodeDeleted"
    STARTED = "NodeDeleteStarted"


@dataclass(frozen=True, slots=True)
class ScaleDownRecord:
    """Scale-down in one loop."""

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
    """A lower target size of a group, without deleting an instance."""

    group: str
    by: int
    before: GroupSize

    @property
    def is_possible(self) -> bool:
        return self.before.target - self.by >= self.before.instances


@dataclass(frozen=True, slots=True)
class InstanceRemoval:
    """Instances of a group to delete; its target size drops by as many."""

    group: str
    instances: tuple[str, ...]
    is_forced: bool
    """Also below the group's minimum size."""
    min_size: int
    before: GroupSize

    @property
    def is_possible(self) -> bool:
        return self.is_forced or self.before.target - len(self.instances) >= self.min_size


class LoopStop(enum.StrEnum):
    """Why a loop ends early."""

    UNHEALTHY = "cluster is unhealthy"
    FIXED = "a size was fixed"
    REFUSED = "a size could not be fixed"
    NO_NODES = "cluster has no nodes"
    NO_READY_NODES = "cluster has no ready nodes"
    NO_READY_NODES_YET = "cluster has no ready nodes yet"


NOT_ACTIONABLE = frozenset({LoopStop.NO_NODES, LoopStop.NO_READY_NODES, LoopStop.NO_READY_NODES_YET})
"""The loop ended before group health was computed."""


@dataclass(frozen=True, slots=True)
class Remediation:
    """Remediation of one loop, and the state after it."""

    reverts: tuple[SizeDecrease, ...]
    unregistered: tuple[InstanceRemoval, ...]
    uncreated: tuple[InstanceRemoval, ...]
    fixes: tuple[SizeDecrease, ...]
    sizes: GroupSizes
    upcoming: Mapping[str, UpcomingNodes]
    """Upcoming nodes after remediation."""
    stop: LoopStop | None = None
    """Set if the loop ends here."""


@dataclass(frozen=True, slots=True)
class BufferScaleUp:
    """Scale-up for the pods of one CapacityBuffer, or the reasons against it."""

    like: facts.Pod
    """One of the buffer's pods; the owner is the buffer."""
    pods: int
    proposal: scale_up_status.ScaleUpProposal
    remaining: tuple[scale_up_status.PodEquivalenceGroup, ...] = ()
    """Pods that no group accepts; empty if the proposal schedules the pods."""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """The record of one loop."""

    at_s: float
    """Time of the decision. Durations in the record end here."""
    health: cluster_health.ClusterHealth
    repairs: Remediation
    scale_ups: tuple[scale_up_status.ScaleUpProposal, ...]
    """Proposals in order: for pods, possibly in several rounds; then for groups below their minimum size."""
    scale_down: ScaleDownRecord
    upcoming: Mapping[str, int] = field(default_factory=dict)
    """Upcoming nodes by group, at the end of the loop."""
    unhealthy: tuple[str, ...] = ()
    """Unhealthy groups, at the end of the loop."""
    requests: ProvisioningReport = EMPTY_REPORT
    nodes: tuple[facts.Node, ...] = field(default=(), repr=False, compare=False)
    """With the readiness used by the decision: a node with a startup taint, or without its devices, is not ready."""
    templates: Mapping[str, GroupTemplate] = field(default_factory=dict, repr=False, compare=False)
    """The template of each group."""
    buffers: tuple[BufferScaleUp, ...] = ()
    """Scale-up for pods of CapacityBuffers; `scale_ups` does not list these pods."""
