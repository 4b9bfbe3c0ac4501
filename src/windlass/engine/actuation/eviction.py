"""Evictor: evicts pods tier by tier within PodDisruptionBudgets, retries, and waits for them to terminate.

    requested, every 10 s while refused    for --max-pod-eviction-time from the first answer, then the drain fails
    all pods of the tier terminating       for the tier's grace period and 30 s, then the drain fails, or pods that
                                           should be gone count as gone
    all pods of the tier gone              the next tier begins

Tiers: the order of MachineDrainRules, then priority by --drain-priority-config. Budgets are charged as the eviction
API charges them, evictions in flight included, and are shared by all drains.

Static, DaemonSet and expendable pods end with the node. DaemonSet pods are evicted where flags or their annotation
say so, and not waited for, except with --drain-priority-config. Pods that Cluster API's label or a MachineDrainRule
skips are neither evicted nor waited for. Pods that came after revalidation are evicted too, if drain rules allow it;
else the drain fails.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from windlass.engine import taints
from windlass.engine.actuation.node_drain import ActuationContext, NodeDrain, find_open_drains
from windlass.engine.drainability import context, machine_drain, pdb, rules
from windlass.engine.drainability.context import make_drain_context
from windlass.engine.model import drainability, facts, plan, well_known
from windlass.engine.model.drainability import BlockingPodReason, DrainAction
from windlass.engine.model.drains import DrainFailureReason, DrainPhase, EvictionProgress
from windlass.engine.model.settings import DrainSettings, PriorityGrace
from windlass.engine.scale_up import pending_pods
from windlass.engine.snapshot.pod_table import pod_identity

POD_EVICTION_HEADROOM_S = 30.0
"""Time after its grace period by which a pod must be gone."""


_DELETION_TAINT = taints.make_to_be_deleted(0.0)


def evict_pods(drains: Sequence[NodeDrain], context: ActuationContext) -> None:
    """Evict the pods of drained nodes. Drains whose pods are gone stay open for the next step."""
    budget = EvictionBudget(context)
    for drain in drains:
        if drain.progress.evicting is not None:
            drain.update(evicting=record_refusals(drain.progress.evicting, context))
            budget.charge_in_flight(drain)
    for drain, _ in find_open_drains(drains):
        if drain.progress.evicting is not None:
            _NodeEviction(drain, drain.progress.evicting, budget, context).advance()


EVICTION_RETRY_S = 10.0
"""Interval after which an eviction without effect is requested again."""


def record_refusals(evicting: EvictionProgress, context: ActuationContext) -> EvictionProgress:
    """Record the messages of refused evictions."""
    refusal = {uid: refusal for uid, refusal in context.refused_evictions.items() if uid in evicting.tried}
    return replace(evicting, refused={**evicting.refused, **refusal}) if refusal else evicting


def is_eviction_in_flight(pod: facts.Pod, evicting: EvictionProgress, context: ActuationContext) -> bool:
    """Whether an eviction request of the pod is unanswered, or so recent that its effect may not be observed yet."""
    uid = pod_identity(pod)
    if pod.is_terminating or uid not in evicting.tried or uid in evicting.refused:
        return False
    return context.now_s < next_eviction_s(uid, evicting, context)


def next_eviction_s(uid: str, evicting: EvictionProgress, context: ActuationContext) -> float:
    """When to request the next eviction of a pod: one interval after the last response; inf while one is open."""
    evictions = context.observation.evictions
    if uid in evictions.unanswered:
        return math.inf
    answer, asked_s = evictions.answered.get(uid), evicting.tried.get(uid, -math.inf)
    return (asked_s if answer is None else max(answer.last_s, asked_s)) + EVICTION_RETRY_S


class EvictionBudget:
    """Charges evictions against PodDisruptionBudgets within one step, evictions in flight included."""

    def __init__(self, context: ActuationContext) -> None:
        self._context = context
        self._remaining = pdb.RemainingPdbTracker(context.observation.budgets, spares_unhealthy=True)

    def charge_in_flight(self, drain: NodeDrain) -> None:
        evicting = drain.progress.evicting
        if drain.node is None or evicting is None or not evicting.tried:
            return
        snapshot = self._context.observation.snapshot
        pods = [snapshot.pod(row) for row in snapshot.pods_on(snapshot.nodes.rows[drain.name])]
        self._remaining.consume_for_pods(pod for pod in pods if is_eviction_in_flight(pod, evicting, self._context))

    def try_consume(self, pod: facts.Pod) -> bool:
        """Charge the pod's budgets. False, without a charge, if one of them is exhausted."""
        budgets = self._remaining.charged_for(pod)
        if self._remaining.exhausted(budgets) is not None:
            return False
        self._remaining.consume([budgets])
        return True


