"""Scale-up orchestration: rounds of proposals for unschedulable pods, and their execution as resizes.

The snapshot is the loop's fork: upcoming nodes are in it, expendable pods are not. The nodes that one round orders are
simulated there before the next. Execution turns proposals into instructions and registers scale-up requests. A group
that refused a resize for this same observation backs off, and what depends on its resize is not ordered.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from windlass.engine import resource_quotas, time_limits
from windlass.engine.cluster_state import backoff, scale_requests
from windlass.engine.expanders import chain, price
from windlass.engine.model import arrays, facts, plan, scale_down_state, scale_up_status, well_known
from windlass.engine.model.durable_memory import DurableMemory
from windlass.engine.model.settings import Settings, for_group
from windlass.engine.observation import Observation
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.scale_up import equivalence_groups, options, similarity, template_fit
from windlass.engine.snapshot.cluster_snapshot import Snapshot

ROUNDS = "rounds"
"""The part of a decision that --salvo-scale-up-budget limits: one checkpoint per round."""

PRICES = price.PriceTable()
"""Node prices by annotation; pod prices by requests."""


@dataclass(frozen=True, slots=True)
class ScaleUpStatus:
    """Proposals for pods, in order, and whether scale-down must wait because more pods are likely to come."""

    proposals: tuple[scale_up_status.ScaleUpProposal, ...]
    was_tried: bool = False
    """Were there pods to scale up for, and did no precondition fail?"""
    wait_for_more: bool = False
    groups: options.ScaleUpGroups | None = None
    """The groups that the last round was decided for; None where no round was tried for pods."""

    @property
    def increases(self) -> tuple[scale_up_status.GroupIncrease, ...]:
        return tuple(increase for proposal in self.proposals for increase in proposal.increases)


@dataclass(frozen=True, slots=True)
class ScaleUpInputs:
    """What scale-up reads, the same for pending pods, ProvisioningRequests and minimum sizes."""

    observation: Observation
    snapshot: Snapshot
    """The loop's fork: with upcoming nodes, and with what earlier rounds ordered."""
    groups: options.ScaleUpGroups
    settings: Settings
    rng: np.random.Generator
    """Draws ties between options, and the start of a scattered search."""
    timer: time_limits.DecisionTimer


def scale_up(inputs: ScaleUpInputs, unschedulable: Sequence[int]) -> ScaleUpStatus:
    """Propose nodes for these pods, in one round or several. Nothing is ordered yet."""
    settings = inputs.settings
    if settings.scale_up.salvo_scale_up or settings.deviations.joint_scale_up:
        rounds = list(_run_rounds(inputs, unschedulable))
        return ScaleUpStatus(tuple(proposal for proposal, _ in rounds), was_tried=True, groups=rounds[-1][1])
    proposal = make_planner(inputs).propose(build_equivalence_groups(inputs, unschedulable))
    return ScaleUpStatus((proposal,), was_tried=True, groups=inputs.groups)


def _run_rounds(
    inputs: ScaleUpInputs, unschedulable: Sequence[int]
) -> Iterator[tuple[scale_up_status.ScaleUpProposal, options.ScaleUpGroups]]:
    """Each round's proposal with the groups it was made for. The nodes and pods of one round are simulated in the
    snapshot before the next.
    """
    snapshot, groups, settings = inputs.snapshot, inputs.groups, inputs.settings
    remaining, time = list(unschedulable), inputs.timer.begin(ROUNDS, settings.scale_up.salvo_scale_up_budget_s)
    planner = make_planner(inputs)
    added, limit = 0, settings.scale_up.max_nodes_per_scaleup if settings.deviations.joint_scale_up else 0
    while True:
        proposal = planner.propose(build_equivalence_groups(inputs, remaining))
        yield proposal, groups
        helped = set(proposal.helped)
        remaining = [row for row in remaining if row not in helped]
        if (
            proposal.result is not scale_up_status.ScaleUpResult.SUCCESSFUL
            or not helped
            or not remaining
            or time.exhausted()
        ):
            return
        added += (more := sum(increase.added for increase in proposal.increases))
        if 0 < limit <= added:
            return  # the next loop goes on
        groups = simulate_increases(snapshot, groups, proposal, settings)
        if any(
            resource_quotas.is_virtual_node(groups.templates[increase.group.id].node.labels)
            for increase in proposal.increases
        ):
            # virtual nodes are ordered, but count against no limit: count the cluster again
            planner = make_planner(replace(inputs, groups=groups))
        else:
            planner = planner.next_round(groups, more)
        if limit > 0:
            planner.limit_nodes(limit - added)


