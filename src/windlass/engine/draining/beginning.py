"""Beginning: nodes that were chosen are to be drained; which of their pods are evicted, and where these found a place.

Many may begin at once, so what is asked of pods is asked of all of them together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from windlass.engine import facts, plan, taints
from windlass.engine.memory import DrainBegun
from windlass.engine.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Leaving:
    """The pods of nodes that leave: those of node i are at `ends[i - 1]` to `ends[i]`."""

    uids: list[str]
    keys: tuple[str, ...]
    places: list[str | None]
    ends: list[int]


def begin(
    snapshot: Snapshot,
    moves: Mapping[str, Sequence[int]],
    real: int,
    places: Mapping[str, str],
    group_of: Mapping[str, facts.NodeGroup],
    now_s: float,
) -> Iterator[tuple[plan.Drain, DrainBegun]]:
    """The drains of nodes, to be ordered and to be remembered. `moves` gives the rows of the pods to be moved by node.

    Only the first `real` rows are pods that exist, and can be evicted. `places` is by uid.
    """
    leaving = _find_leaving(snapshot, moves, real, places)
    start = 0
    for (name, moved), end in zip(moves.items(), leaving.ends, strict=True):
        pairs = zip(leaving.uids[start:end], leaving.places[start:end], strict=True)
        there = {uid: place for uid, place in pairs if place is not None}
        node = snapshot.nodes.facts[snapshot.nodes.rows[name]]
        was_cordoned = node.unschedulable and not taints.has(node, taints.TO_BE_DELETED)
        begun = DrainBegun(group_of[name].id, now_s, not moved, there, node.uid, was_cordoned)
        yield plan.Drain(name, begun.group, leaving.keys[start:end]), begun
        start = end


def _find_leaving(
    snapshot: Snapshot, moves: Mapping[str, Sequence[int]], real: int, places: Mapping[str, str]
) -> Leaving:
    """Pods of nodes tried before it may have gone through a node in thought: they are none of its own."""
    homes = [snapshot.nodes.rows[name] for name in moves]
    lengths = [len(moved) for moved in moves.values()]
    rows = np.fromiter(chain.from_iterable(moves.values()), np.intp, sum(lengths))
    is_own = (snapshot.pods.node_rows[rows] == np.repeat(homes, lengths)) & (rows < real)
    own = rows[is_own].tolist()
    uids = list(map(snapshot.pods.uids.__getitem__, own))
    ends = np.append(0, np.cumsum(is_own))[np.cumsum(lengths)].tolist()
    return Leaving(uids, snapshot.pods.keys(own), list(map(places.get, uids)), ends)
