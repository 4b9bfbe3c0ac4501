"""ProvisioningRequest dispatch: check-capacity and best-effort-atomic-scale-up, in turns with ordinary pending pods.

check-capacity: do all pods fit now, besides booked capacity? Atomic scale-up: nodes for all pods of the request or
none; from one group and those similar to it or, if allowed, from several groups. A due request is served even where
pending pods would wait or the cluster is full: it may fit.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.capacity_apis.provisioning_request_queue import RequestQueue, count_by_request, inject_request_pods
from windlass.engine.model import arrays, scale_up_status, settings
from windlass.engine.model.provisioning import ProvisioningRequest
from windlass.engine.model.scale_up_status import ScaleUpResult
from windlass.engine.model.scheduling_reasons import FEASIBLE
from windlass.engine.observation import Observation
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.predicates import registry
from windlass.engine.scale_up import options, orchestrator
from windlass.engine.scale_up.orchestrator import ScaleUpInputs
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.engine.time_limits import MeasuredStep, TimeBudget

NO_RETRY_PARAMETER = "noRetry"
"""Parameter: `true` if a request that finds no capacity has failed for good."""

NO_PLACES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PodsInTurn:
    """Rows of the pods that a loop may scale up for."""

    unschedulable: Sequence[int]
    """Ordinary pending pods."""
    requested: Sequence[int]
    """Injected pods of the selected request."""
    request: str
    """Key of the selected request; empty where none is due."""
    is_request_next: bool
    """Is it the request's turn?"""


@dataclass(frozen=True, slots=True)
class RequestTurn:
    """The outcome of a loop's turn: proposals for pods or for a request, and what the turn found out about requests."""

    status: orchestrator.ScaleUpStatus
    is_next: bool
    """Is a request served next where pods are pending as well?"""
    scaled: str = ""
    """Key of the request that nodes are proposed for; its condition depends on their execution."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Node by pod uid, of request pods that were found room for: their capacity is booked there."""


def check_capacity(
    queue: RequestQueue,
    inputs: ScaleUpInputs,
    requests: Sequence[ProvisioningRequest],
    injected: Mapping[str, Sequence[int]],
    search: hinting.HintingState,
    time: TimeBudget,
) -> tuple[ScaleUpResult, dict[str, str]]:
    """Answer these requests, each on top of those before it that fit; the first one without regard to `time`.

    `injected` gives the rows of pods by request, where they are in the snapshot already. Returns the result, and the
    nodes of the pods that fit.
    """
    placer = shape_placer.Placer(inputs.snapshot, inputs.settings.filters)
    result, places = ScaleUpResult.NO_OPTIONS, dict[str, str]()
    for request in requests:
        queue.set_condition(request, provisioning_request_queue.IS_ACCEPTED)
        explains = queue.explains_rejections and len(requests) == 1  # for each of a batch it would take too long
        has_capacity, why_not = _find_capacity(queue, placer, request, injected.get(request.key), search, explains)
        if has_capacity is not None:
            places |= has_capacity
            queue.set_condition(request, provisioning_request_queue.CAPACITY_FOUND)
            result = ScaleUpResult.SUCCESSFUL
        elif request.parameters.get(NO_RETRY_PARAMETER) == "true":
            queue.set_condition(request, append_reason(provisioning_request_queue.CAPACITY_NOT_FOUND_FINALLY, why_not))
        else:
            queue.set_condition(request, append_reason(provisioning_request_queue.CAPACITY_NOT_FOUND, why_not))
        if time.exhausted():
            break
    return result, places


def _find_capacity(
    queue: RequestQueue,
    placer: shape_placer.Placer,
    request: ProvisioningRequest,
    injected: Sequence[int] | None,
    search: hinting.HintingState,
    explains: bool,
) -> tuple[dict[str, str] | None, str]:
    """Place all pods of a request, or none: the nodes of its pods, or None and, if it is to be explained, why."""
    snapshot = placer.snapshot
    snapshot.fork()
    rows = inject_request_pods(snapshot, request) if injected is None else injected
    scheduling_result = hinting.try_schedule_pods(
        placer, rows, search, snapshot.nodes.alive.copy(), all_or_nothing=True
    )
    if scheduling_result.failed:
        why_not = explain_rejected_nodes(snapshot, scheduling_result, rows, placer.config) if explains else ""
        snapshot.revert()
        return None, why_not
    places = queue.find_places(snapshot, rows)
    snapshot.commit()
    return places, ""


NO_GROUPS_FIT = "No group, and no groups together, have room for all pods"

MAX_MESSAGE_CHARS = 1000

MAX_NODES_REACHED = "Max total nodes in cluster reached"


def explain_rejected_groups(proposal: scale_up_status.ScaleUpProposal, observation: Observation) -> str:
    """Reasons by which groups reject the pods of a request."""
    if proposal.result is scale_up_status.ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL:
        return MAX_NODES_REACHED
    existing = frozenset(group.id for group in observation.groups if group.exists)
    reasons = dict.fromkeys(
        scale_up_status.count_rejected_reasons(proposal, alike, existing) for alike in proposal.remaining
    )
    text = "; ".join(reason for reason in reasons if reason)
    return f"Groups say: {text}" if text else NO_GROUPS_FIT


