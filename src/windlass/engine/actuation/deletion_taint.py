"""Deletion taint and cordon: set on a whole batch of nodes or none, then a delay until schedulers see them.

Otherwise pods evicted from one node could be scheduled to another one of the batch.

Taint latency is the time from the request until all nodes of a batch are seen tainted, one round trip to the API
server; the dynamic delay is twice the longest latency measured within an hour.
"""

from collections.abc import Iterable, Sequence

from windlass.engine import taints
from windlass.engine.actuation.node_drain import ActuationContext, NodeDrain, find_open_drains
from windlass.engine.model import facts, plan
from windlass.engine.model.drains import DrainFailureReason, DrainPhase, TaintLatency
from windlass.engine.model.durable_memory import StartedDrain

TAINT_RETRY_S = 10.0
"""Interval after which a taint that is not observed is requested again."""

TAINT_TIMEOUT_S = 30.0
"""Time after the start of a drain by which its taint must be observed."""

DrainBatch = list[tuple[NodeDrain, facts.Node]]


def is_in_progress(begun: StartedDrain, node: facts.Node, now_s: float) -> bool:
    """Whether the drain counts as in progress: not once the deletion was requested long ago, or the drain failed."""
    progress = begun.progress
    if progress.failure is not None or progress.deleting_s is not None:
        return False
    is_awaited = progress.marked_s is None and now_s < begun.since_s + TAINT_TIMEOUT_S
    return is_awaited or taints.has_taint(node, taints.TO_BE_DELETED_KEY)


def taint_batches(drains: Sequence[NodeDrain], context: ActuationContext) -> None:
    """Taint and cordon the nodes of each batch. A batch proceeds once all its nodes are observed with the taint."""
    batches: dict[tuple[float, bool], DrainBatch] = {}
    for drain, node in find_open_drains(drains):
        if drain.progress.marked_s is None:
            batches.setdefault((drain.begun.since_s, drain.begun.is_empty), []).append((drain, node))
    for batch in batches.values():
        _taint_batch(batch, context)


def _taint_batch(batch: DrainBatch, context: ActuationContext) -> None:
    now_s = context.now_s
    unseen = [(drain, node) for drain, node in batch if not _is_taint_seen(drain, node, context)]
    for drain, _ in unseen:
        _check_failure(drain, context)
    culprits = [drain.name for drain, _ in unseen if not drain.is_open]
    if culprits:
        for drain, _ in batch:
            if drain.is_open:
                drain.fail(DrainFailureReason.BATCH_FAILED, *culprits)
    elif unseen:
        for drain, _ in unseen:
            _request_taint(drain, context)
        awaited = [drain.name for drain, _ in unseen]
        until_s = min(_next_attempt_s(drain, now_s) for drain, _ in unseen)
        for drain, _ in batch:
            drain.wait(DrainPhase.MARKING, until_s, awaited)
    else:
        for drain, _ in batch:
            drain.update(marked_s=now_s)


def _is_taint_seen(drain: NodeDrain, node: facts.Node, context: ActuationContext) -> bool:
    """Whether the taint that this drain requested is observed. An older taint is replaced, with a new timestamp."""
    cordoned = node.unschedulable or not context.settings.drain.cordon_node_before_terminating
    return drain.progress.asked_s is not None and drain.is_tainted and cordoned


def _check_failure(drain: NodeDrain, context: ActuationContext) -> None:
    if drain.progress.asked_s is None:
        return
    if drain.name in context.refused_taints:
        drain.fail(DrainFailureReason.MARK_REFUSED, context.refused_taints[drain.name])
    elif context.now_s >= drain.begun.since_s + TAINT_TIMEOUT_S:
        drain.fail(DrainFailureReason.MARK_NOT_SEEN)


def _request_taint(drain: NodeDrain, context: ActuationContext) -> None:
    asked_s, now_s = drain.progress.asked_s, context.now_s
    if asked_s is not None and now_s < asked_s + TAINT_RETRY_S:
        return
    drain.update(asked_s=now_s)
    drain.instructions += taint_instructions(drain.name, context)


def taint_instructions(name: str, context: ActuationContext) -> Iterable[plan.Instruction]:
    taint = taints.make_to_be_deleted(context.now_s)
    yield plan.SetTaint(name, taint.key, taint.value, taint.effect)
    if context.settings.drain.cordon_node_before_terminating:
        yield plan.Cordon(name)


def _next_attempt_s(drain: NodeDrain, now_s: float) -> float:
    asked_s = now_s if drain.progress.asked_s is None else drain.progress.asked_s
    times = (asked_s + TAINT_RETRY_S, drain.begun.since_s + TAINT_TIMEOUT_S)
    return min(at_s for at_s in times if at_s > now_s)


def wait_for_taint_propagation(drains: Sequence[NodeDrain], context: ActuationContext) -> None:
    """Wait --node-delete-delay-after-taint after the taint was observed, so that the scheduler observes it."""
    latencies = (*context.taint_latencies, *measure_taint_latencies(drains))
    for drain, _ in find_open_drains(drains):
        marked_s = drain.progress.marked_s
        if marked_s is None or drain.progress.evicting is not None:
            continue
        until_s = marked_s + _find_delay_s(latencies, marked_s, context)
        if context.now_s < until_s:
            drain.wait(DrainPhase.SETTLING, until_s)


def measure_taint_latencies(drains: Sequence[NodeDrain]) -> list[TaintLatency]:
    """The taint latencies of the batches first observed as tainted in this call."""
    batches: dict[tuple[float, bool], TaintLatency] = {}
    for drain in drains:
        marked_s, since_s = drain.progress.marked_s, drain.begun.since_s
        if marked_s is not None and drain.begun.progress.marked_s is None:
            batches[since_s, drain.begun.is_empty] = TaintLatency(marked_s, marked_s - since_s)
    return list(batches.values())


def _find_delay_s(latencies: Sequence[TaintLatency], marked_s: float, context: ActuationContext) -> float:
    drain_settings = context.settings.drain
    measured_s = find_measured_delay_s(latencies, marked_s)
    if drain_settings.dynamic_node_delete_delay_after_taint_enabled and measured_s is not None:
        return measured_s
    return drain_settings.node_delete_delay_after_taint_s


LATENCY_EXPIRES_AFTER_S = 3600.0
"""Age at which a measurement expires."""


def find_measured_delay_s(measured: Iterable[TaintLatency], at_s: float) -> float | None:
    """Twice the longest of the measurements that count at this time; None if there is none."""
    longest_s = max(
        (taint_latency.duration_s for taint_latency in measured if _is_current(taint_latency, at_s)), default=None
    )
    return None if longest_s is None else 2 * longest_s


def drop_expired_latencies(measured: Iterable[TaintLatency], now_s: float) -> tuple[TaintLatency, ...]:
    return tuple(taint_latency for taint_latency in measured if _is_current(taint_latency, now_s))


def _is_current(taint_latency: TaintLatency, at_s: float) -> bool:
    return at_s - LATENCY_EXPIRES_AFTER_S < taint_latency.at_s <= at_s
