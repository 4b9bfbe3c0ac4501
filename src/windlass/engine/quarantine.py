"""Quarantine: objects that a decision is made without, because evaluating them raises.

The engine foresees a great deal, and not everything. An exception that it does not foresee must cost the object that
causes it, never the decision. A decision is pure, so the object is found by deciding again without some of them: no
`try` stands in the way of the usual case, and no place can be forgotten (docs/decisions/012).

What it means to be left out is conservative for each kind of object:

    pods alike               pending ones get no node; nodes that run one are not removed
    all pods of a namespace  the same, where too many of them raise to be found one by one; or its pending pods only
    ProvisioningRequest      is not looked at in this loop
    CapacityBuffer           no room is kept for it
    DaemonSet                new nodes are taken to be without it
    PodDisruptionBudget      allows no disruption in its namespace
    CapacityQuota            no node is added
    priority expander        has no opinion
    Node                     is registered, ready and in use, and says nothing else
    node group               is held: not resized, its nodes are not removed, and its timers stand still
    scale-down, scale-up     nothing of the kind is done; without scale-up no scale-down either
"""

import enum
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from windlass import errors
from windlass.engine import facts, left_out
from windlass.engine.estimator.limits import Budget, Unlimited
from windlass.engine.left_out import LeftOut, Part
from windlass.engine.observation import Observation
from windlass.engine.scale_up import quotas
from windlass.selectors import EVERYTHING

RETRY_S = 600.0
"""An object that did not change is tried again after this time: what it raised with may have been something else."""
MOST_RUNS = 160
"""Decisions that are tried in search of what raises, at most."""
MOST_S = 20.0
"""How long the search may take; a large cluster is decided on in a fraction of a second."""
MOST_RUNS_IN_NAMESPACE = 40
"""The same within one namespace; then all of its pods are left out."""
MOST_IN_NAMESPACE = 16
"""Pods of one namespace that are left out one by one; if more raise, all of its pods are."""


class Subject(enum.StrEnum):
    """What can be left out."""

    POD = "Pod"
    NAMESPACE = "Namespace"
    PENDING = "pending pods of Namespace"
    REQUEST = "ProvisioningRequest"
    BUFFER = "CapacityBuffer"
    DAEMON_SET = "DaemonSet"
    BUDGET = "PodDisruptionBudget"
    QUOTA = "CapacityQuota"
    PRIORITIES = "priority expander"
    NODE = "Node"
    GROUP = "node group"
    PART = "part"


@dataclass(frozen=True, slots=True)
class Suspect:
    """An object that a decision can be made without."""

    subject: Subject
    name: str
    """As kubectl names it. Of pods alike, that of one of them."""
    value: object = field(default=None, repr=False)
    """What is seen of it; while that is the same, it raises again."""

    @property
    def key(self) -> object:
        """What it is known by from one observation to the next."""
        return (self.subject, self.value) if self.subject is Subject.POD else (self.subject, self.name)

    @property
    def namespace(self) -> str:
        """Of an object that has one."""
        return self.name.partition("/")[0] if "/" in self.name else ""

    def __str__(self) -> str:
        return f"{self.subject} {self.name}"


@dataclass(frozen=True, slots=True)
class Fault:
    """An object that cannot be evaluated, and why."""

    suspect: Suspect
    error: str
    """The exception's type and message."""
    since_s: float
    cause: Exception = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.suspect} could not be evaluated: {self.error}"


Faults = tuple[Fault, ...]


def make_fault(suspect: Suspect, error: Exception, now_s: float) -> Fault:
    """A fault that keeps the lines of the traceback, and nothing of what the frames held."""
    one: BaseException | None = error
    while one is not None:
        traceback.clear_frames(one.__traceback__)
        one = one.__cause__ or one.__context__
    return Fault(suspect, describe(error), now_s, error)


def describe(error: BaseException) -> str:
    """The exception's type and message, shortened."""
    return f"{type(error).__name__}: {errors.describe(error)}"