def simulate_increases(
    snapshot: Snapshot, groups: options.ScaleUpGroups, proposal: scale_up_status.ScaleUpProposal, settings: Settings
) -> options.ScaleUpGroups:
    """Add the new nodes to the snapshot, and place the helped pods on them; returns the groups with their new sizes."""
    sizes = {increase.group.id: increase.new_size for increase in proposal.increases}
    upcoming = dict(groups.upcoming)
    first = snapshot.nodes.count
    for increase in proposal.increases:
        group, template = increase.group.id, groups.templates[increase.group.id]
        names = [f"{template.node.name}-salvo-{first + number}" for number in range(increase.added)]
        rows = np.array(snapshot.append(template.node, names))
        for pod in template.pods:
            snapshot.place_many(snapshot.shape_of(pod), rows, np.ones(len(rows), arrays.RESOURCE_DTYPE))
        upcoming |= dict.fromkeys(names, group)
    new_nodes = np.arange(snapshot.nodes.count) >= first
    hinting.try_schedule_pods(
        shape_placer.Placer(snapshot, settings.filters), proposal.helped, hinting.HintingState(), new_nodes
    )
    grown = tuple(replace(group, target_size=sizes.get(group.id, group.target_size)) for group in groups.all)
    return replace(groups, all=grown, upcoming=upcoming)


def build_equivalence_groups(inputs: ScaleUpInputs, rows: Sequence[int]) -> list[scale_up_status.PodEquivalenceGroup]:
    """Equivalence groups of these pods, as a measured step."""
    with inputs.timer.measure(time_limits.MeasuredStep.BUILD_EQUIVALENCE_GROUPS):
        return equivalence_groups.make_equivalence_groups(inputs.snapshot, rows, inputs.settings)


def make_planner(
    inputs: ScaleUpInputs, nodes: Sequence[tuple[facts.Node, str | None]] | None = None
) -> options.OptionPlanner:
    """The planner of this loop: limits, quotas and comparator as set by flags.

    `nodes` count against limits and quotas, each with its group: all nodes, unless given.
    """
    observation, snapshot, groups, settings = inputs.observation, inputs.snapshot, inputs.groups, inputs.settings
    nodes = list_nodes(observation, snapshot, groups) if nodes is None else nodes
    up = settings.scale_up
    config = options.PlannerConfig(
        options.ScaleUpLimits(
            settings.limits.max_nodes_total,
            up.max_nodes_per_scaleup,
            up.balance_similar_node_groups,
            up.fastpath_binpacking_enabled,
            up.max_nodegroup_binpacking_duration_s,
            up.max_binpacking_time_s,
            scatter=not settings.deviations.tight_packing,
            simulate_skipped=up.scaleup_simulation_for_skipped_node_groups_enabled,
        ),
        up.expander,
        similarity.choose_comparator(
            up.balancing_label,
            up.balancing_ignore_label,
            similarity.SimilarityRatios(
                up.memory_difference_ratio, up.max_allocatable_difference_ratio, up.max_free_difference_ratio
            ),
            settings.deviations.ignore_csi_zone_labels,
        ),
    )
    return options.OptionPlanner(
        template_fit.TemplateFit(snapshot, groups.templates, settings.filters),
        groups,
        track_quotas(observation, nodes, settings),
        config,
        chain.ExpanderContext(inputs.rng, observation.priorities, PRICES, len(nodes)),
        inputs.timer,
        find_unknown_capacity(observation, nodes, groups, settings),
    )


def find_unknown_capacity(
    observation: Observation,
    nodes: Iterable[tuple[facts.Node, str | None]],
    groups: options.ScaleUpGroups,
    settings: Settings,
) -> options.UnknownCapacity:
    """Nodes and groups whose resources cannot be counted; Cluster Autoscaler ends the scale-up then."""
    if settings.deviations.tolerate_unknown_capacity:
        return options.NOTHING_UNKNOWN
    return options.UnknownCapacity(make_gpu_measure(observation).find_unknown(nodes), groups.unknown_upcoming)


def list_nodes(
    observation: Observation, snapshot: Snapshot, groups: options.ScaleUpGroups
) -> list[tuple[facts.Node, str | None]]:
    """Nodes that exist or are on their way, and the group of each: quotas and --max-nodes-total count them."""
    own_group = {name: group.id for name, group in observation.group_of_nodes().items()}
    table = snapshot.nodes
    present = [row for row, alive in enumerate(table.alive.tolist()) if alive]
    return [
        (table.facts[row], own_group.get(table.names[row], groups.upcoming.get(table.names[row]))) for row in present
    ]


def track_quotas(
    observation: Observation, nodes: Iterable[tuple[facts.Node, str | None]], settings: Settings
) -> resource_quotas.QuotaTracker:
    """What the cluster's limits and CapacityQuotas leave with these nodes."""
    return resource_quotas.make_tracker(
        resource_quotas.QuotaBound.MAXIMUM,
        [make_maximum_quota(settings), *observation.quotas],
        nodes,
        make_gpu_measure(observation),
    )


def make_maximum_quota(settings: Settings) -> scale_up_status.Quota:
    """The cluster's upper limits as a quota."""
    limits = settings.limits
    largest = {facts.CPU: limits.cores_total.max, facts.MEMORY: limits.memory_total_bytes.max}
    largest |= {bounds.gpu_type: bounds.max for bounds in limits.gpu_total}
    return resource_quotas.ClusterLimits(maximum=largest).make_quota(resource_quotas.QuotaBound.MAXIMUM)


