"""Expansion options: which groups grow, and by how much, for which pods.

Each group that may grow is checked against the pods; what they need is estimated; the expanders choose one option;
limits and quotas cap it; similar groups share it. What is not helped, and why, is part of the proposal.
"""

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from windlass.engine import resource_quotas, time_limits
from windlass.engine.expanders import chain, grpc
from windlass.engine.model import facts, node_groups, scale_up_status
from windlass.engine.model.scale_up_status import ExpansionOption, GroupTemplate, SchedulablePods
from windlass.engine.scale_up import balancing, binpacking_estimator, similarity

if TYPE_CHECKING:
    from windlass.engine.scale_up.template_fit import TemplateFit

FILTERED_OUT = "expansion options filtered out and no longer considered"

EXECUTION_FAILED = "scale-up execution failed"

NOT_WHOLE = "not all pods would fit and scale-up is using all-or-nothing strategy"


@dataclass(frozen=True, slots=True)
class ScaleUpLimits:
    """Limits of a scale-up, from flags."""

    max_nodes_total: int = 0
    max_nodes_per_scale_up: int = 1000
    balance_similar_groups: bool = False
    fastpath: bool = False
    estimate_s: float = 10.0
    """Time limit of the estimate of one group, and of all estimates together."""
    estimates_s: float = 300.0
    scatter: bool = True
    """Search new nodes in random order, as Cluster Autoscaler does; round-robin packs them tighter."""
    simulate_skipped: bool = False
    """Check pods against groups that cannot grow as well, so that their reasons can be reported."""


@dataclass(frozen=True, slots=True)
class ScaleUpGroups:
    """The node groups of the cluster, with what scale-up needs to know of them."""

    all: Sequence[node_groups.NodeGroup]
    templates: Mapping[str, GroupTemplate]
    unsafe: Mapping[str, scale_up_status.SkipReason]
    """Groups that are in backoff or unhealthy."""
    upcoming: Mapping[str, str] = field(default_factory=dict)
    """Group of each upcoming node in the snapshot, by node name."""
    unknown_upcoming: tuple[str, ...] = ()
    """Groups with upcoming nodes but without a template: the snapshot does not have these nodes."""


@dataclass(frozen=True, slots=True)
class UnknownCapacity:
    """Nodes and groups that keep the cluster's resources from being counted, where that ends a scale-up."""

    node: str | None = None
    """A node whose GPUs cannot be counted."""
    upcoming: tuple[str, ...] = ()
    """Groups with upcoming nodes and without a template."""


NOTHING_UNKNOWN = UnknownCapacity()


@dataclass(frozen=True, slots=True)
class PlannerConfig:
    """How options are limited, chosen and shared, as set by flags."""

    limits: ScaleUpLimits
    expanders: Sequence[str]
    """Names, in the order of the chain."""
    similar: similarity.Comparator
    """Are two groups similar, so that a scale-up is balanced between them?"""


