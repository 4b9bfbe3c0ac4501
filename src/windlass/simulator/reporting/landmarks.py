"""Where the words of a story's steps stand above the timeline, so that none covers another."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_LATE = 0.6
"""Of the time: landmarks after this have their words on the left, or a phone would cut them off."""
_LINES = 5
"""Of words above each other at most."""
_LETTER = 0.02
"""Of the time: what one letter covers on a phone, where the axis is shortest."""


@dataclass(frozen=True, slots=True)
class Landmark:
    """A mark with its words beside it: before it where there is no room for them after it."""

    words: str
    share: float
    """Of the time that has passed by then."""

    @property
    def is_late(self) -> bool:
        return self.share > _LATE

    @property
    def covers(self) -> tuple[float, float]:
        width = _LETTER * (len(self.words) + 1)
        return (self.share - width, self.share) if self.is_late else (self.share, self.share + width)


def place(marks: Iterable[Landmark]) -> Iterator[tuple[Landmark, int]]:
    """Each mark with the first line on which its words cover no others, or else with the line that is free first."""
    ends = [-1.0] * _LINES
    for mark in sorted(marks, key=lambda mark: mark.covers):
        begin, end = mark.covers
        line = next((i for i, before in enumerate(ends) if before <= begin), ends.index(min(ends)))
        ends[line] = end
        yield mark, line
