"""Decision reports: the events, counters and gauges of one decision, made before anything is awaited.

Some events are emitted before acting, so that they exist even if acting takes long or the process dies; the others when
the plan result is known. Events about the whole cluster refer to the status ConfigMap. Events are rate-limited.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from windlass import clock
from windlass.engine import drain_loop, loop, taints
from windlass.engine.model import decision_record, node_groups, plan
from windlass.engine.model.drains import DrainFailureReason
from windlass.engine.model.durable_memory import StartedDrain
from windlass.engine.model.plan import PlanResult
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain.decision_view import DecisionView
from windlass.kube.events import NORMAL, WARNING, EventOccurrence, InvolvedObject
from windlass.observability import counter_values, gauge_values, metric_definitions, object_events
from windlass.observability.counter_values import RemovalLatency

EVENT_BURST = 20

EVENTS_PER_S = 10.0

MAX_QUEUE_S = 60.0
"""Maximum delay of queued events; a longer queue is sent faster."""


class EventRateLimiter:
    """Spaces events out."""

    def __init__(self, time: clock.Clock) -> None:
        self._clock = time
        self._due_s = float("-inf")
        """When the next event would be due without bursts."""
        self._hurries = False

    def disable(self) -> None:
        """Stop limiting."""
        self._hurries = True

    async def wait(self, waiting: int) -> None:
        """Wait after an event, before the next; `waiting` is the length of the queue."""
        now_s = self._clock.monotonic_s()
        pause_s = 1.0 / max(EVENTS_PER_S, waiting / MAX_QUEUE_S)
        self._due_s = max(self._due_s, now_s - EVENT_BURST / EVENTS_PER_S) + pause_s
        await self._clock.sleep(0.0 if self._hurries else max(self._due_s - now_s, 0.0))


Occurrences = tuple[EventOccurrence, ...]

DrainsByNode = Mapping[str, StartedDrain]
"""Draining nodes by name."""


@dataclass(frozen=True, slots=True)
class TriggeredEvents:
    """Events for pods that trigger the scale-up of these groups, once all were resized."""

    groups: frozenset[str]
    events: Occurrences


@dataclass(frozen=True, slots=True)
class DecisionEvents:
    """Events of a decision or drain step, before and after it is carried out."""

    before: Occurrences = ()
    after: Occurrences = ()
    triggered: tuple[TriggeredEvents, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanContext:
    """Context of a plan, for reporting its results."""

    nodes: Mapping[str, InvolvedObject] = field(default_factory=dict)
    drains: DrainsByNode = field(default_factory=dict)
    unregistered: frozenset[plan.Instruction] = frozenset()
    """Removals of unregistered instances."""
    reverts: frozenset[plan.Instruction] = frozenset()
    """Reverts of scale-ups that timed out."""
    cleaned: frozenset[plan.Instruction] = frozenset()
    """Removals of stale taints."""


def node_references(observation: Observation, mentioned: plan.Plan) -> dict[str, InvolvedObject]:
    """Return references to the existing nodes that a plan names."""
    table = observation.snapshot.nodes
    names = {
        instruction.node
        for instruction in mentioned
        if not isinstance(instruction, plan.GroupInstruction | plan.ProvisioningRequestInstruction)
    }
    return {
        name: object_events.node_reference(table.facts[table.rows[name]])
        for name in sorted(names)
        if name in table.rows
    }


def leader_event(namespace: str, lease: str, who: str, leads: bool) -> EventOccurrence:
    """Return the event of acquiring or losing leadership."""
    about = InvolvedObject("coordination.k8s.io/v1", "Lease", lease, namespace)
    return EventOccurrence(about, NORMAL, "LeaderElection", f"{who} {'became leader' if leads else 'stopped leading'}")


# ── Decisions ────────────────────────────────────────────────────────────────────────────────────────────────────


def scaling_events(view: DecisionView, settings: Settings, status: InvolvedObject, now_s: float) -> DecisionEvents:
    """Return the events of a loop. `status`: the status ConfigMap."""
    record, observation = view.record, view.observation
    resizes = [
        EventOccurrence(status, NORMAL, "ScaledUpGroup", object_events.describe_setting_size(instruction))
        for instruction in view.decision.plan
        if isinstance(instruction, plan.Resize)
    ]
    before = (
        *object_events.health_events(record, status, now_s),
        *object_events.limit_events(observation, record, settings, status),
        *object_events.priority_events(observation, record, status.namespace),
        *object_events.expander_events(observation, status),
        *resizes,
        *object_events.drain_started_events(view, status),
    )
    helped = (
        *object_events.triggered_scale_up_events(observation, record),
        *object_events.buffer_triggered_events(record),
    )
    triggered = tuple(
        TriggeredEvents(frozenset(increase.group.id for increase in proposal.increases), tuple(events))
        for proposal, events in helped
    )
    after = (
        *object_events.not_triggered_events(observation, record),
        *object_events.buffer_not_triggered_events(observation, record),
        *object_events.consumer_events(observation, record),
        *object_events.unevaluated_pod_events(observation, view.decision.faults),
    )
    return DecisionEvents(before, after, triggered)


def scaling_plan_context(view: DecisionView, settings: Settings) -> PlanContext:
    instructions, remediation = view.decision.plan, view.record.repairs
    cleaned = {taints.TO_BE_DELETED_KEY}
    if settings.scale_down.max_bulk_soft_taint_count == 0:
        cleaned.add(taints.DELETION_CANDIDATE_KEY)  # at startup, without soft taints
    return PlanContext(
        node_references(view.observation, instructions),
        view.drains,
        frozenset(item for item in instructions if _is_unregistered_removal(item, remediation.unregistered)),
        frozenset(item for item in instructions if _is_revert(item, remediation.reverts)),
        frozenset(item for item in instructions if isinstance(item, plan.RemoveTaint) and item.key in cleaned),
    )


def _is_unregistered_removal(
    instruction: plan.Instruction, removals: Iterable[decision_record.InstanceRemoval]
) -> bool:
    if not isinstance(instruction, plan.DeleteInstances):
        return False
    return any(
        (instruction.group, instruction.provider_ids) == (removal.group, removal.instances) for removal in removals
    )


def _is_revert(instruction: plan.Instruction, decreases: Iterable[decision_record.SizeDecrease]) -> bool:
    if not isinstance(instruction, plan.ReduceTarget):
        return False
    return any((instruction.group, instruction.by) == (decrease.group, decrease.by) for decrease in decreases)


# ── Drains ───────────────────────────────────────────────────────────────────────────────────────────────────────


def drain_events(
    observation: Observation, advanced: drain_loop.DrainLoopResult, before: DrainsByNode
) -> DecisionEvents:
    """Return events of drains that start or failed. `before`: the previous drains."""
    evicted = [
        EventOccurrence(
            InvolvedObject("v1", "Pod", instruction.name, instruction.namespace, instruction.uid),
            NORMAL,
            "ScaleDown",
            object_events.POD_EVICTED,
        )
        for instruction in advanced.plan
        if isinstance(instruction, plan.Evict)
    ]
    return DecisionEvents((*evicted, *object_events.drain_failed_events(observation, advanced, before)))


def drain_plan_context(
    observation: Observation, advanced: drain_loop.DrainLoopResult, before: DrainsByNode
) -> PlanContext:
    abandoned = {
        drain.node
        for drain in advanced.story
        if drain.failure is not None and drain.failure.why is DrainFailureReason.ABANDONED
    }
    return PlanContext(
        node_references(observation, advanced.plan),
        {**before, **advanced.memory.durable.drains},
        cleaned=frozenset(
            instruction
            for instruction in advanced.plan
            if isinstance(instruction, plan.RemoveTaint) and instruction.node in abandoned
        ),
    )


# ── Plan results ─────────────────────────────────────────────────────────────────────────────────────────────────


def plan_result_events(doing: PlanContext, outcome: PlanResult, status: InvolvedObject) -> Occurrences:
    """Return events of executed, then of failed instructions."""
    done = (event for instruction in outcome.done for event in _done_events(instruction, doing, status))
    failed = (
        event
        for instruction, error in outcome.failed.items()
        for event in _failed_events(instruction, error, doing, status)
    )
    return (*done, *failed)


def raised_group_events(decision_events: DecisionEvents, outcome: PlanResult) -> Occurrences:
    """Return events for pods whose groups were resized."""
    refused = {instruction.group for instruction in outcome.failed if isinstance(instruction, plan.Resize)} | set(
        outcome.refused
    )
    return tuple(
        event
        for triggered_events in decision_events.triggered
        if not triggered_events.groups & refused
        for event in triggered_events.events
    )


def _done_events(
    instruction: plan.Instruction, doing: PlanContext, status: InvolvedObject
) -> Iterator[EventOccurrence]:
    match instruction:
        case plan.Resize():
            yield EventOccurrence(status, NORMAL, "ScaledUpGroup", object_events.describe_size_set(instruction))
        case plan.DeleteInstances(provider_ids=instances) if instruction in doing.unregistered:
            for instance in instances:
                yield EventOccurrence(status, NORMAL, "DeleteUnregistered", f"Removed unregistered node {instance}")
        case plan.RemoveTaint(node, key) if instruction in doing.cleaned and node in doing.nodes:
            message = f"removed {key} taint from node {node}"
            yield EventOccurrence(doing.nodes[node], NORMAL, "ClusterAutoscalerCleanup", message)
        case plan.SetTaint(node, taints.TO_BE_DELETED_KEY) if node in doing.nodes:
            yield EventOccurrence(doing.nodes[node], NORMAL, "ScaleDown", object_events.NODE_TAINTED)
        case plan.DeleteNode(node):
            if node in doing.nodes:
                yield EventOccurrence(doing.nodes[node], NORMAL, "ScaleDown", object_events.NODES_REMOVED)
            yield object_events.node_removed_event(node, doing.drains.get(node), status)


def _failed_events(
    instruction: plan.Instruction, said: str, doing: PlanContext, status: InvolvedObject
) -> Iterator[EventOccurrence]:
    match instruction:
        case plan.Resize(group):
            yield EventOccurrence(status, WARNING, "FailedToScaleUpGroup", f"Scale-up failed for group {group}: {said}")
        case plan.ReduceTarget(group) if instruction in doing.reverts:
            message = f"Failed to decrease target size for group {group} after scale-up timeout: {said}"
            yield EventOccurrence(status, WARNING, "FailedToRevertScaleUp", message)
        case plan.DeleteInstances(provider_ids=instances) if instruction in doing.unregistered:
            for instance in instances:
                message = f"Failed to remove node {instance}: {said}"
                yield EventOccurrence(status, WARNING, "DeleteUnregisteredFailed", message)
        case plan.RemoveTaint(node, key) if instruction in doing.cleaned and node in doing.nodes:
            message = f"failed to clean {key} on node {node}: {said}"
            yield EventOccurrence(doing.nodes[node], WARNING, "ClusterAutoscalerCleanup", message)
        case plan.SetTaint(node, taints.TO_BE_DELETED_KEY) | plan.Cordon(node, True) if node in doing.nodes:
            yield EventOccurrence(
                doing.nodes[node], WARNING, "ScaleDownFailed", object_events.describe_taint_failure(said)
            )


@dataclass(frozen=True, slots=True)
class DecisionReport:
    """Report of a decision or drain step, completed when its result is known."""

    decision: loop.Decision | drain_loop.DrainLoopResult
    now_s: float
    """Time of the decision."""
    emitted_events: DecisionEvents = field(default_factory=DecisionEvents)
    plan_context: PlanContext = field(default_factory=PlanContext)
    objects: counter_values.PlanObjects = field(default_factory=counter_values.PlanObjects)
    view: DecisionView | None = None
    """View of a loop's decision; None after a drain step."""
    gauges: metric_definitions.GaugeValues = field(default_factory=dict)
    counts: tuple[metric_definitions.CounterIncrement, ...] = ()
    latencies: tuple[RemovalLatency, ...] = ()
    held: tuple[node_groups.HeldGroup, ...] = ()
    """Groups that are not scaled."""


def report_decision(
    view: DecisionView, settings: Settings, status: InvolvedObject, latencies: Iterable[RemovalLatency], now_s: float
) -> DecisionReport:
    """Report a decision, without gauges. `status`: the status ConfigMap."""
    objects = counter_values.find_plan_objects(view.observation, view.decision)
    return DecisionReport(
        view.decision,
        now_s,
        scaling_events(view, settings, status, now_s),
        scaling_plan_context(view, settings),
        objects,
        view.freeze(),
        counts=(*counter_values.count_decision(view, objects), *counter_values.count_opinions(view.observation)),
        latencies=tuple(latencies),
        held=tuple(view.held_groups(settings.deviations)),
    )


def report_drains(
    observation: Observation, advanced: drain_loop.DrainLoopResult, before: DrainsByNode, now_s: float
) -> DecisionReport:
    """Report a drain step. `before`: the previous drains."""
    return DecisionReport(
        advanced,
        now_s,
        drain_events(observation, advanced, before),
        drain_plan_context(observation, advanced, before),
        counter_values.find_plan_objects(observation, advanced),
        gauges=gauge_values.drain_gauges(advanced),
        counts=tuple(counter_values.count_advance(advanced, before)),
    )
