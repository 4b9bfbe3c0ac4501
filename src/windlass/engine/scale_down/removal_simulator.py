"""Removal simulation: can a node be removed, its pods fitting on others? One candidate after another.

While its pods are placed, the node stays as an empty node that takes none, so topology domains that only it has still
count. If all pods fit, the node is removed and they stay where they went, so all removable nodes can go together; if
not, the snapshot is reverted.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from windlass.engine import time_limits
from windlass.engine.drainability import pdb, rules
from windlass.engine.model import arrays, drainability, node_groups, scale_down_state, well_known
from windlass.engine.model.scale_down_state import NodeRemoval
from windlass.engine.model.settings import FilterConfig, Settings
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.placement.shape_placer import Placer
from windlass.engine.scale_down.deletion_budgets import NOTHING_IN_PROGRESS, AtomicGroups, DeletionsInProgress
from windlass.engine.snapshot.cluster_snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ScaleDownContext:
    """The inputs of scale-down. Snapshot and budgets are restored after use."""

    snapshot: Snapshot
    """The cluster with pending pods placed."""
    names: Sequence[str]
    """Existing nodes, in order. Not upcoming ones: evicted pods cannot wait for them."""
    group_of: Mapping[str, node_groups.NodeGroup]
    """By node name."""
    drainability: rules.PodDrainability
    budgets: pdb.RemainingPdbTracker
    """The budgets that `drainability` reads."""
    search: hinting.HintingState
    """Round-robin pointer and hints. The hints are of simulated removals only, and expire with every evaluation."""
    in_progress: DeletionsInProgress = NOTHING_IN_PROGRESS
    recently_evicted: Sequence[int] = ()
    """Rows of recently evicted pods that are not recreated yet; they are placed first."""
    expected: AbstractSet[int] = frozenset()
    """Rows of pods assumed on nodes on which they do not run yet. If such a node is removed they need another node, but
    are not evicted."""
    gpu_label: str = well_known.CLUSTER_API_GPU_LABEL
    """The provider's GPU label."""

    def count_registered(self) -> Counter[str]:
        """Number of registered nodes by group."""
        return Counter(self.group_of[name].id for name in self.names if name in self.group_of)

    def count_being_deleted(self) -> Counter[str]:
        """Number of nodes being deleted by group."""
        return Counter(self.group_of[name].id for name in self.in_progress.nodes if name in self.group_of)


class _FullShapes:
    """Shapes that fit on no node. Simulations only fill nodes, so later only the candidate itself can have room."""

    def __init__(self) -> None:
        self._tried: dict[shape_placer.PlainShape, list[int]] = {}

    def note(self, plain: shape_placer.PlainShape, row: int) -> None:
        """Record that no node except the candidate had room."""
        self._tried.setdefault(plain, []).append(row)

    def holds_for(self, plain: shape_placer.PlainShape, row: int) -> bool:
        """Whether still no node except this candidate can have room."""
        tried = self._tried.get(plain)
        if tried is None:
            return False
        tried[:] = [other for other in tried if other == row or plain.fits_on(other)]
        return all(other == row for other in tried)