def make_gpu_measure(observation: Observation) -> resource_quotas.GpuMeasure:
    """How nodes' GPUs count against quotas: by the template of the group, while they are not allocatable."""
    templates = {group.id: group.template for group in observation.groups if group.template is not None}
    return resource_quotas.GpuMeasure(well_known.CLUSTER_API_GPU_LABEL, templates)


ScaleUpProposals = tuple[scale_up_status.ScaleUpProposal, ...]


@dataclass(frozen=True, slots=True)
class ExecutedScaleUp:
    """The proposals as far as they were ordered, the instructions, and the memory with the scale-up requests."""

    proposals: ScaleUpProposals
    plan: plan.Plan
    durable: DurableMemory


def execute_scale_up(
    inputs: ScaleUpInputs, proposals: ScaleUpProposals, durable: DurableMemory, now_s: float, *, is_atomic: bool
) -> ExecutedScaleUp:
    """Order what is proposed. A known refusal ends it, and the group that refused backs off.

    Groups are resized one after another up to the first that refuses; with --parallel-scale-up all of a round are
    tried. With joint scale-up a refusal concerns only the group itself. An atomic scale-up resizes all groups of a
    proposal or none.
    """
    refused, joint = inputs.observation.refused, inputs.settings.deviations.joint_scale_up
    instructions: list[plan.Instruction] = []
    for number, proposal in enumerate(proposals):
        if not any(increase.group.id in refused for increase in proposal.increases):
            instructions += _make_resizes(proposal.increases)
            durable = _register_increases(inputs, proposal.increases, durable, now_s)
            continue
        withdrawn, reverted, durable = _apply_refusal(inputs, proposal, durable, now_s, is_atomic=is_atomic)
        instructions += (*reverted, *_make_resizes(withdrawn.increases))
        if not joint:
            return ExecutedScaleUp((*proposals[:number], withdrawn), tuple(instructions), durable)
        proposals = (*proposals[:number], withdrawn, *proposals[number + 1 :])
    return ExecutedScaleUp(proposals, tuple(instructions), durable)


def _apply_refusal(
    inputs: ScaleUpInputs,
    proposal: scale_up_status.ScaleUpProposal,
    durable: DurableMemory,
    now_s: float,
    *,
    is_atomic: bool,
) -> tuple[scale_up_status.ScaleUpProposal, list[plan.TakeBack], DurableMemory]:
    """What is left of a proposal that some group refused, what is reverted, and the memory. No cooldown begins."""
    refused, settings = inputs.observation.refused, inputs.settings
    ids = [increase.group.id for increase in proposal.increases]
    refusing = [group for group in ids if group in refused]
    if settings.deviations.joint_scale_up or settings.scale_up.parallel_scale_up:
        failed = set(refusing)
    else:
        failed, refusing = set(ids[ids.index(refusing[0]) :]), refusing[:1]
    reverted: list[plan.TakeBack] = []
    if is_atomic:  # all or nothing: groups that were resized before another one refused shrink again
        reason = "another group of an atomic scale-up could not be raised"
        resized = (increase for increase in proposal.increases if increase.group.id not in failed)
        reverted = [plan.TakeBack(resize.group.id, resize.added, reason, resize.new_size) for resize in resized]
        failed = set(ids)
    withdrawn = options.withdraw_failed(proposal, failed)
    durable = replace(_register_increases(inputs, withdrawn.increases, durable, now_s), activity=durable.activity)
    backoffs = durable.health.backoffs
    for group in refusing:
        backoffs = backoff.back_off_group(backoffs, group, refused[group], now_s, settings.health)
    return withdrawn, reverted, replace(durable, health=replace(durable.health, backoffs=backoffs))


def _make_resizes(increases: Iterable[scale_up_status.GroupIncrease]) -> list[plan.Instruction]:
    return [
        plan.Resize(increase.group.id, increase.group.size, increase.new_size, increase.group.max_size)
        for increase in increases
    ]


def _register_increases(
    inputs: ScaleUpInputs, increases: Sequence[scale_up_status.GroupIncrease], durable: DurableMemory, now_s: float
) -> DurableMemory:
    """The memory with a scale-up request and the time of the last scale-up for each group that grows."""
    if not increases:
        return durable
    requests, activities = durable.health.requests, dict(durable.activities)
    options_of = {group.id: group.options for group in inputs.observation.groups}
    for increase in increases:
        group = increase.group.id
        wait_s = for_group(inputs.settings, options_of[group]).max_node_provision_time_s
        requests = scale_requests.register_scale_up(requests, group, increase.added, now_s, wait_s)
        activities[group] = replace(activities.get(group, scale_down_state.ScaleActivity()), added_s=now_s)
    return replace(
        durable,
        health=replace(durable.health, requests=requests),
        activity=replace(durable.activity, added_s=now_s),
        activities=activities,
    )
