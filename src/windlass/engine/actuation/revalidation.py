"""Revalidation: once the taint is observed, check that a chosen node can still be removed.

Drain rules are evaluated again and, unless configured as Cluster Autoscaler, its pods must fit elsewhere again: where
they fitted when the node was chosen, else anywhere. Pending pods and pods of nodes being drained are placed first. A
node chosen for being empty must still be empty. PDBs are checked for each node alone.
"""

from collections.abc import Sequence

from windlass.engine.actuation import pods_to_evict
from windlass.engine.actuation.node_drain import ActuationContext, NodeDrain, find_open_drains
from windlass.engine.drainability import rules
from windlass.engine.drainability.context import make_drain_context
from windlass.engine.model import arrays
from windlass.engine.model.drains import NO_TIER, DrainFailureReason, EvictionProgress
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.scale_down.simulation import RemovalSimulator
from windlass.engine.scale_up import pod_list


def revalidate(cases: Sequence[NodeDrain], situation: ActuationContext) -> None:
    """Let those cases go on that still may; the others fail."""
    due = [case for case, _ in find_open_drains(cases) if case.progress.evicting is None]
    if not due:
        return
    known = {
        case.name: pods_to_evict.find_evictable_uids(case.name, situation) for case in due if not case.begun.is_empty
    }
    snapshot = situation.observation.snapshot
    snapshot.fork()
    try:
        pod_list.filter_out_expendable(snapshot, situation.settings.pods.expendable_pods_priority_cutoff)
        trial = _Revalidation(cases, due, situation)
        for case in due:
            trial.judge(case)
            if case.is_open:
                case.update(
                    evicting=EvictionProgress(situation.now_s, known.get(case.name, frozenset()), stage=NO_TIER)
                )
    finally:
        snapshot.revert()


class _Revalidation:
    """Nodes tried one after another, in a fork. Pods of those that may go stay where they found a place."""

    def __init__(self, cases: Sequence[NodeDrain], due: Sequence[NodeDrain], situation: ActuationContext) -> None:
        seen, chosen = situation.observation, situation.settings
        self._situation, self._snapshot = situation, seen.snapshot
        self._finds_places = chosen.deviations.recheck_places_before_draining
        about = make_drain_context(seen, chosen, situation.now_s)
        self._budgets = about.budgets
        self._judge = rules.PodDrainability(seen.snapshot.pods, about)
        staying = _find_staying(cases, situation)
        if self._finds_places and not all(case.begun.is_empty for case in due):
            _place_pending_and_draining(cases, staying, situation)
        places = {uid: place for case in due for uid, place in case.begun.places.items()}
        search = hinting.HintingState(hints=hinting.PlacementHints(old=places))
        self._simulator = RemovalSimulator(seen.snapshot, self._judge, self._budgets, staying, search, chosen.filters)

    def judge(self, case: NodeDrain) -> None:
        """Fail the case if its node must not go."""
        snapshot, homeless = self._snapshot, None
        if case.begun.is_empty or not self._finds_places:
            moves = self._judge.pods_to_move(snapshot.pods_on(snapshot.nodes.rows[case.name]))
        else:
            mark = self._budgets.mark()
            removal = self._simulator.simulate(case.name)
            self._budgets.undo(mark)
            moves, homeless = removal.moves, removal.homeless
        if moves.blocking is not None:
            case.fail(DrainFailureReason.BLOCKED_BY_POD, moves.blocking.outcome.text(snapshot.pod(moves.blocking.pod)))
        elif homeless is not None:
            case.fail(DrainFailureReason.NO_PLACE_TO_MOVE_PODS, snapshot.pod(homeless).key)
        elif case.begun.is_empty and (moves.move or moves.on_completion):
            case.fail(
                DrainFailureReason.NOT_EMPTY, *(snapshot.pod(row).key for row in (*moves.move, *moves.on_completion))
            )
        elif moves.on_completion and self._finds_places:
            case.fail(DrainFailureReason.BLOCKED_BY_POD, *(snapshot.pod(row).key for row in moves.on_completion))


def _find_staying(cases: Sequence[NodeDrain], situation: ActuationContext) -> arrays.Mask:
    """Bool (n_nodes): nodes that are not on their way out."""
    nodes = situation.observation.snapshot.nodes
    staying = nodes.alive.copy()
    staying[[nodes.rows[case.name] for case in cases if case.node is not None]] = False
    return staying


def _place_pending_and_draining(cases: Sequence[NodeDrain], staying: arrays.Mask, situation: ActuationContext) -> None:
    """Give pending pods their places, then pods of nodes that are being emptied already."""
    snapshot, chosen = situation.observation.snapshot, situation.settings.pods
    waiting = pod_list.sort_pending(snapshot, situation.settings)
    pod_list.bind_nominated(snapshot, waiting.nominated, chosen.expendable_pods_priority_cutoff)
    asking = (*waiting.unschedulable, *waiting.unprocessed)
    cutoff = chosen.expendable_pods_priority_cutoff
    worthy = [row for row in asking if not pod_list.is_expendable(snapshot.shape_of_row(row).spec, cutoff)]
    placer = shape_placer.Placer(snapshot, situation.settings.filters)
    hinting.try_schedule_pods(placer, worthy, hinting.HintingState(), snapshot.nodes.alive.copy())
    for case in cases:
        if case.node is None or case.progress.evicting is None or case.progress.failure is not None:
            continue
        going = [
            row
            for row in pods_to_evict.find_evictable_rows(case.name, situation)
            if not snapshot.pod(row).is_terminating
        ]
        for row in going:
            snapshot.unbind(row)
        hinting.try_schedule_pods(placer, going, hinting.HintingState(), staying)
