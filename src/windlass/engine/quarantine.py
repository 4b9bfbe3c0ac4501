"""Quarantine: objects that are excluded from a decision, because evaluating them raises (docs/decisions/012).

An unforeseen exception must cost the object that causes it, never the decision. Leaving out is conservative:

    pods alike               pending ones get no node; nodes that run one are not removed
    all pods of a namespace  the same, where too many of them raise; or its pending pods only
    ProvisioningRequest      ignored in this loop
    CapacityBuffer           no room is kept for it
    DaemonSet                new nodes are without it
    PodDisruptionBudget      allows no disruption in its namespace
    CapacityQuota            no node is added
    priority expander        has no rules
    Node                     is registered, ready and in use, and has no other facts
    node group               is held: not resized, its nodes are not removed, and its timers stand still
    scale-down, scale-up     nothing of the kind is done; without scale-up no scale-down either
"""

import enum
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from windlass import errors
from windlass.engine import observation, resource_quotas
from windlass.engine.model import arrays, facts, node_groups, scale_up_status
from windlass.engine.observation import DecisionPart, Exclusions, Observation
from windlass.engine.snapshot.pod_table import PodTable
from windlass.engine.time_limits import TimeBudget, UnlimitedBudget
from windlass.selectors import EVERYTHING

RETRY_S = 600.0
"""Retry of an excluded object that did not change: the cause may have been another object."""

MOST_RUNS = 160
"""Maximum number of trial decisions of one search."""

MOST_S = 20.0
"""Time limit of the search; one decision takes a fraction of a second even in a large cluster."""

MOST_RUNS_IN_NAMESPACE = 40
"""The same within one namespace; above it all of its pods are excluded."""

MOST_IN_NAMESPACE = 16
"""Pods of one namespace that are excluded one by one; if more raise, all of its pods are."""


class FaultSubject(enum.StrEnum):
    """What can be excluded."""

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
    """An object that can be excluded."""

    subject: FaultSubject
    name: str
    """Its kubectl name; of equivalent pods, the name of one of them."""
    value: object = field(default=None, repr=False)
    """Its observed value; while that is the same, it raises again."""

    @property
    def key(self) -> object:
        """Key across observations."""
        return (self.subject, self.value) if self.subject is FaultSubject.POD else (self.subject, self.name)

    @property
    def namespace(self) -> str:
        """Namespace of a namespaced object."""
        return self.name.partition("/")[0] if "/" in self.name else ""

    def __str__(self) -> str:
        return f"{self.subject} {self.name}"


@dataclass(frozen=True, slots=True)
class Fault:
    """An object that cannot be evaluated, and the exception."""

    suspect: Suspect
    error: str
    """The exception's type and message."""
    since_s: float
    cause: Exception = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.suspect} could not be evaluated: {self.error}"


Faults = tuple[Fault, ...]


def make_fault(suspect: Suspect, error: Exception, now_s: float) -> Fault:
    """A fault with the lines of the traceback, without references to its frames."""
    item: BaseException | None = error
    while item is not None:
        traceback.clear_frames(item.__traceback__)
        item = item.__cause__ or item.__context__
    return Fault(suspect, describe_error(error), now_s, error)


def describe_error(error: BaseException) -> str:
    """The exception's type and message, shortened."""
    return f"{type(error).__name__}: {errors.describe_error(error)}"


# ── Who may be left out ──────────────────────────────────────────────────────────────────────────────────────────


def list_suspects(seen: Observation) -> list[Suspect]:
    """All objects that may be excluded, pending pods by namespace; those with the smallest effect first.

    A pod that runs is not among them: its node is, which costs less than all nodes that run the like of it.
    """
    return [
        *(Suspect(FaultSubject.PENDING, name) for name in _list_namespaces(seen, is_pending=True)),
        *(Suspect(FaultSubject.REQUEST, request.key, request) for request in seen.requests),
        *(Suspect(FaultSubject.BUFFER, buffer_pods.like.key, buffer_pods) for buffer_pods in seen.spares),
        *(
            Suspect(FaultSubject.DAEMON_SET, f"{daemon_set.namespace}/{daemon_set.name}", daemon_set)
            for daemon_set in seen.daemon_sets
        ),
        *((Suspect(FaultSubject.PRIORITIES, "rules", seen.priorities),) if seen.priorities else ()),
        *(Suspect(FaultSubject.NODE, node.name, node) for node in seen.nodes),
        *(
            Suspect(
                FaultSubject.BUDGET,
                f"{pod_disruption_budget.namespace}/{pod_disruption_budget.name}",
                pod_disruption_budget,
            )
            for pod_disruption_budget in seen.budgets
        ),
        *(Suspect(FaultSubject.QUOTA, quota.id, quota) for quota in seen.quotas),
        *(Suspect(FaultSubject.GROUP, group.id, group) for group in seen.groups),
    ]