# ── Who may be left out ──────────────────────────────────────────────────────────────────────────────────────────


def list_suspects(seen: Observation) -> list[Suspect]:
    """Everything that may be left out, pending pods by namespace; what costs least comes first.

    A pod that runs is not among them: its node is, which costs less than all nodes that run the like of it.
    """
    return [
        *(Suspect(Subject.PENDING, name) for name in _list_namespaces(seen, is_pending=True)),
        *(Suspect(Subject.REQUEST, one.key, one) for one in seen.requests),
        *(Suspect(Subject.BUFFER, one.like.key, one) for one in seen.spares),
        *(Suspect(Subject.DAEMON_SET, f"{one.namespace}/{one.name}", one) for one in seen.daemon_sets),
        *((Suspect(Subject.PRIORITIES, "rules", seen.priorities),) if seen.priorities else ()),
        *(Suspect(Subject.NODE, node.name, node) for node in seen.nodes),
        *(Suspect(Subject.BUDGET, f"{one.namespace}/{one.name}", one) for one in seen.budgets),
        *(Suspect(Subject.QUOTA, one.id, one) for one in seen.quotas),
        *(Suspect(Subject.GROUP, group.id, group) for group in seen.groups),
    ]


def list_running(seen: Observation) -> list[Suspect]:
    """The pods on nodes, by namespace."""
    return [Suspect(Subject.NAMESPACE, name) for name in _list_namespaces(seen, is_pending=False)]


def list_pods(seen: Observation, namespace: str | None = None, *, is_pending: bool | None = None) -> list[Suspect]:
    """The pods of a namespace, or all of them, that wait or do not; those alike as one."""
    table = seen.snapshot.pods
    return [
        Suspect(Subject.POD, table.key(row), table.kinds[number])
        for number, row in find_examples(seen, is_pending).items()
        if namespace is None or table.kinds[number].namespace == namespace
    ]


def find_examples(seen: Observation, is_pending: bool | None = None) -> dict[int, int]:
    """Kinds of pods that exist, and wait or do not, each with the row of such a pod."""
    table = seen.snapshot.pods
    exist = table.shape_ids >= 0
    if is_pending is not None:
        exist &= (table.node_rows < 0) == is_pending
    rows = np.flatnonzero(exist)
    numbers, first = np.unique(table.kind_ids[rows], return_index=True)
    return dict(zip(numbers.tolist(), rows[first].tolist(), strict=True))


def _list_namespaces(seen: Observation, is_pending: bool) -> list[str]:
    kinds = seen.snapshot.pods.kinds
    return sorted({kinds[number].namespace for number in find_examples(seen, is_pending)})


# ── Leaving out ──────────────────────────────────────────────────────────────────────────────────────────────────


def leave_out(seen: Observation, suspects: Iterable[Suspect]) -> Observation:
    """The observation without these."""
    names: dict[Subject, set[str]] = {}
    kinds = set()
    for one in suspects:
        names.setdefault(one.subject, set()).add(one.name)
        if one.subject is Subject.POD:
            kinds.add(one.value)
    if not names:
        return seen

    def has(subject: Subject, name: str) -> bool:
        return name in names.get(subject, ())

    return replace(
        seen,
        groups=tuple(one for one in seen.groups if not has(Subject.GROUP, one.id)),
        held=(*seen.held, *(_hold(one) for one in seen.groups if has(Subject.GROUP, one.id))),
        daemon_sets=tuple(
            one for one in seen.daemon_sets if not has(Subject.DAEMON_SET, f"{one.namespace}/{one.name}")
        ),
        budgets=tuple(
            facts.PodDisruptionBudget(one.namespace, one.name, EVERYTHING, 0)
            if has(Subject.BUDGET, f"{one.namespace}/{one.name}")
            else one
            for one in seen.budgets
        ),
        priorities=() if Subject.PRIORITIES in names else seen.priorities,
        requests=tuple(one for one in seen.requests if not has(Subject.REQUEST, one.key)),
        quotas=tuple(
            quotas.Quota(one.id, {quotas.NODES: 0}) if has(Subject.QUOTA, one.id) else one for one in seen.quotas
        ),
        spares=tuple(one for one in seen.spares if not has(Subject.BUFFER, one.like.key)),
        left_out=LeftOut(
            frozenset(kinds) | seen.left_out.kinds,
            frozenset(names.get(Subject.NAMESPACE, ())) | seen.left_out.namespaces,
            frozenset(names.get(Subject.PENDING, ())) | seen.left_out.pending,
            frozenset(names.get(Subject.NODE, ())) | seen.left_out.nodes,
            frozenset(map(Part, names.get(Subject.PART, ()))) | seen.left_out.parts,
        ),
    )


