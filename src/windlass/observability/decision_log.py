"""Decision log: log lines of a decision, and an in-memory list of what was decided and why.

A decision that merely stands is logged once.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from typing import Literal

from windlass.engine import drain_loop, loop
from windlass.engine.drain_loop import DrainLoopResult
from windlass.engine.loop import Decision
from windlass.engine.model import plan
from windlass.engine.model.decision_record import NOT_ACTIONABLE, LoopStop, ScaleDownRecord, ScaleDownResult
from windlass.engine.model.drains import DrainPhase
from windlass.engine.model.scale_up_status import ScaleUpProposal, ScaleUpResult
from windlass.explain import formatting
from windlass.observability import gauge_values

_MAX_SHOWN = 5
"""Names in a line, before the rest is counted."""


def summarize_decision(decision: loop.Decision) -> list[str]:
    """One line if nothing is done; otherwise one for each thing that is."""
    grown = (*_describe_scale_ups(decision), *_describe_requests(decision))
    lines = [*_describe_repairs(decision), *grown, *_describe_drains(decision)]
    return lines or [f"nothing to do: {', '.join(_describe_no_action(decision))}"]


def summarize_drains(advanced: drain_loop.DrainLoopResult) -> list[str]:
    """A line for each drain that does something or ended; none for those that wait."""
    busy = {one.node for one in advanced.plan if isinstance(one, plan.SetTaint | plan.Evict | plan.DeleteNode)}
    return [
        f"drain of {told.node}: {told.phase}" + (f", {told.failure.why}" if told.failure is not None else "")
        for told in advanced.story
        if told.node in busy or told.phase in (DrainPhase.GONE, DrainPhase.ROLLED_BACK)
    ]


def _describe_repairs(decision: loop.Decision) -> Iterator[str]:
    story = decision.story
    for failure in story.health.failures:
        yield f"{failure.group}: {failure.nodes} nodes did not come ({failure.error.code}); it backs off"
    for one in decision.plan:
        match one:
            case plan.ReduceTarget(group, by, why):
                yield f"{group}: size lowered by {by}, {why}"
            case plan.DeleteInstances(group, instances, why):
                yield f"{group}: {_count_things(instances, 'instance')} removed, {why}"
    if story.repairs.stop is LoopStop.UNHEALTHY:
        found = story.health.verdict
        yield f"cluster is unhealthy: {found.lacking} of {found.nodes} nodes are unready; nothing else is done"
    elif story.repairs.stop in NOT_ACTIONABLE:
        yield f"{story.repairs.stop}: nothing is done (--scale-up-from-zero=false)"


def _describe_scale_ups(decision: loop.Decision) -> Iterator[str]:
    for proposal in decision.story.scale_ups:
        grown = [f"{one.group.id} {one.group.size}→{one.new_size}" for one in proposal.increases]
        if grown:
            yield f"scale up {', '.join(grown)} for {_describe_beneficiaries(decision, proposal)}{_describe_remaining(proposal)}"
        elif proposal.result is ScaleUpResult.ERROR:
            yield f"scale-up failed{_describe_remaining(proposal)}"


def _describe_requests(decision: loop.Decision) -> Iterator[str]:
    """What requests for capacity were answered."""
    for key, reason in decision.story.requests.answered.items():
        yield f"ProvisioningRequest {key}: {reason}"


def _describe_beneficiaries(decision: loop.Decision, proposal: ScaleUpProposal) -> str:
    asked = decision.story.requests.helped
    if asked:
        return f"ProvisioningRequest {', '.join(asked)}"
    return _count_things(proposal.helped, "pod") if proposal.helped else "pods to come"


def _describe_remaining(proposal: ScaleUpProposal) -> str:
    left = _waiting_rows(proposal)
    return f"; {_count_things(left, 'pod')} left, which no group helps" if left else ""


def _waiting_rows(proposal: ScaleUpProposal) -> list[int]:
    return [row for alike in proposal.remaining for row in alike.rows]


def _describe_drains(decision: loop.Decision) -> Iterator[str]:
    drains = decision.memory.durable.drains
    for one in decision.plan:
        if isinstance(one, plan.Drain):
            moved = "is empty" if drains[one.node].is_empty else f"{_count_things(one.evict, 'pod')} to be moved"
            yield f"scale down {one.group}: {one.node} goes, {moved}"


def _describe_no_action(decision: loop.Decision) -> Iterator[str]:
    (*_, last) = decision.story.scale_ups
    left = _count_things(_waiting_rows(last), "pod")
    match last.result:
        case ScaleUpResult.NOT_NEEDED:
            yield "no pod needs a node"
        case ScaleUpResult.IN_COOLDOWN:
            yield "pods are new, more may come"
        case ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL:
            yield f"{left} left, and the cluster may not grow"
        case ScaleUpResult.NOT_TRIED:
            yield "pods were not looked at"
        case _:
            yield f"{left} left, which no group helps"
    yield _describe_unremovable(decision.story.scale_down)
    if decision.memory.durable.drains:
        yield f"{_count_things(decision.memory.durable.drains, 'node')} on the way out"


def _describe_unremovable(story: ScaleDownRecord) -> str:
    if story.look is None or story.result is ScaleDownResult.NOT_TRIED:
        return "scale-down was not tried"
    unneeded = len(story.look.state.since)
    if story.result is ScaleDownResult.IN_COOLDOWN:
        return f"scale-down pauses with {_count_things(range(unneeded), 'unneeded node')}"
    reasons = gauge_values.count_unremovable(story).most_common(_MAX_SHOWN)
    if not reasons:
        return "no node could go"
    return "nodes stay: " + ", ".join(f"{count} {reason}" for reason, count in reasons)


def _count_things(things: Sized, what: str) -> str:
    count = len(things)
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


EntryKind = Literal["up", "down", "trouble", "wait"]

_MAX_NODES_NAMED = 6
"""Nodes that are named before the rest is counted."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One thing that was decided."""

    at_s: float
    """By the clock that the chronicle was given."""
    kind: EntryKind
    said: str
    why: str
    groups: tuple[str, ...] = ()
    """Ids of those that it is about."""
    nodes: tuple[str, ...] = ()
    """The first of those that it is about."""


