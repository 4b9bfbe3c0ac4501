"""Decision log: log lines of a decision, and an in-memory list of what was decided and why.

A cached decision is logged once.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from windlass import formatting
from windlass.engine import drain_loop
from windlass.engine.drain_loop import DrainLoopResult
from windlass.engine.loop import Decision
from windlass.engine.model import plan
from windlass.engine.model.decision_record import NOT_ACTIONABLE, DecisionRecord, LoopStop, ScaleDownResult
from windlass.engine.model.drains import DrainPhase
from windlass.engine.model.scale_up_status import ScaleUpProposal, ScaleUpResult
from windlass.explain.decision_view import DecisionView

_MAX_SHOWN = 5
"""Maximum number of names in a line."""


def summarize_decision(view: DecisionView) -> list[str]:
    """Return one line if nothing is done; otherwise one line per action."""
    lines = [
        *_describe_remediation(view.decision),
        *_describe_scale_ups(view.record),
        *_describe_requests(view.record),
        *_describe_drains(view),
    ]
    return lines or [_describe_no_action(view)]


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


def _describe_remediation(decision: Decision) -> Iterator[str]:
    record = decision.story
    for failure in record.health.failures:
        yield f"scale-up failed, backing off: group={failure.group} nodes={failure.nodes} error={failure.error.code}"
    for instruction in decision.plan:
        match instruction:
            case plan.ReduceTarget(group, by, reason):
                yield f'reducing target size: group={group} by={by} reason="{reason}"'
            case plan.DeleteInstances(group, instances, reason):
                yield f'deleting instances: group={group} instances={len(instances)} reason="{reason}"'
    if record.repairs.stop is LoopStop.UNHEALTHY:
        health = record.health.verdict
        yield f"cluster is unhealthy, scaling is stopped: unready_nodes={health.lacking} nodes={health.nodes}"
    elif record.repairs.stop in NOT_ACTIONABLE:
        yield f'scaling is stopped: reason="{record.repairs.stop}" flag=--scale-up-from-zero=false'


def _describe_scale_ups(record: DecisionRecord) -> Iterator[str]:
    for proposal in record.scale_ups:
        grown = [f"{increase.group.id} {increase.group.size}→{increase.new_size}" for increase in proposal.increases]
        if grown:
            beneficiaries = _describe_beneficiaries(record, proposal)
            yield f'scaling up: groups="{", ".join(grown)}" {beneficiaries} {_describe_remaining(proposal)}'
        elif proposal.result is ScaleUpResult.ERROR:
            yield f"scale-up failed: {_describe_remaining(proposal)}"


def _describe_requests(record: DecisionRecord) -> Iterator[str]:
    """Describe the conditions of ProvisioningRequests."""
    for key, reason in record.requests.answered.items():
        yield f"answered ProvisioningRequest: request={key} reason={reason}"


def _describe_beneficiaries(record: DecisionRecord, proposal: ScaleUpProposal) -> str:
    """Return what a scale-up is for: ProvisioningRequests, or pods; 0 pods for minimum sizes and injected pods."""
    requests = record.requests.helped
    return f"requests={','.join(requests)}" if requests else f"pods={len(proposal.helped)}"


def _describe_remaining(proposal: ScaleUpProposal) -> str:
    return f"unschedulable_pods={sum(len(pods.rows) for pods in proposal.remaining)}"


def _describe_drains(view: DecisionView) -> Iterator[str]:
    for drain in view.deletions:
        pods = 0 if view.drains[drain.node].is_empty else len(drain.evict)
        yield f"scaling down: group={drain.group} node={drain.node} evicted_pods={pods}"


def _describe_no_action(view: DecisionView) -> str:
    (*_, last) = view.record.scale_ups
    scale_down = view.record.scale_down
    fields = [f"scale_up={last.result.removeprefix('ScaleUp')}", _describe_remaining(last)]
    fields.append(f"scale_down={scale_down.result}")
    if scale_down.look is not None and scale_down.result is not ScaleDownResult.NOT_TRIED:
        fields.append(f"unneeded_nodes={len(scale_down.look.state.since)}")
        reasons = view.count_unremovable().most_common(_MAX_SHOWN)
        fields.append(f"unremovable_nodes={','.join(f'{reason}:{count}' for reason, count in reasons)}")
    fields.append(f"draining_nodes={len(view.drains)}")
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
        self._last: DecisionRecord | None = None
        self._waiting: LogEntry | None = None

    def add_decision(self, view: DecisionView) -> None:
        """Add the entries of a decision. A cached decision is added once."""
        if view.record is self._last:
            return
        self._last = view.record
        at_s = round(self._now_s(), 3)
        for fields in (*_trouble_entries(view.decision), *_scale_up_entries(view.record), *_scale_down_entries(view)):
            self._append(LogEntry(at_s, *fields))
        self._add_waiting(at_s, view.record)

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

    def _add_waiting(self, at_s: float, record: DecisionRecord) -> None:
        rejected = [pods for proposal in record.scale_ups[-1:] for pods in proposal.remaining if pods.rows]
        count = sum(len(pods.rows) for pods in rejected)
        if not count:
            self._waiting = None
            return
        reasons = sorted(
            {f"{short_group_name(group)}: {', '.join(why)}" for group, why in rejected[0].rejected.items() if why}
        )
        entry = LogEntry(
            at_s, "wait", f"{formatting.format_count(count, 'pod')} without a fitting group", "; ".join(reasons)
        )
        if self._waiting is None or (entry.said, entry.why) != (self._waiting.said, self._waiting.why):
            self._waiting = entry
            self._append(entry)


def short_group_name(group: str) -> str:
    """Return a group's name without kind and namespace."""
    return group.rpartition("/")[2]


