"""Decision log: log lines of a decision, and an in-memory list of what was decided and why.

A cached decision is logged once.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from windlass import formatting
from windlass.engine import drain_loop, loop
from windlass.engine.drain_loop import DrainLoopResult
from windlass.engine.loop import Decision
from windlass.engine.model import plan
from windlass.engine.model.decision_record import NOT_ACTIONABLE, LoopStop, ScaleDownResult
from windlass.engine.model.drains import DrainPhase
from windlass.engine.model.scale_up_status import ScaleUpProposal, ScaleUpResult
from windlass.observability import gauge_values

_MAX_SHOWN = 5
"""Maximum number of names in a line."""


def summarize_decision(decision: loop.Decision) -> list[str]:
    """Return one line if nothing is done; otherwise one line per action."""
    grown = (*_describe_scale_ups(decision), *_describe_requests(decision))
    lines = [*_describe_repairs(decision), *grown, *_describe_drains(decision)]
    return lines or [_describe_no_action(decision)]


def summarize_drains(advanced: drain_loop.DrainLoopResult) -> list[str]:
    """Return one line for each drain that acts or ended; none for waiting drains."""
    busy = {
        instruction.node
        for instruction in advanced.plan
        if isinstance(instruction, plan.SetTaint | plan.Evict | plan.DeleteNode)
    }
    return [
        f"node drain: node={drain.node} phase={drain.phase}"
        + (f' failure="{drain.failure.why}"' if drain.failure is not None else "")
        for drain in advanced.story
        if drain.node in busy or drain.phase in (DrainPhase.GONE, DrainPhase.ROLLED_BACK)
    ]


def _describe_repairs(decision: loop.Decision) -> Iterator[str]:
    story = decision.story
    for failure in story.health.failures:
        yield f"scale-up failed, backing off: group={failure.group} nodes={failure.nodes} error={failure.error.code}"
    for instruction in decision.plan:
        match instruction:
            case plan.ReduceTarget(group, by, reason):
                yield f'reducing target size: group={group} by={by} reason="{reason}"'
            case plan.DeleteInstances(group, instances, reason):
                yield f'deleting instances: group={group} instances={len(instances)} reason="{reason}"'
    if story.repairs.stop is LoopStop.UNHEALTHY:
        health = story.health.verdict
        yield f"cluster is unhealthy, scaling is stopped: unready_nodes={health.lacking} nodes={health.nodes}"
    elif story.repairs.stop in NOT_ACTIONABLE:
        yield f'scaling is stopped: reason="{story.repairs.stop}" flag=--scale-up-from-zero=false'


def _describe_scale_ups(decision: loop.Decision) -> Iterator[str]:
    for proposal in decision.story.scale_ups:
        grown = [f"{one.group.id} {one.group.size}→{one.new_size}" for one in proposal.increases]
        if grown:
            served = _describe_beneficiaries(decision, proposal)
            yield f'scaling up: groups="{", ".join(grown)}" {served} {_describe_remaining(proposal)}'
        elif proposal.result is ScaleUpResult.ERROR:
            yield f"scale-up failed: {_describe_remaining(proposal)}"


def _describe_requests(decision: loop.Decision) -> Iterator[str]:
    """Describe the conditions of ProvisioningRequests."""
    for key, reason in decision.story.requests.answered.items():
        yield f"answered ProvisioningRequest: request={key} reason={reason}"


def _describe_beneficiaries(decision: loop.Decision, proposal: ScaleUpProposal) -> str:
    """Return what a scale-up is for: ProvisioningRequests, or pods; 0 pods for minimum sizes and injected pods."""
    requests = decision.story.requests.helped
    return f"requests={','.join(requests)}" if requests else f"pods={len(proposal.helped)}"


def _describe_remaining(proposal: ScaleUpProposal) -> str:
    return f"unschedulable_pods={len(_waiting_rows(proposal))}"


def _waiting_rows(proposal: ScaleUpProposal) -> list[int]:
    return [row for alike in proposal.remaining for row in alike.rows]


def _describe_drains(decision: loop.Decision) -> Iterator[str]:
    drains = decision.memory.durable.drains
    for instruction in decision.plan:
        if isinstance(instruction, plan.Drain):
            pods = 0 if drains[instruction.node].is_empty else len(instruction.evict)
            yield f"scaling down: group={instruction.group} node={instruction.node} evicted_pods={pods}"


def _describe_no_action(decision: loop.Decision) -> str:
    (*_, last) = decision.story.scale_ups
    scale_down = decision.story.scale_down
    fields = [f"scale_up={last.result.removeprefix('ScaleUp')}", _describe_remaining(last)]
    fields.append(f"scale_down={scale_down.result}")
    if scale_down.look is not None and scale_down.result is not ScaleDownResult.NOT_TRIED:
        fields.append(f"unneeded_nodes={len(scale_down.look.state.since)}")
        reasons = gauge_values.count_unremovable(scale_down).most_common(_MAX_SHOWN)
        fields.append(f"unremovable_nodes={','.join(f'{reason}:{count}' for reason, count in reasons)}")
    fields.append(f"draining_nodes={len(decision.memory.durable.drains)}")
    return f"nothing to do: {' '.join(fields)}"


EntryKind = Literal["up", "down", "trouble", "wait"]

_MAX_NODES_NAMED = 6
"""Maximum number of nodes listed by name."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of the decision log."""

    at_s: float
    """Time, by the clock passed to the log."""
    kind: EntryKind
    said: str
    why: str
    groups: tuple[str, ...] = ()
    """Ids of the groups concerned."""
    nodes: tuple[str, ...] = ()
    """Names of the first nodes concerned."""