class _NodeEviction:
    """The evictions of one node."""

    def __init__(
        self, drain: NodeDrain, evicting: EvictionProgress, budget: EvictionBudget, context: ActuationContext
    ) -> None:
        self._drain, self._budget, self._context = drain, budget, context
        self._now_s, self._settings = context.now_s, context.settings
        self._tiers = read_priority_tiers(self._settings.drain, context.drain_rules)
        self._remaining = find_remaining_pods(drain, evicting, context)
        self._evicting = evicting

    def advance(self) -> None:
        """Request evictions, wait or fail; the drain stays open if no pod is left."""
        if self._remaining.late:
            self._evicting = admit_late_pods(self._drain, self._remaining.late, self._evicting, self._context)
            self._remaining = find_remaining_pods(self._drain, self._evicting, self._context)
        if self._drain.is_open:
            self._advance_tiers()
        if self._drain.is_open:
            self._request_evictions()
            self._report_phase()
            self._drain.update(evicting=self._evicting)

    # Tiers

    @property
    def _pods_of_tier(self) -> list[facts.Pod]:
        """Pods of the current tier and of earlier ones."""
        return [pod for pod in self._remaining.holding if self._tiers.tier_of(pod) <= self._evicting.stage]

    def _advance_tiers(self) -> None:
        """Advance to the next tier while the current one has no pods to wait for; fail the drain if one is overdue."""
        while self._remaining.holding:
            if not self._pods_of_tier:
                stage = min(self._tiers.tier_of(pod) for pod in self._remaining.holding)
                self._evicting = replace(self._evicting, stage=stage, since_s=self._now_s, accepted_s=None)
            if self._evicting.accepted_s is None and not self._waiting:
                self._evicting = replace(self._evicting, accepted_s=self._now_s)
            if not self._is_overdue():
                return
            if not self._may_leave_behind():
                refused = self._evicting.accepted_s is None
                pods = self._waiting if refused else self._pods_of_tier
                self._drain.fail(
                    DrainFailureReason.EVICTION_REFUSED if refused else DrainFailureReason.PODS_STAYED,
                    *(self._describe(pod) for pod in pods),
                )
                return
            behind = self._evicting.left_behind | {pod_identity(pod) for pod in self._pods_of_tier}
            self._evicting = replace(self._evicting, left_behind=behind)
            self._remaining = find_remaining_pods(self._drain, self._evicting, self._context)

    @property
    def _waiting(self) -> list[facts.Pod]:
        """Pods of the tier that are not terminating."""
        return [pod for pod in self._pods_of_tier if not pod.is_terminating]

    @property
    def _deadline_s(self) -> float:
        evicting = self._evicting
        if evicting.accepted_s is None:
            return self._began_s + max(self._settings.drain.max_pod_eviction_time_s, EVICTION_RETRY_S)
        return evicting.accepted_s + self._tiers.limit_s(evicting.stage) + POD_EVICTION_HEADROOM_S

    @property
    def _began_s(self) -> float:
        """When the eviction timeout starts: every pending pod of the tier has had one response by then."""
        answered = self._context.observation.evictions.answered
        waiting = (pod_identity(pod) for pod in self._waiting) if answered else ()
        return max(self._evicting.since_s, *(answered[uid].first_s for uid in waiting if uid in answered), -math.inf)

    def _is_overdue(self) -> bool:
        """Whether the tier is past its deadline. An eviction in flight is waited for."""
        if self._now_s < self._deadline_s:
            return False
        if self._evicting.accepted_s is not None:
            return True
        return not any(is_eviction_in_flight(pod, self._evicting, self._context) for pod in self._waiting)

    def _may_leave_behind(self) -> bool:
        """Whether all remaining pods are terminating, and stuck pods count as gone."""
        is_ending = self._evicting.accepted_s is not None and not self._waiting
        return is_ending and self._settings.deviations.count_stuck_pods_as_gone

    def _describe(self, pod: facts.Pod) -> str:
        if self._is_left_to_finish(pod):
            return self._explain_wait(pod).text(pod)
        refusal = self._evicting.refused.get(pod_identity(pod))
        return f"{pod.key}: {refusal}" if refusal else pod.key

    def _explain_wait(self, pod: facts.Pod) -> drainability.DrainabilityStatus:
        """The status that makes the drain wait for the pod to complete."""
        rules = self._context.drain_rules
        if pod.drain_behavior is facts.DrainBehavior.DRAIN and (reason := rules.on_node(pod.node_name).unreadable):
            return machine_drain.unreadable_drain_rules_status(reason)
        rule = rules.find(pod)
        return (
            None if rule is None else machine_drain.machine_drain_rule_status(rule)
        ) or machine_drain.DRAIN_LABEL_WAIT

    # Evictions

    def _request_evictions(self) -> None:
        """Request the evictions that are due, as far as budgets allow."""
        agents = [
            pod
            for pod in self._remaining.agents
            if self._remaining.holding or pod_identity(pod) not in self._evicting.tried
        ]
        tried, refused = dict(self._evicting.tried), dict(self._evicting.refused)
        for pod in (*self._pods_of_tier, *agents):
            uid = pod_identity(pod)
            if self._is_left_to_finish(pod):
                continue
            if pod.is_terminating or self._now_s < next_eviction_s(uid, self._evicting, self._context):
                continue
            if self._budget.try_consume(pod):
                tried[uid] = self._now_s
                refused.pop(uid, None)
                self._drain.instructions.append(
                    plan.Evict(pod.namespace, pod.name, pod.uid, self._tiers.grace_s(pod), self._drain.name)
                )
        self._evicting = replace(self._evicting, tried=tried, refused=refused)

    def _is_left_to_finish(self, pod: facts.Pod) -> bool:
        """Whether the pod must be waited for since revalidation: for as long as an eviction may take."""
        return self._context.drain_rules.find_behavior(pod) is facts.DrainBehavior.WAIT_COMPLETED

    def _report_phase(self) -> None:
        """Set the drain's phase. DaemonSet pods only need to have been evicted once."""
        if self._remaining.holding:
            phase = DrainPhase.EVICTING if self._evicting.accepted_s is None else DrainPhase.TERMINATING
            waits_for = self._waiting if phase is DrainPhase.EVICTING else self._pods_of_tier
            self._drain.wait(phase, self._find_change_s(), [pod.key for pod in waits_for])
        elif self._drain.instructions:
            self._drain.wait(DrainPhase.EVICTING, self._now_s, [pod.key for pod in self._remaining.agents])
        elif self._drain.progress.emptied_s is None:
            self._drain.update(emptied_s=self._now_s)

    def _find_change_s(self) -> float:
        """When the same observation would be handled differently."""
        now_s, evicting = self._now_s, self._evicting
        times = [self._deadline_s]
        asked = (*self._waiting, *(pod for pod in self._remaining.agents if not pod.is_terminating))
        for uid in map(pod_identity, asked):
            is_tried = uid in evicting.tried
            times.append(next_eviction_s(uid, evicting, self._context) if is_tried else now_s + EVICTION_RETRY_S)
        if self._settings.deviations.count_stuck_pods_as_gone:
            gone = [
                well_known.gone_at_s(pod.deleted_s, pod.grace_s)
                for pod in self._pods_of_tier
                if pod.deleted_s is not None
            ]
            times += [math.nextafter(at_s, math.inf) for at_s in gone]  # strictly later
        return min((at_s for at_s in times if at_s > now_s), default=now_s + EVICTION_RETRY_S)


