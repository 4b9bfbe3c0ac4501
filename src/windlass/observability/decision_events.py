"""Decision reports: the events, counters and gauges of one decision, made before anything is awaited.

Some events are emitted before acting, so that they exist even if acting takes long or the process dies; the others when
the plan result is known. Events about the whole cluster refer to the status ConfigMap. Events are rate limited.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from windlass import clock
from windlass.engine import drain_loop, loop, taints
from windlass.engine.cluster_state import remediation
from windlass.engine.model import decision_record, facts, node_groups, plan
from windlass.engine.model.drains import DrainFailureReason
from windlass.engine.model.durable_memory import StartedDrain
from windlass.engine.model.plan import PlanResult
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.kube.events import NORMAL, WARNING, EventOccurrence, InvolvedObject
from windlass.observability import counter_values, gauge_values, metric_definitions, object_events
from windlass.observability.counter_values import RemovalLatency

EVENT_BURST = 20

EVENTS_PER_S = 10.0

MAX_QUEUE_S = 60.0
"""Where so many wait that this would take longer than this, they go faster."""


class EventRateLimiter:
    """Keeps those who ask apart."""

    def __init__(self, time: clock.Clock) -> None:
        self._clock = time
        self._due_s = float("-inf")
        """When the next would be due, if none ever went at once."""
        self._hurries = False

    def disable(self) -> None:
        """From now on nobody waits."""
        self._hurries = True

    async def wait(self, waiting: int) -> None:
        """After one of them, before the next; `waiting` is how many follow."""
        now_s = self._clock.monotonic_s()
        pause_s = 1.0 / max(EVENTS_PER_S, waiting / MAX_QUEUE_S)
        self._due_s = max(self._due_s, now_s - EVENT_BURST / EVENTS_PER_S) + pause_s
        await self._clock.sleep(0.0 if self._hurries else max(self._due_s - now_s, 0.0))


Occurrences = tuple[EventOccurrence, ...]

DrainsByNode = Mapping[str, StartedDrain]
"""Nodes on their way out, by name."""


@dataclass(frozen=True, slots=True)
class TriggeredEvents:
    """Events for pods that are helped by these groups, once all of them were raised."""

    groups: frozenset[str]
    events: Occurrences


@dataclass(frozen=True, slots=True)
class DecisionEvents:
    """What is said of a decision, or of drains that moved on, before and after it is carried out."""

    before: Occurrences = ()
    after: Occurrences = ()
    triggered: tuple[TriggeredEvents, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What must be known of a plan to say what became of it."""

    nodes: Mapping[str, InvolvedObject] = field(default_factory=dict)
    drains: DrainsByNode = field(default_factory=dict)
    unregistered: frozenset[plan.Instruction] = frozenset()
    """Removals of instances that never registered."""
    reverts: frozenset[plan.Instruction] = frozenset()
    """Sizes lowered because nodes did not come in time."""
    cleaned: frozenset[plan.Instruction] = frozenset()
    """Marks taken off because nobody acts on them."""


def node_reference(node: facts.Node) -> InvolvedObject:
    return InvolvedObject("v1", "Node", node.name, uid=node.uid)


def node_references(seen: Observation, mentioned: plan.Plan) -> dict[str, InvolvedObject]:
    """The nodes that a plan names, as far as they are there."""
    table = seen.snapshot.nodes
    names = {
        one.node
        for one in mentioned
        if not isinstance(one, plan.GroupInstruction | plan.ProvisioningRequestInstruction)
    }
    return {name: node_reference(table.facts[table.rows[name]]) for name in sorted(names) if name in table.rows}


def leader_event(namespace: str, lease: str, who: str, leads: bool) -> EventOccurrence:
    """Someone became the leader, or is no longer."""
    about = InvolvedObject("coordination.k8s.io/v1", "Lease", lease, namespace)
    return EventOccurrence(about, NORMAL, "LeaderElection", f"{who} {'became leader' if leads else 'stopped leading'}")


# ── A decision ───────────────────────────────────────────────────────────────────────────────────────────────────


