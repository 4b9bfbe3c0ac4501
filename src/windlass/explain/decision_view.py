"""Decision view: what one decision means for node groups, nodes and pending pods, derived in one place.

Metrics, events, the status ConfigMap, the status API (dashboard and terminal UI) and `explain` render it, so they
cannot disagree on which group grows, why a node stays or what a pod waits for. Parts are computed on first use and
kept. They read the snapshot, which must be unchanged since the decision; `freeze` computes what is read later.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from windlass.engine.cluster_state import remediation
from windlass.engine.model import deviations, node_groups, plan, scale_up_status
from windlass.engine.model.cluster_health import NO_NODES, GroupHealth, Readiness
from windlass.engine.model.decision_record import DecisionRecord
from windlass.engine.model.durable_memory import StartedDrain
from windlass.engine.model.scale_down_state import CandidateEvaluation, NodeRemoval, UnremovableNode, UnremovableReason
from windlass.engine.model.scale_up_status import BestOptionsResponse, ResponseEffect
from windlass.formatting import format_count

if TYPE_CHECKING:  # the decision is handed in: rendering one needs none of the algorithms that made it
    from windlass.engine.loop import Decision
    from windlass.engine.observation import Observation
    from windlass.engine.quarantine import Fault

MAX_NODES_TOTAL_REACHED = "max total nodes in cluster reached"


class RemovalState(enum.StrEnum):
    """The state of a node in scale-down."""

    NOT_AUTOSCALED = "NotAutoscaled"
    """It belongs to no group."""
    LEAVING = "Leaving"
    """It is being drained or deleted."""
    GOING = "GoingNow"
    """This decision starts its drain."""
    UNNEEDED = "Unneeded"
    """It has no pods to evict, or they fit elsewhere; a reason or a wait delays its removal."""
    NEEDED = "Needed"
    """It is unremovable, for a reason."""
    NO_CANDIDATE = "NoCandidate"
    """It is not a scale-down candidate."""
    NOT_TRIED = "NotTriedYet"
    """Its removal was not simulated: enough other nodes are unneeded."""


class PodState(enum.StrEnum):
    """The state of a pod in scheduling and scale-up."""

    SCHEDULED = "Scheduled"
    """It is on `node`."""
    TERMINATING = "Terminating"
    GATED = "Gated"
    """Scheduling gates keep the scheduler from looking at it."""
    OTHER_SCHEDULER = "OtherScheduler"
    """Its scheduler is none of --allowed-scheduler-names."""
    NOT_JUDGED = "NotJudged"
    """The scheduler has not marked it unschedulable yet."""
    PREEMPTING = "Preempting"
    """Others are preempted for it on `node`."""
    EXPENDABLE = "Expendable"
    """Its priority is below `limit`: it is worth no node."""
    HAS_ROOM = "HasRoom"
    """There is room for it on `node`; the scheduler is to bind it."""
    UPCOMING = "WaitsForUpcomingNode"
    """There will be room for it on a node of `group` that is on its way, by `until_s`."""
    DAEMONSET = "DaemonSetPod"
    """Pods of DaemonSets belong to nodes that are there: none is added for them."""
    USES_REQUEST = "UsesProvisioningRequest"
    """It uses the capacity that the ProvisioningRequest `why` asks for: none is added for the pod itself."""
    TOO_YOUNG = "TooYoung"
    """It has not waited long enough; it has at `until_s`."""
    LOOP_ENDED = "LoopEnded"
    """Nothing is scaled up now: `why`."""
    MAX_NODES = "MaxNodesTotalReached"
    """The cluster has as many nodes as --max-nodes-total, `limit`, allows."""
    MORE_TO_COME = "MorePodsLikely"
    """Others came just now, and more may: one scale-up should serve them all."""
    HELPED = "Helped"
    """`group` grows for it."""
    LATER = "Later"
    """Some group could help, but not in this loop: `why`, where something else is served."""
    HELD = "GroupsHeld"
    """Groups that would take it cannot grow now."""
    NOWHERE = "NoGroupFits"
    """No group's node would take it."""
    UNEVALUATED = "NotEvaluated"
    """Evaluating it raises an error that nothing foresaw: `why`."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """One node group in a decision."""

    group: node_groups.NodeGroup
    health: GroupHealth | None
    """None if the loop ended before health was assessed."""
    is_healthy: bool
    """At the end of the loop."""
    target_size: int
    """After remediation, before scale-up."""
    new_size: int | None
    """The size that scale-up sets; None if the group does not grow."""
    unneeded: tuple[str, ...]
    """Names of its unneeded nodes."""
    deletions: tuple[str, ...]
    """Names of the nodes whose drain this decision starts."""

    @property
    def readiness(self) -> Readiness:
        return NO_NODES if self.health is None or self.health.readiness is None else self.health.readiness

    @property
    def errors(self) -> tuple[str, ...]:
        """Errors of failed instances, each once."""
        return tuple(
            dict.fromkeys(instance.error.said for instance in self.group.instances if instance.error is not None)
        )

    @property
    def replicas_owner(self) -> str:
        """The controller that manages the group's size, and how to end that; empty without one."""
        return self.group.replicas_owner.message if self.group.replicas_owner is not None else ""


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """The result of scale-up for one pending pod, or for equivalent ones."""

    round: int
    """The scale-up round with this result, counted from 1."""
    proposal: scale_up_status.ScaleUpProposal
    is_helped: bool = False
    """The round's increases schedule the pod."""
    rejected: scale_up_status.PodEquivalenceGroup | None = None
    """Set if no group fits the pod; otherwise a group may scale up for it later."""

    def rejected_reasons(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield (group, reasons), sorted by group; the reason of the whole round under an empty group."""
        if self.rejected is None:
            return
        if self.proposal.result is scale_up_status.ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL:
            yield "", (MAX_NODES_TOTAL_REACHED,)
        for group, reasons in sorted({**self.rejected.rejected, **self.proposal.skipped_for(self.rejected)}.items()):
            if reasons:
                yield group, tuple(map(str, reasons))


class DecisionView:
    """View of one decision. `group_of` and `groups` may also be read later, after `freeze`."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision

    def freeze(self) -> DecisionView:
        """Compute the parts that are read after acting, when the snapshot may have changed."""
        _ = self.groups
        return self

    @property
    def observation(self) -> Observation:
        """What was decided on, without excluded objects."""
        return self.decision.evaluated

    @property
    def record(self) -> DecisionRecord:
        return self.decision.story

    @property
    def drains(self) -> Mapping[str, StartedDrain]:
        """Drains by node name, including those that this decision starts."""
        return self.decision.memory.durable.drains

    @property
    def stop(self) -> str:
        """Why the loop ended before scaling; empty otherwise."""
        return str(self.record.repairs.stop or "")

    @property
    def scale_up_result(self) -> str:
        """Result of the first scale-up round, by Cluster Autoscaler's names; empty if the loop ended before it."""
        return str(self.record.scale_ups[0].result) if self.record.scale_ups else ""

    # Node groups

    @cached_property
    def group_of(self) -> Mapping[str, node_groups.NodeGroup]:
        """Node group by node name, of nodes that belong to one."""
        return self.observation.group_of_nodes()

    @cached_property
    def new_sizes(self) -> Mapping[str, int]:
        """Sizes that scale-up sets, by group."""
        return self.new_sizes_after(len(self.record.scale_ups))

    def new_sizes_after(self, rounds: int) -> dict[str, int]:
        """Sizes that the first rounds of scale-up set, by group."""
        proposals = self.record.scale_ups[:rounds]
        return {increase.group.id: increase.new_size for proposal in proposals for increase in proposal.increases}

    @cached_property
    def groups(self) -> Mapping[str, GroupView]:
        """The node groups by id, in their order."""
        record, unneeded, deletions = self.record, dict[str, list[str]](), dict[str, list[str]]()
        for name in self.decision.memory.durable.scale_down.since:
            if name in self.group_of:
                unneeded.setdefault(self.group_of[name].id, []).append(name)
        for drain in self.deletions:
            deletions.setdefault(drain.group, []).append(drain.node)
        sizes = record.repairs.sizes
        return {
            group.id: GroupView(
                group,
                record.health.groups.get(group.id),
                group.id not in record.unhealthy,
                sizes[group.id].target if group.id in sizes else group.target_size,
                self.new_sizes.get(group.id),
                tuple(unneeded.get(group.id, ())),
                tuple(deletions.get(group.id, ())),
            )
            for group in self.observation.groups
        }

    def held_groups(self, active_deviations: deviations.Deviations) -> Iterator[node_groups.HeldGroup]:
        """Groups that are left alone, and why: paused, unreadable, or with a size that another controller manages."""
        yield from self.observation.held
        for id, reason in remediation.list_owned_elsewhere(self.observation.groups, active_deviations):
            yield node_groups.HeldGroup(id, reason)

    # Scale-up

    @cached_property
    def pods(self) -> Mapping[int, PodVerdict]:
        """Verdict by row of pending pods that reached scale-up: of the last round, unless an earlier one helped."""
        verdicts: dict[int, PodVerdict] = {}
        for number, proposal in enumerate(self.record.scale_ups, 1):
            for rows, verdict in _verdicts(number, proposal):
                for row in rows:
                    if row not in verdicts or not verdicts[row].is_helped:
                        verdicts[row] = verdict
        return verdicts

    def helping_round(self, row: int) -> int | None:
        """The first round that helps the pod, counted from 1; None if none does."""
        rounds = enumerate(self.record.scale_ups, 1)
        return next((number for number, proposal in rounds if row in proposal.helped), None)

    # Scale-down

    @cached_property
    def deletions(self) -> tuple[plan.Drain, ...]:
        """Nodes whose drain this decision starts."""
        return tuple(instruction for instruction in self.decision.plan if isinstance(instruction, plan.Drain))

    @property
    def evaluation(self) -> CandidateEvaluation | None:
        """Evaluation of the scale-down candidates; None if scale-down is disabled or was not reached."""
        return self.record.scale_down.look

    @cached_property
    def removals(self) -> Mapping[str, NodeRemoval]:
        """Simulated removals of removable nodes, by name."""
        return {} if self.evaluation is None else {
            removal.node_name: removal for removal in self.evaluation.trials.removals
        }  # fmt: skip

    @cached_property
    def unremovable(self) -> Mapping[str, UnremovableNode]:
        """Candidates that are needed, by name."""
        return {} if self.evaluation is None else {node.node_name: node for node in self.evaluation.kept}

    @cached_property
    def postponed(self) -> Mapping[str, UnremovableNode]:
        """Unneeded nodes that the planner keeps for now, by name."""
        choice = self.record.scale_down.choice
        return {} if choice is None else {node.node_name: node for node in choice.kept}

    @cached_property
    def unremovable_reasons(self) -> Mapping[str, UnremovableReason]:
        """Reasons of needed and of postponed nodes, by name. Read from the columns: there may be thousands."""
        reasons: dict[str, UnremovableReason] = {}
        if self.evaluation is not None:
            eligibility, failed = self.evaluation.eligibility, self.evaluation.trials.failed
            checked = zip(eligibility.names, eligibility.reasons, strict=True)
            reasons |= {name: reason for name, reason in checked if reason is not None}
            reasons |= {removal.node_name: removal.reason for removal in failed if removal.reason is not None}
        return reasons | {name: node.reason for name, node in self.postponed.items()}

    def count_unremovable(self) -> Counter[UnremovableReason]:
        """Number of unremovable nodes by reason."""
        return Counter(self.unremovable_reasons.values())

    @cached_property
    def _started(self) -> frozenset[str]:
        return frozenset(drain.node for drain in self.deletions)

    @cached_property
    def _not_simulated(self) -> frozenset[str]:
        return frozenset() if self.evaluation is None else frozenset(self.evaluation.trials.skipped)

    def removal_state(self, name: str) -> RemovalState:
        """State of an existing node."""
        if name not in self.group_of:
            return RemovalState.NOT_AUTOSCALED
        if name in self._started:
            return RemovalState.GOING
        if name in self.drains:
            return RemovalState.LEAVING
        if self.stop:
            return RemovalState.NO_CANDIDATE
        if name in self.unremovable:
            return RemovalState.NEEDED
        if name in self.removals:
            return RemovalState.UNNEEDED
        return RemovalState.NOT_TRIED if name in self._not_simulated else RemovalState.NO_CANDIDATE


def _verdicts(number: int, proposal: scale_up_status.ScaleUpProposal) -> Iterator[tuple[tuple[int, ...], PodVerdict]]:
    for equivalent in proposal.remaining:
        yield equivalent.rows, PodVerdict(number, proposal, rejected=equivalent)
    yield proposal.awaiting, PodVerdict(number, proposal)
    yield proposal.helped, PodVerdict(number, proposal, is_helped=True)


_MAX_GROUPS = 5
"""Maximum of groups named in a sentence."""

_NEXT_EXPANDER = "the next expander decides"


def describe_opinion(opinion: BestOptionsResponse) -> str:
    """The sentence, without its full stop."""
    match opinion.effect:
        case ResponseEffect.FAILED:
            return f"the grpc expander gave no answer ({opinion.failure}); {_NEXT_EXPANDER}"
        case ResponseEffect.NO_OPTION:
            groups = _list_groups(opinion.unknown_groups)
            return f"the grpc expander named {groups} and none of the options; {_NEXT_EXPANDER}"
        case ResponseEffect.NONE_WANTED:
            return f"the grpc expander wants none of {format_count(len(opinion.about), 'option')}: nothing grows"
        case ResponseEffect.FOLLOWED:
            selected = dict.fromkeys(group for group in opinion.groups if group not in opinion.unknown_groups)
            more = f"; {_list_groups(opinion.unknown_groups)} is no option" if opinion.unknown_groups else ""
            return f"the grpc expander chose {_list_groups(tuple(selected))}{more}"


def _list_groups(groups: tuple[str, ...]) -> str:
    more = len(groups) - _MAX_GROUPS
    return ", ".join(group or '""' for group in groups[:_MAX_GROUPS]) + (f" and {more} more" if more > 0 else "")


def describe_fault(fault: Fault) -> str:
    """A sentence without its full stop."""
    return f"windlass could not evaluate {fault.suspect}: {fault.error}; see its log"