@dataclass(frozen=True, slots=True)
class PriorityTiers:
    """The rules in ascending order of priority; at least one."""

    rules: tuple[PriorityGrace, ...]
    drain_rules: context.DrainRules = context.NO_DRAIN_RULES

    def tier_of(self, pod: facts.Pod) -> int:
        """The tier in which the pod is evicted; ascending. Negative for negative orders."""
        rank = bisect_right(self.rules, pod.spec.priority or 0, key=lambda rule: rule.priority) - 1
        return self.drain_rules.find_order(pod) * len(self.rules) + max(rank, 0)

    def limit_s(self, tier: int) -> float:
        """Maximum grace period of the pods of a tier."""
        return float(self.rules[tier % len(self.rules)].grace_s)

    def grace_s(self, pod: facts.Pod) -> float:
        """The pod's grace period, at most its tier's limit; a limit of 0 is none."""
        own_s = well_known.DEFAULT_GRACE_S if pod.grace_s is None else pod.grace_s
        limit_s = self.limit_s(self.tier_of(pod))
        return min(own_s, limit_s) if limit_s > 0 else own_s


def read_priority_tiers(drain: DrainSettings, rules: context.DrainRules = context.NO_DRAIN_RULES) -> PriorityTiers:
    """The tiers from the flags' priorities, and the orders of MachineDrainRules."""
    if not drain.drain_priority_config:
        return PriorityTiers((PriorityGrace(0, drain.max_graceful_termination_s),), rules)
    return PriorityTiers(tuple(sorted(drain.drain_priority_config, key=lambda rule: rule.priority)), rules)


