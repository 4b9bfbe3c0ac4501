"""DefaultPreemption: victims on a node whose removal lets a more important pod fit.

On every node that rejects the pod because of other pods: remove all pods of lower priority, check that the pod fits,
then reprieve as many as possible, those whose eviction would violate a PodDisruptionBudget first, then those of higher
priority. The node with the least cost is nominated. Upstream tries a random tenth of the nodes (at least 100); here all
are tried, and the last tie is decided by name.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.simulator.reference_scheduler import framework, label_selectors
from windlass.simulator.reference_scheduler.cluster_view import (
    ClusterView,
    Json,
    NodeView,
    is_same_pod,
    is_terminating,
    key_of,
    labels_of,
    nominated_node_of,
    priority_of,
    read_time,
)
from windlass.simulator.reference_scheduler.filters import FilterChain
from windlass.simulator.reference_scheduler.framework import Rejection, StatusCode

LOWEST_PRIORITY = -(2**31)
PLUGIN = "DefaultPreemption"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and its victims."""

    node_name: str
    victims: tuple[Json, ...]
    """Most important first; never empty."""
    broken_budgets: int
    """Number of victims whose eviction violates a PodDisruptionBudget."""


@dataclass(frozen=True, slots=True)
class PreemptionFailure:
    """Preemption cannot help; the reason, and whether an earlier nomination is cleared."""

    reason: str
    clears_nomination: bool


@dataclass(frozen=True, slots=True)
class PreemptionEvaluator:
    """Preemption for one pod: its filters, their result by node, and nominated pods."""

    cluster: ClusterView
    cycle: FilterChain
    refusals: Mapping[str, Rejection]
    nominations: Mapping[str, Sequence[Json]]

    @property
    def pod(self) -> Json:
        return self.cycle.pod

    def find_candidate(self) -> Candidate | PreemptionFailure:
        reason = self._ineligible_reason()
        if reason:
            return PreemptionFailure(reason, clears_nomination=False)
        candidates = []
        failures = {}
        for name, refusal in sorted(self.refusals.items()):
            if refusal.code is StatusCode.UNSCHEDULABLE:
                outcome = self._select_victims(self.cluster.nodes[name])
                if isinstance(outcome, Candidate):
                    candidates.append(outcome)
                else:
                    failures[name] = outcome
        if candidates:
            return min(candidates, key=_candidate_cost)
        others = "Preemption is not helpful for scheduling"
        return PreemptionFailure(
            framework.format_fit_error(len(self.cluster.nodes), failures, others), clears_nomination=True
        )

    def _ineligible_reason(self) -> str | None:
        """Why the pod may not preempt: its preemptionPolicy, or victims that are still terminating."""
        if self.pod["spec"].get("preemptionPolicy") == "Never":
            return "not eligible due to preemptionPolicy=Never."
        name = nominated_node_of(self.pod)
        refusal = self.refusals.get(name)
        if refusal is None or refusal.code is StatusCode.UNRESOLVABLE:
            return None
        on_node = self.cluster.nodes[name].pods.values()
        if any(self._can_preempt(seated.pod) and _is_being_preempted(seated.pod) for seated in on_node):
            return "not eligible due to a terminating pod on the nominated node."
        return None

    def _can_preempt(self, other: Json) -> bool:
        return priority_of(other) < priority_of(self.pod)

    def _select_victims(self, original: NodeView) -> Candidate | Rejection:
        cycle, node = self.cycle.copy(), original.copy()
        potential = sort_by_importance(
            [assigned_pod.pod for assigned_pod in node.pods.values() if self._can_preempt(assigned_pod.pod)]
        )
        if not potential:
            return Rejection(PLUGIN, StatusCode.UNRESOLVABLE, ("No preemption victims found for incoming pod",))
        for pod in potential:
            cycle.remove_pod(pod, node)
        refusal = filter_with_nominated_pods(cycle, node, self.nominations)
        if refusal is not None:
            return refusal
        violating, harmless = _split_by_budgets(potential, list(self.cluster.all_of("PodDisruptionBudget").values()))
        broken = [pod for pod in violating if not self._reprieve(pod, cycle, node)]
        others = [pod for pod in harmless if not self._reprieve(pod, cycle, node)]
        return Candidate(node.name, tuple(sort_by_importance([*broken, *others])), len(broken))

    def _reprieve(self, pod: Json, cycle: FilterChain, node: NodeView) -> bool:
        """Reprieve a pod: put it back if the preemptor still fits."""
        cycle.add_pod(pod, node)
        if filter_with_nominated_pods(cycle, node, self.nominations) is None:
            return True
        cycle.remove_pod(pod, node)
        return False


