"""Scale-up orchestration: rounds of proposals for unschedulable pods, and their execution as resizes.

The snapshot is the loop's fork: upcoming nodes are in it, expendable pods are not. What one round orders is simulated
there before the next. The executor turns proposals into instructions and registers scale-up requests; a group that
refused when this very observation was decided on before backs off, and what depended on it is not done.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from windlass.engine import time_limits
from windlass.engine.cluster_state import health, scale_requests
from windlass.engine.expanders import chain, price
from windlass.engine.model import arrays, facts, plan, scale_down_state, scale_up_status, well_known
from windlass.engine.model.durable_memory import DurableMemory
from windlass.engine.model.settings import Settings, for_group
from windlass.engine.observation import Observation
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.scale_up import balancing, options, pod_list, quotas, template_fit
from windlass.engine.snapshot.snapshot import Snapshot

ROUNDS = "rounds"
"""The part of a decision that is limited by --salvo-scale-up-budget: asked once a round."""

PRICES = price.PriceTable()
"""Groups say what their nodes cost; pods are worth what they ask for."""


@dataclass(frozen=True, slots=True)
class ScaleUpStatus:
    """What was proposed for pods, in order, and whether to hold still because more pods are likely to come."""

    proposals: tuple[scale_up_status.ScaleUpProposal, ...]
    was_tried: bool = False
    """Was there anyone to help, and nothing in the way of trying?"""
    wait_for_more: bool = False
    groups: options.ScaleUpGroups | None = None
    """As the last round saw them; None where no round was tried for pods."""

    @property
    def increases(self) -> tuple[scale_up_status.GroupIncrease, ...]:
        return tuple(increase for proposal in self.proposals for increase in proposal.increases)


@dataclass(frozen=True, slots=True)
class ScaleUpContext:
    """What a scale-up is decided on. True until the fork of the snapshot ends in which it was set up.

    Nodes on their way are in the snapshot; expendable pods are not. Pods that are not to be helped because there is
    room for them are on the nodes that have it.
    """

    snapshot: Snapshot
    groups: options.ScaleUpGroups
    waiting: pod_list.PendingPods
    """Pending pods by what the scheduler made of them, with the pods of buffers and of controllers that create more."""
    unschedulable: tuple[int, ...]
    """Rows of the pods that no node has room for, and that a new node could help now."""
    requested: tuple[int, ...]
    """Rows of the pods of the ProvisioningRequest that is due."""
    ready_nodes: int
    """Counted only where --max-nodes-total limits them."""
    obstacle: ScaleUpStatus | None
    """Why nothing is tried for pods, where nothing is."""


def check_preconditions(
    snapshot: Snapshot, helpless: Sequence[int], ready_nodes: int, settings: Settings, now_s: float
) -> ScaleUpStatus | None:
    """Why nothing is to be tried for these pods, if so."""
    limit = settings.limits.max_nodes_total
    if not helpless:
        return ScaleUpStatus((scale_up_status.ScaleUpProposal(scale_up_status.ScaleUpResult.NOT_NEEDED),))
    if limit > 0 and ready_nodes >= limit:
        remaining = tuple(make_equivalence_groups(snapshot, helpless, settings))
        return ScaleUpStatus(
            (
                scale_up_status.ScaleUpProposal(
                    scale_up_status.ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL, remaining=remaining
                ),
            )
        )
    if not settings.pods.bypassed_scheduler_names and _should_wait(snapshot, helpless, settings, now_s):
        return ScaleUpStatus(
            (scale_up_status.ScaleUpProposal(scale_up_status.ScaleUpResult.IN_COOLDOWN),), wait_for_more=True
        )
    return None


def scale_up(
    seen: Observation,
    snapshot: Snapshot,
    helpless: Sequence[int],
    groups: options.ScaleUpGroups,
    settings: Settings,
    rng: np.random.Generator,
    ledger: time_limits.DecisionTimer,
) -> ScaleUpStatus:
    """Try to help these pods."""
    if settings.scale_up.salvo_scale_up or settings.deviations.joint_scale_up:
        rounds = list(_run_rounds(seen, snapshot, helpless, groups, settings, rng, ledger))
        return ScaleUpStatus(tuple(proposal for proposal, _ in rounds), was_tried=True, groups=rounds[-1][1])
    proposer = make_planner(seen, snapshot, groups, settings, rng, ledger)
    return ScaleUpStatus(
        (proposer.propose(build_equivalence_groups(snapshot, helpless, settings, ledger)),),
        was_tried=True,
        groups=groups,
    )


def _should_wait(snapshot: Snapshot, rows: Sequence[int], settings: Settings, now_s: float) -> bool:
    """Are more pods likely to come, so that one scale-up could serve them all?"""
    chosen = settings.deviations
    if chosen.quiet_window_s > 0:
        return pod_list.are_still_coming(snapshot, rows, chosen.quiet_window_s, chosen.quiet_window_max_s, now_s)
    return pod_list.are_all_new(snapshot, rows, now_s)


def _run_rounds(
    seen: Observation,
    snapshot: Snapshot,
    helpless: Sequence[int],
    groups: options.ScaleUpGroups,
    settings: Settings,
    rng: np.random.Generator,
    ledger: time_limits.DecisionTimer,
) -> Iterator[tuple[scale_up_status.ScaleUpProposal, options.ScaleUpGroups]]:
    """Round after round, with the groups that it saw: what one asks for is there for the next, with whom it helps."""
    left, time = list(helpless), ledger.begin(ROUNDS, settings.scale_up.salvo_scale_up_budget_s)
    proposer = make_planner(seen, snapshot, groups, settings, rng, ledger)
    added, limit = 0, settings.scale_up.max_nodes_per_scaleup if settings.deviations.joint_scale_up else 0
    while True:
        proposal = proposer.propose(build_equivalence_groups(snapshot, left, settings, ledger))
        yield proposal, groups
        helped = set(proposal.helped)
        left = [row for row in left if row not in helped]
        if (
            proposal.result is not scale_up_status.ScaleUpResult.SUCCESSFUL
            or not helped
            or not left
            or time.exhausted()
        ):
            return
        added += (more := sum(increase.added for increase in proposal.increases))
        if 0 < limit <= added:
            return  # the next loop goes on
        groups = simulate_increases(snapshot, groups, proposal, settings)
        if any(quotas.is_virtual_node(groups.templates[one.group.id].node.labels) for one in proposal.increases):
            # such nodes are asked for, but not counted
            proposer = make_planner(seen, snapshot, groups, settings, rng, ledger)
        else:
            proposer = proposer.next_round(groups, more)
        if limit > 0:
            proposer.limit_nodes(limit - added)


def simulate_increases(
    snapshot: Snapshot, groups: options.ScaleUpGroups, proposal: scale_up_status.ScaleUpProposal, settings: Settings
) -> options.ScaleUpGroups:
    """The groups as they will be; the snapshot with their new nodes, the helped pods on them."""
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


def make_equivalence_groups(
    snapshot: Snapshot, rows: Sequence[int], settings: Settings
) -> list[scale_up_status.PodEquivalenceGroup]:
    by_likeness = settings.deviations.group_pods_by_likeness
    grouping = pod_list.PodGrouping.BY_LIKENESS if by_likeness else pod_list.PodGrouping.BY_CONTROLLER
    return [
        scale_up_status.PodEquivalenceGroup(snapshot.shape_of_row(group[0]), tuple(group), snapshot.pod(group[0]))
        for group in pod_list.group_equivalent_pods(snapshot, rows, grouping)
    ]


def build_equivalence_groups(
    snapshot: Snapshot, rows: Sequence[int], settings: Settings, ledger: time_limits.DecisionTimer
) -> list[scale_up_status.PodEquivalenceGroup]:
    """The same as a measured step."""
    with ledger.measure(time_limits.MeasuredStep.BUILD_EQUIVALENCE_GROUPS):
        return make_equivalence_groups(snapshot, rows, settings)


def make_planner(
    seen: Observation,
    snapshot: Snapshot,
    groups: options.ScaleUpGroups,
    settings: Settings,
    rng: np.random.Generator,
    ledger: time_limits.DecisionTimer,
    nodes: Sequence[tuple[facts.Node, str | None]] | None = None,
) -> options.OptionPlanner:
    """The proposer of this loop: limits, quotas and comparators as the settings have them.

    `nodes` are those that count against limits and quotas, each with its group: all, unless given.
    """
    nodes = list_nodes(seen, snapshot, groups) if nodes is None else nodes
    up = settings.scale_up
    return options.OptionPlanner(
        template_fit.TemplateFit(snapshot, groups.templates, settings.filters),
        groups,
        track_quotas(seen, nodes, settings),
        len(nodes),
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
        chain.ExpanderContext(rng, seen.priorities, PRICES, len(nodes)),
        balancing.choose_comparator(
            up.balancing_label,
            up.balancing_ignore_label,
            balancing.SimilarityRatios(
                up.memory_difference_ratio, up.max_allocatable_difference_ratio, up.max_free_difference_ratio
            ),
            settings.deviations.ignore_csi_zone_labels,
        ),
        ledger,
        find_unknown_capacity(seen, nodes, groups, settings),
    )


def find_unknown_capacity(
    seen: Observation,
    nodes: Iterable[tuple[facts.Node, str | None]],
    groups: options.ScaleUpGroups,
    settings: Settings,
) -> options.UnknownCapacity:
    """What ends a scale-up because nobody can count it; nothing, unless as in Cluster Autoscaler."""
    if settings.deviations.tolerate_unknown_capacity:
        return options.NOTHING_UNKNOWN
    return options.UnknownCapacity(make_gpu_measure(seen).find_unknown(nodes), groups.unknown_upcoming)


def list_nodes(
    seen: Observation, snapshot: Snapshot, groups: options.ScaleUpGroups
) -> list[tuple[facts.Node, str | None]]:
    """Nodes that exist or are on their way, and the group of each: quotas and --max-nodes-total count them."""
    own_group = {name: group.id for name, group in seen.group_of_nodes().items()}
    table = snapshot.nodes
    present = [row for row, alive in enumerate(table.alive.tolist()) if alive]
    return [
        (table.facts[row], own_group.get(table.names[row], groups.upcoming.get(table.names[row]))) for row in present
    ]


def track_quotas(
    seen: Observation, nodes: Iterable[tuple[facts.Node, str | None]], settings: Settings
) -> quotas.QuotaTracker:
    """What the cluster's limits and CapacityQuotas leave with these nodes."""
    return quotas.make_tracker(
        quotas.QuotaBound.MAXIMUM, [make_maximum_quota(settings), *seen.quotas], nodes, make_gpu_measure(seen)
    )


