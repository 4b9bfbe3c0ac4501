"""Steps before anything is scaled: startup cleanup, cluster state, remediation, and upcoming nodes."""

from dataclasses import replace

from windlass.engine import taints
from windlass.engine.actuation import soft_taints
from windlass.engine.cluster_state import health, remediation, upcoming_nodes
from windlass.engine.loop_state import LoopInputs, LoopState, NodeGroupTemplates, StartupCleanup, UpcomingState
from windlass.engine.model import cluster_health, decision_record, plan
from windlass.engine.scale_down import unneeded
from windlass.engine.scale_up import node_templates, options, pending_pods
from windlass.engine.time_limits import MeasuredStep


def clean_up_at_start(state: LoopState) -> None:
    """In the first loop after a start, remove ToBeDeleted taints left by a former process, and restore unneeded times
    from soft taints (--node-deletion-candidate-ttl).
    """
    inputs, durable = state.inputs, state.inputs.memory.durable
    if durable.loop > 0:
        state.startup = StartupCleanup((), durable)
        return
    settings = inputs.settings
    own_nodes = [node for node in inputs.nodes if node.name in inputs.group_of]
    instructions: list[plan.Instruction] = []
    for node in own_nodes:
        if taints.has_taint(node, taints.TO_BE_DELETED_KEY):
            instructions.append(plan.RemoveTaint(node.name, taints.TO_BE_DELETED_KEY))
            if settings.drain.cordon_node_before_terminating:
                instructions.append(plan.Cordon(node.name, cordoned=False))
    instructions += soft_taints.clean_up_soft_taints(inputs.nodes, settings.scale_down, inputs.now_s)
    ttl_s = settings.scale_down.node_deletion_candidate_ttl_s
    restored = unneeded.restore_unneeded_since(own_nodes, ttl_s, inputs.now_s)
    before = durable.scale_down
    scale_down = replace(before, since={**restored, **before.since}, previous=before.previous | restored.keys())
    state.startup = StartupCleanup(tuple(instructions), replace(durable, scale_down=scale_down))


def check_actionable(state: LoopState) -> None:
    """Leave a cluster without ready nodes alone, unless --scale-up-from-zero."""
    inputs = state.inputs
    began_s, state.not_actionable = inputs.memory.volatile.began_s, None
    if not inputs.settings.scale_up.scale_up_from_zero:
        began_s = inputs.now_s if began_s is None else began_s
        state.not_actionable = remediation.find_not_actionable(inputs.nodes, began_s, inputs.now_s)


def intern_injected_pods(state: LoopState) -> None:
    """End expired ProvisioningRequests, and intern the shapes of all pods that may be injected: a fork takes no new
    ones.
    """
    if state.not_actionable is not None:
        return
    snapshot, settings = state.inputs.snapshot, state.inputs.settings
    state.queue.expire()
    state.queue.intern_shapes(snapshot)
    if settings.injection.capacity_buffer_pod_injection_enabled:
        for buffer in state.inputs.observation.spares:
            snapshot.shape_of(buffer.like)


def update_cluster_state(state: LoopState) -> None:
    """Health of cluster and groups, and templates of new nodes."""
    inputs = state.inputs
    known = state.startup.durable.health

    def assess() -> cluster_health.ClusterHealth:
        groups = inputs.observation.groups
        return health.assess_health(inputs.nodes, groups, inputs.group_of, known, inputs.settings, inputs.now_s)

    if state.not_actionable is not None:  # nothing is found out about groups, and their memory stays
        state.health, state.templates = assess().as_before(known), _find_templates(inputs)
        return
    with state.timer.measure(MeasuredStep.UPDATE_STATE):
        state.health, state.templates = assess(), _find_templates(inputs)


