"""Limits: how many nodes an estimate may open, and for how long it may go on.

A limit is a number of nodes: 0 sets none, a negative one allows nothing. Several limits hold together; the tightest
decides. Time comes as a budget that is asked whenever nodes are to be opened, so that the engine needs no clock and a
replay can stop at the same place.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

Number = TypeVar("Number", int, float)

NO_LIMIT = 0
NOTHING = -1


class Budget(Protocol):
    """Time, or anything else that runs out while packing goes on."""

    def exhausted(self) -> bool:
        """Is it used up? Every call is a checkpoint: whoever implements it may record at which one it ran out."""
        ...


@dataclass(frozen=True, slots=True)
class Unlimited:
    """A budget that never runs out."""

    def exhausted(self) -> bool:
        return False


def combine(one: Number, other: Number) -> Number:
    """Both limits as one: nothing if either allows nothing, else the smaller of those that are set."""
    if one < 0 or other < 0:
        return NOTHING
    if one == 0 or other == 0:
        return one + other
    return min(one, other)


@dataclass(frozen=True, slots=True)
class Limit:
    """How many nodes may be opened, and what says so."""

    reason: str
    nodes: int


def limit_statically(max_nodes_per_scale_up: int) -> Limit:
    """--max-nodes-per-scaleup, as it stands."""
    return Limit("max nodes per scale-up", max_nodes_per_scale_up)


def limit_by_groups(sizes: Iterable[tuple[int, int]]) -> Limit:
    """The room that a group and its similar ones have together, from (target size, maximum size) of each."""
    room = sum(max(maximum - size, 0) for size, maximum in sizes)
    return Limit("max size of the group and its similar groups", room if room > 0 else NOTHING)


def limit_by_cluster(max_nodes_total: int, current_nodes: int) -> Limit:
    """What --max-nodes-total leaves; 0 there sets no limit."""
    if max_nodes_total == NO_LIMIT:
        nodes = NO_LIMIT
    else:
        nodes = max_nodes_total - current_nodes if max_nodes_total > max(current_nodes, 0) else NOTHING
    return Limit("max nodes in the cluster", nodes)


class Limiter:
    """Grants nodes to one estimate until a limit is reached."""

    __slots__ = ("_budget", "granted", "limit", "stopped_by")

    def __init__(self, limits: Iterable[Limit], budget: Budget | None = None) -> None:
        self.limit = _find_tightest(limits)
        self._budget = Unlimited() if budget is None else budget
        self.granted = 0
        self.stopped_by: str | None = None
        """What refused nodes the last time that not all were granted."""

    def grant(self, wanted: int) -> int:
        """How many of the wanted nodes may be opened; they count as opened. One checkpoint, however many are wanted."""
        allowed = self._count_allowed(wanted)
        if allowed < wanted:
            self.stopped_by = self.limit.reason
        if allowed > 0 and self._budget.exhausted():
            allowed, self.stopped_by = 0, "time"
        self.granted += allowed
        return allowed

    def _count_allowed(self, wanted: int) -> int:
        if self.limit.nodes == NO_LIMIT:
            return max(wanted, 0)
        return max(min(wanted, self.limit.nodes - self.granted), 0)


def _find_tightest(limits: Iterable[Limit]) -> Limit:
    tightest = Limit("", NO_LIMIT)
    for limit in limits:
        if combine(tightest.nodes, limit.nodes) != tightest.nodes:
            tightest = Limit(limit.reason, combine(tightest.nodes, limit.nodes))
    return tightest
