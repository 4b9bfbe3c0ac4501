"""Soundness: can an object be evaluated by itself?

Asked of every object once a decision has raised (`isolation`), so that the object is blamed and not one that happens
to be evaluated with it: not the pods, for a group of which no node can be imagined. What is checked here is what parts
of a decision ask of each; it need not be complete, because whoever is not found here is searched for.
"""

from dataclasses import replace

from windlass.engine import disruption, facts, outlook, pod_traits, predicates, readiness, taints
from windlass.engine.buffers.injecting import Spare
from windlass.engine.drain import context, rules
from windlass.engine.estimator import binpacking, limits
from windlass.engine.expanders import priority
from windlass.engine.observation import Observation
from windlass.engine.pods import Kind
from windlass.engine.provisioning import retries
from windlass.engine.provisioning.docket import Docket
from windlass.engine.provisioning.request import Request
from windlass.engine.quarantine import Subject, Suspect, find_examples, hidden, list_pods, list_suspects
from windlass.engine.scale_down import eligibility
from windlass.engine.scale_down import scene as scenes
from windlass.engine.scale_up import helping, pending, prospects, quotas, templates
from windlass.engine.settings import Settings, for_group


def find_unsound(seen: Observation, settings: Settings, now_s: float) -> list[tuple[Suspect, Exception]]:
    """The objects that cannot be evaluated, and why; each pod by itself."""
    checks, found = _Checks(seen, settings, now_s), list[tuple[Suspect, Exception]]()
    for one in (*list_pods(seen), *list_suspects(seen)):
        error = checks.find_error(one)
        if error is not None:
            found.append((one, error))
    return found


class _Checks:
    """What can be asked of one object alone."""

    def __init__(self, seen: Observation, settings: Settings, now_s: float) -> None:
        self._seen, self._snapshot, self._settings, self._now_s = seen, seen.snapshot, settings, now_s
        self._rows, self._pending = find_examples(seen), find_examples(seen, is_pending=True)

    def find_error(self, one: Suspect) -> Exception | None:
        """What is raised when it is evaluated; None if nothing is."""
        try:
            with hidden(self._seen):
                self._check(one.subject, one.value)
        except Exception as error:  # whatever it is
            return error
        return None

    def _check(self, subject: Subject, value: object) -> None:
        match value:
            case Kind():
                number = self._snapshot.pods.kinds.find(value)
                self._check_pod(self._rows[number], is_pending=number in self._pending)
            case Request():
                docket = Docket((value,), retries.Memory(), self._settings, self._now_s)
                docket.age()
                docket.learn(self._snapshot)
            case Spare():
                self._check_shape(value.like)
            case facts.DaemonSet():
                for group in self._seen.groups:
                    if group.template is not None:
                        templates.runs_on(value.pod.spec, group.template)
                self._check_shape(value.pod)
            case facts.PodDisruptionBudget():
                disruption.Remaining((value,)).matching(value.namespace, {})
            case quotas.Quota():
                count = helping.count_with_gpus(self._seen)
                nodes = [(node, None) for node in self._seen.nodes[:1]]
                quotas.track(quotas.Bound.MAXIMUM, [value], nodes, count)
            case facts.Node():
                self._check_node(value)
            case facts.NodeGroup():
                self._check_group(value)
        if subject is Subject.PRIORITIES:
            for group in self._seen.groups:
                priority.rank(group.id, self._seen.priorities)

    def _check_pod(self, row: int, is_pending: bool) -> None:
        pod, options = self._snapshot.pod(row), scenes.read_drain_options(self._settings)
        pod_traits.is_daemonset(pod)
        rules.judge(pod, context.Context(self._now_s, options))
        if is_pending:
            helping.is_of_daemonset(self._snapshot.pods.kind(row))
            self._check_shape(pod)

    def _check_shape(self, pod: facts.Pod) -> None:
        shape = self._snapshot.shape_of(pod)
        pending.is_expendable(shape.spec, self._settings.pods.expendable_pods_priority_cutoff)
        self._snapshot.size_of(shape)
        self._snapshot.requests(shape)
        predicates.feasible(self._snapshot, shape, self._settings.filters)

    def _read_passing(self) -> taints.Passing:
        return taints.read_settings(self._settings.templates, self._settings.deviations.readiness_taints)

    def _check_node(self, node: facts.Node) -> None:
        passing = self._read_passing()
        node = passing.judge_starting(node)
        readiness.judge(node)
        templates.is_good_example(node, self._now_s)
        taints.sanitize(node, passing)
        eligibility.judge_node(node, has_group=True, now_s=self._now_s)
        taints.marked_at_s(node, taints.TO_BE_DELETED)

    def _check_group(self, group: facts.NodeGroup) -> None:
        """Imagine a new node, and an ordinary pod on it."""
        for_group(self._settings, group.options)
        alone = replace(self._seen, groups=(group,), daemon_sets=())
        made, _ = outlook.find_templates(alone, (), {}, {}, self._settings, self._read_passing(), self._now_s)
        found = prospects.Prospects(self._snapshot, made, self._settings.filters)
        spec = facts.PodSpec(requests=((facts.CPU, 1), (facts.MEMORY, 1)))
        ordinary = self._snapshot.shapes.intern("", {}, spec)
        for id in made:
            found.ask([id], [ordinary])
            limiter = limits.Limiter([limits.limit_statically(1)])
            found.estimate(id, [binpacking.PodGroup(ordinary, 1)], limiter)