_EntryFields = tuple[EntryKind, str, str, tuple[str, ...], tuple[str, ...]]


def _trouble_entries(decision: Decision) -> Iterator[_EntryFields]:
    record = decision.story
    for failure in record.health.failures:
        said = f"{short_group_name(failure.group)}: {formatting.format_count(failure.nodes, 'node')} failed to start"
        yield "trouble", said, f"{failure.error.code}; the group backs off", (failure.group,), ()
    for instruction in decision.plan:
        match instruction:
            case plan.ReduceTarget(group, by, why):
                yield "trouble", f"{short_group_name(group)}: target size reduced by {by}", why, (group,), ()
            case plan.DeleteInstances(group, instances, why):
                said = f"{short_group_name(group)}: {formatting.format_count(len(instances), 'instance')} removed"
                yield "trouble", said, why, (group,), ()
    if record.repairs.stop is LoopStop.UNHEALTHY:
        health = record.health.verdict
        yield "trouble", "scaling is stopped", f"{health.lacking} of {health.nodes} nodes are unready", (), ()
    elif record.repairs.stop in NOT_ACTIONABLE:
        yield "trouble", "scaling is stopped", f"{record.repairs.stop}, and --scale-up-from-zero is off", (), ()


def _scale_up_entries(record: DecisionRecord) -> Iterator[_EntryFields]:
    for proposal in record.scale_ups:
        grown = [
            f"{short_group_name(increase.group.id)} {increase.group.size}→{increase.new_size}"
            for increase in proposal.increases
        ]
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


def _scale_down_entries(view: DecisionView) -> Iterator[_EntryFields]:
    for group in dict.fromkeys(drain.group for drain in view.deletions):
        drains = [drain for drain in view.deletions if drain.group == group]
        evicted = sum(len(drain.evict) for drain in drains)
        said = f"scale down {short_group_name(group)} by {len(drains)}"
        if evicted:
            said += f", {formatting.format_count(evicted, 'pod')} to evict"
        reasons = [_removal_reason(view, drain) for drain in drains[:_MAX_NODES_NAMED]]
        if len(drains) > _MAX_NODES_NAMED:
            reasons.append(f"and {len(drains) - _MAX_NODES_NAMED} more")
        yield "down", said, "; ".join(reasons), (group,), tuple(drain.node for drain in drains[:_MAX_NODES_NAMED])


def _removal_reason(view: DecisionView, drain: plan.Drain) -> str:
    evaluation, parts = view.evaluation, list[str]()
    if evaluation is not None:
        used = evaluation.eligibility.utilization_of(drain.node)
        if used is not None:
            parts.append(f"{used.utilization:.0%} of {used.resource} used" if used.utilization else "empty")
        since_s = evaluation.state.since.get(drain.node)
        if since_s is not None:
            parts.append(f"unneeded for {formatting.format_duration(view.record.at_s - since_s)}")
    return f"{drain.node}: {', '.join(parts)}" if parts else drain.node
