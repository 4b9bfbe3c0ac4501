"""Balancing: how similar node groups share new nodes.

Each new node goes to the smallest group at that moment, in turns among equally small ones. No group grows beyond its
maximum; what no group has room for is dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.engine.model import scale_up_status


def balance_increase(
    groups: Sequence[scale_up_status.SizedGroup], new_nodes: int
) -> list[scale_up_status.GroupIncrease]:
    """Share the new nodes between the groups; groups that do not grow are not in the result."""
    by_size = sorted((group for group in groups if group.size != group.max_size), key=lambda group: group.size)
    remaining = min(new_nodes, sum(max(group.max_size - group.size, 0) for group in by_size))
    rows = [_GrowingGroup(group, group.size) for group in by_size]
    first = turn = 0
    # Rows before `first` are full. From there up to `turn` all have one size, at most one more than the row at `turn`;
    # from `turn` on sizes only rise. A full row changes places with the first, and so leaves the round.
    while remaining > 0:
        if rows[turn].size < rows[turn].group.max_size:
            rows[turn].size += 1
            remaining -= 1
        else:
            rows[first], rows[turn] = rows[turn], rows[first]
            first += 1
        if turn + 1 < len(rows) and rows[turn].size > rows[turn + 1].size:
            turn += 1
        else:
            turn = first
    return [scale_up_status.GroupIncrease(row.group, row.size) for row in rows if row.size != row.group.size]


@dataclass(slots=True)
class _GrowingGroup:
    group: scale_up_status.SizedGroup
    size: int
