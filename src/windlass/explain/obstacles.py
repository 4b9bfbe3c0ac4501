"""Obstacles: every filter that keeps a pod off a node, with the numbers and names that decided.

The scheduler stops at the first filter that refuses; a person wants to know of all of them before changing anything.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.engine import facts, predicates, shapes, verdict
from windlass.engine.predicates import narrowing
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.explain import clues


@dataclass(frozen=True, slots=True)
class Shortage:
    """A node has too little of a resource, in its own unit: millicores, bytes, pieces."""

    resource: str
    requested: int
    free: int
    taken: int
    """What pods that are there take. On a new node: those of DaemonSets, and others that it starts with."""
    allocatable: int


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What one filter says of one pod on one node."""

    rule: str
    """kube-scheduler's name of the filter."""
    reasons: tuple[str, ...]
    """In kube-scheduler's words."""
    detail: str = ""
    """What decided: the taint, the label, the pod in the way. Empty where the reason says it all."""
    shortages: tuple[Shortage, ...] = ()


def find(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> list[Obstacle]:
    """All that keeps a pod of this shape off the node of this row, in the scheduler's order; none if it fits."""
    everywhere = predicates.refuse(snapshot, shape, config)
    if everywhere is not None:
        return [Obstacle(everywhere.rule, tuple(everywhere.texts))]
    return [_describe(snapshot, shape, row, refusal) for refusal in _refusals(snapshot, shape, row, config)]


def _refusals(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Iterator[verdict.Refusal]:
    narrowed = narrowing.find(snapshot, shape, config)
    if narrowed is not None and narrowing.outside(snapshot, narrowed)[row]:
        yield narrowed.outside
    for rule in predicates.FILTERS:
        if rule.NAME in config.disabled:
            continue
        allowed = rule.mask(snapshot, shape, config)
        if allowed is not None and not allowed[row]:
            yield rule.explain(snapshot, shape, row, config)


def _describe(snapshot: Snapshot, shape: shapes.Shape, row: int, refusal: verdict.Refusal) -> Obstacle:
    short = tuple(_measure(reason) for reason in refusal.reasons if isinstance(reason, verdict.Insufficient))
    detail = "" if short or not refusal.reasons else clues.find(snapshot, shape, row, refusal.rule, refusal.reasons[0])
    return Obstacle(refusal.rule, tuple(refusal.texts), detail, short)


def _measure(reason: verdict.Insufficient) -> Shortage:
    free = reason.capacity - reason.used
    return Shortage(reason.resource, reason.requested, free, reason.used, reason.capacity)


def is_out_of_places(short: Shortage) -> bool:
    """Are there too many pods already? No pod can change that by asking for less."""
    return short.resource == facts.PODS