def _find_templates(inputs: LoopInputs) -> NodeGroupTemplates:
    before, settings, now_s = inputs.memory.volatile, inputs.settings, inputs.now_s
    expire_time_s = settings.templates.node_info_cache_expire_time_s
    kept = node_templates.drop_expired_templates(before.templates, before.learned_s, expire_time_s, now_s)
    excluded = inputs.observation.left_out.nodes
    nodes = [node for node in inputs.nodes if node.name not in excluded]
    made, remembered = upcoming_nodes.find_group_templates(
        inputs.observation, nodes, inputs.group_of, kept, settings, inputs.transient_taints, now_s
    )
    examples = frozenset(group for group, template in remembered.items() if kept.get(group) is not template)
    learned_s = {group: now_s if group in examples else before.learned_s.get(group, now_s) for group in remembered}
    return NodeGroupTemplates(made, remembered, learned_s, examples)


def plan_remediation(state: LoopState) -> decision_record.LoopStop | None:
    """Wrong sizes, and instances that never registered or could not be created. Some end the loop."""
    groups, settings, now_s = state.inputs.observation.groups, state.inputs.settings, state.inputs.now_s
    if state.not_actionable is not None:
        state.remediation = remediation.do_nothing(groups, state.not_actionable)
    else:
        state.remediation = remediation.plan_remediation(groups, state.health, settings, now_s)
    state.remediation_plan = _list_remediation(state.remediation)
    return state.remediation.stop


def _list_remediation(remediation_plan: decision_record.Remediation) -> plan.Plan:
    return (
        *(
            plan.ReduceTarget(revert.group, revert.by, "nodes did not come in time", revert.before.target)
            for revert in remediation_plan.reverts
        ),
        *(
            plan.DeleteInstances(removal.group, removal.instances, "never registered", removal.is_forced)
            for removal in remediation_plan.unregistered
        ),
        *(
            plan.DeleteInstances(removal.group, removal.instances, "could not be created", removal.is_forced)
            for removal in remediation_plan.uncreated
        ),
        *(
            plan.ReduceTarget(fix.group, fix.by, "size was wrong for too long", fix.before.target)
            for fix in remediation_plan.fixes
        ),
    )


def inject_upcoming_nodes(state: LoopState) -> None:
    """Fork the snapshot: without expendable pods and pods of other schedulers, and with upcoming nodes."""
    inputs, found, templates = state.inputs, state.health, state.templates.templates
    snapshot, settings, sizes = inputs.snapshot, inputs.settings, state.remediation.sizes
    groups = {group.id: replace(group, target_size=sizes[group.id].target) for group in inputs.observation.groups}
    upcoming = upcoming_nodes.find_upcoming_and_unready(
        state.remediation.upcoming, found, templates, inputs.nodes, inputs.observation, settings
    )
    cutoff = settings.pods.expendable_pods_priority_cutoff
    injected = upcoming_nodes.inject_upcoming(snapshot, inputs.nodes, templates, upcoming, cutoff)
    if settings.pods.allowed_scheduler_names and not settings.deviations.count_pods_of_all_schedulers:
        pending_pods.filter_out_other_schedulers(snapshot, settings.pods.allowed_scheduler_names)
    verdicts = upcoming_nodes.list_verdicts(found)
    if state.remediation.uncreated:
        targets = {group.id: group.target_size for group in groups.values()}
        verdicts = upcoming_nodes.check_groups(found, targets, found.memory.requests, settings.health)
    unsafe = upcoming_nodes.find_unsafe(groups.values(), found, verdicts, settings.deviations)
    unknown = tuple(group for group in upcoming if group not in templates)
    state.upcoming = UpcomingState(
        options.ScaleUpGroups(tuple(groups.values()), templates, unsafe, injected, unknown),
        upcoming,
        verdicts,
        {name: groups[group.id] for name, group in inputs.group_of.items()},
    )
    state.node_count = snapshot.nodes.count


def discard_fork(state: LoopState) -> None:
    """Revert the snapshot to what was observed."""
    state.inputs.snapshot.revert()
