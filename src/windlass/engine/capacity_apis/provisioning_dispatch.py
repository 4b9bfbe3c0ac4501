"""ProvisioningRequest dispatch: check-capacity and best-effort-atomic-scale-up, in turns with ordinary pending pods.

check-capacity: do all pods fit now, besides booked capacity? Atomic scale-up: nodes for all pods of the request or
none; from one group and those similar to it or, if allowed, from several groups. A due request is served even where
pending pods would wait or the cluster is full: it may fit.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from windlass.engine import time_limits
from windlass.engine.capacity_apis import provisioning_conditions, provisioning_queue
from windlass.engine.capacity_apis.provisioning_queue import RequestQueue, count_by_request, inject_request_pods
from windlass.engine.model import arrays, scale_up_status, settings
from windlass.engine.model.provisioning import ProvisioningRequest
from windlass.engine.model.scale_up_status import ScaleUpResult
from windlass.engine.model.scheduling_reasons import FEASIBLE
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.predicates import registry
from windlass.engine.scale_up import options, orchestrator
from windlass.engine.snapshot.snapshot import Snapshot
from windlass.engine.time_limits import MeasuredStep, TimeBudget

NO_RETRY_PARAMETER = "noRetry"
"""Parameter: `true` if a request that finds no room has failed for good."""


def check_capacity(
    docket: RequestQueue,
    snapshot: Snapshot,
    requests: Sequence[ProvisioningRequest],
    imagined: Mapping[str, Sequence[int]],
    search: hinting.HintingState,
    settings: Settings,
    time: TimeBudget,
) -> ScaleUpResult:
    """Answer these requests, each on top of those before that found room; the first one in any case.

    `imagined`: rows of pods, by request, where they are in the snapshot already.
    """
    placer, result = shape_placer.Placer(snapshot, settings.filters), ScaleUpResult.NO_OPTIONS
    for request in requests:
        docket.set_condition(request, provisioning_conditions.IS_ACCEPTED)
        why_not = _find_room(docket, placer, request, imagined.get(request.key), search, len(requests) == 1)
        if why_not is None:
            docket.set_condition(request, provisioning_conditions.CAPACITY_FOUND)
            result = ScaleUpResult.SUCCESSFUL
        elif request.parameters.get(NO_RETRY_PARAMETER) == "true":
            docket.set_condition(request, append_reason(provisioning_conditions.CAPACITY_NOT_FOUND_FINALLY, why_not))
        else:
            docket.set_condition(request, append_reason(provisioning_conditions.CAPACITY_NOT_FOUND, why_not))
        if time.exhausted():
            break
    return result


def _find_room(
    docket: RequestQueue,
    placer: shape_placer.Placer,
    request: ProvisioningRequest,
    imagined: Sequence[int] | None,
    search: hinting.HintingState,
    is_alone: bool,
) -> str | None:
    """Put all its pods on nodes, or none: then why. Of one among many that would take too long to find out."""
    snapshot = placer.snapshot
    snapshot.fork()
    rows = inject_request_pods(snapshot, request) if imagined is None else imagined
    found = hinting.try_schedule_pods(placer, rows, search, snapshot.nodes.alive.copy(), all_or_nothing=True)
    if found.failed:
        why = (
            explain_rejected_nodes(snapshot, found, rows, placer.config)
            if docket.explains_rejections and is_alone
            else ""
        )
        snapshot.revert()
        return why
    docket.record_places(snapshot, rows)
    snapshot.commit()
    return None


NO_GROUPS_FIT = "No group, and no groups together, have room for all pods"

MAX_MESSAGE_CHARS = 1000

MAX_NODES_REACHED = "Max total nodes in cluster reached"


def explain_rejected_groups(proposal: scale_up_status.ScaleUpProposal, seen: Observation) -> str:
    """Why no scale-up makes room."""
    if proposal.result is scale_up_status.ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL:
        return MAX_NODES_REACHED
    existing = frozenset(group.id for group in seen.groups if group.exists)
    said = dict.fromkeys(
        scale_up_status.count_rejected_reasons(proposal, alike, existing) for alike in proposal.remaining
    )
    told = "; ".join(text for text in said if text)
    return f"Groups say: {told}" if told else NO_GROUPS_FIT


def explain_rejected_nodes(
    snapshot: Snapshot, found: hinting.SchedulingResult, rows: Sequence[int], filters: settings.FilterConfig
) -> str:
    """What the nodes say of the first pod that has no place, after those that have one."""
    shape = snapshot.shapes[int(snapshot.pods.shape_ids[found.failed[0]])]
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
    room = f"Room for {len(found.placed)} of {len(rows)} pods"
    return f"{room}; nodes say of the next: {scale_up_status.format_reasons(counts)}" if counts else room


def append_reason(saying: provisioning_conditions.ConditionUpdate, why: str) -> provisioning_conditions.ConditionUpdate:
    """The same, with the reason behind the peer's words, as far as it can be read."""
    told = why if len(why) <= MAX_MESSAGE_CHARS else f"{why[:MAX_MESSAGE_CHARS]}…"
    return replace(saying, message=f"{saying.message} {told}") if why else saying


