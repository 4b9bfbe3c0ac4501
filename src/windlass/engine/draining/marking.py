"""Marking: taint and cordon come first, on all nodes that were chosen together or on none.

Otherwise pods evicted from one of them could come back on another. Then everyone is given time to see the taint: the
scheduler may be about to put a pod there.
"""

from collections.abc import Iterable, Sequence

from windlass.engine import facts, plan, taints
from windlass.engine.draining import taint_latency
from windlass.engine.draining.case import Case, Situation, find_open
from windlass.engine.draining.progress import Why
from windlass.engine.draining.story import Phase
from windlass.engine.memory import DrainBegun

MARK_AGAIN_S = 10.0
"""When a mark that is not seen is asked for again."""
MARK_WITHIN_S = 30.0
"""How long after a drain was begun its mark may take to be seen."""

Batch = list[tuple[Case, facts.Node]]


def is_in_progress(begun: DrainBegun, node: facts.Node, now_s: float) -> bool:
    """Does the node count among those on their way out? Not once it is the provider's turn, or was given up."""
    progress = begun.progress
    if progress.failure is not None or progress.deleting_s is not None:
        return False
    is_awaited = progress.marked_s is None and now_s < begun.since_s + MARK_WITHIN_S
    return is_awaited or taints.has(node, taints.TO_BE_DELETED)


def mark(cases: Sequence[Case], situation: Situation) -> None:
    """Mark what is not marked. A batch goes on when all of it is seen to be."""
    batches: dict[tuple[float, bool], Batch] = {}
    for case, node in find_open(cases):
        if case.progress.marked_s is None:
            batches.setdefault((case.begun.since_s, case.begun.is_empty), []).append((case, node))
    for batch in batches.values():
        _mark_together(batch, situation)


def _mark_together(batch: Batch, situation: Situation) -> None:
    now_s = situation.now_s
    unseen = [(case, node) for case, node in batch if not _is_seen(case, node, situation)]
    for case, _ in unseen:
        _judge(case, situation)
    culprits = [case.name for case, _ in unseen if not case.is_open]
    if culprits:
        for case, _ in batch:
            if case.is_open:
                case.fail(Why.BATCH_FAILED, *culprits)
    elif unseen:
        for case, _ in unseen:
            _ask(case, situation)
        awaited = [case.name for case, _ in unseen]
        until_s = min(_next_s(case, now_s) for case, _ in unseen)
        for case, _ in batch:
            case.wait(Phase.MARKING, until_s, awaited)
    else:
        for case, _ in batch:
            case.note(marked_s=now_s)


def _is_seen(case: Case, node: facts.Node, situation: Situation) -> bool:
    """A mark that was there before it was asked for is someone else's: it is set anew, with our time."""
    cordoned = node.unschedulable or not situation.settings.drain.cordon_node_before_terminating
    return case.progress.asked_s is not None and case.has_mark and cordoned


def _judge(case: Case, situation: Situation) -> None:
    if case.progress.asked_s is None:
        return
    if case.name in situation.refused_marks:
        case.fail(Why.MARK_REFUSED, situation.refused_marks[case.name])
    elif situation.now_s >= case.begun.since_s + MARK_WITHIN_S:
        case.fail(Why.MARK_NOT_SEEN)


def _ask(case: Case, situation: Situation) -> None:
    asked_s, now_s = case.progress.asked_s, situation.now_s
    if asked_s is not None and now_s < asked_s + MARK_AGAIN_S:
        return
    case.note(asked_s=now_s)
    case.instructions += mark_instructions(case.name, situation)


def mark_instructions(name: str, situation: Situation) -> Iterable[plan.Instruction]:
    taint = taints.to_be_deleted(situation.now_s)
    yield plan.SetTaint(name, taint.key, taint.value, taint.effect)
    if situation.settings.drain.cordon_node_before_terminating:
        yield plan.Cordon(name)


def _next_s(case: Case, now_s: float) -> float:
    asked_s = now_s if case.progress.asked_s is None else case.progress.asked_s
    times = (asked_s + MARK_AGAIN_S, case.begun.since_s + MARK_WITHIN_S)
    return min(at_s for at_s in times if at_s > now_s)


def settle(cases: Sequence[Case], situation: Situation) -> None:
    """Give everyone time to see the taint."""
    latencies = (*situation.taint_latencies, *measure_latencies(cases))
    for case, _ in find_open(cases):
        marked_s = case.progress.marked_s
        if marked_s is None or case.progress.evicting is not None:
            continue
        until_s = marked_s + _find_delay_s(latencies, marked_s, situation)
        if situation.now_s < until_s:
            case.wait(Phase.SETTLING, until_s)


def measure_latencies(cases: Sequence[Case]) -> list[taint_latency.TaintLatency]:
    """The taint latencies of the batches that this call is the first to see marked."""
    batches: dict[tuple[float, bool], taint_latency.TaintLatency] = {}
    for case in cases:
        marked_s, since_s = case.progress.marked_s, case.begun.since_s
        if marked_s is not None and case.begun.progress.marked_s is None:
            batches[since_s, case.begun.is_empty] = taint_latency.TaintLatency(marked_s, marked_s - since_s)
    return list(batches.values())


def _find_delay_s(latencies: Sequence[taint_latency.TaintLatency], marked_s: float, situation: Situation) -> float:
    chosen = situation.settings.drain
    measured_s = taint_latency.find_delay_s(latencies, marked_s)
    if chosen.dynamic_node_delete_delay_after_taint_enabled and measured_s is not None:
        return measured_s
    return chosen.node_delete_delay_after_taint_s
