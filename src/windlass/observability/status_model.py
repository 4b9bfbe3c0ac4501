"""Published status: cluster, groups, nodes, pending pods and recent decisions, and the difference of two statuses.

Times are seconds since the epoch, shares are fractions of allocatable. Field names are the JSON API.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec


class NodeState(enum.StrEnum):
    """State of a node."""

    READY = "ready"
    UNNEEDED = "unneeded"
    """The node is empty, or its pods fit elsewhere: it is removed after the unneeded time."""
    DRAINING = "draining"
    """The node is tainted, drained or being deleted."""
    BOOTING = "booting"
    """An instance without a node, or a node that is still starting."""
    UNREADY = "unready"
    FAILED = "failed"
    """An instance that could not be created, or whose node did not register in time."""


class PublishedNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node, or an instance without a node."""

    name: str
    """Name; of an instance without a node, its provider id."""
    group: str = ""
    """Group id. Empty: the node belongs to no group and is not scaled."""
    state: NodeState = NodeState.READY
    since_s: float | None = None
    """Time since which the state holds, if known."""
    cpu: float = 0.0
    memory: float = 0.0
    gpu: float | None = None
    """Requested share of GPUs; None without GPUs."""
    pods: int = 0
    cordoned: bool = False
    zone: str = ""
    machine_type: str = ""
    created_s: int | None = None
    why: str = ""
    """Why the node is unremovable (Cluster Autoscaler's reason), how far its drain is, or its error."""


class PublishedBackoff(msgspec.Struct, frozen=True, omit_defaults=True):
    """Backoff of a group after a failed scale-up."""

    until_s: float
    code: str = ""
    message: str = ""


