"""Pod list processing: which pods ask for new nodes, as one ordered tuple (`POD_LIST_PROCESSORS`).

The tuple can be laid beside Cluster Autoscaler's chain of pod list processors (core/podlistprocessor). Each processor
takes the list as the processors before it left it and returns the next one; pods that need no new node are bound to
nodes in the loop's fork of the snapshot.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from windlass.engine import time_limits
from windlass.engine.capacity_apis import proactive_pods, provisioning_request_queue
from windlass.engine.model import facts
from windlass.engine.model.durable_memory import StartedDrain
from windlass.engine.model.provisioning import BufferPods
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.scale_up import pending_pods
from windlass.engine.snapshot.cluster_snapshot import Snapshot


def _filter_by_spec(snapshot: Snapshot, rows: Sequence[int], judge: Callable[[facts.PodSpec], bool]) -> list[int]:
    """The rows whose specs pass; each spec is judged once."""
    shape_ids = snapshot.pods.shape_ids[list(rows)].tolist()
    passed = {number: judge(snapshot.shapes[number].spec) for number in set(shape_ids)}
    return [row for row, number in zip(rows, shape_ids, strict=True) if passed[number]]


@dataclass(frozen=True, slots=True)
class PodListContext:
    """What processors read."""

    observation: Observation
    settings: Settings
    now_s: float
    drains: Mapping[str, StartedDrain]
    """Drains under way that evict pods, by node name."""
    queue: provisioning_request_queue.RequestQueue
    pending_search: hinting.HintingState
    """Placement hints of pending pods."""
    booking_search: hinting.HintingState
    """Placement hints of booked capacity."""
    timer: time_limits.DecisionTimer


@dataclass(frozen=True, slots=True)
class PodList:
    """The pods of a scale-up, by rows of the snapshot. Rows of injected pods come after those of existing pods."""

    pending: pending_pods.PendingPods = pending_pods.NO_PODS
    """Pending pods by schedulability, injected pods included."""
    unschedulable: tuple[int, ...] = ()
    """The list that processors pass on: pods that may need new nodes."""
    buffer_rows: tuple[tuple[BufferPods, range], ...] = ()
    """Rows of the pods of each CapacityBuffer, one buffer after another."""
    first_controller_row: int = 0
    """From this row on, injected pods are those that controllers want and have not created yet."""
    consumers: tuple[int, ...] = ()
    """Pods that consume booked capacity."""
    request: str = ""
    """Key of the ProvisioningRequest that is due; empty without one."""
    requested: tuple[int, ...] = ()
    """Its injected pods, as far as they are old enough."""
    booked: Mapping[str, int] = field(default_factory=dict)
    """Pods of each ProvisioningRequest that booked capacity is kept for."""


def _sort_by_schedulability(pods: PodList, context: PodListContext) -> PodList:
    pending = pending_pods.sort_pending(context.observation.snapshot, context.settings)
    return replace(pods, pending=pending, unschedulable=(*pending.unschedulable, *pending.unprocessed))


def _bind_nominated_pods(pods: PodList, context: PodListContext) -> PodList:
    cutoff = context.settings.pods.expendable_pods_priority_cutoff
    pending_pods.bind_nominated(context.observation.snapshot, pods.pending.nominated, cutoff)
    return pods


def _inject_buffer_pods(pods: PodList, context: PodListContext) -> PodList:
    snapshot = context.observation.snapshot
    first_row = len(snapshot.pods.names)
    buffers = context.observation.spares if context.settings.injection.capacity_buffer_pod_injection_enabled else ()
    rows_of = tuple((buffer, snapshot.append_pods(buffer.like, list(buffer.names))) for buffer in buffers)
    injected = [row for _, rows in rows_of for row in rows]
    pods = replace(pods, buffer_rows=rows_of, first_controller_row=first_row + len(injected))
    return _add_injected(pods, injected)


def _inject_controller_pods(pods: PodList, context: PodListContext) -> PodList:
    if not context.settings.injection.enable_proactive_scaleup:
        return pods
    snapshot, controllers = context.observation.snapshot, context.observation.controllers or {}
    own = {row for _, rows in pods.buffer_rows for row in rows}
    existing = [row for row in (*pods.pending.unschedulable, *pods.pending.unprocessed) if row not in own]
    return _add_injected(pods, proactive_pods.inject_missing_pods(snapshot, controllers.values(), existing))


def _add_injected(pods: PodList, injected: Sequence[int]) -> PodList:
    """The list with injected pods, which count as unschedulable."""
    pending = replace(pods.pending, unschedulable=(*pods.pending.unschedulable, *injected))
    return replace(pods, pending=pending, unschedulable=(*pending.unschedulable, *pending.unprocessed))


def _filter_out_expendable_pods(pods: PodList, context: PodListContext) -> PodList:
    cutoff = context.settings.pods.expendable_pods_priority_cutoff
    kept = _filter_by_spec(
        context.observation.snapshot, pods.unschedulable, lambda spec: not pending_pods.is_expendable(spec, cutoff)
    )
    return replace(pods, unschedulable=tuple(kept))


def _add_drained_pods(pods: PodList, context: PodListContext) -> PodList:
    if not context.drains:
        return pods
    snapshot, moves = context.observation.snapshot, context.settings.deviations.move_drained_pods
    rows = pending_pods.find_drained_pods(snapshot, context.drains)
    if moves:  # a drained pod goes where its drain expects it to
        context.pending_search.hints.suggest(drain.places for drain in context.drains.values())
    drained = tuple(pending_pods.unbind_drained_pods(snapshot, rows, counts_originals=not moves))
    pending = replace(pods.pending, drained=drained)
    return replace(pods, pending=pending, unschedulable=(*pods.unschedulable, *drained))


def _filter_out_schedulable(pods: PodList, context: PodListContext) -> PodList:
    snapshot = context.observation.snapshot
    placer, search = shape_placer.Placer(snapshot, context.settings.filters), context.pending_search
    with context.timer.measure(time_limits.MeasuredStep.FILTER_OUT_SCHEDULABLE):
        last = frozenset(pods.pending.drained)
        scheduling_result = hinting.try_schedule_pods(
            placer, pods.unschedulable, search, snapshot.nodes.alive.copy(), last=last
        )
        search.hints.drop_old()
    return replace(pods, unschedulable=tuple(sorted(scheduling_result.failed)))


def _filter_out_daemonset_pods(pods: PodList, context: PodListContext) -> PodList:
    table, rows = context.observation.snapshot.pods, pods.unschedulable
    template_ids = table.template_ids[list(rows)].tolist()
    daemons = {number: pending_pods.is_daemonset_template(table.template_keys[number]) for number in set(template_ids)}
    kept = tuple(row for row, number in zip(rows, template_ids, strict=True) if not daemons[number])
    return replace(pods, unschedulable=kept)


def _filter_out_young_pods(pods: PodList, context: PodListContext) -> PodList:
    delay_s = context.settings.pods.new_pod_scale_up_delay_s
    kept = pending_pods.find_old_enough(context.observation.snapshot, pods.unschedulable, delay_s, context.now_s)
    return replace(pods, unschedulable=tuple(kept))


def _limit_injected_pods(pods: PodList, context: PodListContext) -> PodList:
    limit = context.settings.injection.pod_injection_limit
    kept = proactive_pods.limit_fake_pods(pods.unschedulable, pods.first_controller_row, limit)
    return replace(pods, unschedulable=tuple(kept))


def _filter_out_consumers(pods: PodList, context: PodListContext) -> PodList:
    if not context.settings.provisioning_requests.enable_provisioning_requests:
        return pods
    consumers = provisioning_request_queue.find_consumer_pods(context.observation.snapshot, pods.unschedulable)
    kept = tuple(row for row in pods.unschedulable if row not in set(consumers)) if consumers else pods.unschedulable
    return replace(pods, unschedulable=kept, consumers=consumers)


def _inject_request_pods(pods: PodList, context: PodListContext) -> PodList:
    if not context.settings.provisioning_requests.enable_provisioning_requests:
        return pods
    snapshot, settings, now_s = context.observation.snapshot, context.settings, context.now_s
    selected = provisioning_request_queue.select_request(context.queue, settings.provisioning_requests, now_s)
    if selected is None:
        return pods
    rows = provisioning_request_queue.inject_request_pods(snapshot, selected)
    old_enough = pending_pods.find_old_enough(snapshot, rows, settings.pods.new_pod_scale_up_delay_s, now_s)
    return replace(pods, request=selected.key, requested=tuple(old_enough))


def _book_capacity(pods: PodList, context: PodListContext) -> PodList:
    if not context.settings.provisioning_requests.enable_provisioning_requests:
        return pods
    snapshot, search = context.observation.snapshot, context.booking_search
    return replace(
        pods, booked=provisioning_request_queue.book_capacity(context.queue, snapshot, search, context.settings)
    )


PodListProcessor = Callable[[PodList, PodListContext], PodList]

# Cluster Autoscaler's processors in parentheses. Its ClearTPURequests has no counterpart: the facts of pods and buffers
# have no Cloud TPU requests. It injects for controllers before buffers, and limits injected pods last of all; neither
# changes which pods are in the list.
POD_LIST_PROCESSORS: tuple[PodListProcessor, ...] = (
    _sort_by_schedulability,  # unschedulable, unprocessed, nominated (StaticAutoscaler: ArrangePodsBySchedulability)
    _bind_nominated_pods,  # preempting pods count on their nominated nodes (FilterOutExpendable)
    _inject_buffer_pods,  # pods of CapacityBuffers (CapacityBufferPodListProcessor)
    _inject_controller_pods,  # pods that controllers have not created yet (PodInjectionPodListProcessor)
    _filter_out_expendable_pods,  # priority below the cutoff (FilterOutExpendable)
    _add_drained_pods,  # recreatable pods of nodes being drained (CurrentlyDrainedNodes)
    _filter_out_schedulable,  # pods that fit are bound in the fork (FilterOutSchedulable)
    _filter_out_daemonset_pods,  # new nodes run their own (FilterOutDaemonSet)
    _filter_out_young_pods,  # --new-pod-scale-up-delay (StaticAutoscaler: filterOutYoungPods)
    _limit_injected_pods,  # --pod-injection-limit (EnforceInjectedPodsLimit)
    _filter_out_consumers,  # pods that consume booked capacity (ProvisioningRequestPodsFilter)
    _inject_request_pods,  # pods of the ProvisioningRequest that is due (ProvisioningRequestPodsInjector)
    _book_capacity,  # pods of provisioned requests take their place (ProvisioningRequestProcessor)
)


def process_pod_list(context: PodListContext) -> PodList:
    """Run the chain in the loop's fork of the snapshot."""
    pods = PodList()
    for process in POD_LIST_PROCESSORS:
        pods = process(pods, context)
    return pods