class DecisionLog:
    """Collects entries from decisions: all of them, or the last `most`."""

    def __init__(self, now_s: Callable[[], float], most: int | None = None) -> None:
        self.entries: deque[LogEntry] = deque(maxlen=most)
        self.count = 0
        """Number of entries so far, including dropped ones."""
        self._now_s = now_s
        self._last: Decision | None = None
        self._waiting: LogEntry | None = None

    def add_decision(self, decision: Decision) -> None:
        """Add the entries of a decision. A cached decision is added once."""
        if self._last is not None and decision.story is self._last.story:
            return
        self._last = decision
        at_s = round(self._now_s(), 3)
        for told in (*_trouble_entries(decision), *_scale_up_entries(decision), *_scale_down_entries(decision)):
            self._append(LogEntry(at_s, *told))
        self._add_waiting(at_s, decision)

    def add_drains(self, advanced: DrainLoopResult) -> None:
        """Add entries of failed drains only: progress is shown at the node."""
        at_s = round(self._now_s(), 3)
        for drain in advanced.story:
            if drain.phase is DrainPhase.ROLLED_BACK:
                why = str(drain.failure.why) if drain.failure is not None else "the node is needed again"
                told = f"{short_group_name(drain.group)}: removal of {drain.node} rolled back"
                self._append(LogEntry(at_s, "trouble", told, why, (drain.group,), (drain.node,)))

    def _append(self, entry: LogEntry) -> None:
        # A decision that is repeated after a rejection has most entries in common with the first.
        if entry not in list(self.entries)[-_MAX_NODES_NAMED:]:
            self.entries.append(entry)
            self.count += 1

    def _add_waiting(self, at_s: float, decision: Decision) -> None:
        left = [alike for proposal in decision.story.scale_ups[-1:] for alike in proposal.remaining if alike.rows]
        count = sum(len(alike.rows) for alike in left)
        if not count:
            self._waiting = None
            return
        reasons = sorted(
            {f"{short_group_name(group)}: {', '.join(why)}" for group, why in left[0].rejected.items() if why}
        )
        log_entry = LogEntry(
            at_s, "wait", f"{formatting.format_count(count, 'pod')} without a fitting group", "; ".join(reasons)
        )
        if self._waiting is None or (log_entry.said, log_entry.why) != (self._waiting.said, self._waiting.why):
            self._waiting = log_entry
            self._append(log_entry)


def short_group_name(group: str) -> str:
    """Return a group's name without kind and namespace."""
    return group.rpartition("/")[2]


