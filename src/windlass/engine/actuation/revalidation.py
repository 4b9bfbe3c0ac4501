"""Revalidation: once the taint is observed, check that a chosen node can still be removed.

Drain rules are evaluated again and, unless configured as Cluster Autoscaler, its pods must fit elsewhere again: where
they fitted when the node was chosen, else anywhere. Pending pods and pods of nodes being drained are placed first. A
node chosen for being empty must still be empty. PDBs are checked for each node alone.
"""

from collections.abc import Sequence

from windlass.engine.actuation import eviction
from windlass.engine.actuation.node_drain import ActuationContext, NodeDrain, find_open_drains
from windlass.engine.drainability import rules
from windlass.engine.drainability.context import make_drain_context
from windlass.engine.model import arrays
from windlass.engine.model.drains import NO_TIER, DrainFailureReason, EvictionProgress
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.scale_down.removal_simulator import RemovalSimulator
from windlass.engine.scale_up import pending_pods


def revalidate(drains: Sequence[NodeDrain], context: ActuationContext) -> None:
    """Check drains again before the first eviction; fail those whose node can no longer be removed."""
    due = [drain for drain, _ in find_open_drains(drains) if drain.progress.evicting is None]
    if not due:
        return
    known = {drain.name: eviction.find_evictable_uids(drain.name, context) for drain in due if not drain.begun.is_empty}
    snapshot = context.observation.snapshot
    snapshot.fork()
    try:
        pending_pods.filter_out_expendable(snapshot, context.settings.pods.expendable_pods_priority_cutoff)
        trial = _Revalidation(drains, due, context)
        for drain in due:
            trial.check(drain)
            if drain.is_open:
                drain.update(
                    evicting=EvictionProgress(context.now_s, known.get(drain.name, frozenset()), stage=NO_TIER)
                )
    finally:
        snapshot.revert()


class _Revalidation:
    """Simulates removals one after another in a fork. Pods of removable nodes keep their simulated destinations."""

    def __init__(self, drains: Sequence[NodeDrain], due: Sequence[NodeDrain], context: ActuationContext) -> None:
        observation, settings = context.observation, context.settings
        self._context, self._snapshot = context, observation.snapshot
        self._finds_places = settings.deviations.recheck_places_before_draining
        about = make_drain_context(observation, settings, context.now_s)
        self._budgets = about.budgets
        self._drain_simulator = rules.PodDrainability(observation.snapshot.pods, about)
        staying = _find_staying(drains, context)
        if self._finds_places and not all(drain.begun.is_empty for drain in due):
            _place_pending_and_draining(drains, staying, context)
        places = {uid: place for drain in due for uid, place in drain.begun.places.items()}
        search = hinting.HintingState(hints=hinting.PlacementHints(old=places))
        self._simulator = RemovalSimulator(
            observation.snapshot, self._drain_simulator, self._budgets, staying, search, settings.filters
        )

    def check(self, drain: NodeDrain) -> None:
        """Fail the drain if its node can no longer be removed."""
        snapshot, unplaced = self._snapshot, None
        if drain.begun.is_empty or not self._finds_places:
            moves = self._drain_simulator.pods_to_move(snapshot.pods_on(snapshot.nodes.rows[drain.name]))
        else:
            mark = self._budgets.mark()
            removal = self._simulator.simulate(drain.name)
            self._budgets.undo(mark)
            moves, unplaced = removal.moves, removal.homeless
        if moves.blocking is not None:
            drain.fail(DrainFailureReason.BLOCKED_BY_POD, moves.blocking.outcome.text(snapshot.pod(moves.blocking.pod)))
        elif unplaced is not None:
            drain.fail(DrainFailureReason.NO_PLACE_TO_MOVE_PODS, snapshot.pod(unplaced).key)
        elif drain.begun.is_empty and (moves.move or moves.on_completion):
            drain.fail(
                DrainFailureReason.NOT_EMPTY, *(snapshot.pod(row).key for row in (*moves.move, *moves.on_completion))
            )
        elif moves.on_completion and self._finds_places:
            drain.fail(DrainFailureReason.BLOCKED_BY_POD, *(snapshot.pod(row).key for row in moves.on_completion))


def _find_staying(drains: Sequence[NodeDrain], context: ActuationContext) -> arrays.Mask:
    """Bool (n_nodes): nodes that are not being drained."""
    nodes = context.observation.snapshot.nodes
    staying = nodes.alive.copy()
    staying[[nodes.rows[drain.name] for drain in drains if drain.node is not None]] = False
    return staying


def _place_pending_and_draining(drains: Sequence[NodeDrain], staying: arrays.Mask, context: ActuationContext) -> None:
    """Place pending pods, then pods of nodes that are being drained already."""
    snapshot, pod_settings = context.observation.snapshot, context.settings.pods
    waiting = pending_pods.sort_pending(snapshot, context.settings)
    pending_pods.bind_nominated(snapshot, waiting.nominated, pod_settings.expendable_pods_priority_cutoff)
    asking = (*waiting.unschedulable, *waiting.unprocessed)
    cutoff = pod_settings.expendable_pods_priority_cutoff
    worthy = [row for row in asking if not pending_pods.is_expendable(snapshot.shape_of_row(row).spec, cutoff)]
    placer = shape_placer.Placer(snapshot, context.settings.filters)
    hinting.try_schedule_pods(placer, worthy, hinting.HintingState(), snapshot.nodes.alive.copy())
    for drain in drains:
        if drain.node is None or drain.progress.evicting is None or drain.progress.failure is not None:
            continue
        going = [
            row for row in eviction.find_evictable_rows(drain.name, context) if not snapshot.pod(row).is_terminating
        ]
        for row in going:
            snapshot.unbind(row)
        hinting.try_schedule_pods(placer, going, hinting.HintingState(), staying)