class OptionPlanner:
    """Plans one scale-up: checks groups, estimates nodes, chooses an option, and shares it among similar groups."""

    def __init__(
        self,
        template_fit: "TemplateFit",
        groups: ScaleUpGroups,
        tracker: resource_quotas.QuotaTracker,
        config: PlannerConfig,
        expander_context: chain.ExpanderContext,
        timer: time_limits.DecisionTimer,
        unknown: UnknownCapacity = NOTHING_UNKNOWN,
    ) -> None:
        self._prospects, self._groups, self._tracker = template_fit, groups, tracker
        self._config, self._bounds, self._situation = config, config.limits, expander_context
        self._expanders, self._similar = config.expanders, config.similar
        self._node_count = expander_context.cluster_nodes
        self._by_id = {group.id: group for group in groups.all}
        self._unknown = unknown
        self._timer, self._time = timer, timer.begin("estimates", config.limits.estimates_s)
        self._left: int | None = None
        """Nodes that may still be added in this loop; None in the first round: --max-nodes-per-scaleup."""

    def next_round(self, groups: ScaleUpGroups, added: int) -> "OptionPlanner":
        """The planner of the next round; the quota tracker has counted the added nodes already."""
        situation = replace(self._situation, cluster_nodes=self._node_count + added)
        config = replace(self._config, limits=self._bounds)
        return OptionPlanner(self._prospects, groups, self._tracker, config, situation, self._timer, self._unknown)

    def limit_nodes(self, remaining: int) -> None:
        """Limit the nodes of this round to what earlier rounds left of --max-nodes-per-scaleup."""
        self._bounds, self._left = replace(self._bounds, max_nodes_per_scale_up=remaining), remaining

    def propose(
        self, pending: Sequence[scale_up_status.PodEquivalenceGroup], whole: bool = False
    ) -> scale_up_status.ScaleUpProposal:
        """Propose the best option for the pending pods; `whole`: for all of them, or none."""
        if self._unknown != NOTHING_UNKNOWN:
            return scale_up_status.ScaleUpProposal(scale_up_status.ScaleUpResult.ERROR, remaining=tuple(pending))
        valid, skipped = self._sort_out_groups()
        schedulable = self._ask(valid, pending)
        if self._bounds.simulate_skipped:
            with self._timer.measure(time_limits.MeasuredStep.SKIPPED_GROUPS):
                self._simulate_skipped(skipped, pending)
        options = [option for group in valid if (option := self._expand(group, schedulable, whole)) is not None]
        if not options:
            return scale_up_status.ScaleUpProposal(
                scale_up_status.ScaleUpResult.NO_OPTIONS, remaining=_keep_refused(pending), skipped=skipped
            )
        choice = chain.choose_option(options, self._expanders, self._situate(pending))
        best = choice.winner
        if best is None or best.node_count <= 0:
            _reject_everywhere(pending, self._by_id, FILTERED_OUT)
            return scale_up_status.ScaleUpProposal(
                scale_up_status.ScaleUpResult.NO_OPTIONS,
                remaining=_keep_refused(pending),
                skipped=skipped,
                choice=choice,
            )
        new_nodes = self._cap(best)
        if new_nodes < 1:
            _reject_everywhere(pending, self._by_id, EXECUTION_FAILED)
            return scale_up_status.ScaleUpProposal(
                scale_up_status.ScaleUpResult.ERROR, remaining=_keep_refused(pending), skipped=skipped, choice=choice
            )
        increases = self._share(best, new_nodes, schedulable) if new_nodes == best.node_count or not whole else []
        if whole and sum(increase.added for increase in increases) < best.node_count:
            _reject_everywhere(pending, self._by_id, NOT_WHOLE)
            return scale_up_status.ScaleUpProposal(
                scale_up_status.ScaleUpResult.NO_OPTIONS,
                remaining=_keep_refused(pending),
                skipped=skipped,
                choice=choice,
            )
        return scale_up_status.ScaleUpProposal(
            scale_up_status.ScaleUpResult.SUCCESSFUL,
            tuple(increases),
            helped=_rows_of_option(best, pending),
            remaining=_keep_refused(pending),
            awaiting=tuple(
                row
                for equivalence_group in pending
                if equivalence_group.accepted and best.group in equivalence_group.rejected
                for row in equivalence_group.rows
            ),
            skipped=skipped,
            considered=tuple(pending),
            choice=choice,
        )

    def count_ordered(self, increases: Iterable[scale_up_status.GroupIncrease]) -> None:
        """Count nodes ordered in this loop against limits and quotas."""
        for increase in increases:
            node = self._groups.templates[increase.group.id].node
            self._node_count += increase.added
            if not resource_quotas.is_virtual_node(node.labels):
                self._tracker.consume(increase.group.id, node, increase.added)

    def raise_to_minimum(self, respect_total: bool) -> scale_up_status.ScaleUpProposal:
        """Grow groups that are below their minimum.

        Cluster Autoscaler checks --max-nodes-total against the size of each group alone, and quotas against the usage
        before any of them grew; `respect_total` checks both against the cluster, with nodes ordered in this loop.
        """
        if self._unknown.node is not None:
            return scale_up_status.ScaleUpProposal(scale_up_status.ScaleUpResult.ERROR)
        increases: list[scale_up_status.GroupIncrease] = []
        for group in self._groups.all:
            template = self._groups.templates.get(group.id)
            lacking = min(group.min_size, group.max_size) - group.target_size  # the bounds may be out of order
            if not group.exists or lacking <= 0 or group.id in self._groups.unsafe or template is None:
                continue
            if self._tracker.check(group.id, template.node, 1).exceeded:
                continue
            allowed = self._tracker.check(group.id, template.node, lacking).allowed
            if self._bounds.max_nodes_total > 0:
                counted = self._node_count if respect_total else group.target_size
                allowed = min(allowed, self._bounds.max_nodes_total - counted)
            if allowed > 0:
                sizes = scale_up_status.SizedGroup(group.id, group.target_size, group.max_size)
                increases.append(scale_up_status.GroupIncrease(sizes, group.target_size + allowed))
                if respect_total:
                    self.count_ordered(increases[-1:])
        result = scale_up_status.ScaleUpResult.SUCCESSFUL if increases else scale_up_status.ScaleUpResult.NOT_NEEDED
        return scale_up_status.ScaleUpProposal(result, tuple(increases))

    def _sort_out_groups(self) -> tuple[list[node_groups.NodeGroup], dict[str, tuple[str, ...]]]:
        valid: list[node_groups.NodeGroup] = []
        skipped: dict[str, tuple[str, ...]] = {}
        for group in self._groups.all:
            reasons = self._skip(group)
            if reasons:
                skipped[group.id] = reasons
            else:
                valid.append(group)
        return valid, skipped

    def _skip(self, group: node_groups.NodeGroup) -> tuple[str, ...]:
        if group.exists and group.id in self._groups.unsafe:
            return (str(self._groups.unsafe[group.id]),)
        if group.target_size >= group.max_size:
            return (str(scale_up_status.SkipReason.MAX_SIZE),)
        desired = 1
        if group.options.zero_or_max:
            desired = group.max_size - group.target_size
            if self._bounds.max_nodes_total and self._node_count + desired > self._bounds.max_nodes_total:
                return (str(scale_up_status.SkipReason.ATOMIC_TOO_LARGE),)
        template = self._groups.templates.get(group.id)
        if template is None:
            return (str(scale_up_status.SkipReason.NOT_READY),)
        answer = self._tracker.check(group.id, template.node, desired)
        return tuple(
            f'exceeded quota: "{exceeded.quota}", resources: {", ".join(exceeded.resources)}'
            for exceeded in answer.exceeded
        )

    def _ask(
        self, groups: Sequence[node_groups.NodeGroup], pending: Sequence[scale_up_status.PodEquivalenceGroup]
    ) -> dict[str, list[int]]:
        """Positions of the pending pods that a new, empty node of each group would take."""
        self._pending = pending
        desired = {alike.shape.id: alike.shape for alike in pending}
        pods = self._prospects.check_pods([group.id for group in groups], desired.values())
        accepted: dict[str, list[int]] = {}
        for group, answers in pods.items():
            accepted[group] = []
            for position, alike in enumerate(pending):
                reasons = answers[alike.shape.id]
                if reasons:
                    alike.rejected[group] = reasons
                else:
                    alike.accepted.append(group)
                    accepted[group].append(position)
        return accepted

    def _simulate_skipped(
        self, skipped: Collection[str], pending: Sequence[scale_up_status.PodEquivalenceGroup]
    ) -> None:
        """Add the reasons of skipped groups whose new nodes would not take the pods either."""
        desired = {alike.shape.id: alike.shape for alike in pending}
        known = [group for group in skipped if group in self._groups.templates]
        for group, answers in self._prospects.check_pods(known, desired.values()).items():
            for alike in pending:
                if answers[alike.shape.id]:
                    alike.rejected[group] = answers[alike.shape.id]

    def _expand(
        self, group: node_groups.NodeGroup, schedulable: Mapping[str, list[int]], whole: bool
    ) -> ExpansionOption | None:
        """The expansion option of this group; None if it helps no pod or, with `whole`, not all pods."""
        positions = schedulable[group.id]
        if not positions:
            return None
        template = self._groups.templates[group.id]
        similar = self._find_similar(group, schedulable)
        pod_groups = [
            binpacking_estimator.ShapeCount(self._pending[position].shape, len(self._pending[position].rows))
            for position in positions
        ]
        with self._timer.measure(time_limits.MeasuredStep.ESTIMATE):
            estimate = self._prospects.estimate(
                group.id,
                pod_groups,
                self._limiter(group, similar),
                fastpath=self._bounds.fastpath,
                scatter=self._situation.rng if self._bounds.scatter else None,
            )
        helped = tuple(
            SchedulablePods(self._pending[position].pod, count)
            for position, count in zip(positions, estimate.placed, strict=True)
            if count
        )
        if not helped or not estimate.nodes:
            return None
        if whole and sum(schedulable_pods.count for schedulable_pods in helped) < sum(
            len(equivalence_group.rows) for equivalence_group in self._pending
        ):
            return None
        if whole and group.options.zero_or_max and estimate.nodes > group.max_size:
            return None
        nodes = group.max_size if group.options.zero_or_max else estimate.nodes
        if self._left is not None and nodes > self._left:
            return None  # all or nothing, and all is too much for this loop
        return ExpansionOption(group.id, template.node, nodes, helped, tuple(similar), group.exists, debug=group.id)

    def _situate(self, pending: Sequence[scale_up_status.PodEquivalenceGroup]) -> chain.ExpanderContext:
        """The context of the expander chain; for the gRPC expander with the very pods that options help."""
        if chain.GRPC not in self._expanders:
            return self._situation
        rows = {id(equivalence_group.pod): equivalence_group.rows for equivalence_group in pending}
        templates = {group: template.node for group, template in self._groups.templates.items()}
        find = functools.cache(self._prospects.pod)  # many options help the same pods

        def find_pods(helped: SchedulablePods) -> list[facts.Pod]:
            return [find(row) for row in rows[id(helped.pod)][: helped.count]]

        return replace(self._situation, client=grpc.ExpanderClientPort(self._timer.inquiry, templates, find_pods))

    def _limiter(self, group: node_groups.NodeGroup, similar: Sequence[str]) -> binpacking_estimator.EstimationLimiter:
        together = [group, *(self._by_id[other] for other in similar)]
        return binpacking_estimator.EstimationLimiter(
            (
                binpacking_estimator.make_static_threshold(self._bounds.max_nodes_per_scale_up),
                binpacking_estimator.make_similar_groups_threshold(
                    (node_group.target_size, node_group.max_size) for node_group in together
                ),
                binpacking_estimator.make_cluster_capacity_threshold(self._bounds.max_nodes_total, self._node_count),
            ),
            time_limits.CombinedBudget(
                self._time, self._timer.begin(f"estimate of {group.id}", self._bounds.estimate_s)
            ),
        )

    def _find_similar(self, group: node_groups.NodeGroup, schedulable: Mapping[str, list[int]]) -> list[str]:
        """Similar groups that may grow and would help the same pods."""
        if not self._bounds.balance_similar_groups or group.options.zero_or_max:
            return []
        templates = {
            item: similarity.make_compared_template(template.node, template.pods)
            for item, template in self._groups.templates.items()
            if item in self._by_id
        }
        return [
            other
            for other in similarity.find_similar(group.id, templates, self._similar)
            if other not in self._groups.unsafe and set(schedulable[group.id]) <= set(schedulable.get(other, ()))
        ]

    def _cap(self, best: ExpansionOption) -> int:
        """The number of the option's nodes that --max-nodes-total and quotas allow."""
        desired = best.node_count
        if self._bounds.max_nodes_total > 0:
            desired = min(desired, self._bounds.max_nodes_total - self._node_count)
        if desired < 1:
            return 0
        return self._tracker.check(best.group, best.template, desired).allowed

    def _share(
        self, best: ExpansionOption, new_nodes: int, schedulable: Mapping[str, list[int]]
    ) -> list[scale_up_status.GroupIncrease]:
        """Balance the new nodes between the winner and similar groups, each within its quota."""
        similar = [
            other
            for other in self._find_similar(self._by_id[best.group], schedulable)
            if not self._tracker.check(other, self._groups.templates[other].node, 1).exceeded
        ]
        together = [self._by_id[item] for item in (best.group, *similar)]
        shared = balancing.balance_increase(
            [scale_up_status.SizedGroup(group.id, group.target_size, group.max_size) for group in together], new_nodes
        )
        capped: list[scale_up_status.GroupIncrease] = []
        for increase in shared:
            node = self._groups.templates[increase.group.id].node
            allowed = self._tracker.check(increase.group.id, node, increase.added).allowed
            if allowed > 0:
                self._tracker.consume(increase.group.id, node, allowed)
                capped.append(scale_up_status.GroupIncrease(increase.group, increase.group.size + allowed))
        return capped


