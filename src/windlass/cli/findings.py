"""Findings: what is said of each pending pod, as values that become a table or JSON.

The fields of these classes are the fields of `windlass fit -o json`. Amounts are Kubernetes' quantities.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Shortage:
    """A node has too little of a resource."""

    resource: str
    requested: str
    free: str
    capacity: str
    """All that pods may have of it on the node."""
    node: str


@dataclass(frozen=True, slots=True)
class Reason:
    """Why some nodes refuse the pod."""

    reason: str
    """In the scheduler's words, as it counts them: `Insufficient cpu`."""
    rule: str
    """The filter that says so: `NodeResourcesFit`."""
    count: int
    """How many nodes it refuses for this reason. One node may have several."""
    nodes: tuple[str, ...]
    """The first few of them; none where no node was looked at."""
    closest: Shortage | None
    """Of those that have too little, the one that has most."""
    detail: str
    """What decided, in words; may be empty."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The pod on one node."""

    node: str
    fits: bool
    rule: str = ""
    code: str = ""
    """`Unschedulable` where removing pods might help, `UnschedulableAndUnresolvable` where it would not."""
    reasons: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    """What decided, in words: one for each reason, some empty."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One pending pod, or several of one owner that no filter can tell apart."""

    pod: str
    """`namespace/name` of the first."""
    count: int
    pods: tuple[str, ...]
    """All of them."""
    owner: str | None
    """`Kind/name` of their controller."""
    requests: dict[str, str]
    """What each of them requests, by resource; CPU and memory come first."""
    notes: tuple[str, ...]
    """What else keeps them from being scheduled: a gate, another scheduler."""
    fits: tuple[str, ...]
    """The nodes on which one of them could run now, all others aside."""
    nodes: int
    """How many nodes there are."""
    message: str
    """What the scheduler would say: `0/5 nodes are available: 3 Insufficient cpu, …`."""
    reasons: tuple[Reason, ...]
    """Most nodes first."""
    verdicts: tuple[Verdict, ...]
    """Node by node, where that was asked for."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """An object that could not be read: which field, what was found, what is accepted."""

    kind: str
    name: str
    field: str
    found: object
    accepted: str


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found."""

    nodes: int
    running: int
    """Pods on these nodes, finished ones aside."""
    pending: tuple[Finding, ...]
    set_aside: tuple[SetAside, ...]
    warnings: tuple[str, ...] = field(default=())
    """What to know before trusting the rest."""
