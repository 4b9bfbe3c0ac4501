"""Scale-ups for CapacityBuffers: for how many of a buffer's pods nodes were ordered, and why for others none was.

The pods of a buffer exist in the loop's fork alone, so what came of them is counted before that is reverted.
"""

import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from windlass.engine import facts
from windlass.engine.buffers.injecting import Spare
from windlass.engine.scale_up import proposing


@dataclass(frozen=True, slots=True)
class BufferScaleUp:
    """What one proposal does for the pods of one buffer, or why it does nothing for them."""

    like: facts.Pod
    """The buffer's pods; their owner is the buffer."""
    pods: int
    proposal: proposing.Proposal
    remaining: tuple[proposing.Alike, ...] = ()
    """Pods that no group accepts; none if the proposal helps the pods."""


def find(rows_of: Sequence[tuple[Spare, range]], proposals: Sequence[proposing.Proposal]) -> Iterator[BufferScaleUp]:
    """`rows_of`: the rows of each buffer's pods, one buffer after another."""
    if not rows_of:
        return
    for proposal in proposals:
        if proposal.increases:
            for place, pods in _count(proposal.helped, rows_of).items():
                yield BufferScaleUp(rows_of[place][0].like, pods, proposal)
        counts: Counter[int] = Counter()
        remaining: dict[int, list[proposing.Alike]] = {}
        for alike in proposal.remaining:
            for place, pods in _count(alike.rows, rows_of).items():
                counts[place] += pods
                remaining.setdefault(place, []).append(alike)
        for place, found in remaining.items():
            yield BufferScaleUp(rows_of[place][0].like, counts[place], proposal, tuple(found))


def _count(rows: Iterable[int], rows_of: Sequence[tuple[Spare, range]]) -> Counter[int]:
    """How many of the rows belong to each buffer, by its position."""
    starts = [own.start for _, own in rows_of]
    places = ((row, bisect.bisect_right(starts, row) - 1) for row in rows if row >= starts[0])
    return Counter(place for row, place in places if row in rows_of[place][1])