@dataclass(frozen=True, slots=True)
class ProvisioningContext:
    """What a scale-up for a request looks at."""

    observation: Observation
    snapshot: Snapshot
    groups: options.ScaleUpGroups
    settings: Settings
    rng: np.random.Generator
    ledger: time_limits.DecisionTimer

    def make_proposer(self) -> options.OptionPlanner:
        return orchestrator.make_planner(
            self.observation, self.snapshot, self.groups, self.settings, self.rng, self.ledger
        )

    def alike(self, rows: Sequence[int]) -> list[scale_up_status.PodEquivalenceGroup]:
        return orchestrator.build_equivalence_groups(self.snapshot, rows, self.settings, self.ledger)


def find_unplaced(scene: ProvisioningContext, rows: Sequence[int], search: hinting.HintingState) -> list[int]:
    """Those of the pods that have no place on what there is; the others are put on nodes, in the caller's fork."""
    placer = shape_placer.Placer(scene.snapshot, scene.settings.filters)
    return sorted(hinting.try_schedule_pods(placer, rows, search, scene.snapshot.nodes.alive.copy()).failed)


def propose_atomic_scale_up(scene: ProvisioningContext, rows: Sequence[int]) -> scale_up_status.ScaleUpProposal:
    """A scale-up that has room for all of these pods, or none."""
    alone = scene.make_proposer().propose(scene.alike(rows), whole=True)
    if (
        alone.result is not scale_up_status.ScaleUpResult.NO_OPTIONS
        or not scene.settings.deviations.atomic_across_groups
    ):
        return alone
    together = _propose_across_groups(scene, rows)
    return alone if together is None else together


def _propose_across_groups(scene: ProvisioningContext, rows: Sequence[int]) -> scale_up_status.ScaleUpProposal | None:
    scene.snapshot.fork()
    try:
        rounds = _find_rounds(scene, rows)
    finally:
        scene.snapshot.revert()
    if not rounds:
        return None
    increases = _merge_increases([one for proposal in rounds for one in proposal.increases])
    limit = scene.settings.scale_up.max_nodes_per_scaleup
    if 0 < limit < sum(one.added for one in increases):
        return None
    return replace(rounds[-1], increases=increases, helped=tuple(rows), remaining=(), awaiting=())


def _find_rounds(scene: ProvisioningContext, rows: Sequence[int]) -> list[scale_up_status.ScaleUpProposal]:
    """What to ask for, group after group, until all pods have a place; nothing if one has none."""
    rounds: list[scale_up_status.ScaleUpProposal] = []
    groups, left, proposer = scene.groups, list(rows), scene.make_proposer()
    while left:
        proposal = proposer.propose(scene.alike(left))
        if proposal.result is not scale_up_status.ScaleUpResult.SUCCESSFUL or not proposal.increases:
            return []
        rounds.append(proposal)
        groups = orchestrator.simulate_increases(scene.snapshot, groups, proposal, scene.settings)
        where = scene.snapshot.pods.node_rows[left]
        still = [row for row, node in zip(left, where.tolist(), strict=True) if node == arrays.ABSENT]
        if len(still) == len(left):
            return []
        left = still
        proposer = replace(scene, groups=groups).make_proposer()
    return rounds


def _merge_increases(increases: Sequence[scale_up_status.GroupIncrease]) -> tuple[scale_up_status.GroupIncrease, ...]:
    """One increase for each group, from where it stands to where it ends."""
    merged: dict[str, scale_up_status.GroupIncrease] = {}
    for one in increases:
        first = merged.get(one.group.id, one)
        merged[one.group.id] = scale_up_status.GroupIncrease(first.group, one.new_size)
    return tuple(merged.values())