def list_running(seen: Observation) -> list[Suspect]:
    """The pods on nodes, by namespace."""
    return [Suspect(FaultSubject.NAMESPACE, name) for name in _list_namespaces(seen, is_pending=False)]


def list_pods(seen: Observation, namespace: str | None = None, *, is_pending: bool | None = None) -> list[Suspect]:
    """Pending or bound pods of a namespace, or of all; equivalent pods as one."""
    table = seen.snapshot.pods
    return [
        Suspect(FaultSubject.POD, table.key(row), table.template_keys[number])
        for number, row in find_examples(seen, is_pending).items()
        if namespace is None or table.template_keys[number].namespace == namespace
    ]


def find_examples(seen: Observation, is_pending: bool | None = None) -> dict[int, int]:
    """Pod templates in use by pending or bound pods, each with the row of one such pod."""
    table = seen.snapshot.pods
    exist = table.shape_ids >= 0
    if is_pending is not None:
        exist &= (table.node_rows < 0) == is_pending
    rows = np.flatnonzero(exist)
    numbers, first = np.unique(table.template_ids[rows], return_index=True)
    return dict(zip(numbers.tolist(), rows[first].tolist(), strict=True))


def _list_namespaces(seen: Observation, is_pending: bool) -> list[str]:
    kinds = seen.snapshot.pods.template_keys
    return sorted({kinds[number].namespace for number in find_examples(seen, is_pending)})


# ── Leaving out ──────────────────────────────────────────────────────────────────────────────────────────────────


def exclude(seen: Observation, suspects: Iterable[Suspect]) -> Observation:
    """The observation without these objects."""
    names: dict[FaultSubject, set[str]] = {}
    kinds = set()
    for suspect in suspects:
        names.setdefault(suspect.subject, set()).add(suspect.name)
        if suspect.subject is FaultSubject.POD:
            kinds.add(suspect.value)
    if not names:
        return seen

    def has(subject: FaultSubject, name: str) -> bool:
        return name in names.get(subject, ())

    return replace(
        seen,
        groups=tuple(group for group in seen.groups if not has(FaultSubject.GROUP, group.id)),
        held=(
            *seen.held,
            *(_hold_group(node_group) for node_group in seen.groups if has(FaultSubject.GROUP, node_group.id)),
        ),
        daemon_sets=tuple(
            daemon_set
            for daemon_set in seen.daemon_sets
            if not has(FaultSubject.DAEMON_SET, f"{daemon_set.namespace}/{daemon_set.name}")
        ),
        budgets=tuple(
            facts.PodDisruptionBudget(pod_disruption_budget.namespace, pod_disruption_budget.name, EVERYTHING, 0)
            if has(FaultSubject.BUDGET, f"{pod_disruption_budget.namespace}/{pod_disruption_budget.name}")
            else pod_disruption_budget
            for pod_disruption_budget in seen.budgets
        ),
        priorities=() if FaultSubject.PRIORITIES in names else seen.priorities,
        requests=tuple(request for request in seen.requests if not has(FaultSubject.REQUEST, request.key)),
        quotas=tuple(
            scale_up_status.Quota(quota.id, {resource_quotas.NODES_RESOURCE: 0})
            if has(FaultSubject.QUOTA, quota.id)
            else quota
            for quota in seen.quotas
        ),
        spares=tuple(buffer_pods for buffer_pods in seen.spares if not has(FaultSubject.BUFFER, buffer_pods.like.key)),
        left_out=Exclusions(
            frozenset(kinds) | seen.left_out.kinds,
            frozenset(names.get(FaultSubject.NAMESPACE, ())) | seen.left_out.namespaces,
            frozenset(names.get(FaultSubject.PENDING, ())) | seen.left_out.pending,
            frozenset(names.get(FaultSubject.NODE, ())) | seen.left_out.nodes,
            frozenset(map(DecisionPart, names.get(FaultSubject.PART, ()))) | seen.left_out.parts,
        ),
    )


