"""Steps of scale-up: pod list, preconditions, proposals, their execution, and minimum sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from windlass.engine.capacity_apis import capacity_buffer, provisioning_request_orchestrator
from windlass.engine.cluster_state import readiness
from windlass.engine.loop_state import LoopInputs, LoopState, MinSizeOutcome, ScaleUpContext, ScaleUpOutcome
from windlass.engine.model import node_groups, scale_up_status
from windlass.engine.model.scale_up_status import ScaleUpProposal, ScaleUpResult
from windlass.engine.model.settings import Settings
from windlass.engine.observation import DecisionPart
from windlass.engine.scale_up import equivalence_groups, orchestrator, pending_pods, pod_list
from windlass.engine.scale_up.orchestrator import ScaleUpInputs, ScaleUpStatus
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.engine.time_limits import MeasuredStep

NOT_TRIED = ScaleUpStatus((ScaleUpProposal(ScaleUpResult.NOT_TRIED),))


def is_excluded(inputs: LoopInputs) -> bool:
    """Is scale-up left out of this decision, because it raises?"""
    return DecisionPart.SCALE_UP in inputs.observation.left_out.parts


def process_pod_list(state: LoopState) -> None:
    """Which pods ask for new nodes; the others are bound to nodes that have room."""
    inputs, searches = state.inputs, state.searches
    if is_excluded(inputs):
        state.pods = pod_list.PodList()
        return
    drains = {name: drain for name, drain in inputs.drains.items() if not drain.is_empty}
    state.pods = pod_list.process_pod_list(
        pod_list.PodListContext(
            inputs.observation,
            inputs.settings,
            inputs.now_s,
            drains,
            state.queue,
            searches.pending,
            searches.booking,
            state.timer,
        )
    )


def check_preconditions(state: LoopState) -> None:
    """Is a scale-up needed, is the cluster below --max-nodes-total, and are no more pods likely to come?"""
    inputs, pods, groups = state.inputs, state.pods, state.upcoming.groups
    snapshot, settings = inputs.snapshot, inputs.settings
    state.scale_up_inputs = ScaleUpInputs(inputs.observation, snapshot, groups, settings, state.rng, state.timer)
    ready, obstacle = 0, None
    if not is_excluded(inputs):
        ready = _count_ready(inputs) if settings.limits.max_nodes_total > 0 else 0
        rows = (*pods.unschedulable, *pods.requested)
        obstacle = _precheck(snapshot, rows, ready, settings, inputs.now_s)
    state.scale_up_context = ScaleUpContext(
        snapshot, groups, pods.pending, pods.unschedulable, pods.requested, ready, obstacle
    )


def _count_ready(inputs: LoopInputs) -> int:
    """Ready nodes, as far as they count against --max-nodes-total before a scale-up is tried."""
    counts_cordoned = inputs.settings.deviations.count_cordoned_nodes_in_max_nodes_total
    schedulable = (node for node in inputs.nodes if counts_cordoned or not node.unschedulable)
    return sum(1 for node in schedulable if readiness.assess_node(node).is_ready)


def _precheck(
    snapshot: Snapshot, rows: Sequence[int], ready_nodes: int, settings: Settings, now_s: float
) -> ScaleUpStatus | None:
    """The precondition that keeps these pods from a scale-up, if one does."""
    limit = settings.limits.max_nodes_total
    if not rows:
        return ScaleUpStatus((ScaleUpProposal(ScaleUpResult.NOT_NEEDED),))
    if limit > 0 and ready_nodes >= limit:
        remaining = tuple(equivalence_groups.make_equivalence_groups(snapshot, rows, settings))
        return ScaleUpStatus((ScaleUpProposal(ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL, remaining=remaining),))
    if not settings.pods.bypassed_scheduler_names and _should_wait(snapshot, rows, settings, now_s):
        return ScaleUpStatus((ScaleUpProposal(ScaleUpResult.IN_COOLDOWN),), wait_for_more=True)
    return None


def _should_wait(snapshot: Snapshot, rows: Sequence[int], settings: Settings, now_s: float) -> bool:
    """Are more pods likely to come, so that one scale-up could serve them all?"""
    quiet_s, max_s = settings.deviations.quiet_window_s, settings.deviations.quiet_window_max_s
    if quiet_s > 0:
        return pending_pods.are_still_coming(snapshot, rows, quiet_s, max_s, now_s)
    return pending_pods.are_all_new(snapshot, rows, now_s)


def propose_scale_up(state: LoopState) -> None:
    """Propose nodes for pending pods or the ProvisioningRequest that is due; nothing is ordered yet."""
    is_request_next = state.inputs.memory.durable.requests.is_next
    if is_excluded(state.inputs):
        state.turn = provisioning_request_orchestrator.RequestTurn(NOT_TRIED, is_request_next)
        return
    pods, context = state.pods, state.scale_up_context
    in_turn = provisioning_request_orchestrator.PodsInTurn(
        pods.unschedulable, pods.requested, pods.request, is_request_next
    )
    state.turn = provisioning_request_orchestrator.dispatch_scale_up(
        state.queue, state.scale_up_inputs, in_turn, context.obstacle, state.inputs.now_s
    )


def execute_scale_up(state: LoopState) -> None:
    """Turn proposals into resizes and scale-up requests, and record what became of ProvisioningRequests and buffers."""
    inputs, turn, pods = state.inputs, state.turn, state.pods
    durable = state.assessed_durable
    groups = {group.id: group for group in state.upcoming.groups.all}
    if is_excluded(inputs):
        group_of = state.upcoming.group_of
        state.scale_up = ScaleUpOutcome(turn.status, (), durable, group_of, groups, {}, {}, ())
        return
    executed = orchestrator.execute_scale_up(
        state.scale_up_inputs, turn.status.proposals, durable, inputs.now_s, is_atomic=_is_atomic(state)
    )
    durable, proposals = executed.durable, executed.proposals
    if pods.request and any(proposal.result is ScaleUpResult.SUCCESSFUL for proposal in proposals):
        durable = replace(durable, activity=replace(durable.activity, added_s=inputs.now_s))
    results = provisioning_request_orchestrator.record_results(
        state.queue, state.scale_up_inputs, inputs.first_injected_row, turn, proposals
    )
    if results.status.increases:
        groups = apply_increases(groups, results.status.increases)
    state.scale_up = ScaleUpOutcome(
        results.status,
        executed.plan,
        durable,
        {name: groups[group.id] for name, group in state.upcoming.group_of.items()},
        groups,
        results.helped,
        results.remaining,
        tuple(capacity_buffer.find_buffer_scale_ups(pods.buffer_rows, proposals)),
    )


def _is_atomic(state: LoopState) -> bool:
    """Are all groups of a proposal resized or none?"""
    return bool(state.turn.scaled) and state.inputs.settings.deviations.atomic_across_groups


def apply_increases(
    groups: Mapping[str, node_groups.NodeGroup], increases: Sequence[scale_up_status.GroupIncrease]
) -> dict[str, node_groups.NodeGroup]:
    """The groups with their new sizes."""
    sizes = {increase.group.id: increase.new_size for increase in increases}
    return {id: replace(group, target_size=sizes.get(id, group.target_size)) for id, group in groups.items()}


def enforce_min_size(state: LoopState) -> None:
    """Grow groups to their minimum (--enforce-node-group-min-size), after scale-down as in Cluster Autoscaler."""
    inputs, groups, durable = state.inputs, state.scale_up.sizes, state.scale_down.durable
    if not inputs.settings.scale_up.enforce_node_group_min_size or is_excluded(inputs):
        state.min_size = MinSizeOutcome(None, (), durable, groups)
        return
    snapshot = inputs.snapshot
    respects_total = inputs.settings.deviations.enforce_min_respects_max_nodes_total
    sized = replace(state.scale_up_inputs, groups=replace(state.upcoming.groups, all=tuple(groups.values())))
    with state.timer.measure(MeasuredStep.SCALE_UP):
        # Nodes of this loop's scale-up are in the fork behind the others: they count by `count_ordered`.
        existing = int(snapshot.nodes.alive[: state.node_count].sum())
        nodes = orchestrator.list_nodes(inputs.observation, snapshot, sized.groups)[:existing]
        planner = orchestrator.make_planner(sized, nodes)
        if respects_total:
            planner.count_ordered(state.scale_up.status.increases)
        proposal = planner.raise_to_minimum(respects_total)
    executed = orchestrator.execute_scale_up(sized, (proposal,), durable, inputs.now_s, is_atomic=_is_atomic(state))
    (proposal,) = executed.proposals
    state.min_size = MinSizeOutcome(
        proposal, executed.plan, executed.durable, apply_increases(groups, proposal.increases)
    )
