"""Pod list processing: which pods ask for new nodes, as one ordered tuple (`POD_LIST_PROCESSORS`).

The tuple can be laid beside Cluster Autoscaler's chain of pod list processors (core/podlistprocessor). Each processor
takes the list as the processors before it left it and returns the next one; pods that need no new node are bound to
nodes in the loop's fork of the snapshot.

A pod asks for a node if the scheduler marked it unschedulable (or reported no verdict, where an equivalent pod is
unschedulable; or has not processed it, where its scheduler is bypassed), no pod is preempted for it, it is not
expendable, it fits on no existing or upcoming node, and it is old enough.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from windlass.engine import time_limits
from windlass.engine.capacity_apis import proactive_pods, provisioning_queue
from windlass.engine.model import facts, well_known
from windlass.engine.model.durable_memory import StartedDrain
from windlass.engine.model.provisioning import BufferPods
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.snapshot.pod_table import PodTemplateKey
from windlass.engine.snapshot.snapshot import Snapshot, asks_for_devices

YOUNG_S = 2.0
"""While all pods are younger than this, more are likely to come: scale-up waits for them."""

YOUNG_WITH_GPU_S = 30.0
"""The same for pods that request GPUs: they come in larger sets."""


@dataclass(frozen=True, slots=True)
class PendingPods:
    """Rows of the pods that wait, by schedulability."""

    unschedulable: tuple[int, ...]
    unprocessed: tuple[int, ...]
    """Equivalent to unschedulable pods, or of schedulers in --bypassed-scheduler-names."""
    nominated: tuple[int, ...]
    """Preempting pods: they count on the node that they are nominated for."""
    drained: tuple[int, ...] = ()
    """Recreatable pods of currently drained nodes: they run, and are about to be evicted."""


def sort_pending(snapshot: Snapshot, settings: Settings) -> PendingPods:
    """Sort pending pods by schedulability. Pods of schedulers that are not allowed, and excluded pods, are left out."""
    bypassed, allowed = settings.pods.bypassed_scheduler_names, settings.pods.allowed_scheduler_names
    unschedulable: list[int] = []
    unprocessed: list[int] = []
    untried: list[int] = []
    nominated: list[int] = []
    table = snapshot.pods
    rows = snapshot.pending()
    hidden = table.pending_left_out
    for row, kind_id in zip(rows, table.template_ids[rows].tolist(), strict=True):
        if kind_id in hidden:
            continue
        kind = table.template_keys[kind_id]
        deleted_s, unschedulable_since_s = table.times.get(row, (None, None))
        if (allowed and kind.scheduler not in allowed) or deleted_s is not None:
            continue
        if kind.nominated_node:
            nominated.append(row)
        elif unschedulable_since_s is not None:
            unschedulable.append(row)
        elif not kind.is_gated:
            is_bypassed = kind.scheduler in bypassed and row not in table.scheduling_reasons
            (unprocessed if is_bypassed else untried).append(row)
    if settings.deviations.foresee_alike_pods and untried:
        unprocessed += _find_unprocessed_equivalents(snapshot, untried, unschedulable)
    return PendingPods(tuple(unschedulable), tuple(unprocessed), tuple(nominated))


def _find_unprocessed_equivalents(
    snapshot: Snapshot, untried: Sequence[int], unschedulable: Sequence[int]
) -> list[int]:
    """Unprocessed pods that the scheduler will find unschedulable, as it did equivalent pods."""
    refused = set(_scheduler_equivalence_keys(snapshot, unschedulable))
    return [
        row
        for row, like in zip(untried, _scheduler_equivalence_keys(snapshot, untried), strict=True)
        if like in refused
    ]


def _scheduler_equivalence_keys(snapshot: Snapshot, rows: Sequence[int]) -> list[tuple[int, int]]:
    """Key by which two pods are equivalent to the scheduler."""
    table, rows = snapshot.pods, list(rows)
    return list(zip(table.shape_ids[rows].tolist(), table.template_ids[rows].tolist(), strict=True))


def is_expendable(spec: facts.PodSpec, cutoff: int) -> bool:
    """Is the pod's priority below --expendable-pods-priority-cutoff?"""
    return spec.priority is not None and spec.priority < cutoff


def find_old_enough(snapshot: Snapshot, rows: Sequence[int], delay_s: float, now_s: float) -> list[int]:
    """Pods older than the delay, or than the delay in their annotation where that is longer."""
    kinds = [snapshot.pods.template_key(row).scale_up_delay_s for row in rows]
    delays = np.array([delay_s if own is None else max(delay_s, own) for own in kinds])
    old = now_s - snapshot.pods.created_s[list(rows)] > delays
    return [row for row, is_old in zip(rows, old.tolist(), strict=True) if is_old]


