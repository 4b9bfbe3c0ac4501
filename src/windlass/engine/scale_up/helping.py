"""Helping pending pods: who still needs help when everything that exists and is on its way is taken into account?

The snapshot is the loop's fork: nodes that are on their way are in it, expendable pods are not. Pods that have a place
already are bound to it there, so that whoever looks next sees them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from windlass.engine import dtypes, equivalence, facts, gpus, placing, pod_traits, searching, time_limits
from windlass.engine.expanders import chain, pricing
from windlass.engine.observation import Observation
from windlass.engine.pods import Kind
from windlass.engine.scale_up import balancing, pending, proposing, prospects, quotas, similarity
from windlass.engine.settings import Settings
from windlass.engine.snapshot import Snapshot

ROUNDS = "rounds"
"""The part of a decision that is limited by --salvo-scale-up-budget: asked once a round."""
PRICES = pricing.PriceTable()
"""Groups say what their nodes cost; pods are worth what they ask for."""


@dataclass(frozen=True, slots=True)
class Helped:
    """What was proposed for pods, in order, and whether to hold still because more pods are likely to come."""

    proposals: tuple[proposing.Proposal, ...]
    was_tried: bool = False
    """Was there anyone to help, and nothing in the way of trying?"""
    wait_for_more: bool = False
    groups: proposing.Groups | None = None
    """As the last round saw them; None where no round was tried for pods."""

    @property
    def increases(self) -> tuple[balancing.Increase, ...]:
        return tuple(increase for proposal in self.proposals for increase in proposal.increases)


def drop_expendable(snapshot: Snapshot, cutoff: int) -> None:
    """Take pods that are worth no node off theirs: they would go if anyone needed the room."""
    worthless = np.array(
        [pending.is_expendable(snapshot.shapes[number].spec, cutoff) for number in range(len(snapshot.shapes))]
        + [False]
    )
    table = snapshot.pods
    for row in np.flatnonzero(worthless[table.shape_ids] & (table.node_rows >= 0)).tolist():
        snapshot.lift(row)


def drop_pods_of_other_schedulers(snapshot: Snapshot, allowed: Sequence[str]) -> None:
    """Take the pods of schedulers that are not allowed off their nodes, as Cluster Autoscaler does."""
    table = snapshot.pods
    is_other = np.array([kind.scheduler not in allowed for kind in table.kinds] + [False])
    for row in np.flatnonzero(is_other[table.kind_ids] & (table.node_rows >= 0)).tolist():
        snapshot.lift(row)


def settle_nominated(snapshot: Snapshot, rows: Sequence[int], cutoff: int) -> None:
    """Count pods that others are preempted for on the node that they are promised."""
    for row in rows:
        node_row = snapshot.nodes.rows.get(snapshot.pods.kind(row).nominated_node)
        if node_row is not None and not pending.is_expendable(snapshot.shape_of_row(row).spec, cutoff):
            snapshot.bind(row, node_row)


def find_helpless(
    snapshot: Snapshot, waiting: pending.Waiting, search: searching.Search, settings: Settings, now_s: float
) -> list[int]:
    """Rows of the pods that no node has room for, and that a new node could help now."""
    rows = [*waiting.unschedulable, *waiting.unprocessed]
    worthy = _judge_shapes(
        snapshot, rows, lambda spec: not pending.is_expendable(spec, settings.pods.expendable_pods_priority_cutoff)
    )
    placer, drained = placing.Placer(snapshot, settings.filters), frozenset(waiting.drained)
    found = searching.find_places(
        placer, [*worthy, *waiting.drained], search, snapshot.nodes.alive.copy(), last=drained
    )
    search.hints.drop_old()
    table = snapshot.pods
    daemons = {kind: is_of_daemonset(table.kinds[kind]) for kind in set(table.kind_ids[found.failed].tolist())}
    helpless = [row for row in sorted(found.failed) if not daemons[int(table.kind_ids[row])]]
    return pending.find_old_enough(snapshot, helpless, settings.pods.new_pod_scale_up_delay_s, now_s)


def _judge_shapes(snapshot: Snapshot, rows: Sequence[int], judge: Callable[[facts.PodSpec], bool]) -> list[int]:
    """The rows whose specs pass; each spec is judged once."""
    shape_ids = snapshot.pods.shape_ids[list(rows)].tolist()
    passed = {number: judge(snapshot.shapes[number].spec) for number in set(shape_ids)}
    return [row for row, number in zip(rows, shape_ids, strict=True) if passed[number]]


def is_of_daemonset(kind: Kind) -> bool:
    """Are pods of this kind a DaemonSet's, or to be taken for such?"""
    return (kind.owner is not None and kind.owner.kind == "DaemonSet") or (
        dict(kind.annotations).get(pod_traits.DAEMONSET_POD) == "true"
    )


