"""Deletion taint and cordon: set on a whole batch of nodes or none, then a delay until schedulers see them.

Otherwise pods evicted from one node could be scheduled to another one of the batch.

Taint latency is the time from the request until all nodes of a batch are seen tainted, one round trip to the API
server; the dynamic delay is twice the longest latency measured within an hour.
"""

from collections.abc import Iterable, Sequence

from windlass.engine import taints
from windlass.engine.actuation.node_drain import ActuationContext, NodeDrain, find_open_drains
from windlass.engine.model import drains, facts, plan
from windlass.engine.model.drains import DrainFailureReason, DrainPhase
from windlass.engine.model.durable_memory import StartedDrain

TAINT_RETRY_S = 10.0
"""When a mark that is not seen is asked for again."""

TAINT_TIMEOUT_S = 30.0
"""How long after a drain was begun its mark may take to be seen."""

DrainBatch = list[tuple[NodeDrain, facts.Node]]


def is_in_progress(begun: StartedDrain, node: facts.Node, now_s: float) -> bool:
    """Does the node count among those on their way out? Not once it is the provider's turn, or was given up."""
    progress = begun.progress
    if progress.failure is not None or progress.deleting_s is not None:
        return False
    is_awaited = progress.marked_s is None and now_s < begun.since_s + TAINT_TIMEOUT_S
    return is_awaited or taints.has_taint(node, taints.TO_BE_DELETED_KEY)


def taint_batches(cases: Sequence[NodeDrain], situation: ActuationContext) -> None:
    """Mark what is not marked. A batch goes on when all of it is seen to be."""
    batches: dict[tuple[float, bool], DrainBatch] = {}
    for case, node in find_open_drains(cases):
        if case.progress.marked_s is None:
            batches.setdefault((case.begun.since_s, case.begun.is_empty), []).append((case, node))
    for batch in batches.values():
        _taint_batch(batch, situation)


def _taint_batch(batch: DrainBatch, situation: ActuationContext) -> None:
    now_s = situation.now_s
    unseen = [(case, node) for case, node in batch if not _is_taint_seen(case, node, situation)]
    for case, _ in unseen:
        _check_failure(case, situation)
    culprits = [case.name for case, _ in unseen if not case.is_open]
    if culprits:
        for case, _ in batch:
            if case.is_open:
                case.fail(DrainFailureReason.BATCH_FAILED, *culprits)
    elif unseen:
        for case, _ in unseen:
            _request_taint(case, situation)
        awaited = [case.name for case, _ in unseen]
        until_s = min(_next_attempt_s(case, now_s) for case, _ in unseen)
        for case, _ in batch:
            case.wait(DrainPhase.MARKING, until_s, awaited)
    else:
        for case, _ in batch:
            case.update(marked_s=now_s)


def _is_taint_seen(case: NodeDrain, node: facts.Node, situation: ActuationContext) -> bool:
    """A mark that was there before it was asked for is someone else's: it is set anew, with our time."""
    cordoned = node.unschedulable or not situation.settings.drain.cordon_node_before_terminating
    return case.progress.asked_s is not None and case.is_tainted and cordoned


def _check_failure(case: NodeDrain, situation: ActuationContext) -> None:
    if case.progress.asked_s is None:
        return
    if case.name in situation.refused_taints:
        case.fail(DrainFailureReason.MARK_REFUSED, situation.refused_taints[case.name])
    elif situation.now_s >= case.begun.since_s + TAINT_TIMEOUT_S:
        case.fail(DrainFailureReason.MARK_NOT_SEEN)


def _request_taint(case: NodeDrain, situation: ActuationContext) -> None:
    asked_s, now_s = case.progress.asked_s, situation.now_s
    if asked_s is not None and now_s < asked_s + TAINT_RETRY_S:
        return
    case.update(asked_s=now_s)
    case.instructions += taint_instructions(case.name, situation)


def taint_instructions(name: str, situation: ActuationContext) -> Iterable[plan.Instruction]:
    taint = taints.make_to_be_deleted(situation.now_s)
    yield plan.SetTaint(name, taint.key, taint.value, taint.effect)
    if situation.settings.drain.cordon_node_before_terminating:
        yield plan.Cordon(name)


def _next_attempt_s(case: NodeDrain, now_s: float) -> float:
    asked_s = now_s if case.progress.asked_s is None else case.progress.asked_s
    times = (asked_s + TAINT_RETRY_S, case.begun.since_s + TAINT_TIMEOUT_S)
    return min(at_s for at_s in times if at_s > now_s)


def wait_for_taint_propagation(cases: Sequence[NodeDrain], situation: ActuationContext) -> None:
    """Give everyone time to see the taint."""
    latencies = (*situation.taint_latencies, *measure_taint_latencies(cases))
    for case, _ in find_open_drains(cases):
        marked_s = case.progress.marked_s
        if marked_s is None or case.progress.evicting is not None:
            continue
        until_s = marked_s + _find_delay_s(latencies, marked_s, situation)
        if situation.now_s < until_s:
            case.wait(DrainPhase.SETTLING, until_s)


def measure_taint_latencies(cases: Sequence[NodeDrain]) -> list[drains.TaintLatency]:
    """The taint latencies of the batches that this call is the first to see marked."""
    batches: dict[tuple[float, bool], drains.TaintLatency] = {}
    for case in cases:
        marked_s, since_s = case.progress.marked_s, case.begun.since_s
        if marked_s is not None and case.begun.progress.marked_s is None:
            batches[since_s, case.begun.is_empty] = drains.TaintLatency(marked_s, marked_s - since_s)
    return list(batches.values())


def _find_delay_s(latencies: Sequence[drains.TaintLatency], marked_s: float, situation: ActuationContext) -> float:
    chosen = situation.settings.drain
    measured_s = find_measured_delay_s(latencies, marked_s)
    if chosen.dynamic_node_delete_delay_after_taint_enabled and measured_s is not None:
        return measured_s
    return chosen.node_delete_delay_after_taint_s


LATENCY_EXPIRES_AFTER_S = 3600.0
"""The age at which a measurement does not count any more."""


def find_measured_delay_s(measured: Iterable[drains.TaintLatency], at_s: float) -> float | None:
    """Twice the longest of the measurements that count at this time; None if there is none."""
    longest_s = max((one.duration_s for one in measured if _is_current(one, at_s)), default=None)
    return None if longest_s is None else 2 * longest_s


def drop_expired_latencies(measured: Iterable[drains.TaintLatency], now_s: float) -> tuple[drains.TaintLatency, ...]:
    return tuple(one for one in measured if _is_current(one, now_s))


def _is_current(one: drains.TaintLatency, at_s: float) -> bool:
    return at_s - LATENCY_EXPIRES_AFTER_S < one.at_s <= at_s
