"""Fault isolation: when a decision raises, find the objects that cause it, and decide without them.

    raises -> without known faults -> without what raises by itself -> without subsets, by halves
                                          nothing helps? without scale-down, then without scale-up too

All of it is deciding again: the same observation comes to the same end. Each object is first evaluated by itself, so
that it is blamed and not one that is evaluated with it. These checks need not be complete: the search finds the rest.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from windlass.engine import resource_quotas, taints
from windlass.engine.capacity_apis.provisioning_request_queue import RequestQueue
from windlass.engine.cluster_state import readiness, upcoming_nodes
from windlass.engine.drainability import context, pdb, rules
from windlass.engine.expanders import priority
from windlass.engine.model import facts, node_groups, provisioning, scale_up_status, well_known
from windlass.engine.model.provisioning import BufferPods, ProvisioningRequest
from windlass.engine.model.settings import Settings, for_group
from windlass.engine.observation import DecisionPart, Observation
from windlass.engine.predicates import registry
from windlass.engine.quarantine import (
    MOST_IN_NAMESPACE,
    MOST_RUNS,
    MOST_RUNS_IN_NAMESPACE,
    Faults,
    FaultSubject,
    SubsetSearch,
    Suspect,
    exclude,
    find_examples,
    hide_excluded_pods,
    list_pods,
    list_running,
    list_suspects,
    make_fault,
)
from windlass.engine.scale_down import eligibility
from windlass.engine.scale_up import binpacking_estimator, node_templates, orchestrator, pending_pods, template_fit
from windlass.engine.snapshot.pod_table import PodTemplateKey
from windlass.engine.time_limits import TimeBudget

Decided = TypeVar("Decided")

Raised = tuple[Suspect, Exception]
"""An object, and the exception that it causes."""

_PARTS = (
    (Suspect(FaultSubject.PART, DecisionPart.SCALE_DOWN),),
    (Suspect(FaultSubject.PART, DecisionPart.SCALE_DOWN), Suspect(FaultSubject.PART, DecisionPart.SCALE_UP)),
)
"""Parts that are skipped where no object is at fault: no node is removed while pending pods are not evaluated."""


def isolate(
    decide: Callable[[Observation], Decided],
    find_unsound: Callable[[], Sequence[Raised]],
    observation: Observation,
    held: Faults,
    stale: Faults,
    error: Exception,
    now_s: float,
    time: TimeBudget,
) -> tuple[Decided, Faults]:
    """(what is decided, what it is decided without). `held` raised before and are left out; so did `stale`.

    `find_unsound` says what cannot be evaluated by itself. If no decision can be made at all, `error` is raised, with
    which it failed.
    """
    trials = _TrialDecisions(decide, observation, [fault.suspect for fault in held], time)
    raised = _find_culprits(trials, find_unsound, observation, [fault.suspect for fault in stale], error)
    if raised is None:
        raise error
    faults = tuple(make_fault(suspect, why, now_s) for suspect, why in _merge_pods_of_namespace(raised))
    return trials.decide([fault.suspect for fault in faults]), (*held, *faults)


class _TrialDecisions(Generic[Decided]):
    """Trial decisions without some objects, besides those that are excluded anyway."""

    def __init__(
        self,
        decide: Callable[[Observation], Decided],
        observation: Observation,
        out: Sequence[Suspect],
        time: TimeBudget,
    ) -> None:
        self._decide, self._seen, self._out, self._time = decide, observation, out, time

    def decide(self, out: Sequence[Suspect]) -> Decided:
        return self._decide(exclude(self._seen, (*self._out, *out)))

    def find_error(self, out: Sequence[Suspect]) -> Exception | None:
        try:
            self.decide(out)
        except Exception as error:
            return error
        return None

    def work(self, out: Sequence[Suspect]) -> bool:
        return self.find_error(out) is None

    def search(self, most_runs: int, beside: Sequence[Suspect] = ()) -> SubsetSearch:
        """A search for what must be excluded besides these."""
        return SubsetSearch(lambda out: self.work([*beside, *out]), most_runs, self._time)


def _find_culprits(
    trials: _TrialDecisions[Decided],
    find_unsound: Callable[[], Sequence[Raised]],
    observation: Observation,
    stale: Sequence[Suspect],
    error: Exception,
) -> Sequence[Raised] | None:
    """The objects whose exclusion lets the decision succeed, and their exceptions; None if there are none."""
    if stale and trials.work(stale):
        return _explain_culprits(trials, trials.search(MOST_RUNS).find(stale), error)
    unsound = find_unsound()
    if unsound and trials.work([suspect for suspect, _ in unsound]):
        return unsound
    suspects, found = [*(one for one, _ in unsound), *list_suspects(observation)], list[Suspect]()
    for among in (suspects, [*list_running(observation), *suspects]):
        if among and trials.work(among):
            search = trials.search(MOST_RUNS)
            found = search.find(among)
            if search.is_exact:
                return _explain_culprits(trials, _find_pods(trials, observation, found), error)
    return _find_parts(trials, error) or (_explain_culprits(trials, found, error) if found else None)


def _find_pods(trials: _TrialDecisions[Decided], observation: Observation, suspects: list[Suspect]) -> list[Suspect]:
    """The suspects with pods of a namespace instead of the namespace."""
    for one in [suspect for suspect in suspects if suspect.subject in (FaultSubject.NAMESPACE, FaultSubject.PENDING)]:
        others = [other for other in suspects if other is not one]
        pods = list_pods(observation, one.name, is_pending=one.subject is FaultSubject.PENDING)
        suspects = [*others, *_find_pods_of_namespace(trials, pods, others, one)]
    return suspects


def _find_pods_of_namespace(
    trials: _TrialDecisions[Decided], pods: Sequence[Suspect], others: Sequence[Suspect], namespace: Suspect
) -> list[Suspect]:
    """The pods of a namespace that raise; the namespace itself, where the search takes too long."""
    search = trials.search(MOST_RUNS_IN_NAMESPACE, others)
    suspects = search.find(pods) if pods else [namespace]
    return suspects if search.is_exact else [namespace]


def _find_parts(trials: _TrialDecisions[Decided], error: Exception) -> Sequence[Raised] | None:
    """The parts of the decision that must be skipped."""
    parts_found = next((parts for parts in _PARTS if trials.work(parts)), None)
    return None if parts_found is None else [(part, error) for part in parts_found]


def _explain_culprits(trials: _TrialDecisions[Decided], culprits: Sequence[Suspect], error: Exception) -> list[Raised]:
    """The exception of each: raised where all others are excluded. An object that raises nothing then is dropped."""
    if len(culprits) == 1:
        return [(culprits[0], error)]
    remaining, found = list(culprits), list[Raised]()
    for suspect in culprits:
        raised = trials.find_error([other for other in remaining if other is not suspect])
        if raised is None:
            remaining.remove(suspect)
        else:
            found.append((suspect, raised))
    return found


def _merge_pods_of_namespace(raised: Sequence[Raised]) -> list[Raised]:
    """Replace many raising pods of one namespace by all pods of it."""
    of_pods = {id(suspect): suspect.namespace for suspect, _ in raised if suspect.subject is FaultSubject.POD}
    counts = Counter(of_pods.values())
    crowded = {name for name, count in counts.items() if count > MOST_IN_NAMESPACE}
    found = dict[str, Raised]()
    for one, error in raised:
        namespace = of_pods.get(id(one))
        if namespace in crowded:
            found.setdefault(
                f"{FaultSubject.NAMESPACE} {namespace}", (Suspect(FaultSubject.NAMESPACE, namespace), error)
            )
        else:
            found[f"{one} {id(one)}"] = one, error
    return list(found.values())


def find_faulty_objects(observation: Observation, settings: Settings, now_s: float) -> list[tuple[Suspect, Exception]]:
    """Objects that cannot be evaluated by themselves, and their exceptions."""
    checks, faulty_objects = _ObjectChecks(observation, settings, now_s), list[tuple[Suspect, Exception]]()
    for suspect in (*list_pods(observation), *list_suspects(observation)):
        error = checks.find_error(suspect)
        if error is not None:
            faulty_objects.append((suspect, error))
    return faulty_objects


class _ObjectChecks:
    """Evaluations of one object by itself."""

    def __init__(self, observation: Observation, settings: Settings, now_s: float) -> None:
        self._seen, self._snapshot, self._settings, self._now_s = observation, observation.snapshot, settings, now_s
        self._rows, self._pending = find_examples(observation), find_examples(observation, is_pending=True)

    def find_error(self, suspect: Suspect) -> Exception | None:
        """The exception of its evaluation; None without one."""
        try:
            with hide_excluded_pods(self._seen):
                self._check(suspect.subject, suspect.value)
        except Exception as error:  # whatever it is
            return error
        return None

    def _check(self, subject: FaultSubject, value: object) -> None:
        match value:
            case PodTemplateKey():
                number = self._snapshot.pods.template_keys.find(value)
                self._check_pod(self._rows[number], is_pending=number in self._pending)
            case ProvisioningRequest():
                queue = RequestQueue((value,), provisioning.ProvisioningMemory(), self._settings, self._now_s)
                queue.expire()
                queue.intern_shapes(self._snapshot)
            case BufferPods():
                self._check_shape(value.like)
            case node_groups.DaemonSet():
                for group in self._seen.groups:
                    if group.template is not None:
                        node_templates.runs_on(value.pod.spec, group.template)
                self._check_shape(value.pod)
            case facts.PodDisruptionBudget():
                pdb.RemainingPdbTracker((value,)).matching(value.namespace, {})
            case scale_up_status.Quota():
                count = orchestrator.make_gpu_measure(self._seen)
                nodes = [(node, None) for node in self._seen.nodes[:1]]
                resource_quotas.make_tracker(resource_quotas.QuotaBound.MAXIMUM, [value], nodes, count)
            case facts.Node():
                self._check_node(value)
            case node_groups.NodeGroup():
                self._check_group(value)
        if subject is FaultSubject.PRIORITIES:
            for group in self._seen.groups:
                priority.find_priority(group.id, self._seen.priorities)

    def _check_pod(self, row: int, is_pending: bool) -> None:
        pod, options = self._snapshot.pod(row), context.read_delete_options(self._settings)
        well_known.is_daemonset(pod)
        rules.check_pod(pod, context.DrainContext(self._now_s, options))
        if is_pending:
            pending_pods.is_daemonset_template(self._snapshot.pods.template_key(row))
            self._check_shape(pod)

    def _check_shape(self, pod: facts.Pod) -> None:
        shape = self._snapshot.shape_of(pod)
        pending_pods.is_expendable(shape.spec, self._settings.pods.expendable_pods_priority_cutoff)
        self._snapshot.size_of(shape)
        self._snapshot.requests(shape)
        registry.find_feasible(self._snapshot, shape, self._settings.filters)

    def _read_passing(self) -> taints.TransientTaints:
        return taints.make_transient_taints(self._settings.templates, self._settings.deviations.readiness_taints)

    def _check_node(self, node: facts.Node) -> None:
        passing = self._read_passing()
        node = passing.mark_starting(node)
        readiness.assess_node(node)
        node_templates.is_good_example(node, self._now_s)
        taints.sanitize(node, passing)
        eligibility.check_node(node, has_group=True, now_s=self._now_s)
        taints.marked_at_s(node, taints.TO_BE_DELETED_KEY)

    def _check_group(self, group: node_groups.NodeGroup) -> None:
        """Simulate a new node of the group, and an ordinary pod on it."""
        for_group(self._settings, group.options)
        alone = replace(self._seen, groups=(group,), daemon_sets=())
        made, _ = upcoming_nodes.find_group_templates(
            alone, (), {}, {}, self._settings, self._read_passing(), self._now_s
        )
        fit = template_fit.TemplateFit(self._snapshot, made, self._settings.filters)
        spec = facts.PodSpec(requests=((facts.CPU, 1), (facts.MEMORY, 1)))
        ordinary = self._snapshot.shapes.intern("", {}, spec)
        for id in made:
            fit.check_pods([id], [ordinary])
            limiter = binpacking_estimator.EstimationLimiter([binpacking_estimator.make_static_threshold(1)])
            fit.estimate(id, [binpacking_estimator.ShapeCount(ordinary, 1)], limiter)