def find_obstacle(
    snapshot: Snapshot, helpless: Sequence[int], ready_nodes: int, settings: Settings, now_s: float
) -> Helped | None:
    """Why nothing is to be tried for these pods, if so."""
    limit = settings.limits.max_nodes_total
    if not helpless:
        return Helped((proposing.Proposal(proposing.Result.NOT_NEEDED),))
    if limit > 0 and ready_nodes >= limit:
        remaining = tuple(alike_pods(snapshot, helpless, settings))
        return Helped((proposing.Proposal(proposing.Result.LIMITED_BY_MAX_NODES_TOTAL, remaining=remaining),))
    if not settings.pods.bypassed_scheduler_names and _should_wait(snapshot, helpless, settings, now_s):
        return Helped((proposing.Proposal(proposing.Result.IN_COOLDOWN),), wait_for_more=True)
    return None


def scale_up(
    seen: Observation,
    snapshot: Snapshot,
    helpless: Sequence[int],
    groups: proposing.Groups,
    settings: Settings,
    rng: np.random.Generator,
    ledger: time_limits.Ledger,
) -> Helped:
    """Try to help these pods."""
    if settings.scale_up.salvo_scale_up or settings.deviations.joint_scale_up:
        rounds = list(_salvo(seen, snapshot, helpless, groups, settings, rng, ledger))
        return Helped(tuple(proposal for proposal, _ in rounds), was_tried=True, groups=rounds[-1][1])
    proposer = make_proposer(seen, snapshot, groups, settings, rng, ledger)
    return Helped((proposer.propose(group_pods(snapshot, helpless, settings, ledger)),), was_tried=True, groups=groups)


def _should_wait(snapshot: Snapshot, rows: Sequence[int], settings: Settings, now_s: float) -> bool:
    """Are more pods likely to come, so that one scale-up could serve them all?"""
    chosen = settings.deviations
    if chosen.quiet_window_s > 0:
        return pending.are_still_coming(snapshot, rows, chosen.quiet_window_s, chosen.quiet_window_max_s, now_s)
    return pending.are_all_new(snapshot, rows, now_s)


def _salvo(
    seen: Observation,
    snapshot: Snapshot,
    helpless: Sequence[int],
    groups: proposing.Groups,
    settings: Settings,
    rng: np.random.Generator,
    ledger: time_limits.Ledger,
) -> Iterator[tuple[proposing.Proposal, proposing.Groups]]:
    """Round after round, with the groups that it saw: what one asks for is there for the next, with whom it helps."""
    left, time = list(helpless), ledger.begin(ROUNDS, settings.scale_up.salvo_scale_up_budget_s)
    proposer = make_proposer(seen, snapshot, groups, settings, rng, ledger)
    added, limit = 0, settings.scale_up.max_nodes_per_scaleup if settings.deviations.joint_scale_up else 0
    while True:
        proposal = proposer.propose(group_pods(snapshot, left, settings, ledger))
        yield proposal, groups
        helped = set(proposal.helped)
        left = [row for row in left if row not in helped]
        if proposal.result is not proposing.Result.SUCCESSFUL or not helped or not left or time.exhausted():
            return
        added += (more := sum(increase.added for increase in proposal.increases))
        if 0 < limit <= added:
            return  # the next loop goes on
        groups = take_for_granted(snapshot, groups, proposal, settings)
        if any(quotas.is_virtual(groups.templates[one.group.id].node.labels) for one in proposal.increases):
            # such nodes are asked for, but not counted
            proposer = make_proposer(seen, snapshot, groups, settings, rng, ledger)
        else:
            proposer = proposer.go_on(groups, more)
        if limit > 0:
            proposer.limit_nodes(limit - added)


def take_for_granted(
    snapshot: Snapshot, groups: proposing.Groups, proposal: proposing.Proposal, settings: Settings
) -> proposing.Groups:
    """The groups as they will be; the snapshot with their new nodes, the helped pods on them."""
    sizes = {increase.group.id: increase.new_size for increase in proposal.increases}
    upcoming = dict(groups.upcoming)
    first = snapshot.nodes.count
    for increase in proposal.increases:
        group, template = increase.group.id, groups.templates[increase.group.id]
        names = [f"{template.node.name}-salvo-{first + number}" for number in range(increase.added)]
        rows = np.array(snapshot.append(template.node, names))
        for pod in template.pods:
            snapshot.place_many(snapshot.shape_of(pod), rows, np.ones(len(rows), dtypes.RESOURCE))
        upcoming |= dict.fromkeys(names, group)
    new_nodes = np.arange(snapshot.nodes.count) >= first
    searching.find_places(placing.Placer(snapshot, settings.filters), proposal.helped, searching.Search(), new_nodes)
    grown = tuple(replace(group, target_size=sizes.get(group.id, group.target_size)) for group in groups.all)
    return replace(groups, all=grown, upcoming=upcoming)