def are_still_coming(snapshot: Snapshot, rows: Sequence[int], quiet_s: float, at_most_s: float, now_s: float) -> bool:
    """Was the newest pod created within the quiet window, and none before the window's maximum?"""
    created_s = snapshot.pods.created_s[list(rows)]
    return now_s - float(created_s.max()) < quiet_s and now_s - float(created_s.min()) < at_most_s


def are_all_new(snapshot: Snapshot, rows: Sequence[int], now_s: float) -> bool:
    """Are all of these pods so new that more are likely to come?"""
    created_s = snapshot.pods.created_s[list(rows)]
    if min(float(created_s.min()), now_s) + YOUNG_S > now_s:
        return True
    asks = {shape_id: _asks_for_gpu(snapshot.shapes[shape_id].spec) for shape_id in _shape_ids(snapshot, rows)}
    with_gpu = np.array([asks[shape_id] for shape_id in snapshot.pods.shape_ids[list(rows)].tolist()])
    return bool(with_gpu.any()) and float(created_s[with_gpu].min()) + YOUNG_WITH_GPU_S > now_s


def _shape_ids(snapshot: Snapshot, rows: Sequence[int]) -> set[int]:
    return set(snapshot.pods.shape_ids[list(rows)].tolist())


def _asks_for_gpu(spec: facts.PodSpec) -> bool:
    return any(resource in well_known.GPU_RESOURCES and amount > 0 for resource, amount in spec.requests)


def find_drained_pods(snapshot: Snapshot, node_names: Iterable[str]) -> list[int]:
    """Rows of the pods on these nodes that their controllers will create anew elsewhere, terminating ones aside."""
    table, rows = snapshot.pods, list[int]()
    for name in node_names:
        node_row = snapshot.nodes.rows.get(name)
        if node_row is not None and snapshot.nodes.alive[node_row]:
            rows += snapshot.pods_on(node_row)
    return [
        row
        for row in rows
        if table.times.get(row, (None, None))[0] is None
        and int(table.template_ids[row]) not in table.pending_left_out
        and well_known.is_recreatable(table.fact(row, "", timeless=True))
    ]


def unbind_drained_pods(snapshot: Snapshot, rows: Iterable[int], counts_originals: bool) -> list[int]:
    """Take pods off the nodes that are being drained, inside the loop's fork; returns the rows that wait now.

    With `counts_originals` an imagined pod stays in place of each, as Cluster Autoscaler has it: it counts for
    anti-affinity and topology spread beside the one that looks for a place.
    """
    taken = list[int]()
    for row in rows:
        shape, node_row = snapshot.shape_of_row(row), int(snapshot.pods.node_rows[row])
        if counts_originals and asks_for_devices(shape.spec):
            continue  # its claims stay allocated on the node that it runs on, so that it fits nowhere else
        snapshot.unbind(row)
        if counts_originals:
            snapshot.place(shape, node_row)
        taken.append(row)
    return taken


def filter_out_expendable(snapshot: Snapshot, cutoff: int) -> None:
    """Take expendable pods off their nodes: others would preempt them."""
    worthless = np.array(
        [is_expendable(snapshot.shapes[number].spec, cutoff) for number in range(len(snapshot.shapes))] + [False]
    )
    table = snapshot.pods
    for row in np.flatnonzero(worthless[table.shape_ids] & (table.node_rows >= 0)).tolist():
        snapshot.unbind(row)


def filter_out_other_schedulers(snapshot: Snapshot, allowed: Sequence[str]) -> None:
    """Take the pods of schedulers that are not allowed off their nodes, as Cluster Autoscaler does."""
    table = snapshot.pods
    is_other = np.array([kind.scheduler not in allowed for kind in table.template_keys] + [False])
    for row in np.flatnonzero(is_other[table.template_ids] & (table.node_rows >= 0)).tolist():
        snapshot.unbind(row)


def bind_nominated(snapshot: Snapshot, rows: Sequence[int], cutoff: int) -> None:
    """Bind preempting pods to the nodes that they are nominated for."""
    for row in rows:
        node_row = snapshot.nodes.rows.get(snapshot.pods.template_key(row).nominated_node)
        if node_row is not None and not is_expendable(snapshot.shape_of_row(row).spec, cutoff):
            snapshot.bind(row, node_row)


