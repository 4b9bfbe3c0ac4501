"""Steps of scale-down: unneeded nodes, the start of their deletion, and soft taints."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from windlass.engine import quarantine, resource_quotas, taints
from windlass.engine.actuation import node_drain, soft_taints
from windlass.engine.cluster_state import scale_requests
from windlass.engine.drainability import context, rules
from windlass.engine.loop_state import LoopState, ScaleDownOutcome, UnneededNodes
from windlass.engine.model import facts, plan, scale_down_state
from windlass.engine.model.decision_record import ScaleDownRecord, ScaleDownResult
from windlass.engine.model.durable_memory import DurableMemory
from windlass.engine.observation import DecisionPart
from windlass.engine.scale_down import cooldown, deletion_budgets, planner, removal_simulator
from windlass.engine.scale_up import options, orchestrator
from windlass.engine.time_limits import MeasuredStep


def find_unneeded_nodes(state: LoopState) -> None:
    """Candidates in order, and whether the pods of each fit elsewhere."""
    inputs, settings, durable = state.inputs, state.inputs.settings, state.scale_up.durable
    excluded = inputs.observation.left_out
    if not settings.scale_down.scale_down_enabled or DecisionPart.SCALE_DOWN in excluded.parts:
        state.unneeded = None
        return
    # Nodes that have not started count as upcoming; nodes that cannot be evaluated, or run such a pod, stay.
    skipped = {name for group in state.upcoming.upcoming.values() for name in group.not_started}
    rows = quarantine.find_nodes_with_excluded_pods(inputs.snapshot.pods).tolist()
    skipped |= {*excluded.nodes, *(inputs.snapshot.nodes.names[row] for row in rows)}
    with state.timer.measure(MeasuredStep.FIND_UNNEEDED):
        scope = _make_context(state, [node.name for node in inputs.nodes if node.name not in skipped])
        names = planner.find_candidates(scope, durable.scale_down, durable.activities, settings, inputs.now_s)
        names = _leave_out_deleted(state, names, durable)
        time = state.timer.begin("scale-down simulation", settings.scale_down.scale_down_simulation_timeout_s)
        evaluation = planner.evaluate_candidates(scope, names, durable.scale_down, settings, inputs.now_s, time)
    state.unneeded = UnneededNodes(scope, names, evaluation)


def _make_context(state: LoopState, names: Sequence[str]) -> removal_simulator.ScaleDownContext:
    inputs, drains = state.inputs, state.inputs.drains
    drain_context = context.make_drain_context(inputs.observation, inputs.settings, inputs.now_s)
    evicted = _find_recently_evicted(state)
    moved = state.pods.pending.drained if inputs.settings.deviations.move_drained_pods else ()
    return removal_simulator.ScaleDownContext(
        inputs.snapshot,
        names,
        state.scale_up.group_of,
        rules.PodDrainability(inputs.snapshot.pods, drain_context),
        drain_context.budgets,
        state.searches.removal,
        deletion_budgets.DeletionsInProgress(
            frozenset(name for name, drain in drains.items() if drain.is_empty),
            frozenset(name for name, drain in drains.items() if not drain.is_empty),
        ),
        evicted,
        frozenset(moved).union(evicted),
    )


def _find_recently_evicted(state: LoopState) -> list[int]:
    """Rows of evicted pods that need room elsewhere until their controllers have created them anew."""
    snapshot, inputs = state.inputs.snapshot, state.inputs
    if not inputs.drains or not inputs.settings.deviations.hold_room_for_evicted_pods:
        return []
    rows = planner.find_terminating_rows(snapshot, inputs.drains)
    missing = planner.count_missing_replicas(snapshot, rows, inputs.observation.controllers or {})
    return planner.find_rows_to_recreate(snapshot, rows, missing)


def _leave_out_deleted(state: LoopState, names: list[str], durable: DurableMemory) -> list[str]:
    """The candidates without nodes whose deletion was ordered before, so that none is ordered twice.

    Nodes that were tainted lately stay: they are reported as being deleted.
    """
    deleted = {
        name
        for name, drain in durable.drains.items()
        if drain.progress.deleting_s is not None and drain.progress.failure is None
    }
    if not deleted:
        return names
    table, now_s = state.inputs.snapshot.nodes, state.inputs.now_s
    return [
        name for name in names if name not in deleted or taints.is_being_deleted(table.facts[table.rows[name]], now_s)
    ]


def start_deletion(state: LoopState) -> None:
    """Choose unneeded nodes within budgets and limits, and start their drains, unless in cooldown."""
    durable = state.scale_up.durable
    if state.unneeded is None:
        state.scale_down = ScaleDownOutcome(ScaleDownRecord(ScaleDownResult.NOT_TRIED), (), durable)
        return
    durable = replace(durable, scale_down=state.unneeded.evaluation.state)
    if _is_in_cooldown(state, durable):
        record = ScaleDownRecord(ScaleDownResult.IN_COOLDOWN, state.unneeded.evaluation)
        state.scale_down = ScaleDownOutcome(record, (), durable)
        return
    with state.timer.measure(MeasuredStep.SCALE_DOWN):
        state.scale_down = _delete_nodes(state, state.unneeded, durable)


def _is_in_cooldown(state: LoopState, durable: DurableMemory) -> bool:
    if state.scale_up.status.wait_for_more:
        return True
    scale_down = state.inputs.settings.scale_down
    if scale_down.scale_down_delay_type_local:
        return False
    return cooldown.cooldown_ends_at_s(durable.activity, scale_down) > state.inputs.now_s


def _delete_nodes(state: LoopState, unneeded: UnneededNodes, durable: DurableMemory) -> ScaleDownOutcome:
    inputs, scope, evaluation = state.inputs, unneeded.context, unneeded.evaluation
    group_of, now_s = state.scale_up.group_of, inputs.now_s
    if not unneeded.candidates:
        return ScaleDownOutcome(ScaleDownRecord(ScaleDownResult.NO_CANDIDATES, evaluation), (), durable)
    minimum = _track_minimum(state)
    if minimum is None:
        return ScaleDownOutcome(ScaleDownRecord(ScaleDownResult.NO_NODE_DELETED, evaluation), (), durable)
    choice = planner.select_nodes_to_delete(scope, evaluation, minimum, inputs.settings, now_s)
    started = deletion_budgets.crop_nodes(
        [node.node_name for node in choice.empty],
        [node.node_name for node in choice.drain],
        group_of,
        scope.count_registered(),
        scope.in_progress,
        inputs.settings,
    )
    names = [name for bucket in (*started.empty, *started.drain) for name in bucket.nodes]
    if not names:
        record = ScaleDownRecord(ScaleDownResult.NO_NODE_DELETED, evaluation, choice, started)
        return ScaleDownOutcome(record, (), durable)
    moves = {node.node_name: node.moves.move for node in (*choice.empty, *choice.drain)}
    begun = list(
        node_drain.start_drains(
            scope.snapshot,
            {name: moves[name] for name in names},
            inputs.first_injected_row,
            state.searches.removal.hints.old,
            group_of,
            now_s,
        )
    )
    return ScaleDownOutcome(
        ScaleDownRecord(ScaleDownResult.STARTED, evaluation, choice, started),
        tuple(order for order, _ in begun),
        _register_deletions(
            replace(durable, drains={**durable.drains, **{order.node: drain for order, drain in begun}}),
            [(group_of[name].id, name) for name in names],
            now_s,
            now_s + inputs.settings.drain.node_delete_delay_after_taint_s,
        ),
    )


def _register_deletions(
    durable: DurableMemory, deletions: Sequence[tuple[str, str]], now_s: float, deleted_s: float
) -> DurableMemory:
    """The memory with a scale-down request per (group, node), and the time of each group's last scale-down."""
    activities = dict(durable.activities)
    for group in dict.fromkeys(group for group, _ in deletions):
        activities[group] = replace(activities.get(group, scale_down_state.ScaleActivity()), deleted_s=deleted_s)
    requests = scale_requests.register_scale_downs(durable.health.requests, deletions, now_s)
    return replace(
        durable,
        health=replace(durable.health, requests=requests),
        activity=replace(durable.activity, deleted_s=now_s),
        activities=activities,
    )


