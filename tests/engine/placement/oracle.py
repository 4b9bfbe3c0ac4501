"""The plain way of placing pods: ask all filters for every pod, and take the next feasible node after the last."""

from windlass.engine.model import arrays, facts, settings
from windlass.engine.predicates import registry
from windlass.engine.snapshot.cluster_snapshot import Snapshot


def find_next(snapshot: Snapshot, shape: facts.PodShape, pointer: int, usable: arrays.Mask) -> int | None:
    """The first feasible and usable row after the pointer, going around once."""
    mask = registry.find_feasible(snapshot, shape, settings.DEFAULT_FILTER_CONFIG) & usable
    order = [row % len(mask) for row in range(pointer + 1, pointer + 1 + len(mask))]
    return next((row for row in order if mask[row]), None)


def place(snapshot: Snapshot, shape: facts.PodShape, count: int, pointer: int, usable: arrays.Mask) -> list[int]:
    """Place pods one by one until one fits nowhere; the rows that took them, in order."""
    taken: list[int] = []
    while len(taken) < count and (row := find_next(snapshot, shape, pointer, usable)) is not None:
        snapshot.place(shape, row)
        taken.append(row)
        pointer = row
    return taken


def try_out(snapshot: Snapshot, shape: facts.PodShape, count: int, pointer: int, usable: arrays.Mask) -> list[int]:
    """The same, and leave no trace."""
    snapshot.fork()
    taken = place(snapshot, shape, count, pointer, usable)
    snapshot.revert()
    return taken
