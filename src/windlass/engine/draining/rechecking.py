"""Checking again: when everyone has seen the taint, does what the node was chosen for still hold?

Its pods are judged by the rules for draining once more and, unless windlass is to do as the peer does, look for places
once more: where they were found one when the node was chosen, else anywhere. Pending pods, and pods of nodes that are
being emptied already, come first. A node chosen for being empty must still be.

What budgets leave is judged for each node alone: nodes that share one are emptied together and wait for each other.
"""

from collections.abc import Sequence

from windlass.engine import dtypes, placing, searching
from windlass.engine.drain import by_kind
from windlass.engine.draining import leaving
from windlass.engine.draining.case import Case, Situation, find_open
from windlass.engine.draining.progress import NO_TURN, Evicting, Why
from windlass.engine.scale_down.removal import RemovalSimulator
from windlass.engine.scale_down.scene import make_drain_context
from windlass.engine.scale_up import helping, pending


def recheck(cases: Sequence[Case], situation: Situation) -> None:
    """Let those cases go on that still may; the others fail."""
    due = [case for case, _ in find_open(cases) if case.progress.evicting is None]
    if not due:
        return
    known = {case.name: leaving.find_uids(case.name, situation) for case in due if not case.begun.is_empty}
    snapshot = situation.seen.snapshot
    snapshot.fork()
    try:
        helping.drop_expendable(snapshot, situation.settings.pods.expendable_pods_priority_cutoff)
        trial = _Trial(cases, due, situation)
        for case in due:
            trial.judge(case)
            if case.is_open:
                case.note(evicting=Evicting(situation.now_s, known.get(case.name, frozenset()), stage=NO_TURN))
    finally:
        snapshot.revert()


class _Trial:
    """Nodes tried one after another, in a fork. Pods of those that may go stay where they found a place."""

    def __init__(self, cases: Sequence[Case], due: Sequence[Case], situation: Situation) -> None:
        seen, chosen = situation.seen, situation.settings
        self._situation, self._snapshot = situation, seen.snapshot
        self._finds_places = chosen.deviations.recheck_places_before_draining
        about = make_drain_context(seen, chosen, situation.now_s)
        self._budgets = about.budgets
        self._judge = by_kind.Judge(seen.snapshot.pods, about)
        staying = _find_staying(cases, situation)
        if self._finds_places and not all(case.begun.is_empty for case in due):
            _place_others(cases, staying, situation)
        places = {uid: place for case in due for uid, place in case.begun.places.items()}
        search = searching.Search(hints=searching.Hints(old=places))
        self._simulator = RemovalSimulator(seen.snapshot, self._judge, self._budgets, staying, search, chosen.filters)

    def judge(self, case: Case) -> None:
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
            case.fail(Why.BLOCKED_BY_POD, moves.blocking.outcome.text(snapshot.pod(moves.blocking.pod)))
        elif homeless is not None:
            case.fail(Why.NO_PLACE_TO_MOVE_PODS, snapshot.pod(homeless).key)
        elif case.begun.is_empty and (moves.move or moves.on_completion):
            case.fail(Why.NOT_EMPTY, *(snapshot.pod(row).key for row in (*moves.move, *moves.on_completion)))
        elif moves.on_completion and self._finds_places:
            case.fail(Why.BLOCKED_BY_POD, *(snapshot.pod(row).key for row in moves.on_completion))


def _find_staying(cases: Sequence[Case], situation: Situation) -> dtypes.Mask:
    """Bool (n_nodes): nodes that are not on their way out."""
    nodes = situation.seen.snapshot.nodes
    staying = nodes.alive.copy()
    staying[[nodes.rows[case.name] for case in cases if case.node is not None]] = False
    return staying


def _place_others(cases: Sequence[Case], staying: dtypes.Mask, situation: Situation) -> None:
    """Give pending pods their places, then pods of nodes that are being emptied already."""
    snapshot, chosen = situation.seen.snapshot, situation.settings.pods
    waiting = pending.arrange(snapshot, situation.settings)
    helping.settle_nominated(snapshot, waiting.nominated, chosen.expendable_pods_priority_cutoff)
    asking = (*waiting.unschedulable, *waiting.unprocessed)
    cutoff = chosen.expendable_pods_priority_cutoff
    worthy = [row for row in asking if not pending.is_expendable(snapshot.shape_of_row(row).spec, cutoff)]
    placer = placing.Placer(snapshot, situation.settings.filters)
    searching.find_places(placer, worthy, searching.Search(), snapshot.nodes.alive.copy())
    for case in cases:
        if case.node is None or case.progress.evicting is None or case.progress.failure is not None:
            continue
        going = [row for row in leaving.find_rows(case.name, situation) if not snapshot.pod(row).is_terminating]
        for row in going:
            snapshot.lift(row)
        searching.find_places(placer, going, searching.Search(), staying)