class PublishedGroup(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node group."""

    id: str
    min_size: int
    max_size: int
    target_size: int
    ready: int = 0
    unready: int = 0
    booting: int = 0
    """Number of upcoming nodes."""
    failed: int = 0
    unneeded: int = 0
    draining: int = 0
    is_healthy: bool = True
    backoff: PublishedBackoff | None = None
    price_per_hour: float | None = None
    """Price of one node, in the currency of the group's annotation; None if unknown."""
    cost_per_hour: float | None = None
    """Price of all paid instances."""
    errors: tuple[str, ...] = ()
    """Errors of failed instances."""
    replicas_owner: str = ""
    """The controller that manages the group's size, and how to end that; empty without one."""
    zones: tuple[str, ...] = ()
    """Zones of its nodes."""
    machine_types: tuple[str, ...] = ()
    """Instance types of its nodes."""

    @property
    def name(self) -> str:
        """Name without kind and namespace."""
        return self.id.rpartition("/")[2]


class PendingState(enum.StrEnum):
    """State of pending pods."""

    HELPED = "helped"
    """A scale-up was triggered."""
    ROOM = "room"
    """The pods fit on an existing or upcoming node."""
    LATER = "later"
    """A group fits the pods, but was not scaled up in this loop."""
    NOWHERE = "nowhere"
    """No group fits the pods: `reasons`."""
    WAITING = "waiting"
    """Not evaluated yet: the pods are new or gated, or other work came first."""


class RejectedGroup(msgspec.Struct, frozen=True):
    """Why a group does not fit."""

    group: str
    texts: tuple[str, ...]


class PendingPods(msgspec.Struct, frozen=True, omit_defaults=True):
    """Pending pods that are equivalent and have the same state."""

    pod: str
    """One of the pods, as namespace/name."""
    count: int
    help: PendingState
    owner: str = ""
    """Kind and name of the controller."""
    requests: Mapping[str, int] = {}
    """Requests of one pod: millicores, bytes, counts."""
    since_s: float = 0.0
    """Creation time of the oldest pod."""
    groups: tuple[str, ...] = ()
    """Groups that are scaled up for the pods."""
    nodes: tuple[str, ...] = ()
    """Nodes that the pods fit on."""
    upcoming: tuple[str, ...] = ()
    """Groups with upcoming nodes that the pods fit on."""
    reasons: tuple[RejectedGroup, ...] = ()


class PublishedDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of the decision log. Ids increase."""

    number: int
    at_s: float
    kind: str
    """up, down, trouble or wait"""
    said: str
    why: str = ""
    groups: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    reason: str = ""
    """The reason that names its entry of the runbook."""
    namespaces: tuple[str, ...] = ()
    """Namespaces of the pods concerned."""


class ClusterCost(msgspec.Struct, frozen=True, omit_defaults=True):
    """Cost of the nodes, as far as prices are known."""

    per_hour: float = 0.0
    spent: float = 0.0
    """Cost since `since_s`, the time of the first decision of this process."""
    since_s: float = 0.0
    unpriced: int = 0
    """Number of nodes without a price."""


class ClusterSample(msgspec.Struct, frozen=True, array_like=True):
    """A sample of the time series."""

    at_s: float
    nodes: int
    pending: int
    cpu: float
    memory: float
    cost_per_hour: float


class ClusterSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """Key figures of the cluster."""

    at_s: float
    """Time of the loop's decision."""
    loop: int = 0
    name: str = ""
    """Name of the scenario or recording; empty for a real cluster."""
    mode: str = "live"
    """live, dry-run, shadow, simulated, recorded"""
    is_over: bool = False
    """Whether the scenario or recording has ended."""
    speed: float = 1.0
    """Simulated seconds per real second, of a scenario."""
    is_healthy: bool = True
    stop: str = ""
    """Why nothing else is decided; empty otherwise."""
    scale_up: str = ""
    scale_down: str = ""
    """Result of scale-down, in Cluster Autoscaler's words."""
    nodes: int = 0
    ready: int = 0
    pods: int = 0
    """Number of bound pods."""
    pending: int = 0
    cpu: float = 0.0
    memory: float = 0.0
    gpu: float | None = None
    """Requested share of all GPUs."""
    cost: ClusterCost = ClusterCost()
    cluster_name: str = ""
    """Name of the cluster: of its Cluster object, or --cluster-name; empty if unknown."""
    currency: str = ""
    """Currency of prices; empty if unknown."""
    recording: str = ""
    """File to which decisions are recorded; empty if they are not."""
    runbook: str = ""
    """What links to the runbook begin with."""


class PublishedStatus(msgspec.Struct, frozen=True):
    """The complete status at one time. Nodes and groups are sorted by name and id; decisions and samples oldest
    first.
    """

    cluster: ClusterSummary
    groups: tuple[PublishedGroup, ...] = ()
    nodes: tuple[PublishedNode, ...] = ()
    pending: tuple[PendingPods, ...] = ()
    decisions: tuple[PublishedDecision, ...] = ()
    samples: tuple[ClusterSample, ...] = ()


class StatusChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """Difference from the previous status."""

    cluster: ClusterSummary
    groups: tuple[PublishedGroup, ...] = ()
    """New and changed groups."""
    groups_gone: tuple[str, ...] = ()
    nodes: tuple[PublishedNode, ...] = ()
    nodes_gone: tuple[str, ...] = ()
    pending: tuple[PendingPods, ...] | None = None
    """All pending pods; None if unchanged."""
    decisions: tuple[PublishedDecision, ...] = ()
    samples: tuple[ClusterSample, ...] = ()
    """New samples."""


class HistorySample(msgspec.Struct, frozen=True, array_like=True):
    """A sample of the history. Sequences are in the order of the history's groups and namespaces."""

    at_s: float
    nodes: int
    pending: int
    """Most pending pods since the previous sample."""
    cpu: float
    """Requested share of allocatable, as is `memory`."""
    memory: float
    cost_per_hour: float
    groups: tuple[float, ...] = ()
    """For each group: nodes, requested and allocatable cores, requested and allocatable GiB, cost per hour."""
    namespaces: tuple[int, ...] = ()
    """Pending pods of each namespace."""


class PublishedHistory(msgspec.Struct, frozen=True):
    """What is kept of the past, or the part of it after a time."""

    at_s: float
    """Now."""
    from_s: float
    """Time of the oldest sample."""
    every_s: float
    """Minimum seconds between samples. A sample holds until the next one."""
    groups: tuple[str, ...] = ()
    """Ids. The last is empty and stands for all further groups, if there are any."""
    namespaces: tuple[str, ...] = ()
    """Names. The last is empty and stands for all further namespaces, if there are any."""
    samples: tuple[HistorySample, ...] = ()
    decisions: tuple[PublishedDecision, ...] = ()
    count: int = 0
    """Number of decisions since the start, those that are no longer kept included."""


class OptionDetail(msgspec.Struct, frozen=True, omit_defaults=True):
    """One option that the expander had, with the figures that expanders compare."""

    group: str
    nodes: int
    pods: int
    waste: float = 0.0
    """Sum of the unused fractions of CPU and memory."""
    price_per_hour: float | None = None
    """Price of all new nodes; None where it is unknown."""
    dropped_by: str = ""
    """The expander that dropped the option; empty if none did."""
    is_chosen: bool = False


class PodSetDetail(msgspec.Struct, frozen=True, omit_defaults=True):
    """Equivalent pods."""

    pod: str
    """One of them, as namespace/name."""
    count: int
    requests: Mapping[str, int] = {}
    """Requests of one pod: millicores, bytes, counts."""
    is_helped: bool = True


class RefusalDetail(msgspec.Struct, frozen=True):
    """Why a group does not fit a number of pods."""

    group: str
    reason: str
    pods: int


class NodeDetail(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that is removed, with what was measured."""

    name: str
    used: float | None = None
    """Requested share of `resource`; None if it was not measured."""
    resource: str = ""
    unneeded_s: float | None = None
    """Seconds for which the node was unneeded."""
    evicted: int = 0
    pods: tuple[str, ...] = ()
    """Pods to evict, the first of them."""


class DecisionDetail(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one decision was based on."""

    sizes: tuple[tuple[str, int, int], ...] = ()
    """Group, size before and after, of groups that grow."""
    options: tuple[OptionDetail, ...] = ()
    expanders: tuple[str, ...] = ()
    """Expanders that were applied, in order."""
    opinion: str = ""
    """Response of the external gRPC expander."""
    pods: tuple[PodSetDetail, ...] = ()
    refusals: tuple[RefusalDetail, ...] = ()
    nodes: tuple[NodeDetail, ...] = ()
    left_out: Mapping[str, int] = {}
    """Number of options, pods, refusals and nodes beyond the limits, by field."""


class DecisionOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that followed a decision."""

    at_s: float
    said: str
    is_bad: bool = False


class DecisionReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision with all that is kept of it."""

    decision: PublishedDecision
    detail: DecisionDetail | None = None
    """None: it had none, or it is no longer kept."""
    outcomes: tuple[DecisionOutcome, ...] = ()


MAX_DECISIONS = 300

MAX_SAMPLES = 720

MAX_PENDING = 200
"""Maximum number of each that is kept and sent."""

T = TypeVar("T", PublishedGroup, PublishedNode)


def diff_status(before: PublishedStatus, after: PublishedStatus) -> StatusChange:
    """Return the difference. Decisions and samples of `after` continue those of `before`."""
    groups, nodes = (
        {published_group.id: published_group for published_group in before.groups},
        {published_node.name: published_node for published_node in before.nodes},
    )
    number = before.decisions[-1].number if before.decisions else -1
    sampled_s = before.samples[-1].at_s if before.samples else float("-inf")
    return StatusChange(
        after.cluster,
        tuple(group for group in after.groups if groups.get(group.id) != group),
        tuple(sorted(groups.keys() - {group.id for group in after.groups})),
        tuple(node for node in after.nodes if nodes.get(node.name) != node),
        tuple(sorted(nodes.keys() - {node.name for node in after.nodes})),
        None if after.pending == before.pending else after.pending,
        tuple(published_decision for published_decision in after.decisions if published_decision.number > number),
        tuple(cluster_sample for cluster_sample in after.samples if cluster_sample.at_s > sampled_s),
    )


def apply_change(before: PublishedStatus, change: StatusChange) -> PublishedStatus:
    """Return the status after a change."""
    groups = {published_group.id: published_group for published_group in before.groups}
    nodes = {published_node.name: published_node for published_node in before.nodes}
    return PublishedStatus(
        change.cluster,
        _merge_by_key(groups, change.groups_gone, ((group.id, group) for group in change.groups)),
        _merge_by_key(nodes, change.nodes_gone, ((node.name, node) for node in change.nodes)),
        before.pending if change.pending is None else change.pending,
        carry_over_decisions((*before.decisions, *change.decisions)),
        carry_over_samples((*before.samples, *change.samples)),
    )


def carry_over_decisions(every: Sequence[PublishedDecision]) -> tuple[PublishedDecision, ...]:
    return tuple(every[-MAX_DECISIONS:])


def carry_over_samples(every: Sequence[ClusterSample]) -> tuple[ClusterSample, ...]:
    return tuple(every[-MAX_SAMPLES:])


def _merge_by_key(known: dict[str, T], gone: Iterable[str], changed: Iterable[tuple[str, T]]) -> tuple[T, ...]:
    for name in gone:
        known.pop(name, None)
    known.update(changed)
    return tuple(known[name] for name in sorted(known))