def filter_with_nominated_pods(
    cycle: FilterChain, node: NodeView, nominations: Mapping[str, Sequence[Json]]
) -> Rejection | None:
    """Filter a node twice: with its nominated pods, and without.

    Pods at least as important that wait for their victims to go count as if they were there. They might still end up
    elsewhere, and then the pod must fit without them too.
    """
    pod = cycle.pod
    promised = [
        other
        for other in nominations.get(node.name, ())
        if priority_of(other) >= priority_of(pod) and not is_same_pod(other, pod)
    ]
    if promised:
        imagined, imagined_node = cycle.copy(), node.copy()
        for other in promised:
            imagined.add_pod(other, imagined_node)
        refusal = imagined.filter(imagined_node)
        if refusal is not None:
            return refusal
    return cycle.filter(node)


def sort_by_importance(pods: Sequence[Json]) -> list[Json]:
    """Higher priority first, then the longer running; pods that have not started come last."""
    return sorted(pods, key=lambda pod: (-priority_of(pod), start_time_of(pod), key_of(pod)))


def start_time_of(pod: Json) -> datetime.datetime:
    return read_time((pod.get("status") or {}).get("startTime"))


def _split_by_budgets(pods: Sequence[Json], budgets: Sequence[Json]) -> tuple[list[Json], list[Json]]:
    """Pods whose eviction would violate a budget, and the rest. Each eviction is charged to its budgets."""
    left = {key_of(budget): int((budget.get("status") or {}).get("disruptionsAllowed") or 0) for budget in budgets}
    violating: list[Json] = []
    harmless: list[Json] = []
    for pod in pods:
        mine = [key_of(budget) for budget in budgets if _protects(budget, pod)]
        for key in mine:
            left[key] -= 1
        (violating if any(left[key] < 0 for key in mine) else harmless).append(pod)
    return violating, harmless


def _protects(budget: Json, pod: Json) -> bool:
    """An empty selector selects no pod here; a pod in disruptedPods is already charged."""
    if budget["metadata"]["namespace"] != pod["metadata"]["namespace"] or not labels_of(pod):
        return False
    if pod["metadata"]["name"] in ((budget.get("status") or {}).get("disruptedPods") or {}):
        return False
    selector = budget["spec"].get("selector")
    if label_selectors.selector_error(selector):
        return False
    return not label_selectors.is_empty_selector(selector) and label_selectors.matches_selector(
        selector, labels_of(pod)
    )


def _candidate_cost(candidate: Candidate) -> tuple[int, int, int, int, float, str]:
    """Smallest is best: budget violations, highest priority, sum of priorities, number of victims, latest start."""
    priorities = [priority_of(pod) for pod in candidate.victims]
    # Shifted, so that every further victim costs something even where priorities are negative.
    total = sum(priority - LOWEST_PRIORITY for priority in priorities)
    earliest = min(start_time_of(pod) for pod in candidate.victims if priority_of(pod) == max(priorities))
    return (
        candidate.broken_budgets,
        max(priorities),
        total,
        len(priorities),
        -earliest.timestamp(),
        candidate.node_name,
    )


def _is_being_preempted(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    target: Json = next((item for item in conditions if item["type"] == "DisruptionTarget"), {})
    by_scheduler = target.get("status") == "True" and target.get("reason") == "PreemptionByScheduler"
    return is_terminating(pod) and by_scheduler