class DecisionLog:
    """Hears decisions, and keeps what is worth telling: all of it, or the last `most` entries."""

    def __init__(self, now_s: Callable[[], float], most: int | None = None) -> None:
        self.entries: deque[LogEntry] = deque(maxlen=most)
        self.count = 0
        """Entries so far, those included that are not kept any more."""
        self._now_s = now_s
        self._last: Decision | None = None
        self._waiting: LogEntry | None = None

    def add_decision(self, decision: Decision) -> None:
        """A decision that merely stands is told once."""
        if self._last is not None and decision.story is self._last.story:
            return
        self._last = decision
        at_s = round(self._now_s(), 3)
        for told in (*_trouble_entries(decision), *_scale_up_entries(decision), *_scale_down_entries(decision)):
            self._note(LogEntry(at_s, *told))
        self._add_waiting(at_s, decision)

    def add_drains(self, advanced: DrainLoopResult) -> None:
        """Only of those that are given up: how a drain goes is to be seen at its node."""
        at_s = round(self._now_s(), 3)
        for one in advanced.story:
            if one.phase is DrainPhase.ROLLED_BACK:
                why = str(one.failure.why) if one.failure is not None else "it is needed again"
                told = f"{short_group_name(one.group)}: {one.node} stays after all"
                self._note(LogEntry(at_s, "trouble", told, why, (one.group,), (one.node,)))

    def _note(self, entry: LogEntry) -> None:
        # Whoever decides again because something was refused says most of it a second time.
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
        told = LogEntry(
            at_s, "wait", f"{formatting.format_count(count, 'pod')} left that no group helps", "; ".join(reasons)
        )
        if self._waiting is None or (told.said, told.why) != (self._waiting.said, self._waiting.why):
            self._waiting = told
            self._note(told)


def short_group_name(group: str) -> str:
    """A group's name without its kind and namespace."""
    return group.rpartition("/")[2]


_EntryFields = tuple[EntryKind, str, str, tuple[str, ...], tuple[str, ...]]


def _trouble_entries(decision: Decision) -> Iterator[_EntryFields]:
    story = decision.story
    for failure in story.health.failures:
        said = f"{short_group_name(failure.group)}: {formatting.format_count(failure.nodes, 'node')} did not come"
        yield "trouble", said, f"{failure.error.code}; the group backs off", (failure.group,), ()
    for one in decision.plan:
        match one:
            case plan.ReduceTarget(group, by, why):
                yield "trouble", f"{short_group_name(group)}: size lowered by {by}", why, (group,), ()
            case plan.DeleteInstances(group, instances, why):
                said = f"{short_group_name(group)}: {formatting.format_count(len(instances), 'instance')} removed"
                yield "trouble", said, why, (group,), ()
    if story.repairs.stop is LoopStop.UNHEALTHY:
        found = story.health.verdict
        yield "trouble", "nothing is done", f"{found.lacking} of {found.nodes} nodes are unready", (), ()
    elif story.repairs.stop in NOT_ACTIONABLE:
        yield "trouble", "nothing is done", f"{story.repairs.stop}, and --scale-up-from-zero is off", (), ()


def _scale_up_entries(decision: Decision) -> Iterator[_EntryFields]:
    for proposal in decision.story.scale_ups:
        grown = [f"{short_group_name(one.group.id)} {one.group.size}→{one.new_size}" for one in proposal.increases]
        if grown:
            groups = tuple(one.group.id for one in proposal.increases)
            yield "up", f"scale up {', '.join(grown)}", "; ".join(_scale_up_reasons(proposal)), groups, ()


def _scale_up_reasons(proposal: ScaleUpProposal) -> Iterator[str]:
    if not proposal.helped:
        yield "below its least size"
        return
    helped = frozenset(proposal.helped)
    kinds = [alike for alike in proposal.considered if not helped.isdisjoint(alike.rows)]
    example = f" like {kinds[0].pod.namespace}/{kinds[0].pod.name}" if kinds else ""
    yield f"{formatting.format_count(len(helped), 'pod')}{example} had no room"
    choice = proposal.choice
    if choice is not None and choice.winner is not None:
        options = len(choice.options)
        decisive = choice.steps[-1][0] if choice.steps else ""
        yield f"{decisive} chose it among {options} groups" if options > 1 and decisive else "the only group that helps"
    for group, reasons in sorted(proposal.skipped.items()):
        yield f"{short_group_name(group)} was left out: {', '.join(reasons)}"


def _scale_down_entries(decision: Decision) -> Iterator[_EntryFields]:
    drains = [one for one in decision.plan if isinstance(one, plan.Drain)]
    for group in dict.fromkeys(one.group for one in drains):
        going = [one for one in drains if one.group == group]
        moved = sum(len(one.evict) for one in going)
        said = f"scale down {short_group_name(group)} by {len(going)}"
        if moved:
            said += f", {formatting.format_count(moved, 'pod')} to be moved"
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
