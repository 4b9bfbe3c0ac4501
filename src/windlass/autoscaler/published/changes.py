"""Changes: what differs between two statuses, so that a thousand nodes are not sent again for one.

apply(before, compare(before, after)) == after
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from windlass.autoscaler.published.model import (
    MOST_DECISIONS,
    MOST_SAMPLES,
    Change,
    Decided,
    Group,
    Node,
    Sample,
    Status,
)

T = TypeVar("T", Group, Node)


def compare(before: Status, after: Status) -> Change:
    """What became of `before`. Decisions and samples of `after` go on from those of `before`."""
    groups, nodes = {one.id: one for one in before.groups}, {one.name: one for one in before.nodes}
    number = before.decisions[-1].number if before.decisions else -1
    sampled_s = before.samples[-1].at_s if before.samples else float("-inf")
    return Change(
        after.cluster,
        tuple(one for one in after.groups if groups.get(one.id) != one),
        tuple(sorted(groups.keys() - {one.id for one in after.groups})),
        tuple(one for one in after.nodes if nodes.get(one.name) != one),
        tuple(sorted(nodes.keys() - {one.name for one in after.nodes})),
        None if after.pending == before.pending else after.pending,
        tuple(one for one in after.decisions if one.number > number),
        tuple(one for one in after.samples if one.at_s > sampled_s),
    )


def apply(before: Status, change: Change) -> Status:
    """The status after."""
    groups = {one.id: one for one in before.groups}
    nodes = {one.name: one for one in before.nodes}
    return Status(
        change.cluster,
        _put(groups, change.groups_gone, ((one.id, one) for one in change.groups)),
        _put(nodes, change.nodes_gone, ((one.name, one) for one in change.nodes)),
        before.pending if change.pending is None else change.pending,
        keep_decisions((*before.decisions, *change.decisions)),
        keep_samples((*before.samples, *change.samples)),
    )


def keep_decisions(every: Sequence[Decided]) -> tuple[Decided, ...]:
    return tuple(every[-MOST_DECISIONS:])


def keep_samples(every: Sequence[Sample]) -> tuple[Sample, ...]:
    return tuple(every[-MOST_SAMPLES:])


def _put(known: dict[str, T], gone: Iterable[str], changed: Iterable[tuple[str, T]]) -> tuple[T, ...]:
    for name in gone:
        known.pop(name, None)
    known.update(changed)
    return tuple(known[name] for name in sorted(known))
