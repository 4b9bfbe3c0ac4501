"""Removal: could this node go, its pods finding room on others?

While its pods look for places, the node stays as an empty ghost that takes none: topology domains that only it holds
still count, as they will while it drains. If all find a place the node is gone and its pods stay where they went, so
that the next candidate sees them; if not, everything is as it was.
"""

import enum
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np

from windlass.engine import disruption, dtypes, placing, searching
from windlass.engine.drain import by_kind, rules
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot


class Unremovable(enum.StrEnum):
    """Why a node cannot go. The names are the peer's, but for UnreadableNode."""

    SCALE_DOWN_DISABLED_ANNOTATION = "ScaleDownDisabledAnnotation"
    SCALE_DOWN_UNREADY_DISABLED = "ScaleDownUnreadyDisabled"
    NOT_AUTOSCALED = "NotAutoscaled"
    NOT_UNNEEDED_LONG_ENOUGH = "NotUnneededLongEnough"
    NOT_UNREADY_LONG_ENOUGH = "NotUnreadyLongEnough"
    NODE_GROUP_MIN_SIZE_REACHED = "NodeGroupMinSizeReached"
    NODE_GROUP_MAX_DELETION_COUNT_REACHED = "NodeGroupMaxDeletionCountReached"
    ATOMIC_SCALE_DOWN_FAILED = "AtomicScaleDownFailed"
    MINIMAL_RESOURCE_LIMIT_EXCEEDED = "MinimalResourceLimitExceeded"
    CURRENTLY_BEING_DELETED = "CurrentlyBeingDeleted"
    NOT_UNDERUTILIZED = "NotUnderutilized"
    NOT_UNNEEDED_OTHER_REASON = "NotUnneededOtherReason"
    RECENTLY_UNREMOVABLE = "RecentlyUnremovable"
    NO_PLACE_TO_MOVE_PODS = "NoPlaceToMovePods"
    BLOCKED_BY_POD = "BlockedByPod"
    UNEXPECTED_ERROR = "UnexpectedError"
    NO_NODE_INFO = "NoNodeInfo"
    BLOCKED_BY_ON_COMPLETION_POD = "BlockedByOnCompletionPod"
    UNREADABLE_NODE = "UnreadableNode"


@dataclass(frozen=True, slots=True)
class Removal:
    """What became of one candidate. Pods are rows of the snapshot."""

    node_name: str
    reason: Unremovable | None = None
    """Why it cannot go; None if it can."""
    moves: rules.Moves[int] = field(default_factory=rules.Moves)
    homeless: int | None = None
    """The first pod that found no place, where that is the reason."""
    is_risky: bool = False
    """Its pods cannot all leave at once: budgets allow them only one after another."""

    @property
    def is_removable(self) -> bool:
        return self.reason is None


class _Full:
    """Shapes that found no room on any node. Trials only fill nodes up: later, only nodes tried then can have any."""

    def __init__(self) -> None:
        self._tried: dict[placing.Plain, list[int]] = {}

    def note(self, plain: placing.Plain, row: int) -> None:
        """No node but the one that was being tried had room."""
        self._tried.setdefault(plain, []).append(row)

    def holds_for(self, plain: placing.Plain, row: int) -> bool:
        """Is there still no room, but on this node?"""
        tried = self._tried.get(plain)
        if tried is None:
            return False
        tried[:] = [other for other in tried if other == row or plain.fits_on(other)]
        return all(other == row for other in tried)


class RemovalSimulator:
    """Tries candidates one after another; those that can go are gone for the ones that follow."""

    def __init__(
        self,
        snapshot: Snapshot,
        judge: by_kind.Judge,
        budgets: disruption.Remaining,
        destinations: dtypes.Mask,
        search: searching.Search,
        config: FilterConfig,
        expected: AbstractSet[int] = frozenset(),
    ) -> None:
        self._snapshot, self._judge, self._budgets = snapshot, judge, budgets
        self._destinations = destinations & snapshot.nodes.alive & ~snapshot.nodes.unschedulable
        self._search, self._placer = search, placing.Placer(snapshot, config)
        self._full, self._expected = _Full(), expected

    def simulate(self, node_name: str) -> Removal:
        """Try to remove one node. Commits if its pods find places, leaves no trace otherwise."""
        row = self._snapshot.nodes.rows.get(node_name)
        if row is None or not self._snapshot.nodes.alive[row]:
            return Removal(node_name, Unremovable.NO_NODE_INFO)
        there, expected = self._list_pods(row)
        moved = np.array(there, np.intp)
        if self._judge.are_free(moved):
            moves = rules.Moves(tuple(there))
        else:
            moves = self._judge.sort_out(there)
            moved = np.array(moves.move, np.intp)
        if moves.blocking is not None:
            return Removal(node_name, Unremovable.BLOCKED_BY_POD, moves)
        if expected:
            moved = np.append(moved, np.array(expected, np.intp))
        homeless = self._move_elsewhere(row, moved)
        if homeless is not None:
            return Removal(node_name, Unremovable.NO_PLACE_TO_MOVE_PODS, moves, homeless)
        claims = self._judge.claims(moves.move)
        is_risky = not self._budgets.can_spend(claims).parallel
        self._budgets.spend(claims)
        return Removal(node_name, None, moves, is_risky=is_risky)

    def _list_pods(self, row: int) -> tuple[list[int], list[int]]:
        """The pods that run on a node, and those that are only expected on it."""
        there = self._snapshot.pods_on(row)
        if not self._expected or self._expected.isdisjoint(there):
            return there, []
        return [pod for pod in there if pod not in self._expected], [pod for pod in there if pod in self._expected]

    def _move_elsewhere(self, row: int, moved: dtypes.Rows) -> int | None:
        """Find places for the pods of a node; None if all have one, else a pod that has not."""
        destinations = self._destinations
        was_destination = bool(destinations[row])
        destinations[row] = False
        plain = searching.find_plain(self._placer, moved, self._search)
        homeless = self._try(row, moved.tolist()) if plain is None else self._relocate(row, moved, plain)
        if homeless is not None:
            destinations[row] = was_destination
        return homeless

    def _relocate(self, row: int, moved: dtypes.Rows, plain: placing.Plain) -> int | None:
        """Move pods of which it can be told where they find room."""
        if self._full.holds_for(plain, row):
            self._full.note(plain, row)
            return int(moved[0])
        placed = searching.foresee(self._placer, plain, moved, self._search, self._destinations)
        if placed.total < len(moved):
            if not placed.total:
                self._full.note(plain, row)
            return int(moved[placed.total])
        self._snapshot.relocate(row, moved, placed.rows, placed.counts)
        self._snapshot.empty_out(row)
        self._snapshot.retire(row)
        return None

    def _try(self, row: int, pod_rows: list[int]) -> int | None:
        snapshot = self._snapshot
        snapshot.fork()
        snapshot.clear_node(row)
        snapshot.empty_out(row)
        found = searching.find_places(self._placer, pod_rows, self._search, self._destinations, all_or_nothing=True)
        if found.failed:
            snapshot.revert()
            return found.failed[0]
        snapshot.retire(row)
        snapshot.commit()
        return None