# ── Pods to evict ────────────────────────────────────────────────────────────────────────────────────────────────


def find_evictable_rows(name: str, context: ActuationContext) -> list[int]:
    """Rows of the pods on a node that must leave it."""
    snapshot = context.observation.snapshot
    return [row for row in snapshot.pods_on(snapshot.nodes.rows[name]) if _must_leave(snapshot.pod(row), context)]


def find_evictable_uids(name: str, context: ActuationContext) -> frozenset[str]:
    """The same pods by uid."""
    return frozenset(pod_identity(context.observation.snapshot.pod(row)) for row in find_evictable_rows(name, context))


def _must_leave(pod: facts.Pod, context: ActuationContext) -> bool:
    return _is_not_expendable(pod, context) and not well_known.is_mirror(pod) and not well_known.is_daemonset(pod)


def _is_not_expendable(pod: facts.Pod, context: ActuationContext) -> bool:
    return not pending_pods.is_expendable(pod.spec, context.settings.pods.expendable_pods_priority_cutoff)


@dataclass(frozen=True, slots=True)
class RemainingPods:
    """The pods that are left on a node."""

    holding: tuple[facts.Pod, ...] = ()
    """Pods that must be gone before the node is deleted."""
    agents: tuple[facts.Pod, ...] = ()
    """DaemonSet pods that are evicted and not waited for."""
    late: tuple[facts.Pod, ...] = ()
    """Pods that were bound after revalidation. Pods that tolerate the ToBeDeleted taint are not among them: they were
    bound in spite of it, and would be bound again after an eviction."""


