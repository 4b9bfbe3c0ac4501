"""Decision log: log lines of a decision, and an in-memory list of what was decided and why.

A cached decision is logged once.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from windlass import formatting
from windlass.engine import drain_loop
from windlass.engine.cluster_state import scale_requests
from windlass.engine.drain_loop import DrainLoopResult
from windlass.engine.loop import Decision
from windlass.engine.model import cluster_health, plan
from windlass.engine.model.decision_record import NOT_ACTIONABLE, DecisionRecord, LoopStop, ScaleDownResult
from windlass.engine.model.drains import DrainPhase
from windlass.engine.model.scale_up_status import ScaleUpProposal, ScaleUpResult
from windlass.explain.decision_view import DecisionView
from windlass.observability import decision_details
from windlass.observability.decision_details import OutcomeTracker
from windlass.observability.status_model import DecisionDetail, DecisionOutcome

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

_MAX_KINDS = 3
"""Maximum number of sets of equivalent pods for which an example is named."""


MAX_DETAIL_BYTES = 8 * 2**20
"""Maximum total size, as JSON, of the details that a log with a limit keeps: the oldest are dropped first."""


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
    reason: str = ""
    """The reason that names its entry of the runbook."""
    namespaces: tuple[str, ...] = ()
    """Namespaces of the pods concerned."""
    detail: DecisionDetail | None = field(default=None, compare=False, repr=False)
    """None in a log with a limit, which keeps it apart: see `DecisionLog.detail_of`."""


class DecisionLog:
    """Collects entries from decisions, with what followed: all of them, or the last `most`."""

    def __init__(self, now_s: Callable[[], float], most: int | None = None) -> None:
        self.entries: deque[LogEntry] = deque(maxlen=most)
        self.count = 0
        """Number of entries so far, including dropped ones."""
        self._outcomes: dict[int, list[DecisionOutcome]] = {}
        self._tracker = OutcomeTracker()
        self._now_s = now_s
        self._last: DecisionRecord | None = None
        self._waiting: LogEntry | None = None
        self._details: dict[int, bytes] = {}
        """Details as JSON, a quarter of the memory, by number of the entry, oldest first, where there is a limit."""
        self._detail_bytes = 0

    @property
    def first(self) -> int:
        """Number of the oldest entry that is kept."""
        return self.count - len(self.entries)

    @property
    def outcomes(self) -> Mapping[int, tuple[DecisionOutcome, ...]]:
        """What followed each entry, by its number."""
        return {number: tuple(followed) for number, followed in self._outcomes.items()}

    def outcomes_of(self, number: int) -> tuple[DecisionOutcome, ...]:
        """What followed one entry."""
        return tuple(self._outcomes.get(number, ()))

    def detail_of(self, number: int) -> DecisionDetail | None:
        """The detail of one entry; None: it had none, or is no longer kept."""
        if number in self._details:
            return msgspec.json.decode(self._details[number], type=DecisionDetail)
        entry = self.find(number)
        return None if entry is None else entry.detail

    def find(self, number: int) -> LogEntry | None:
        """The entry of this number; None if it is not kept."""
        return self.entries[number - self.first] if self.first <= number < self.count else None

    def add_decision(self, view: DecisionView) -> None:
        """Add the entries of a decision. A cached decision is added once."""
        if view.record is self._last:
            return
        self._last = view.record
        at_s = round(self._now_s(), 3)
        for about, said, is_bad in self._tracker.observe(view):
            self._add_outcome(about, DecisionOutcome(at_s, said, is_bad))
        for entry in _trouble_entries(at_s, view.decision):
            self._append(entry)
        for proposal in view.record.scale_ups:
            number = self._append(_scale_up_entry(at_s, proposal)) if proposal.increases else None
            if number is not None:
                self._tracker.follow_scale_up(number, proposal, view)
        for group in dict.fromkeys(drain.group for drain in view.deletions):
            drains = [drain for drain in view.deletions if drain.group == group]
            number = self._append(_scale_down_entry(at_s, view, group, drains))
            if number is not None:
                self._tracker.follow_removals(number, drains)
        self._add_waiting(at_s, view.record)

    def add_drains(self, advanced: DrainLoopResult) -> None:
        """Add entries of failed drains only: progress is shown at the node."""
        at_s = round(self._now_s(), 3)
        for number, said, is_bad in self._tracker.observe_drains(advanced):
            self._add_outcome(number, DecisionOutcome(at_s, said, is_bad))
        for drain in advanced.story:
            if drain.phase is DrainPhase.ROLLED_BACK:
                why = str(drain.failure.why) if drain.failure is not None else "the node is needed again"
                told = f"{short_group_name(drain.group)}: removal of {drain.node} rolled back"
                self._append(LogEntry(at_s, "trouble", told, why, (drain.group,), (drain.node,), "ScaleDownFailed"))

    def _append(self, entry: LogEntry) -> int | None:
        """The number of the entry; None if it repeats one of the last."""
        # A decision that is repeated after a rejection has most entries in common with the first.
        if entry in list(self.entries)[-_MAX_NODES_NAMED:]:
            return None
        number, is_limited = self.count, self.entries.maxlen is not None
        self.entries.append(replace(entry, detail=None) if is_limited else entry)
        self.count += 1
        if is_limited:
            self._keep_detail(number, entry.detail)
        return number

    def _keep_detail(self, number: int, detail: DecisionDetail | None) -> None:
        """Forget what followed entries that are not kept, and the oldest details beyond the limit."""
        self._outcomes.pop(self.first - 1, None)
        if detail is not None:
            self._details[number] = msgspec.json.encode(detail)
            self._detail_bytes += len(self._details[number])
        while self._details:
            oldest = next(iter(self._details))
            if oldest >= self.first and self._detail_bytes <= MAX_DETAIL_BYTES:
                return
            self._detail_bytes -= len(self._details.pop(oldest))

    def _add_outcome(self, number: int, outcome: DecisionOutcome) -> None:
        """Add what followed an entry. The last of many is replaced by the latest."""
        if number < self.first:
            return
        followed = self._outcomes.setdefault(number, [])
        if len(followed) == decision_details.MAX_OUTCOMES:
            followed.pop()
        followed.append(outcome)

    def _add_waiting(self, at_s: float, record: DecisionRecord) -> None:
        rejected = [pods for proposal in record.scale_ups[-1:] for pods in proposal.remaining if pods.rows]
        count = sum(len(pods.rows) for pods in rejected)
        if not count:
            self._waiting = None
            return
        reasons = sorted(
            {f"{short_group_name(group)}: {', '.join(why)}" for group, why in rejected[0].rejected.items() if why}
        )
        detail = decision_details.describe_waiting(record.scale_ups[-1])
        entry = LogEntry(
            at_s,
            "wait",
            f"{formatting.format_count(count, 'pod')} without a fitting group",
            "; ".join(reasons),
            tuple(dict.fromkeys(refusal.group for refusal in detail.refusals)),
            reason="NotTriggerScaleUp",
            namespaces=decision_details.find_namespaces(detail),
            detail=detail,
        )
        if self._waiting is None or (entry.said, entry.why) != (self._waiting.said, self._waiting.why):
            self._waiting = entry
            self._append(entry)


def short_group_name(group: str) -> str:
    """Return a group's name without kind and namespace."""
    return group.rpartition("/")[2]