def withdraw_failed(
    proposal: scale_up_status.ScaleUpProposal, failed: Collection[str]
) -> scale_up_status.ScaleUpProposal:
    """The proposal after resizes of these groups failed: pods that only they would help remain."""
    disappointed = []
    for alike in proposal.considered:
        if alike.accepted and set(alike.accepted) <= set(failed):
            reasons = {**alike.rejected, **dict.fromkeys(alike.accepted, (EXECUTION_FAILED,))}
            disappointed.append(replace(alike, rejected=reasons, accepted=[]))
    return replace(
        proposal,
        result=scale_up_status.ScaleUpResult.ERROR,
        increases=tuple(increase for increase in proposal.increases if increase.group.id not in failed),
        remaining=(*proposal.remaining, *disappointed),
        awaiting=(),
    )


def drop_injected_pods(proposal: scale_up_status.ScaleUpProposal, first_row: int) -> scale_up_status.ScaleUpProposal:
    """The proposal without injected pods, which are in the rows from `first_row` on."""

    def keep(rows: Sequence[int]) -> tuple[int, ...]:
        return tuple(row for row in rows if row < first_row)

    def keep_alike(
        equivalence_groups: Sequence[scale_up_status.PodEquivalenceGroup],
    ) -> tuple[scale_up_status.PodEquivalenceGroup, ...]:
        remaining = (
            replace(equivalence_group, rows=keep(equivalence_group.rows)) for equivalence_group in equivalence_groups
        )
        return tuple(group for group in remaining if group.rows)

    return replace(
        proposal,
        helped=keep(proposal.helped),
        remaining=keep_alike(proposal.remaining),
        awaiting=keep(proposal.awaiting),
        considered=keep_alike(proposal.considered),
    )


def _keep_refused(
    pending: Sequence[scale_up_status.PodEquivalenceGroup],
) -> tuple[scale_up_status.PodEquivalenceGroup, ...]:
    return tuple(equivalence_group for equivalence_group in pending if not equivalence_group.accepted)


def _reject_everywhere(
    pending: Sequence[scale_up_status.PodEquivalenceGroup], groups: Mapping[str, object], reason: str
) -> None:
    for equivalence_group in pending:
        for group in equivalence_group.accepted:
            equivalence_group.rejected[group] = (reason,)
        equivalence_group.accepted.clear()


def _rows_of_option(best: ExpansionOption, pending: Sequence[scale_up_status.PodEquivalenceGroup]) -> tuple[int, ...]:
    """Rows of the pods that the option helps: the first ones of each equivalence group."""
    by_pod = {id(equivalence_group.pod): equivalence_group for equivalence_group in pending}
    return tuple(row for helped in best.pods for row in by_pod[id(helped.pod)].rows[: helped.count])