def find_remaining_pods(drain: NodeDrain, evicting: EvictionProgress, context: ActuationContext) -> RemainingPods:
    """Classify the pods that are still on the node."""
    snapshot = context.observation.snapshot
    by_kind: dict[str, list[facts.Pod]] = {"holding": [], "agents": [], "late": []}
    for row in snapshot.pods_on(snapshot.nodes.rows[drain.name]):
        pod = snapshot.pod(row)
        part = _classify_pod(pod, drain, evicting, context)
        if part:
            by_kind[part].append(pod)
    return RemainingPods(**{part: tuple(pods) for part, pods in by_kind.items()})


def _classify_pod(pod: facts.Pod, drain: NodeDrain, evicting: EvictionProgress, context: ActuationContext) -> str:
    if not _is_not_expendable(pod, context) or _counts_as_gone(pod, evicting, context):
        return ""
    if well_known.is_daemonset(pod):
        have_turns = context.settings.drain.drain_priority_config and not drain.begun.is_empty
        part = "holding" if have_turns else "agents"
        return part if _is_evicted(pod, drain, evicting, context) else ""
    if not _must_leave(pod, context) or _ends_with_node(pod, context):
        return ""
    if pod_identity(pod) in evicting.known:
        return "holding"
    return "" if any(toleration.tolerates(_DELETION_TAINT) for toleration in pod.spec.tolerations) else "late"


def _ends_with_node(pod: facts.Pod, context: ActuationContext) -> bool:
    """Whether Cluster API's drain behavior of the pod is Skip: it is neither evicted nor waited for."""
    return context.drain_rules.find_behavior(pod) is facts.DrainBehavior.SKIP


def _is_evicted(pod: facts.Pod, drain: NodeDrain, evicting: EvictionProgress, context: ActuationContext) -> bool:
    """Whether this DaemonSet pod is to be evicted. A pod recreated during the drain is not."""
    settings = context.settings.drain
    empty, occupied = settings.daemonset_eviction_for_empty_nodes, settings.daemonset_eviction_for_occupied_nodes
    is_evicted = is_daemonset_pod_evicted(pod, empty if drain.begun.is_empty else occupied)
    return is_evicted and pod.created_s < evicting.began_s


def _counts_as_gone(pod: facts.Pod, evicting: EvictionProgress, context: ActuationContext) -> bool:
    if pod_identity(pod) in evicting.left_behind:
        return True
    counts_stuck = context.settings.deviations.count_stuck_pods_as_gone
    return counts_stuck and well_known.is_long_terminating(pod, context.now_s)


def admit_late_pods(
    drain: NodeDrain, late: Sequence[facts.Pod], evicting: EvictionProgress, context: ActuationContext
) -> EvictionProgress:
    """Add late pods to the pods that must be gone, or fail the drain if one of them may not be evicted."""
    about = make_drain_context(context.observation, context.settings, context.now_s)
    for pod in late:
        outcome = rules.check_pod(pod, about)
        if outcome is not None and outcome.action is DrainAction.SKIP:
            continue
        may_leave = (
            outcome is None or outcome.action is DrainAction.DRAIN or outcome.reason is BlockingPodReason.NOT_ENOUGH_PDB
        )
        if outcome is not None and not may_leave:
            drain.fail(DrainFailureReason.BLOCKED_BY_POD, outcome.text(pod))
        elif drain.begun.is_empty:
            drain.fail(DrainFailureReason.NOT_EMPTY, pod.key)
        else:
            evicting = replace(evicting, known=evicting.known | {pod_identity(pod)})
            continue
        return evicting
    return evicting


ENABLE_DS_EVICTION = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
"""`true` on a DaemonSet's pod: evict it. Any other value: do not."""


def is_daemonset_pod_evicted(pod: facts.Pod, by_default: bool) -> bool:
    """Is this DaemonSet pod evicted? `by_default` is what holds for its kind of node."""
    own = pod.annotations.get(ENABLE_DS_EVICTION)
    return by_default if own is None else own == "true"