def _hold(group: facts.NodeGroup) -> facts.HeldGroup:
    return facts.HeldGroup(group.id, "it could not be evaluated", tuple(one.provider_id for one in group.instances))


@contextmanager
def hidden(seen: Observation) -> Iterator[None]:
    """Until this ends the snapshot says nothing of the pods that are left out. However it ends, no fork stays open."""
    snapshot = seen.snapshot
    forks, before = snapshot.forks, (snapshot.pods.left_out, snapshot.pods.pending_left_out)
    snapshot.pods.left_out = left_out.find_kinds(seen.left_out, snapshot.pods)
    snapshot.pods.pending_left_out = left_out.find_pending_kinds(seen.left_out, snapshot.pods)
    try:
        yield
    finally:
        while snapshot.forks > forks:
            snapshot.revert()
        snapshot.pods.left_out, snapshot.pods.pending_left_out = before


def find_current(known: Faults, seen: Observation, now_s: float) -> tuple[Faults, Faults]:
    """(those that hold, those to be tried again) of the faults found before: of objects that are as they were."""
    if not known:
        return (), ()
    present = {one.key: one for one in (*list_suspects(seen), *list_running(seen))}
    kinds = {seen.snapshot.pods.kinds[number] for number in find_examples(seen)}
    same = [
        fault
        for fault in known
        if fault.suspect.subject is Subject.PART
        or (fault.suspect.subject is Subject.POD and fault.suspect.value in kinds)
        or (fault.suspect.key in present and present[fault.suspect.key] == fault.suspect)
    ]
    held = tuple(fault for fault in same if fault.since_s <= now_s < fault.since_s + RETRY_S)
    return held, tuple(fault for fault in same if fault not in held)


# ── Finding out ──────────────────────────────────────────────────────────────────────────────────────────────────


class Search:
    """Finds a smallest set of objects without which something can be done (FastDiag, Felfernig and Schubert 2012).

    With n suspects of which d are at fault it is tried about 2d·log2(n/d) + 2d times. Among several sets it is the one
    of suspects that come first. Where trying is no longer allowed, more than need be are left out.
    """

    def __init__(
        self, works_without: Callable[[Sequence[Suspect]], bool], most_runs: int, time: Budget | None = None
    ) -> None:
        self._works_without, self._left, self._time = works_without, most_runs, time or Unlimited()
        self.is_exact = True

    def find(self, suspects: Sequence[Suspect]) -> list[Suspect]:
        """It works without all of these, and not with all of them."""
        return self._find([], suspects, [])

    def _find(self, tried: Sequence[Suspect], among: Sequence[Suspect], out: Sequence[Suspect]) -> list[Suspect]:
        """Of these, those that must go beside those that are out; `tried`: what was added to these last."""
        if self._left <= 0 or self._time.exhausted():
            self.is_exact = False
            return list(among)
        if tried and self._works(out):
            return []
        if len(among) == 1:
            return list(among)
        half = len(among) // 2
        first, second = among[:half], among[half:]
        of_second = self._find(first, second, [*out, *first])
        of_first = self._find(of_second, first, [*out, *of_second])
        return of_first + of_second

    def _works(self, out: Sequence[Suspect]) -> bool:
        self._left -= 1
        return self._works_without(out)
