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
    """Those of the unready that lack a device. Reported, never decided on."""
    leaving: tuple[str, ...] = ()
    """Those of the ready, unready and suspended whose instance is on its way out, where they do not count as the
    group's any more: its target size does not."""

    @property
    def registered(self) -> int:
        return sum(map(len, (self.ready, self.unready, self.not_started, self.suspended, self.deleted)))

    @property
    def arrived(self) -> int:
        """How many of the group's nodes are not awaited any more: there, or given up."""
        here = sum(map(len, (self.ready, self.unready, self.suspended, self.long_unregistered)))
        return here - len(self.leaving)


NO_NODES = Readiness()


@dataclass(frozen=True, slots=True)
class AcceptableRange:
    """How many ready nodes a group may have, given what is under way. `min` may be negative."""

    min: int
    max: int
    target: int


@dataclass(frozen=True, slots=True)
class IncorrectSize:
    """A group has another number of nodes than it should, and none of them is on its way."""

    current: int
    expected: int
    since_s: float
    """Since when exactly these numbers differ."""


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    """Whether few enough nodes lack, and the numbers that decided."""

    is_healthy: bool
    lacking: int
    """Nodes that should be ready and are not."""
    nodes: int
    """Nodes of which `max_total_unready_percentage` may lack; `ok_total_unready_count` always may."""


@dataclass(frozen=True, slots=True)
class UpcomingNodes:
    """Nodes that a group will get soon."""

    nodes: int
    not_started: tuple[str, ...]
    """Those of them that have registered, by name."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The last failure of a group, and until when the group is left alone for it, that moment included."""

    until_s: float
    duration_s: float
    failed_s: float
    error: node_groups.InstanceError


Backoffs = Mapping[str, Backoff]
"""By group. An entry outlives its time, because the next failure builds on it."""


@dataclass(frozen=True, slots=True)
class ScaleUpRequest:
    """Nodes that a group is to get."""

    increase: int
    """How many were asked for here. They are taken back if they do not come."""
    began_s: float
    """Since when the group has been growing without a break."""
    requested_s: float
    """When the last of them were asked for."""
    expected_by_s: float
    external: int = 0
    """How many more are awaited that someone else asked for. They are not taken back."""


@dataclass(frozen=True, slots=True)
class ScaleDownRequest:
    """A node that the provider was told to delete."""

    group: str
    node: str
    requested_s: float
    expected_by_s: float


@dataclass(frozen=True, slots=True)
class ScaleRequests:
    """All that is under way."""

    scale_ups: Mapping[str, ScaleUpRequest] = field(default_factory=dict)
    """By group."""
    scale_downs: tuple[ScaleDownRequest, ...] = ()


class RequestOutcome(enum.StrEnum):
    """How a request to grow ended."""

    FULFILLED = "fulfilled"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class ScaleUpFailure:
    """Nodes that a group was to get and does not get."""

    group: str
    nodes: int
    error: node_groups.InstanceError
    requested_s: float


@dataclass(frozen=True, slots=True)
class KnownFailures:
    """What the last loop knew of instances and nodes that failed, so that each counts once."""

    uncreated: frozenset[str] = frozenset()
    """Instances that could not be created, by provider id."""
    stuck: frozenset[str] = frozenset()
    """Instances that did not register, by provider id, and nodes that did not become ready, by name."""
    absent: Mapping[str, int] = field(default_factory=dict)
    """How many nodes of each group did not even exist, by the groups that were seen."""


@dataclass(frozen=True, slots=True)
class HealthMemory:
    """What the next loop must know."""

    requests: ScaleRequests = field(default_factory=ScaleRequests)
    backoffs: Mapping[str, Backoff] = field(default_factory=dict)
    unregistered_since: Mapping[str, float] = field(default_factory=dict)
    """By provider id."""
    wrong_sizes: Mapping[str, IncorrectSize] = field(default_factory=dict)
    known: KnownFailures = field(default_factory=KnownFailures)


@dataclass(frozen=True, slots=True)
class ScaleUpProgress:
    """What became of a group's request."""

    request: ScaleUpRequest | None
    """What is left of it."""
    ending: RequestOutcome | None = None
    failures: tuple[ScaleUpFailure, ...] = ()
    overdue: int = 0
    """Nodes that were asked for here and whose time is up."""


@dataclass(frozen=True, slots=True)
class GroupHealth:
    """One group: what is seen of it, and what follows."""

    readiness: Readiness | None
    """None if it has neither a node nor an instance that should become one."""
    range: AcceptableRange
    verdict: HealthVerdict
    progress: ScaleUpProgress
    wrong_size: IncorrectSize | None
    backoff: Backoff | None
    """Why it must not grow now."""

    @property
    def may_grow(self) -> bool:
        return self.verdict.is_healthy and self.backoff is None


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """The whole cluster at one moment."""

    groups: Mapping[str, GroupHealth]
    total: Readiness
    verdict: HealthVerdict
    memory: HealthMemory

    def as_before(self, memory: HealthMemory) -> "ClusterHealth":
        """What is seen of it, without what was found out about requests: that is left for a later loop."""
        groups = {id: replace(each, progress=ScaleUpProgress(None)) for id, each in self.groups.items()}
        return replace(self, groups=groups, memory=memory)

    @property
    def failures(self) -> tuple[ScaleUpFailure, ...]:
        return tuple(failure for group in self.groups.values() for failure in group.progress.failures)