def _trouble_entries(at_s: float, decision: Decision) -> Iterator[LogEntry]:
    record = decision.story
    for failure in record.health.failures:
        said = f"{short_group_name(failure.group)}: {formatting.format_count(failure.nodes, 'node')} failed to start"
        why, reason = f"{failure.error.code}; the group backs off", _failure_reason(failure)
        yield LogEntry(at_s, "trouble", said, why, (failure.group,), reason=reason)
    for instruction in decision.plan:
        match instruction:
            case plan.ReduceTarget(group, by, why):
                said = f"{short_group_name(group)}: target size reduced by {by}"
                yield LogEntry(at_s, "trouble", said, why, (group,), reason="ScaleUpTimedOut")
            case plan.DeleteInstances(group, instances, why):
                said = f"{short_group_name(group)}: {formatting.format_count(len(instances), 'instance')} removed"
                yield LogEntry(at_s, "trouble", said, why, (group,), reason="DeleteUnregistered")
    if record.repairs.stop is LoopStop.UNHEALTHY:
        health = record.health.verdict
        why = f"{health.lacking} of {health.nodes} nodes are unready"
        yield LogEntry(at_s, "trouble", "scaling is stopped", why, reason="ClusterUnhealthy")
    elif record.repairs.stop in NOT_ACTIONABLE:
        why = f"{record.repairs.stop}, and --scale-up-from-zero is off"
        yield LogEntry(at_s, "trouble", "scaling is stopped", why, reason="ClusterUnhealthy")


