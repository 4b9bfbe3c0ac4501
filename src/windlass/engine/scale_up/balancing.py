"""Balancing: new nodes are shared between similar groups so that their sizes become as even as they can.

Every node goes to a group that is smallest at that moment; among equally small ones the turn goes round in the order
of their first sizes, then of the list. No group grows beyond its maximum, and a group beyond it already gets nothing.
What no group has room for is dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Group:
    """A group's target size and how large it may become."""

    id: str
    size: int
    max_size: int


@dataclass(frozen=True, slots=True)
class Increase:
    """A group that grows."""

    group: Group
    new_size: int

    @property
    def added(self) -> int:
        return self.new_size - self.group.size


def share(groups: Sequence[Group], new_nodes: int) -> list[Increase]:
    """How the new nodes are shared; groups that do not grow are left out."""
    by_size = sorted((group for group in groups if group.size != group.max_size), key=lambda group: group.size)
    left = min(new_nodes, sum(max(group.max_size - group.size, 0) for group in by_size))
    rows = [_Row(group, group.size) for group in by_size]
    first = turn = 0
    # Rows before `first` are full. From there up to `turn` all have one size, at most one more than the row at `turn`;
    # from `turn` on sizes only rise. A full row changes places with the first, and so leaves the round.
    while left > 0:
        if rows[turn].size < rows[turn].group.max_size:
            rows[turn].size += 1
            left -= 1
        else:
            rows[first], rows[turn] = rows[turn], rows[first]
            first += 1
        if turn + 1 < len(rows) and rows[turn].size > rows[turn + 1].size:
            turn += 1
        else:
            turn = first
    return [Increase(row.group, row.size) for row in rows if row.size != row.group.size]


@dataclass(slots=True)
class _Row:
    group: Group
    size: int