_EntryFields = tuple[EntryKind, str, str, tuple[str, ...], tuple[str, ...]]


def _trouble_entries(decision: Decision) -> Iterator[_EntryFields]:
    story = decision.story
    for failure in story.health.failures:
        said = f"{short_group_name(failure.group)}: {formatting.format_count(failure.nodes, 'node')} failed to start"
        yield "trouble", said, f"{failure.error.code}; the group backs off", (failure.group,), ()
    for instruction in decision.plan:
        match instruction:
            case plan.ReduceTarget(group, by, why):
                yield "trouble", f"{short_group_name(group)}: target size reduced by {by}", why, (group,), ()
            case plan.DeleteInstances(group, instances, why):
                said = f"{short_group_name(group)}: {formatting.format_count(len(instances), 'instance')} removed"
                yield "trouble", said, why, (group,), ()
    if story.repairs.stop is LoopStop.UNHEALTHY:
        health = story.health.verdict
        yield "trouble", "scaling is stopped", f"{health.lacking} of {health.nodes} nodes are unready", (), ()
    elif story.repairs.stop in NOT_ACTIONABLE:
        yield "trouble", "scaling is stopped", f"{story.repairs.stop}, and --scale-up-from-zero is off", (), ()


def _scale_up_entries(decision: Decision) -> Iterator[_EntryFields]:
    for proposal in decision.story.scale_ups:
        grown = [f"{short_group_name(one.group.id)} {one.group.size}→{one.new_size}" for one in proposal.increases]
        if grown:
            groups = tuple(increase.group.id for increase in proposal.increases)
            yield "up", f"scale up {', '.join(grown)}", "; ".join(_scale_up_reasons(proposal)), groups, ()


def _scale_up_reasons(proposal: ScaleUpProposal) -> Iterator[str]:
    if not proposal.helped:
        yield "below its minimum size"
        return
    helped = frozenset(proposal.helped)
    kinds = [alike for alike in proposal.considered if not helped.isdisjoint(alike.rows)]
    example = f" like {kinds[0].pod.namespace}/{kinds[0].pod.name}" if kinds else ""
    yield f"{formatting.format_count(len(helped), 'pod')}{example} unschedulable"
    choice = proposal.choice
    if choice is not None and choice.winner is not None:
        options = len(choice.options)
        decisive = choice.steps[-1][0] if choice.steps else ""
        yield f"{decisive} chose it among {options} groups" if options > 1 and decisive else "the only group that fits"
    for group, reasons in sorted(proposal.skipped.items()):
        yield f"{short_group_name(group)} was skipped: {', '.join(reasons)}"


def _scale_down_entries(decision: Decision) -> Iterator[_EntryFields]:
    drains = [instruction for instruction in decision.plan if isinstance(instruction, plan.Drain)]
    for group in dict.fromkeys(drain.group for drain in drains):
        going = [drain_order for drain_order in drains if drain_order.group == group]
        moved = sum(len(one.evict) for one in going)
        said = f"scale down {short_group_name(group)} by {len(going)}"
        if moved:
            said += f", {formatting.format_count(moved, 'pod')} to evict"
        told = [_removal_reason(decision, one) for one in going[:_MAX_NODES_NAMED]]
        if len(going) > _MAX_NODES_NAMED:
            told.append(f"and {len(going) - _MAX_NODES_NAMED} more")
        yield "down", said, "; ".join(told), (group,), tuple(one.node for one in going[:_MAX_NODES_NAMED])


def _removal_reason(decision: Decision, drain: plan.Drain) -> str:
    look, parts = decision.story.scale_down.look, list[str]()
    if look is not None:
        used = look.eligibility.utilization_of(drain.node)
        if used is not None:
            parts.append(f"{used.utilization:.0%} of {used.resource} used" if used.utilization else "empty")
        since_s = look.state.since.get(drain.node)
        if since_s is not None:
            parts.append(f"unneeded for {formatting.format_duration(decision.story.at_s - since_s)}")
    return f"{drain.node}: {', '.join(parts)}" if parts else drain.node