def explain_rejected_nodes(
    snapshot: Snapshot, scheduling_result: hinting.SchedulingResult, rows: Sequence[int], filters: settings.FilterConfig
) -> str:
    """Reasons by which nodes reject the first pod that has no place, after the others were placed."""
    shape = snapshot.shapes[int(snapshot.pods.shape_ids[scheduling_result.failed[0]])]
    judged = registry.diagnose(snapshot, shape, filters)
    counts: Counter[str] = Counter()
    if judged.everywhere is not None:
        counts.update(judged.everywhere.texts)
    else:
        refused_by = judged.refused_by[judged.rows]
        for number in np.unique(refused_by[refused_by != FEASIBLE]).tolist():
            refused = judged.rows[refused_by == number].tolist()
            for refusal in registry.explain_refusals(snapshot, shape, refused, number, filters):
                counts.update(refusal.texts)
    room = f"Room for {len(scheduling_result.placed)} of {len(rows)} pods"
    return f"{room}; nodes say of the next: {scale_up_status.format_reasons(counts)}" if counts else room


def append_reason(
    update: provisioning_request_queue.ConditionUpdate, reason: str
) -> provisioning_request_queue.ConditionUpdate:
    """The condition with the reason after Cluster Autoscaler's message, shortened to a readable length."""
    text = reason if len(reason) <= MAX_MESSAGE_CHARS else f"{reason[:MAX_MESSAGE_CHARS]}…"
    return replace(update, message=f"{update.message} {text}") if reason else update


def find_unplaced(inputs: ScaleUpInputs, rows: Sequence[int], search: hinting.HintingState) -> list[int]:
    """Rows of the pods that fit on no existing or upcoming node; the others are placed, in the caller's fork."""
    placer = shape_placer.Placer(inputs.snapshot, inputs.settings.filters)
    return sorted(hinting.try_schedule_pods(placer, rows, search, inputs.snapshot.nodes.alive.copy()).failed)


def propose_atomic_scale_up(inputs: ScaleUpInputs, rows: Sequence[int]) -> scale_up_status.ScaleUpProposal:
    """A scale-up with room for all of these pods, or none."""
    single = orchestrator.make_planner(inputs).propose(orchestrator.build_equivalence_groups(inputs, rows), whole=True)
    if (
        single.result is not scale_up_status.ScaleUpResult.NO_OPTIONS
        or not inputs.settings.deviations.atomic_across_groups
    ):
        return single
    joint = _propose_across_groups(inputs, rows)
    return single if joint is None else joint


def _propose_across_groups(inputs: ScaleUpInputs, rows: Sequence[int]) -> scale_up_status.ScaleUpProposal | None:
    inputs.snapshot.fork()
    try:
        rounds = _find_rounds(inputs, rows)
    finally:
        inputs.snapshot.revert()
    if not rounds:
        return None
    increases = _merge_increases([increase for proposal in rounds for increase in proposal.increases])
    limit = inputs.settings.scale_up.max_nodes_per_scaleup
    if 0 < limit < sum(increase.added for increase in increases):
        return None
    return replace(rounds[-1], increases=increases, helped=tuple(rows), remaining=(), awaiting=())


def _find_rounds(inputs: ScaleUpInputs, rows: Sequence[int]) -> list[scale_up_status.ScaleUpProposal]:
    """Proposals, group after group, until all pods have a place; nothing if one has none."""
    rounds: list[scale_up_status.ScaleUpProposal] = []
    groups, remaining, planner = inputs.groups, list(rows), orchestrator.make_planner(inputs)
    while remaining:
        proposal = planner.propose(orchestrator.build_equivalence_groups(inputs, remaining))
        if proposal.result is not scale_up_status.ScaleUpResult.SUCCESSFUL or not proposal.increases:
            return []
        rounds.append(proposal)
        groups = orchestrator.simulate_increases(inputs.snapshot, groups, proposal, inputs.settings)
        where = inputs.snapshot.pods.node_rows[remaining]
        still = [row for row, node in zip(remaining, where.tolist(), strict=True) if node == arrays.ABSENT]
        if len(still) == len(remaining):
            return []
        remaining = still
        planner = orchestrator.make_planner(replace(inputs, groups=groups))
    return rounds


def _merge_increases(increases: Sequence[scale_up_status.GroupIncrease]) -> tuple[scale_up_status.GroupIncrease, ...]:
    """One increase per group, from its size now to its size after the last round."""
    merged: dict[str, scale_up_status.GroupIncrease] = {}
    for increase in increases:
        first = merged.get(increase.group.id, increase)
        merged[increase.group.id] = scale_up_status.GroupIncrease(first.group, increase.new_size)
    return tuple(merged.values())