class RemovalSimulator:
    """Simulates removals one after another; removed nodes stay removed for the following ones."""

    def __init__(
        self,
        snapshot: Snapshot,
        pod_drainability: rules.PodDrainability,
        budgets: pdb.RemainingPdbTracker,
        destinations: arrays.Mask,
        search: hinting.HintingState,
        config: FilterConfig,
        expected: AbstractSet[int] = frozenset(),
    ) -> None:
        self._snapshot, self._drainability, self._budgets = snapshot, pod_drainability, budgets
        self._destinations = destinations & snapshot.nodes.alive & ~snapshot.nodes.unschedulable
        self._search, self._placer = search, shape_placer.Placer(snapshot, config)
        self._full, self._expected = _FullShapes(), expected

    def simulate(self, node_name: str) -> scale_down_state.NodeRemoval:
        """Simulate the removal of one node: committed if its pods fit elsewhere, otherwise reverted."""
        row = self._snapshot.nodes.rows.get(node_name)
        if row is None or not self._snapshot.nodes.alive[row]:
            return scale_down_state.NodeRemoval(node_name, scale_down_state.UnremovableReason.NO_NODE_INFO)
        there, expected = self._list_pods(row)
        moved = np.array(there, np.intp)
        if self._drainability.are_all_drainable(moved):
            moves = drainability.PodsToMove(tuple(there))
        else:
            moves = self._drainability.classify(there)
            moved = np.array(moves.move, np.intp)
        if moves.blocking is not None:
            return scale_down_state.NodeRemoval(node_name, scale_down_state.UnremovableReason.BLOCKED_BY_POD, moves)
        if expected:
            moved = np.append(moved, np.array(expected, np.intp))
        homeless = self._move_elsewhere(row, moved)
        if homeless is not None:
            return scale_down_state.NodeRemoval(
                node_name, scale_down_state.UnremovableReason.NO_PLACE_TO_MOVE_PODS, moves, homeless
            )
        claims = self._drainability.charged_budgets(moves.move)
        is_risky = not self._budgets.can_disrupt(claims).parallel
        self._budgets.consume(claims)
        return scale_down_state.NodeRemoval(node_name, None, moves, is_risky=is_risky)

    def _list_pods(self, row: int) -> tuple[list[int], list[int]]:
        """The pods that run on a node, and those only assumed on it."""
        there = self._snapshot.pods_on(row)
        if not self._expected or self._expected.isdisjoint(there):
            return there, []
        return [pod for pod in there if pod not in self._expected], [pod for pod in there if pod in self._expected]

    def _move_elsewhere(self, row: int, moved: arrays.Rows) -> int | None:
        """Place the pods of a node on other nodes; None if all fit, else the row of a pod that does not."""
        destinations = self._destinations
        was_destination = bool(destinations[row])
        destinations[row] = False
        plain = hinting.find_plain_shape(self._placer, moved, self._search)
        homeless = self._try_to_move_pods(row, moved.tolist()) if plain is None else self._relocate(row, moved, plain)
        if homeless is not None:
            destinations[row] = was_destination
        return homeless

    def _relocate(self, row: int, moved: arrays.Rows, plain: shape_placer.PlainShape) -> int | None:
        """Move pods of one plain shape, whose placement has a closed form."""
        if self._full.holds_for(plain, row):
            self._full.note(plain, row)
            return int(moved[0])
        placed = hinting.predict_placement(self._placer, plain, moved, self._search, self._destinations)
        if placed.total < len(moved):
            if not placed.total:
                self._full.note(plain, row)
            return int(moved[placed.total])
        self._snapshot.relocate(row, moved, placed.rows, placed.counts)
        self._snapshot.mark_deleting(row)
        self._snapshot.mark_gone(row)
        return None

    def _try_to_move_pods(self, row: int, pod_rows: list[int]) -> int | None:
        snapshot = self._snapshot
        snapshot.fork()
        snapshot.clear_node(row)
        snapshot.mark_deleting(row)
        scheduling_result = hinting.try_schedule_pods(
            self._placer, pod_rows, self._search, self._destinations, all_or_nothing=True
        )
        if scheduling_result.failed:
            snapshot.revert()
            return scheduling_result.failed[0]
        snapshot.mark_gone(row)
        snapshot.commit()
        return None


UNLIMITED_BUDGET = time_limits.UnlimitedBudget()


def simulate_removals(
    context: ScaleDownContext,
    names: Sequence[str],
    enough: int,
    settings: Settings,
    budget: time_limits.TimeBudget = UNLIMITED_BUDGET,
) -> scale_down_state.SimulatedRemovals:
    """Simulate the removal of these nodes until enough are removable.

    Nodes of groups that are all or nothing do not count: half of such a group is of no use.
    """
    snapshot, mark = context.snapshot, context.budgets.mark()
    context.search.pointer = -1  # so that the result does not depend on earlier loops
    try:
        with snapshot.scratch():
            if context.recently_evicted:
                for row in context.recently_evicted:
                    if snapshot.pods.node_rows[row] != arrays.ABSENT:
                        snapshot.unbind(row)
                placer, everywhere = Placer(snapshot, settings.filters), snapshot.nodes.alive.copy()
                hinting.try_schedule_pods(
                    placer, context.recently_evicted, context.search, everywhere, all_or_nothing=True
                )
            return _simulate_all(context, names, enough, settings, budget)
    finally:
        context.budgets.undo(mark)
        context.search.hints.drop_old()


def _simulate_all(
    context: ScaleDownContext, names: Sequence[str], enough: int, settings: Settings, budget: time_limits.TimeBudget
) -> scale_down_state.SimulatedRemovals:
    destinations = _find_destinations(context)
    simulator = RemovalSimulator(
        context.snapshot,
        context.drainability,
        context.budgets,
        destinations,
        context.search,
        settings.filters,
        context.expected,
    )
    whole = AtomicGroups(settings)
    removals: list[NodeRemoval] = []
    failed: list[NodeRemoval] = []
    counted = 0
    for tried, name in enumerate(names):
        if counted >= enough or budget.exhausted():
            return scale_down_state.SimulatedRemovals(tuple(removals), tuple(failed), tuple(names[tried:]))
        removal = simulator.simulate(name)
        if removal.is_removable:
            removals.append(removal)
            counted += not whole.contains(context.group_of.get(name))
        else:
            failed.append(removal)
    return scale_down_state.SimulatedRemovals(tuple(removals), tuple(failed))


def _find_destinations(context: ScaleDownContext) -> arrays.Mask:
    """Bool (n_nodes): existing nodes that are not being deleted may take pods."""
    rows, leaving = context.snapshot.nodes.rows, context.in_progress.nodes
    destinations = np.zeros(context.snapshot.nodes.count, bool)
    destinations[[rows[name] for name in context.names if name in rows and name not in leaving]] = True
    return destinations