def alike_pods(snapshot: Snapshot, rows: Sequence[int], settings: Settings) -> list[proposing.Alike]:
    by_likeness = settings.deviations.group_pods_by_likeness
    grouping = equivalence.Grouping.BY_LIKENESS if by_likeness else equivalence.Grouping.BY_CONTROLLER
    return [
        proposing.Alike(snapshot.shape_of_row(group[0]), tuple(group), snapshot.pod(group[0]))
        for group in equivalence.partition_rows(snapshot, rows, grouping)
    ]


def group_pods(
    snapshot: Snapshot, rows: Sequence[int], settings: Settings, ledger: time_limits.Ledger
) -> list[proposing.Alike]:
    """The same as a measured step."""
    with ledger.measure(time_limits.Step.BUILD_EQUIVALENCE_GROUPS):
        return alike_pods(snapshot, rows, settings)


def make_proposer(
    seen: Observation,
    snapshot: Snapshot,
    groups: proposing.Groups,
    settings: Settings,
    rng: np.random.Generator,
    ledger: time_limits.Ledger,
    nodes: Sequence[tuple[facts.Node, str | None]] | None = None,
) -> proposing.Proposer:
    """The proposer of this loop: limits, quotas and comparators as the settings have them.

    `nodes` are those that count against limits and quotas, each with its group: all, unless given.
    """
    nodes = list_nodes(seen, snapshot, groups) if nodes is None else nodes
    up = settings.scale_up
    return proposing.Proposer(
        prospects.Prospects(snapshot, groups.templates, settings.filters),
        groups,
        track_quotas(seen, nodes, settings),
        len(nodes),
        proposing.Limits(
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
        chain.Situation(rng, seen.priorities, PRICES, len(nodes)),
        similarity.choose_comparator(
            up.balancing_label,
            up.balancing_ignore_label,
            similarity.Ratios(
                up.memory_difference_ratio, up.max_allocatable_difference_ratio, up.max_free_difference_ratio
            ),
            settings.deviations.ignore_csi_zone_labels,
        ),
        ledger,
        find_unknown(seen, nodes, groups, settings),
    )


def find_unknown(
    seen: Observation,
    nodes: Iterable[tuple[facts.Node, str | None]],
    groups: proposing.Groups,
    settings: Settings,
) -> proposing.Unknown:
    """What ends a scale-up because nobody can count it; nothing, unless as in Cluster Autoscaler."""
    if settings.deviations.tolerate_unknown_capacity:
        return proposing.NOTHING_UNKNOWN
    return proposing.Unknown(count_with_gpus(seen).find_unknown(nodes), groups.unknown_upcoming)


def list_nodes(seen: Observation, snapshot: Snapshot, groups: proposing.Groups) -> list[tuple[facts.Node, str | None]]:
    """Nodes that exist or are on their way, and the group of each: quotas and --max-nodes-total count them."""
    own_group = {name: group.id for name, group in seen.group_of_nodes().items()}
    table = snapshot.nodes
    present = [row for row, alive in enumerate(table.alive.tolist()) if alive]
    return [
        (table.facts[row], own_group.get(table.names[row], groups.upcoming.get(table.names[row]))) for row in present
    ]


def track_quotas(
    seen: Observation, nodes: Iterable[tuple[facts.Node, str | None]], settings: Settings
) -> quotas.Tracker:
    """What the cluster's limits and CapacityQuotas leave with these nodes."""
    return quotas.track(quotas.Bound.MAXIMUM, [maximum(settings), *seen.quotas], nodes, count_with_gpus(seen))


def maximum(settings: Settings) -> quotas.Quota:
    """The cluster's upper limits as a quota."""
    limits = settings.limits
    largest = {facts.CPU: limits.cores_total.max, facts.MEMORY: limits.memory_total_bytes.max}
    largest |= {bounds.gpu_type: bounds.max for bounds in limits.gpu_total}
    return quotas.ClusterLimits(maximum=largest).make_quota(quotas.Bound.MAXIMUM)


def count_with_gpus(seen: Observation) -> quotas.WithGpus:
    """How nodes count against quotas. While a node's GPUs do not show, what the provider says of its group counts."""
    told = {group.id: group.template for group in seen.groups if group.template is not None}
    return quotas.WithGpus(gpus.CLUSTER_API_LABEL, told)