def _filter_by_spec(snapshot: Snapshot, rows: Sequence[int], judge: Callable[[facts.PodSpec], bool]) -> list[int]:
    """The rows whose specs pass; each spec is judged once."""
    shape_ids = snapshot.pods.shape_ids[list(rows)].tolist()
    passed = {number: judge(snapshot.shapes[number].spec) for number in set(shape_ids)}
    return [row for row, number in zip(rows, shape_ids, strict=True) if passed[number]]


def is_daemonset_template(kind: PodTemplateKey) -> bool:
    """Do pods of this template belong to a DaemonSet, or count as such by annotation?"""
    return (kind.owner is not None and kind.owner.kind == "DaemonSet") or (
        dict(kind.annotations).get(well_known.DAEMONSET_POD_ANNOTATION) == "true"
    )


# ── The chain ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PodListContext:
    """What processors read."""

    observation: Observation
    settings: Settings
    now_s: float
    drains: Mapping[str, StartedDrain]
    """Drains under way that evict pods, by node name."""
    queue: provisioning_queue.RequestQueue
    pending_search: hinting.HintingState
    """Placement hints of pending pods."""
    booking_search: hinting.HintingState
    """Placement hints of booked capacity."""
    timer: time_limits.DecisionTimer


@dataclass(frozen=True, slots=True)
class PodList:
    """The pods of a scale-up, by rows of the snapshot. Rows of injected pods come after those of existing pods."""

    pending: PendingPods = PendingPods((), (), ())
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
    pending = sort_pending(context.observation.snapshot, context.settings)
    return replace(pods, pending=pending, unschedulable=(*pending.unschedulable, *pending.unprocessed))


def _bind_nominated_pods(pods: PodList, context: PodListContext) -> PodList:
    cutoff = context.settings.pods.expendable_pods_priority_cutoff
    bind_nominated(context.observation.snapshot, pods.pending.nominated, cutoff)
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
        context.observation.snapshot, pods.unschedulable, lambda spec: not is_expendable(spec, cutoff)
    )
    return replace(pods, unschedulable=tuple(kept))


def _add_drained_pods(pods: PodList, context: PodListContext) -> PodList:
    if not context.drains:
        return pods
    snapshot, moves = context.observation.snapshot, context.settings.deviations.move_drained_pods
    rows = find_drained_pods(snapshot, context.drains)
    if moves:  # a drained pod goes where its drain expects it to
        context.pending_search.hints.suggest(drain.places for drain in context.drains.values())
    drained = tuple(unbind_drained_pods(snapshot, rows, counts_originals=not moves))
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
    daemons = {number: is_daemonset_template(table.template_keys[number]) for number in set(template_ids)}
    kept = tuple(row for row, number in zip(rows, template_ids, strict=True) if not daemons[number])
    return replace(pods, unschedulable=kept)


def _filter_out_young_pods(pods: PodList, context: PodListContext) -> PodList:
    delay_s = context.settings.pods.new_pod_scale_up_delay_s
    kept = find_old_enough(context.observation.snapshot, pods.unschedulable, delay_s, context.now_s)
    return replace(pods, unschedulable=tuple(kept))


def _limit_injected_pods(pods: PodList, context: PodListContext) -> PodList:
    limit = context.settings.injection.pod_injection_limit
    kept = proactive_pods.limit_fake_pods(pods.unschedulable, pods.first_controller_row, limit)
    return replace(pods, unschedulable=tuple(kept))


def _filter_out_consumers(pods: PodList, context: PodListContext) -> PodList:
    if not context.settings.provisioning_requests.enable_provisioning_requests:
        return pods
    consumers = provisioning_queue.find_consumer_pods(context.observation.snapshot, pods.unschedulable)
    kept = tuple(row for row in pods.unschedulable if row not in set(consumers)) if consumers else pods.unschedulable
    return replace(pods, unschedulable=kept, consumers=consumers)


def _inject_request_pods(pods: PodList, context: PodListContext) -> PodList:
    if not context.settings.provisioning_requests.enable_provisioning_requests:
        return pods
    snapshot, settings, now_s = context.observation.snapshot, context.settings, context.now_s
    selected = provisioning_queue.select_request(context.queue, settings.provisioning_requests, now_s)
    if selected is None:
        return pods
    rows = provisioning_queue.inject_request_pods(snapshot, selected)
    old_enough = find_old_enough(snapshot, rows, settings.pods.new_pod_scale_up_delay_s, now_s)
    return replace(pods, request=selected.key, requested=tuple(old_enough))


def _book_capacity(pods: PodList, context: PodListContext) -> PodList:
    if not context.settings.provisioning_requests.enable_provisioning_requests:
        return pods
    snapshot, search = context.observation.snapshot, context.booking_search
    return replace(pods, booked=provisioning_queue.book_capacity(context.queue, snapshot, search, context.settings))


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