def _track_minimum(state: LoopState) -> resource_quotas.QuotaTracker | None:
    """The resources that the cluster must keep (--cores-total, --memory-total, --gpu-total); None where the present
    ones cannot be counted, as in Cluster Autoscaler. Upcoming nodes count, as they do against the maximum.
    """
    inputs, limits = state.inputs, state.inputs.settings.limits
    groups: options.ScaleUpGroups = state.scale_up.status.groups or state.upcoming.groups
    smallest: Mapping[str, int] = {
        facts.CPU: limits.cores_total.min,
        facts.MEMORY: limits.memory_total_bytes.min,
        **{bounds.gpu_type: bounds.min for bounds in limits.gpu_total},
    }
    quota = resource_quotas.ClusterLimits(minimum=smallest).make_quota(resource_quotas.QuotaBound.MINIMUM)
    nodes = orchestrator.list_nodes(inputs.observation, inputs.snapshot, groups)
    if orchestrator.find_unknown_capacity(inputs.observation, nodes, groups, inputs.settings).node is not None:
        return None
    measure = orchestrator.make_gpu_measure(inputs.observation)
    return resource_quotas.make_tracker(resource_quotas.QuotaBound.MINIMUM, [quota], nodes, measure)


def update_soft_taints(state: LoopState) -> None:
    """DeletionCandidate taints on unneeded nodes, except on nodes whose drain begins now."""
    state.soft_taint_plan = ()
    if state.unneeded is None:
        return
    inputs, since = state.inputs, state.unneeded.evaluation.state.since
    with state.timer.measure(MeasuredStep.SOFT_TAINT):
        changes = soft_taints.update_soft_taints(
            inputs.nodes, state.scale_up.group_of, since, inputs.settings.scale_down, inputs.now_s
        ).changes
        drained = {order.node for order in state.scale_down.plan if isinstance(order, plan.Drain)}
        state.soft_taint_plan = tuple(change for change in changes if change.node not in drained)