def dispatch_scale_up(
    queue: RequestQueue,
    inputs: ScaleUpInputs,
    pods: PodsInTurn,
    obstacle: orchestrator.ScaleUpStatus | None,
    now_s: float,
) -> RequestTurn:
    """Serve pending pods or the selected request, in turns where there are both.

    `obstacle`: the precondition that keeps pending pods from a scale-up, if one does. A request is served nevertheless.
    """
    if obstacle is not None and not pods.requested:
        return RequestTurn(obstacle, pods.is_request_next)
    serves_request = bool(pods.requested) and (pods.is_request_next or not pods.unschedulable)
    with inputs.timer.measure(MeasuredStep.SCALE_UP):
        if serves_request:
            turn = _serve_request(queue, inputs, pods, now_s)
        else:
            turn = RequestTurn(orchestrator.scale_up(inputs, pods.unschedulable), is_next=True)
    if not inputs.settings.provisioning_requests.enable_provisioning_requests:
        turn = replace(turn, is_next=pods.is_request_next)
    wait_for_more = obstacle is not None and obstacle.wait_for_more
    return replace(turn, status=replace(turn.status, wait_for_more=wait_for_more))


def _serve_request(queue: RequestQueue, inputs: ScaleUpInputs, pods: PodsInTurn, now_s: float) -> RequestTurn:
    """Serve the selected request or, where check-capacity requests are served in batches, the batch."""
    provisioning_request_settings, snapshot = inputs.settings.provisioning_requests, inputs.snapshot
    selected = queue.find(pods.request)
    scatter = None if inputs.settings.deviations.tight_packing else inputs.rng
    search = hinting.HintingState(scatter=scatter)
    snapshot.fork()
    try:
        if provisioning_request_queue.is_batched(provisioning_request_settings):
            batch: Sequence[ProvisioningRequest] = provisioning_request_queue.select_batch(
                queue, provisioning_request_settings, now_s
            )
            injected: Mapping[str, Sequence[int]] = {}
        else:
            batch = [selected] if provisioning_request_queue.is_check_capacity(selected, queue.instance) else []
            injected = {selected.key: pods.requested}
        if batch:
            time = inputs.timer.begin(
                "batch", provisioning_request_settings.check_capacity_provisioning_request_batch_timebox_s
            )
            result, places = check_capacity(queue, inputs, batch, injected, search, time)
            return _end_turn(scale_up_status.ScaleUpProposal(result), places=places)
        if selected.class_name != provisioning_request_queue.ATOMIC_SCALE_UP_CLASS:
            return _end_turn(scale_up_status.ScaleUpProposal(ScaleUpResult.NOT_TRIED))
        unplaced = find_unplaced(inputs, pods.requested, search)
        places = queue.find_places(snapshot, pods.requested)
        if not unplaced:
            queue.set_condition(selected, provisioning_request_queue.CAPACITY_FOUND, generation=False)
            return _end_turn(scale_up_status.ScaleUpProposal(ScaleUpResult.NOT_NEEDED), places=places)
        return _end_turn(propose_atomic_scale_up(inputs, unplaced), selected.key, places)
    finally:
        snapshot.revert()


def _end_turn(
    proposal: scale_up_status.ScaleUpProposal, scaled: str = "", places: Mapping[str, str] = NO_PLACES
) -> RequestTurn:
    """The turn of a request: pods are served next."""
    return RequestTurn(orchestrator.ScaleUpStatus((proposal,), was_tried=True), False, scaled, places)


@dataclass(frozen=True, slots=True)
class RequestResults:
    """Results of the execution: proposals without injected pods, and counts of these pods by key of their request."""

    status: orchestrator.ScaleUpStatus
    helped: Mapping[str, int]
    remaining: Mapping[str, int]


def record_results(
    queue: RequestQueue,
    inputs: ScaleUpInputs,
    first_row: int,
    turn: RequestTurn,
    proposals: orchestrator.ScaleUpProposals,
) -> RequestResults:
    """Set the condition of the request that nodes were proposed for, and leave injected pods out of the proposals.

    Injected pods are in the rows from `first_row` on. `proposals` are those of the turn as they were executed.
    """
    helped, remaining = Counter[str](), Counter[str]()
    for proposal in proposals:
        helped += count_by_request(inputs.snapshot, [row for row in proposal.helped if row >= first_row])
        unhelped = [row for group in proposal.remaining for row in group.rows if row >= first_row]
        remaining += count_by_request(inputs.snapshot, unhelped)
    if turn.scaled:
        proposal, update = proposals[0], provisioning_request_queue.CAPACITY_PROVISIONED
        if proposal.result is not ScaleUpResult.SUCCESSFUL:
            reason = explain_rejected_groups(proposal, inputs.observation) if queue.explains_rejections else ""
            update = append_reason(provisioning_request_queue.CAPACITY_NOT_FOUND, reason)
        queue.set_condition(queue.find(turn.scaled), update, generation=False)
    existing = tuple(options.drop_injected_pods(proposal, first_row) for proposal in proposals)
    return RequestResults(replace(turn.status, proposals=existing), helped, remaining)