def scaling_events(
    seen: Observation, decision: loop.Decision, settings: Settings, status: InvolvedObject, now_s: float
) -> DecisionEvents:
    """What a loop decided. `status` is the status ConfigMap."""
    raised = [
        EventOccurrence(status, NORMAL, "ScaledUpGroup", object_events.describe_setting_size(one))
        for one in decision.plan
        if isinstance(one, plan.Resize)
    ]
    before = (
        *object_events.health_events(decision.story, status, now_s),
        *object_events.limit_events(seen, decision.story, settings, status),
        *object_events.priority_events(seen, decision.story, status.namespace),
        *object_events.expander_events(seen, status),
        *raised,
        *object_events.drain_started_events(decision, status),
    )
    helped = (
        *object_events.triggered_scale_up_events(seen, decision.story),
        *object_events.buffer_triggered_events(decision.story),
    )
    triggered = tuple(
        TriggeredEvents(frozenset(one.group.id for one in proposal.increases), tuple(events))
        for proposal, events in helped
    )
    left = (
        *object_events.not_triggered_events(seen, decision.story),
        *object_events.buffer_not_triggered_events(seen, decision.story),
        *object_events.consumer_events(seen, decision.story),
        *object_events.unevaluated_pod_events(seen, decision.faults),
    )
    return DecisionEvents(before, left, triggered)


def scaling_plan_context(seen: Observation, decision: loop.Decision, settings: Settings) -> PlanContext:
    found, cleaned = decision.story.repairs, {taints.TO_BE_DELETED_KEY}
    if settings.scale_down.max_bulk_soft_taint_count == 0:
        cleaned.add(taints.DELETION_CANDIDATE_KEY)  # without soft taints, those of an earlier process go at the start
    return PlanContext(
        node_references(seen, decision.plan),
        decision.memory.durable.drains,
        frozenset(one for one in decision.plan if _is_unregistered_removal(one, found.unregistered)),
        frozenset(one for one in decision.plan if _is_revert(one, found.reverts)),
        frozenset(one for one in decision.plan if isinstance(one, plan.RemoveTaint) and one.key in cleaned),
    )


def _is_unregistered_removal(one: plan.Instruction, removals: Iterable[decision_record.InstanceRemoval]) -> bool:
    if not isinstance(one, plan.DeleteInstances):
        return False
    return any((one.group, one.provider_ids) == (removal.group, removal.instances) for removal in removals)


def _is_revert(one: plan.Instruction, decreases: Iterable[decision_record.SizeDecrease]) -> bool:
    if not isinstance(one, plan.ReduceTarget):
        return False
    return any((one.group, one.by) == (decrease.group, decrease.by) for decrease in decreases)


# ── Drains ───────────────────────────────────────────────────────────────────────────────────────────────────────


def drain_events(seen: Observation, advanced: drain_loop.DrainLoopResult, before: DrainsByNode) -> DecisionEvents:
    """What drains are about to do, and which of them failed. `before` are those that were known until now."""
    evicted = [
        EventOccurrence(
            InvolvedObject("v1", "Pod", one.name, one.namespace, one.uid),
            NORMAL,
            "ScaleDown",
            object_events.POD_EVICTED,
        )
        for one in advanced.plan
        if isinstance(one, plan.Evict)
    ]
    return DecisionEvents((*evicted, *object_events.drain_failed_events(seen, advanced, before)))


def drain_plan_context(seen: Observation, advanced: drain_loop.DrainLoopResult, before: DrainsByNode) -> PlanContext:
    abandoned = {
        one.node
        for one in advanced.story
        if one.failure is not None and one.failure.why is DrainFailureReason.ABANDONED
    }
    return PlanContext(
        node_references(seen, advanced.plan),
        {**before, **advanced.memory.durable.drains},
        cleaned=frozenset(one for one in advanced.plan if isinstance(one, plan.RemoveTaint) and one.node in abandoned),
    )


# ── What became of it ────────────────────────────────────────────────────────────────────────────────────────────


def plan_result_events(doing: PlanContext, outcome: PlanResult, status: InvolvedObject) -> Occurrences:
    """What was done and what failed, in that order."""
    done = (event for one in outcome.done for event in _done_events(one, doing, status))
    failed = (event for one, said in outcome.failed.items() for event in _failed_events(one, said, doing, status))
    return (*done, *failed)


def raised_group_events(told: DecisionEvents, outcome: PlanResult) -> Occurrences:
    """Events for the pods whose groups were raised."""
    refused = {one.group for one in outcome.failed if isinstance(one, plan.Resize)} | set(outcome.refused)
    return tuple(event for one in told.triggered if not one.groups & refused for event in one.events)


