"""Cluster health as values: readiness by state, scale requests, backoffs, acceptable ranges and verdicts.

`HealthMemory` is the part that the next loop needs. The rules are in `cluster_state`.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from windlass.engine.model import node_groups


@dataclass(frozen=True, slots=True)
class Readiness:
    """The nodes of a group, or of the cluster, by state. Instances without a node go by their provider id."""

    ready: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    not_started: tuple[str, ...] = ()
    suspended: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unregistered: tuple[str, ...] = ()
    long_unregistered: tuple[str, ...] = ()
    resource_unready: tuple[str, ...] = ()
    """The unready nodes that lack a device. Reported only; no decision depends on it."""
    leaving: tuple[str, ...] = ()
    """The ready, unready and suspended nodes whose instance is being deleted. The group's target size no longer counts
    them."""

    @property
    def registered(self) -> int:
        return sum(map(len, (self.ready, self.unready, self.not_started, self.suspended, self.deleted)))

    @property
    def arrived(self) -> int:
        """The number of the group's nodes that are no longer upcoming: registered, or given up."""
        here = sum(map(len, (self.ready, self.unready, self.suspended, self.long_unregistered)))
        return here - len(self.leaving)


NO_NODES = Readiness()


@dataclass(frozen=True, slots=True)
class AcceptableRange:
    """The number of ready nodes that a group may have, given its scale requests. `min` may be negative."""

    min: int
    max: int
    target: int


@dataclass(frozen=True, slots=True)
class IncorrectSize:
    """A group whose number of nodes differs from its target size, without a scale request that explains it."""

    current: int
    expected: int
    since_s: float
    """Since when both numbers have been the same."""


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    """Whether few enough nodes are missing or unready, with the numbers compared."""

    is_healthy: bool
    lacking: int
    """Nodes that should be ready and are not, missing ones included."""
    nodes: int
    """The total of which `max_total_unready_percentage` is allowed; `ok_total_unready_count` is always allowed."""


@dataclass(frozen=True, slots=True)
class UpcomingNodes:
    """Upcoming nodes of a group: requested, and not ready yet."""

    nodes: int
    not_started: tuple[str, ...]
    """Names of those that have registered."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """A group's last failure and the time until which it is backed off, inclusive."""

    until_s: float
    duration_s: float
    failed_s: float
    error: node_groups.InstanceError


Backoffs = Mapping[str, Backoff]
"""By group. An entry is kept after it expires, because the next failure doubles its duration."""


@dataclass(frozen=True, slots=True)
class ScaleUpRequest:
    """A scale-up of a group that is in progress."""

    increase: int
    """Nodes requested by this autoscaler. They are taken back if they do not register in time."""
    began_s: float
    """Start of the uninterrupted growth of the group."""
    requested_s: float
    """Time of the last increase."""
    expected_by_s: float
    external: int = 0
    """Further upcoming nodes that another client requested. They are not taken back."""


@dataclass(frozen=True, slots=True)
class ScaleDownRequest:
    """A node whose deletion was requested from the provider."""

    group: str
    node: str
    requested_s: float
    expected_by_s: float


@dataclass(frozen=True, slots=True)
class ScaleRequests:
    """All scale-ups and scale-downs in progress."""

    scale_ups: Mapping[str, ScaleUpRequest] = field(default_factory=dict)
    """By group."""
    scale_downs: tuple[ScaleDownRequest, ...] = ()


class RequestOutcome(enum.StrEnum):
    """How a scale-up request ended."""

    FULFILLED = "fulfilled"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class ScaleUpFailure:
    """Requested nodes of a group that failed."""

    group: str
    nodes: int
    error: node_groups.InstanceError
    requested_s: float


@dataclass(frozen=True, slots=True)
class KnownFailures:
    """Failed instances and nodes known to the last loop, so that each counts once."""

    uncreated: frozenset[str] = frozenset()
    """Instances that could not be created, by provider id."""
    stuck: frozenset[str] = frozenset()
    """Instances that did not register in time, by provider id, and nodes that did not become ready, by name."""
    absent: Mapping[str, int] = field(default_factory=dict)
    """Number of requested nodes without an instance, by group."""


@dataclass(frozen=True, slots=True)
class HealthMemory:
    """The state of cluster health that the next loop needs."""

    requests: ScaleRequests = field(default_factory=ScaleRequests)
    backoffs: Mapping[str, Backoff] = field(default_factory=dict)
    unregistered_since: Mapping[str, float] = field(default_factory=dict)
    """By provider id."""
    wrong_sizes: Mapping[str, IncorrectSize] = field(default_factory=dict)
    known: KnownFailures = field(default_factory=KnownFailures)


@dataclass(frozen=True, slots=True)
class ScaleUpProgress:
    """The state of a group's scale-up request after this loop's observation."""

    request: ScaleUpRequest | None
    """The part that is still in progress."""
    ending: RequestOutcome | None = None
    failures: tuple[ScaleUpFailure, ...] = ()
    overdue: int = 0
    """Nodes that this autoscaler requested and whose provision time has passed."""


@dataclass(frozen=True, slots=True)
class GroupHealth:
    """The health of one group: its readiness, and what is derived from it."""

    readiness: Readiness | None
    """None if the group has neither nodes nor instances."""
    range: AcceptableRange
    verdict: HealthVerdict
    progress: ScaleUpProgress
    wrong_size: IncorrectSize | None
    backoff: Backoff | None
    """Set while the group must not grow."""

    @property
    def may_grow(self) -> bool:
        return self.verdict.is_healthy and self.backoff is None


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """The health of the cluster at one time."""

    groups: Mapping[str, GroupHealth]
    total: Readiness
    verdict: HealthVerdict
    memory: HealthMemory

    def as_before(self, memory: HealthMemory) -> "ClusterHealth":
        """The same readiness and verdicts with this memory; progress of requests is left to a later loop."""
        groups = {id: replace(group, progress=ScaleUpProgress(None)) for id, group in self.groups.items()}
        return replace(self, groups=groups, memory=memory)

    @property
    def failures(self) -> tuple[ScaleUpFailure, ...]:
        return tuple(failure for group in self.groups.values() for failure in group.progress.failures)