def make_maximum_quota(settings: Settings) -> scale_up_status.Quota:
    """The cluster's upper limits as a quota."""
    limits = settings.limits
    largest = {facts.CPU: limits.cores_total.max, facts.MEMORY: limits.memory_total_bytes.max}
    largest |= {bounds.gpu_type: bounds.max for bounds in limits.gpu_total}
    return quotas.ClusterLimits(maximum=largest).make_quota(quotas.QuotaBound.MAXIMUM)


def make_gpu_measure(seen: Observation) -> quotas.GpuMeasure:
    """How nodes count against quotas. While a node's GPUs do not show, what the provider says of its group counts."""
    told = {group.id: group.template for group in seen.groups if group.template is not None}
    return quotas.GpuMeasure(well_known.CLUSTER_API_GPU_LABEL, told)


ScaleUpProposals = tuple[scale_up_status.ScaleUpProposal, ...]


@dataclass(frozen=True, slots=True)
class ScaleUpExecutor:
    """The increases of one loop."""

    seen: Observation
    settings: Settings
    now_s: float
    orders: list[plan.Instruction] = field(default_factory=list)
    """What is to be done, in order."""

    def execute(
        self, proposals: ScaleUpProposals, durable: DurableMemory, is_atomic: bool
    ) -> tuple[ScaleUpProposals, DurableMemory]:
        """Order what is proposed. A refusal that is known ends it, and the group that refused backs off.

        Groups are raised one after another up to the first that refuses; with --parallel-scale-up all of a round are
        tried. Where one loop serves pods that need different groups, a refusal concerns none but the group itself.
        What is atomic is done for all groups of a proposal or for none.
        """
        refused, joint = self.seen.refused, self.settings.deviations.joint_scale_up
        for number, proposal in enumerate(proposals):
            if not any(increase.group.id in refused for increase in proposal.increases):
                durable = self._grow(proposal.increases, durable)
                continue
            came_out, durable = self._meet_refusal(proposal, durable, is_atomic)
            if not joint:
                return (*proposals[:number], came_out), durable
            proposals = (*proposals[:number], came_out, *proposals[number + 1 :])
        return proposals, durable

    def _meet_refusal(
        self, proposal: scale_up_status.ScaleUpProposal, durable: DurableMemory, is_atomic: bool
    ) -> tuple[scale_up_status.ScaleUpProposal, DurableMemory]:
        """What is left of a proposal of which some group could not be raised. No pause begins."""
        refused = self.seen.refused
        ids = [increase.group.id for increase in proposal.increases]
        refusing = [group for group in ids if group in refused]
        if self.settings.deviations.joint_scale_up or self.settings.scale_up.parallel_scale_up:
            failed = set(refusing)
        else:
            failed, refusing = set(ids[ids.index(refusing[0]) :]), refusing[:1]
        if is_atomic:
            self._take_back(one for one in proposal.increases if one.group.id not in failed)
            failed = set(ids)
        came_out = options.withdraw_failed(proposal, failed)
        durable = replace(self._grow(came_out.increases, durable), activity=durable.activity)
        backoffs = durable.health.backoffs
        for group in refusing:
            backoffs = health.back_off_group(backoffs, group, refused[group], self.now_s, self.settings.health)
        return came_out, replace(durable, health=replace(durable.health, backoffs=backoffs))

    def _take_back(self, raised: Iterable[scale_up_status.GroupIncrease]) -> None:
        """All or nothing: what was raised before another group refused is lowered again."""
        why = "another group of an atomic scale-up could not be raised"
        self.orders.extend(plan.TakeBack(one.group.id, one.added, why, one.new_size) for one in raised)

    def _grow(self, increases: Sequence[scale_up_status.GroupIncrease], durable: DurableMemory) -> DurableMemory:
        """Order these increases, and remember that they were asked for."""
        if not increases:
            return durable
        asked = durable.health.requests
        activities = dict(durable.activities)
        options = {group.id: group.options for group in self.seen.groups}
        for increase in increases:
            group = increase.group
            self.orders.append(plan.Resize(group.id, group.size, increase.new_size, group.max_size))
            wait_s = for_group(self.settings, options[group.id]).max_node_provision_time_s
            asked = scale_requests.register_scale_up(asked, group.id, increase.added, self.now_s, wait_s)
            activities[group.id] = replace(
                activities.get(group.id, scale_down_state.ScaleActivity()), added_s=self.now_s
            )
        return replace(
            durable,
            health=replace(durable.health, requests=asked),
            activity=replace(durable.activity, added_s=self.now_s),
            activities=activities,
        )