def _done_events(one: plan.Instruction, doing: PlanContext, status: InvolvedObject) -> Iterator[EventOccurrence]:
    match one:
        case plan.Resize():
            yield EventOccurrence(status, NORMAL, "ScaledUpGroup", object_events.describe_size_set(one))
        case plan.DeleteInstances(provider_ids=instances) if one in doing.unregistered:
            for instance in instances:
                yield EventOccurrence(status, NORMAL, "DeleteUnregistered", f"Removed unregistered node {instance}")
        case plan.RemoveTaint(node, key) if one in doing.cleaned and node in doing.nodes:
            message = f"removed {key} taint from node {node}"
            yield EventOccurrence(doing.nodes[node], NORMAL, "ClusterAutoscalerCleanup", message)
        case plan.SetTaint(node, taints.TO_BE_DELETED_KEY) if node in doing.nodes:
            yield EventOccurrence(doing.nodes[node], NORMAL, "ScaleDown", object_events.NODE_TAINTED)
        case plan.DeleteNode(node):
            if node in doing.nodes:
                yield EventOccurrence(doing.nodes[node], NORMAL, "ScaleDown", object_events.NODES_REMOVED)
            yield object_events.node_removed_event(node, doing.drains.get(node), status)


def _failed_events(
    one: plan.Instruction, said: str, doing: PlanContext, status: InvolvedObject
) -> Iterator[EventOccurrence]:
    match one:
        case plan.Resize(group):
            yield EventOccurrence(status, WARNING, "FailedToScaleUpGroup", f"Scale-up failed for group {group}: {said}")
        case plan.ReduceTarget(group) if one in doing.reverts:
            message = f"Failed to decrease target size for group {group} after scale-up timeout: {said}"
            yield EventOccurrence(status, WARNING, "FailedToRevertScaleUp", message)
        case plan.DeleteInstances(provider_ids=instances) if one in doing.unregistered:
            for instance in instances:
                message = f"Failed to remove node {instance}: {said}"
                yield EventOccurrence(status, WARNING, "DeleteUnregisteredFailed", message)
        case plan.RemoveTaint(node, key) if one in doing.cleaned and node in doing.nodes:
            message = f"failed to clean {key} on node {node}: {said}"
            yield EventOccurrence(doing.nodes[node], WARNING, "ClusterAutoscalerCleanup", message)
        case plan.SetTaint(node, taints.TO_BE_DELETED_KEY) | plan.Cordon(node, True) if node in doing.nodes:
            yield EventOccurrence(
                doing.nodes[node], WARNING, "ScaleDownFailed", object_events.describe_taint_failure(said)
            )


@dataclass(frozen=True, slots=True)
class DecisionReport:
    """What is to be said of a decision, or of drains that moved on, once it is known what became of it."""

    decision: loop.Decision | drain_loop.DrainLoopResult
    now_s: float
    """When it was decided."""
    emitted_events: DecisionEvents = field(default_factory=DecisionEvents)
    plan_context: PlanContext = field(default_factory=PlanContext)
    objects: counter_values.PlanObjects = field(default_factory=counter_values.PlanObjects)
    groups: tuple[node_groups.NodeGroup, ...] = ()
    group_of: Mapping[str, node_groups.NodeGroup] = field(default_factory=dict)
    """By node name."""
    gauges: metric_definitions.GaugeValues = field(default_factory=dict)
    counts: tuple[metric_definitions.CounterIncrement, ...] = ()
    latencies: tuple[RemovalLatency, ...] = ()
    held: tuple[node_groups.HeldGroup, ...] = ()
    """Groups that are left alone."""


def report_decision(
    seen: Observation,
    decision: loop.Decision,
    settings: Settings,
    status: InvolvedObject,
    latencies: Iterable[RemovalLatency],
    now_s: float,
) -> DecisionReport:
    """What is to be said of a loop, but for gauges. `status` is the status ConfigMap."""
    known = counter_values.find_plan_objects(seen, decision)
    return DecisionReport(
        decision,
        now_s,
        scaling_events(seen, decision, settings, status, now_s),
        scaling_plan_context(seen, decision, settings),
        known,
        seen.groups,
        seen.group_of_nodes(),
        counts=(*counter_values.count_decision(decision, known), *counter_values.count_opinions(seen)),
        latencies=tuple(latencies),
        held=(*seen.held, *_held_by_owner(seen, settings)),
    )


def _held_by_owner(seen: Observation, settings: Settings) -> Iterator[node_groups.HeldGroup]:
    """Groups that are left alone because another controller applies their size."""
    for id, why in remediation.list_owned_elsewhere(seen.groups, settings.deviations):
        yield node_groups.HeldGroup(id, why)


def report_drains(
    seen: Observation, advanced: drain_loop.DrainLoopResult, before: DrainsByNode, now_s: float
) -> DecisionReport:
    """What is to be said of drains that moved on. `before` are those that were known until now."""
    return DecisionReport(
        advanced,
        now_s,
        drain_events(seen, advanced, before),
        drain_plan_context(seen, advanced, before),
        counter_values.find_plan_objects(seen, advanced),
        gauges=gauge_values.drain_gauges(advanced),
        counts=tuple(counter_values.count_advance(advanced, before)),
    )
