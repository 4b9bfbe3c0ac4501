"""Published status: cluster, groups, nodes, pending pods and recent decisions, and the difference of two statuses.

Times are seconds since the epoch, shares are fractions of allocatable. Field names are the JSON API.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec


class NodeState(enum.StrEnum):
    """Where a node stands."""

    READY = "ready"
    UNNEEDED = "unneeded"
    """Its pods have a place elsewhere, or it has none: it goes when it has been so for long enough."""
    DRAINING = "draining"
    """On its way out: marked, emptied or being deleted."""
    BOOTING = "booting"
    """An instance without a node, or a node that is too young to be ready."""
    UNREADY = "unready"
    FAILED = "failed"
    """An instance that could not be made, or whose node did not come in time."""


class PublishedNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node, or an instance that has none yet."""

    name: str
    """Of an instance without a node: its provider id."""
    group: str = ""
    """Empty: it belongs to none, and nobody scales it."""
    state: NodeState = NodeState.READY
    since_s: float | None = None
    """Since when, where that is known."""
    cpu: float = 0.0
    memory: float = 0.0
    gpu: float | None = None
    """Shares that its pods ask for; None on a node without GPUs."""
    pods: int = 0
    cordoned: bool = False
    why: str = ""
    """What keeps it (in Cluster Autoscaler's word), how far its drain is, or what went wrong."""


class PublishedBackoff(msgspec.Struct, frozen=True, omit_defaults=True):
    """A group is left alone after a failed scale-up."""

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
    """Nodes that were asked for and are not ready yet."""
    failed: int = 0
    unneeded: int = 0
    draining: int = 0
    is_healthy: bool = True
    backoff: PublishedBackoff | None = None
    price_per_hour: float | None = None
    """Of one node, in whatever currency the group's annotation is; None where nobody says."""
    cost_per_hour: float | None = None
    """Of those that there are."""
    errors: tuple[str, ...] = ()
    """Of instances that could not be made."""
    replicas_owner: str = ""
    """Which controller applies its size, and what ends that; empty if none does."""

    @property
    def name(self) -> str:
        """Without its kind and namespace."""
        return self.id.rpartition("/")[2]


class PendingState(enum.StrEnum):
    """What is done for pods that wait."""

    HELPED = "helped"
    """Groups grow for them."""
    ROOM = "room"
    """There is room on a node, or on one that is on its way."""
    LATER = "later"
    """Some group could help, but not in this loop."""
    NOWHERE = "nowhere"
    """No group helps: `reasons`."""
    WAITING = "waiting"
    """Nobody has come to them yet: they are new, gated, or something else came first."""


class RejectedGroup(msgspec.Struct, frozen=True):
    """Why a group does not help."""

    group: str
    texts: tuple[str, ...]


class PendingPods(msgspec.Struct, frozen=True, omit_defaults=True):
    """Pods that wait, are alike, and of which the same is to be said."""

    pod: str
    """One of them, namespace/name."""
    count: int
    help: PendingState
    owner: str = ""
    """Kind and name of their controller."""
    requests: Mapping[str, int] = {}
    """Of each: millicores, bytes, pieces."""
    since_s: float = 0.0
    """When the first of them was created."""
    groups: tuple[str, ...] = ()
    """Those that grow for them."""
    nodes: tuple[str, ...] = ()
    """Those that have room."""
    reasons: tuple[RejectedGroup, ...] = ()


class PublishedDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that was decided, and why. Numbers only rise."""

    number: int
    at_s: float
    kind: str
    """up, down, trouble or wait"""
    said: str
    why: str = ""
    groups: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class ClusterCost(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the nodes cost, as far as prices are known."""

    per_hour: float = 0.0
    spent: float = 0.0
    """Since `since_s`, when this process first decided."""
    since_s: float = 0.0
    unpriced: int = 0
    """Nodes whose price nobody says."""


class ClusterSample(msgspec.Struct, frozen=True, array_like=True):
    """One point of the lines."""

    at_s: float
    nodes: int
    pending: int
    cpu: float
    memory: float
    cost_per_hour: float


class ClusterSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """The whole, in figures."""

    at_s: float
    """When the loop decided."""
    loop: int = 0
    name: str = ""
    """What is watched: a story's name; empty for a real cluster."""
    mode: str = "live"
    """live, dry-run, shadow, simulated, recorded"""
    is_over: bool = False
    """Nothing more will come: the story or the recording has ended."""
    speed: float = 1.0
    """Seconds that pass in one: of a story."""
    is_healthy: bool = True
    stop: str = ""
    """Why nothing else is decided; empty if everything is."""
    scale_up: str = ""
    scale_down: str = ""
    """What came of it, in Cluster Autoscaler's words."""
    nodes: int = 0
    ready: int = 0
    pods: int = 0
    """On nodes."""
    pending: int = 0
    cpu: float = 0.0
    memory: float = 0.0
    gpu: float | None = None
    """Shares of all nodes together."""
    cost: ClusterCost = ClusterCost()


class PublishedStatus(msgspec.Struct, frozen=True):
    """Everything at one moment. Nodes and groups are by name and id, in order; decisions and samples oldest first."""

    cluster: ClusterSummary
    groups: tuple[PublishedGroup, ...] = ()
    nodes: tuple[PublishedNode, ...] = ()
    pending: tuple[PendingPods, ...] = ()
    decisions: tuple[PublishedDecision, ...] = ()
    samples: tuple[ClusterSample, ...] = ()


class StatusChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """What differs from the status before."""

    cluster: ClusterSummary
    groups: tuple[PublishedGroup, ...] = ()
    """Those that are new or differ."""
    groups_gone: tuple[str, ...] = ()
    nodes: tuple[PublishedNode, ...] = ()
    nodes_gone: tuple[str, ...] = ()
    pending: tuple[PendingPods, ...] | None = None
    """All of them; None: as before."""
    decisions: tuple[PublishedDecision, ...] = ()
    samples: tuple[ClusterSample, ...] = ()
    """Those that came."""


MAX_DECISIONS = 300

MAX_SAMPLES = 720

MAX_PENDING = 200
"""What is kept and told of each, at most."""

T = TypeVar("T", PublishedGroup, PublishedNode)


def diff_status(before: PublishedStatus, after: PublishedStatus) -> StatusChange:
    """What became of `before`. Decisions and samples of `after` go on from those of `before`."""
    groups, nodes = {one.id: one for one in before.groups}, {one.name: one for one in before.nodes}
    number = before.decisions[-1].number if before.decisions else -1
    sampled_s = before.samples[-1].at_s if before.samples else float("-inf")
    return StatusChange(
        after.cluster,
        tuple(one for one in after.groups if groups.get(one.id) != one),
        tuple(sorted(groups.keys() - {one.id for one in after.groups})),
        tuple(one for one in after.nodes if nodes.get(one.name) != one),
        tuple(sorted(nodes.keys() - {one.name for one in after.nodes})),
        None if after.pending == before.pending else after.pending,
        tuple(one for one in after.decisions if one.number > number),
        tuple(one for one in after.samples if one.at_s > sampled_s),
    )


def apply_change(before: PublishedStatus, change: StatusChange) -> PublishedStatus:
    """The status after."""
    groups = {one.id: one for one in before.groups}
    nodes = {one.name: one for one in before.nodes}
    return PublishedStatus(
        change.cluster,
        _merge_by_key(groups, change.groups_gone, ((one.id, one) for one in change.groups)),
        _merge_by_key(nodes, change.nodes_gone, ((one.name, one) for one in change.nodes)),
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