def dispatch_scale_up(
    docket: RequestQueue,
    scene: ProvisioningContext,
    helpless: Sequence[int],
    asked: Sequence[int],
    obstacle: orchestrator.ScaleUpStatus | None,
    now_s: float,
) -> orchestrator.ScaleUpStatus:
    """Help those whose turn it is. `asked` are rows of the picked request's pods, `helpless` those of ordinary ones.

    `obstacle`: why nothing is to be tried for pods, if so.
    """
    settings = scene.settings
    if obstacle is not None and not asked:
        return obstacle
    is_theirs = bool(asked) and (docket.is_next or not helpless)
    if settings.provisioning_requests.enable_provisioning_requests:
        docket.is_next = not is_theirs
    with scene.ledger.measure(MeasuredStep.SCALE_UP):
        if is_theirs:
            helped = orchestrator.ScaleUpStatus((_serve_request(docket, scene, asked, now_s),), was_tried=True)
        else:
            helped = orchestrator.scale_up(
                scene.observation, scene.snapshot, helpless, scene.groups, settings, scene.rng, scene.ledger
            )
    return replace(helped, wait_for_more=obstacle is not None and obstacle.wait_for_more)


def _serve_request(
    docket: RequestQueue, scene: ProvisioningContext, asked: Sequence[int], now_s: float
) -> scale_up_status.ScaleUpProposal:
    """What to do for the picked request or, where those are served together, for all that only ask for room."""
    chosen, snapshot = scene.settings.provisioning_requests, scene.snapshot
    picked = next(one for one in docket if one.key == docket.picked)
    scatter = None if scene.settings.deviations.tight_packing else scene.rng
    search = hinting.HintingState(scatter=scatter)
    snapshot.fork()
    try:
        if provisioning_queue.is_batched(chosen):
            batch: Sequence[ProvisioningRequest] = provisioning_queue.select_batch(docket, chosen, now_s)
            imagined: Mapping[str, Sequence[int]] = {}
        else:
            batch = [picked] if provisioning_conditions.is_check_capacity(picked, docket.instance) else []
            imagined = {picked.key: asked}
        if batch:
            limit_s = chosen.check_capacity_provisioning_request_batch_timebox_s
            time = scene.ledger.begin("batch", limit_s)
            return scale_up_status.ScaleUpProposal(
                check_capacity(docket, snapshot, batch, imagined, search, scene.settings, time)
            )
        if picked.class_name != provisioning_conditions.ATOMIC_SCALE_UP_CLASS:
            return scale_up_status.ScaleUpProposal(scale_up_status.ScaleUpResult.NOT_TRIED)
        left = find_unplaced(scene, asked, search)
        docket.record_places(snapshot, asked)
        if not left:
            docket.set_condition(picked, provisioning_conditions.CAPACITY_FOUND, generation=False)
            return scale_up_status.ScaleUpProposal(scale_up_status.ScaleUpResult.NOT_NEEDED)
        docket.ordering = picked.key
        return propose_atomic_scale_up(scene, left)
    finally:
        snapshot.revert()


def record_results(
    docket: RequestQueue, scene: ProvisioningContext, first_row: int, helped: orchestrator.ScaleUpStatus
) -> orchestrator.ScaleUpStatus:
    """What came of it, told of the request that was served; imagined pods, from `first_row` on, are told of nobody."""
    for proposal in helped.proposals:
        mine = [row for row in proposal.helped if row >= first_row]
        docket.helped += count_by_request(scene.snapshot, mine)
        unhelped = [row for one in proposal.remaining for row in one.rows if row >= first_row]
        docket.remaining += count_by_request(scene.snapshot, unhelped)
    if docket.ordering:
        proposal, saying = helped.proposals[0], provisioning_conditions.CAPACITY_PROVISIONED
        if proposal.result is not scale_up_status.ScaleUpResult.SUCCESSFUL:
            why = explain_rejected_groups(proposal, scene.observation) if docket.explains_rejections else ""
            saying = append_reason(provisioning_conditions.CAPACITY_NOT_FOUND, why)
        docket.set_condition(next(one for one in docket if one.key == docket.ordering), saying, generation=False)
    told = tuple(options.drop_injected_pods(one, first_row) for one in helped.proposals)
    return replace(helped, proposals=told)
