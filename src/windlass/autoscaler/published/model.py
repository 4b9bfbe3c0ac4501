"""The published status as values. Times are seconds since the epoch, shares are fractions of what a node has.

Fields at their defaults are left out of the JSON.
"""

import enum
from collections.abc import Mapping

import msgspec


class State(enum.StrEnum):
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


class Node(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node, or an instance that has none yet."""

    name: str
    """Of an instance without a node: its provider id."""
    group: str = ""
    """Empty: it belongs to none, and nobody scales it."""
    state: State = State.READY
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


class Backoff(msgspec.Struct, frozen=True, omit_defaults=True):
    """A group is left alone after a failed scale-up."""

    until_s: float
    code: str = ""
    message: str = ""


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
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
    backoff: Backoff | None = None
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


class Help(enum.StrEnum):
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


class Reason(msgspec.Struct, frozen=True):
    """Why a group does not help."""

    group: str
    texts: tuple[str, ...]


class Pending(msgspec.Struct, frozen=True, omit_defaults=True):
    """Pods that wait, are alike, and of which the same is to be said."""

    pod: str
    """One of them, namespace/name."""
    count: int
    help: Help
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
    reasons: tuple[Reason, ...] = ()


class Decided(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that was decided, and why. Numbers only rise."""

    number: int
    at_s: float
    kind: str
    """up, down, trouble or wait"""
    said: str
    why: str = ""
    groups: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class Cost(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the nodes cost, as far as prices are known."""

    per_hour: float = 0.0
    spent: float = 0.0
    """Since `since_s`, when this process first decided."""
    since_s: float = 0.0
    unpriced: int = 0
    """Nodes whose price nobody says."""


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """One point of the lines."""

    at_s: float
    nodes: int
    pending: int
    cpu: float
    memory: float
    cost_per_hour: float


class Cluster(msgspec.Struct, frozen=True, omit_defaults=True):
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
    cost: Cost = Cost()


class Status(msgspec.Struct, frozen=True):
    """Everything at one moment. Nodes and groups are by name and id, in order; decisions and samples oldest first."""

    cluster: Cluster
    groups: tuple[Group, ...] = ()
    nodes: tuple[Node, ...] = ()
    pending: tuple[Pending, ...] = ()
    decisions: tuple[Decided, ...] = ()
    samples: tuple[Sample, ...] = ()


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """What differs from the status before."""

    cluster: Cluster
    groups: tuple[Group, ...] = ()
    """Those that are new or differ."""
    groups_gone: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()
    nodes_gone: tuple[str, ...] = ()
    pending: tuple[Pending, ...] | None = None
    """All of them; None: as before."""
    decisions: tuple[Decided, ...] = ()
    samples: tuple[Sample, ...] = ()
    """Those that came."""


MOST_DECISIONS = 300
MOST_SAMPLES = 720
MOST_PENDING = 200
"""What is kept and told of each, at most."""