def _failure_reason(failure: cluster_health.ScaleUpFailure) -> str:
    return "ScaleUpTimedOut" if failure.error.code == scale_requests.TIMEOUT_CODE else "ScaleUpFailed"


def _scale_up_entry(at_s: float, proposal: ScaleUpProposal) -> LogEntry:
    grown = [
        f"{short_group_name(increase.group.id)} {increase.group.size}→{increase.new_size}"
        for increase in proposal.increases
    ]
    detail = decision_details.describe_scale_up(proposal)
    return LogEntry(
        at_s,
        "up",
        f"scale up {', '.join(grown)}",
        "; ".join(_scale_up_reasons(proposal)),
        tuple(increase.group.id for increase in proposal.increases),
        reason="TriggeredScaleUp" if proposal.helped else "ScaledUpGroup",
        namespaces=decision_details.find_namespaces(detail),
        detail=detail,
    )


def _scale_up_reasons(proposal: ScaleUpProposal) -> Iterator[str]:
    if not proposal.helped:
        yield "below its minimum size"
        return
    helped = frozenset(proposal.helped)
    yield f"{formatting.format_count(len(helped), 'pod')}{_describe_kinds(proposal, helped)} unschedulable"
    choice = proposal.choice
    if choice is not None and choice.winner is not None:
        options = len(choice.options)
        decisive = choice.steps[-1][0] if choice.steps else ""
        yield f"{decisive} chose it among {options} groups" if options > 1 and decisive else "the only group that fits"
    for group, reasons in sorted(proposal.skipped.items()):
        yield f"{short_group_name(group)} was skipped: {', '.join(reasons)}"


def _describe_kinds(proposal: ScaleUpProposal, helped: frozenset[int]) -> str:
    """An example of each of the largest sets of equivalent pods, with numbers where there are several."""
    counted = ((sum(row in helped for row in alike.rows), alike.pod) for alike in proposal.considered)
    kinds = sorted(((count, f"{pod.namespace}/{pod.name}") for count, pod in counted if count), reverse=True)
    if len(kinds) == 1:
        return f" like {kinds[0][1]}"
    shown = ", ".join(f"{count} like {name}" for count, name in kinds[:_MAX_KINDS])
    more = f" and {len(kinds) - _MAX_KINDS} more kinds" if len(kinds) > _MAX_KINDS else ""
    return f" ({shown}{more})" if kinds else ""


def _scale_down_entry(at_s: float, view: DecisionView, group: str, drains: Sequence[plan.Drain]) -> LogEntry:
    evicted = sum(len(drain.evict) for drain in drains)
    said = f"scale down {short_group_name(group)} by {len(drains)}"
    if evicted:
        said += f", {formatting.format_count(evicted, 'pod')} to evict"
    reasons = [_removal_reason(view, drain) for drain in drains[:_MAX_NODES_NAMED]]
    if len(drains) > _MAX_NODES_NAMED:
        reasons.append(f"and {len(drains) - _MAX_NODES_NAMED} more")
    detail = decision_details.describe_removals(view, drains)
    return LogEntry(
        at_s,
        "down",
        said,
        "; ".join(reasons),
        (group,),
        tuple(drain.node for drain in drains[:_MAX_NODES_NAMED]),
        "ScaleDown" if evicted else "ScaleDownEmpty",
        decision_details.find_namespaces(detail),
        detail,
    )


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
