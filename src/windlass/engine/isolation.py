"""Isolation: when a decision raises, find the objects that make it, and decide without them.

    raises ──▶ without what raised before ──▶ without what raises by itself ──▶ without some of everything, by halves
                                                   nothing helps? without scale-down, without scale-up and scale-down

All of it is deciding again: the same observation comes to the same end.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from windlass.engine.estimator.limits import Budget
from windlass.engine.left_out import Part
from windlass.engine.observation import Observation
from windlass.engine.quarantine import (
    MOST_IN_NAMESPACE,
    MOST_RUNS,
    MOST_RUNS_IN_NAMESPACE,
    Faults,
    Search,
    Subject,
    Suspect,
    leave_out,
    list_pods,
    list_running,
    list_suspects,
    make_fault,
)

T = TypeVar("T")

Raised = tuple[Suspect, Exception]
"""An object, and what is raised because of it."""

_PARTS = (
    (Suspect(Subject.PART, Part.SCALE_DOWN),),
    (Suspect(Subject.PART, Part.SCALE_DOWN), Suspect(Subject.PART, Part.SCALE_UP)),
)
"""What is left undone where no object is to blame: nothing is removed while it is not known who needs help."""


def isolate(
    decide: Callable[[Observation], T],
    find_unsound: Callable[[], Sequence[Raised]],
    seen: Observation,
    held: Faults,
    stale: Faults,
    error: Exception,
    now_s: float,
    time: Budget,
) -> tuple[T, Faults]:
    """(what is decided, what it is decided without). `held` raised before and are left out; so did `stale`.

    `find_unsound` says what cannot be evaluated by itself. If no decision can be made at all, `error` is raised, with
    which it failed.
    """
    trials = _Trials(decide, seen, [fault.suspect for fault in held], time)
    raised = _find_culprits(trials, find_unsound, seen, [fault.suspect for fault in stale], error)
    if raised is None:
        raise error
    faults = tuple(make_fault(one, why, now_s) for one, why in _merge(raised))
    return trials.decide([fault.suspect for fault in faults]), (*held, *faults)


class _Trials(Generic[T]):
    """Decisions that are made without some objects, beside those that are left out anyway."""

    def __init__(
        self, decide: Callable[[Observation], T], seen: Observation, out: Sequence[Suspect], time: Budget
    ) -> None:
        self._decide, self._seen, self._out, self._time = decide, seen, out, time

    def decide(self, out: Sequence[Suspect]) -> T:
        return self._decide(leave_out(self._seen, (*self._out, *out)))

    def find_error(self, out: Sequence[Suspect]) -> Exception | None:
        try:
            self.decide(out)
        except Exception as error:
            return error
        return None

    def work(self, out: Sequence[Suspect]) -> bool:
        return self.find_error(out) is None

    def search(self, most_runs: int, beside: Sequence[Suspect] = ()) -> Search:
        """A search for what must be left out beside these."""
        return Search(lambda out: self.work([*beside, *out]), most_runs, self._time)


def _find_culprits(
    trials: _Trials[T],
    find_unsound: Callable[[], Sequence[Raised]],
    seen: Observation,
    stale: Sequence[Suspect],
    error: Exception,
) -> Sequence[Raised] | None:
    """The objects without which it can be decided, and what each raises; None if it cannot."""
    if stale and trials.work(stale):
        return _explain(trials, trials.search(MOST_RUNS).find(stale), error)
    unsound = find_unsound()
    if unsound and trials.work([one for one, _ in unsound]):
        return unsound
    suspects, found = [*(one for one, _ in unsound), *list_suspects(seen)], list[Suspect]()
    for among in (suspects, [*list_running(seen), *suspects]):
        if among and trials.work(among):
            search = trials.search(MOST_RUNS)
            found = search.find(among)
            if search.is_exact:
                return _explain(trials, _find_pods(trials, seen, found), error)
    return _find_parts(trials, error) or (_explain(trials, found, error) if found else None)


def _find_pods(trials: _Trials[T], seen: Observation, found: list[Suspect]) -> list[Suspect]:
    """The same with the pods of a namespace instead of the namespace."""
    for one in [one for one in found if one.subject in (Subject.NAMESPACE, Subject.PENDING)]:
        others = [other for other in found if other is not one]
        pods = list_pods(seen, one.name, is_pending=one.subject is Subject.PENDING)
        found = [*others, *_find_among(trials, pods, others, one)]
    return found


def _find_among(
    trials: _Trials[T], pods: Sequence[Suspect], others: Sequence[Suspect], namespace: Suspect
) -> list[Suspect]:
    """Those of a namespace that raise; the namespace, where that takes too long."""
    search = trials.search(MOST_RUNS_IN_NAMESPACE, others)
    found = search.find(pods) if pods else [namespace]
    return found if search.is_exact else [namespace]


def _find_parts(trials: _Trials[T], error: Exception) -> Sequence[Raised] | None:
    """The parts of the decision that must be left out."""
    found = next((parts for parts in _PARTS if trials.work(parts)), None)
    return None if found is None else [(part, error) for part in found]


def _explain(trials: _Trials[T], culprits: Sequence[Suspect], error: Exception) -> list[Raised]:
    """Why each must be left out: what is raised if it alone is not. One with which nothing is, need not be."""
    if len(culprits) == 1:
        return [(culprits[0], error)]
    left, found = list(culprits), list[Raised]()
    for one in culprits:
        raised = trials.find_error([other for other in left if other is not one])
        if raised is None:
            left.remove(one)
        else:
            found.append((one, raised))
    return found


def _merge(raised: Sequence[Raised]) -> list[Raised]:
    """Where many pods of a namespace raise, all pods of it as one."""
    of_pods = {id(one): one.namespace for one, _ in raised if one.subject is Subject.POD}
    counts = Counter(of_pods.values())
    crowded = {name for name, count in counts.items() if count > MOST_IN_NAMESPACE}
    found = dict[str, Raised]()
    for one, error in raised:
        namespace = of_pods.get(id(one))
        if namespace in crowded:
            found.setdefault(f"{Subject.NAMESPACE} {namespace}", (Suspect(Subject.NAMESPACE, namespace), error))
        else:
            found[f"{one} {id(one)}"] = one, error
    return list(found.values())
