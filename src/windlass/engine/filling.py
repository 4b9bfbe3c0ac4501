"""Filling nodes with pods that are alike, in closed form: which rows take how many, given the room that each has."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windlass.engine import dtypes

_PLENTY = np.int64(np.iinfo(dtypes.COUNT).max)
"""Room where nothing is checked: more pods than there are, and yet sums of it do not overflow."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where pods of a shape go: `counts[i]` of them to `rows[i]`, all distinct, and the row that took the last one."""

    rows: dtypes.Rows
    counts: dtypes.Amounts
    total: int
    last: int

    def homes(self) -> dtypes.Rows:
        """The row of every pod."""
        return self.rows if self.total == len(self.rows) else np.repeat(self.rows, self.counts)


NOWHERE = Placed(np.zeros(0, np.intp), np.zeros(0, dtypes.RESOURCE), 0, -1)


_ONES = np.ones(256, dtypes.RESOURCE)


def one_each(rows: dtypes.Rows) -> Placed:
    """One pod to each of these rows, of which there is at least one."""
    count = len(rows)
    counts = _ONES[:count] if count <= len(_ONES) else np.ones(count, dtypes.RESOURCE)
    return Placed(rows, counts, count, int(rows[-1]))


def all_on(row: int, count: int) -> Placed:
    """So many pods, at least one, to one row."""
    return Placed(np.array([row]), np.array([count], dtypes.RESOURCE), count, row)


def one_by_one(taken: Sequence[int]) -> Placed:
    """Places that were found pod by pod, in order."""
    if not taken:
        return NOWHERE
    rows, counts = np.unique(np.array(taken, np.intp), return_counts=True)
    return Placed(rows, counts.astype(dtypes.RESOURCE), len(taken), taken[-1])


def count_room(free: Sequence[tuple[dtypes.Amounts, int]], rows: int) -> dtypes.Amounts:
    """Int64 (n_rows): how many pods each row has room for, from (what is free (n_rows,), what a pod takes) of each."""
    fits = np.ones(rows, bool)
    for left, amount in free:
        fits &= left >= amount
    # Dividing is the costly part: only where at least one fits.
    some = np.flatnonzero(fits)
    most = np.full(len(some), _PLENTY)
    for left, amount in free:
        np.minimum(most, left[some] // amount, out=most)
    room = np.zeros(rows, dtypes.RESOURCE)
    room[some] = most
    return room


def rotate(rows: dtypes.Rows, pointer: int) -> dtypes.Rows:
    """Rows in search order: those after the pointer first, then from the beginning."""
    cut = int(np.searchsorted(rows, pointer, side="right"))
    return np.concatenate((rows[cut:], rows[:cut]))


def fill_levels(rows: dtypes.Rows, room: dtypes.Amounts, count: int) -> Placed:
    """Round-robin in closed form: `count` pods over `rows` in this order, each taking at most its `room`.

    After k whole rounds row i holds min(room[i], k). The largest k whose sum does not exceed `count` is found by
    bisection; what is left over goes one each to the first rows that still have room.
    """
    if count <= 0 or not len(rows):
        return NOWHERE
    low, high = 0, int(min(room.max(initial=0), count))
    if int(room.sum()) <= count:
        low = high
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.minimum(room, middle).sum()) <= count:
            low = middle
        else:
            high = middle - 1
    taken = np.minimum(room, low)
    rest = count - int(taken.sum())
    open_rows = np.flatnonzero(room > low)[:rest]
    taken[open_rows] += 1
    used = np.flatnonzero(taken)
    if not len(used):
        return NOWHERE
    # The last pod went to the last row of the last round that was begun.
    last = open_rows[-1] if len(open_rows) else np.flatnonzero(room >= low)[-1]
    return Placed(rows[used], taken[used], int(taken.sum()), int(rows[last]))


def fill_first(rows: dtypes.Rows, room: dtypes.Amounts, count: int) -> Placed:
    """First-fit in closed form: fill each row up before the next is touched."""
    if count <= 0 or not len(rows):
        return NOWHERE
    before = np.cumsum(room) - room
    taken = np.clip(count - before, 0, room)
    used = np.flatnonzero(taken)
    if not len(used):
        return NOWHERE
    return Placed(rows[used], taken[used], int(taken.sum()), int(rows[used[-1]]))


def fill_scattered(rows: dtypes.Rows, room: dtypes.Amounts, count: int, scatter: np.random.Generator) -> Placed:
    """Each pod starts at a random row and takes the first with room from there on: the peer's order on new nodes.

    All throws of a round are made at once; pods that find a row filled up meanwhile are thrown again.
    """
    taken = np.zeros(len(rows), dtypes.RESOURCE)
    left = min(count, int(room.sum()))
    while left > 0:
        with_room = np.flatnonzero(taken < room)
        starts = scatter.integers(len(rows), size=left)
        found = with_room[np.searchsorted(with_room, starts) % len(with_room)]
        before = taken.copy()
        taken = np.minimum(taken + np.bincount(found, minlength=len(rows)), room)
        left -= int((taken - before).sum())
    used = np.flatnonzero(taken)
    if not len(used):
        return NOWHERE
    return Placed(rows[used], taken[used], int(taken.sum()), int(rows[used[-1]]))