def _hold_group(group: node_groups.NodeGroup) -> node_groups.HeldGroup:
    return node_groups.HeldGroup(
        group.id, "it could not be evaluated", tuple(instance.provider_id for instance in group.instances)
    )


@contextmanager
def hide_excluded_pods(seen: Observation) -> Iterator[None]:
    """Hide excluded pods in the snapshot within the context. At its end no fork stays open, even after an exception."""
    snapshot = seen.snapshot
    forks, before = snapshot.forks, (snapshot.pods.left_out, snapshot.pods.pending_left_out)
    snapshot.pods.left_out = find_excluded_templates(seen.left_out, snapshot.pods)
    snapshot.pods.pending_left_out = find_excluded_pending_templates(seen.left_out, snapshot.pods)
    try:
        yield
    finally:
        while snapshot.forks > forks:
            snapshot.revert()
        snapshot.pods.left_out, snapshot.pods.pending_left_out = before


def find_current(faults: Faults, seen: Observation, now_s: float) -> tuple[Faults, Faults]:
    """(faults that hold, faults to retry) of the known faults, for objects that did not change."""
    if not faults:
        return (), ()
    present = {suspect.key: suspect for suspect in (*list_suspects(seen), *list_running(seen))}
    kinds = {seen.snapshot.pods.template_keys[number] for number in find_examples(seen)}
    same = [
        fault
        for fault in faults
        if fault.suspect.subject is FaultSubject.PART
        or (fault.suspect.subject is FaultSubject.POD and fault.suspect.value in kinds)
        or (fault.suspect.key in present and present[fault.suspect.key] == fault.suspect)
    ]
    held = tuple(fault for fault in same if fault.since_s <= now_s < fault.since_s + RETRY_S)
    return held, tuple(fault for fault in same if fault not in held)


# ── Finding out ──────────────────────────────────────────────────────────────────────────────────────────────────


class SubsetSearch:
    """Search for a minimal set of objects to exclude (FastDiag, Felfernig and Schubert 2012).

    With n suspects of which d are at fault it is tried about 2d·log2(n/d) + 2d times. Among several sets it is the one
    of suspects that come first. Where trying is no longer allowed, more than need be are left out.
    """

    def __init__(
        self, works_without: Callable[[Sequence[Suspect]], bool], most_runs: int, time: TimeBudget | None = None
    ) -> None:
        self._works_without, self._left, self._time = works_without, most_runs, time or UnlimitedBudget()
        self.is_exact = True

    def find(self, suspects: Sequence[Suspect]) -> list[Suspect]:
        """Find the subset. The decision works without all of these, and does not with all of them."""
        return self._find([], suspects, [])

    def _find(self, tried: Sequence[Suspect], among: Sequence[Suspect], out: Sequence[Suspect]) -> list[Suspect]:
        """The subset of `among` to exclude besides `out`; `tried` was added to `out` last."""
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


def find_excluded_templates(left_out: observation.Exclusions, table: PodTable) -> frozenset[int]:
    """Ids of the pod templates that are excluded."""
    if not left_out.kinds and not left_out.namespaces:
        return frozenset()
    return frozenset(number for number, kind in enumerate(table.template_keys) if left_out.excludes(kind))


def find_excluded_pending_templates(left_out: observation.Exclusions, table: PodTable) -> frozenset[int]:
    """Ids of the pod templates whose pending pods are excluded."""
    if not left_out.pending:
        return find_excluded_templates(left_out, table)
    return frozenset(number for number, kind in enumerate(table.template_keys) if left_out.excludes_pending(kind))


def find_nodes_with_excluded_pods(table: PodTable) -> arrays.Rows:
    """Rows of the nodes with excluded pods."""
    if not table.left_out:
        return np.zeros(0, np.intp)
    rows = table.node_rows[np.isin(table.template_ids, list(table.left_out))]
    return np.unique(rows[rows != arrays.ABSENT]).astype(np.intp)


def drop_hidden(numbers: list[int], hidden: AbstractSet[int]) -> list[int]:
    """The numbers that are not hidden."""
    return [number for number in numbers if number not in hidden] if hidden else numbers
