"""The summary: what a loop decided and why, in a line or a few, for the log."""

from collections.abc import Iterator, Sized

from windlass.autoscaler.report import readings
from windlass.engine import advance, decide, plan
from windlass.engine.draining.story import Phase
from windlass.engine.repairs import NOT_ACTIONABLE, Stop
from windlass.engine.scale_up.proposing import Proposal, Result
from windlass.engine.story import ScaleDownResult, ScaleDownStory

_SHOWN = 5
"""Names in a line, before the rest is counted."""


def summarize(decision: decide.Decision) -> list[str]:
    """One line if nothing is done; otherwise one for each thing that is."""
    grown = (*_tell_scale_ups(decision), *_tell_requests(decision))
    lines = [*_tell_repairs(decision), *grown, *_tell_drains(decision)]
    return lines or [f"nothing to do: {', '.join(_tell_quiet(decision))}"]


def summarize_drains(advanced: advance.Advanced) -> list[str]:
    """A line for each drain that does something or ended; none for those that wait."""
    busy = {one.node for one in advanced.plan if isinstance(one, plan.SetTaint | plan.Evict | plan.DeleteNode)}
    return [
        f"drain of {told.node}: {told.phase}" + (f", {told.failure.why}" if told.failure is not None else "")
        for told in advanced.story
        if told.node in busy or told.phase in (Phase.GONE, Phase.ROLLED_BACK)
    ]


def _tell_repairs(decision: decide.Decision) -> Iterator[str]:
    story = decision.story
    for failure in story.health.failures:
        yield f"{failure.group}: {failure.nodes} nodes did not come ({failure.error.code}); it backs off"
    for one in decision.plan:
        match one:
            case plan.ReduceTarget(group, by, why):
                yield f"{group}: size lowered by {by}, {why}"
            case plan.DeleteInstances(group, instances, why):
                yield f"{group}: {_count(instances, 'instance')} removed, {why}"
    if story.repairs.stop is Stop.UNHEALTHY:
        found = story.health.verdict
        yield f"cluster is unhealthy: {found.lacking} of {found.nodes} nodes are unready; nothing else is done"
    elif story.repairs.stop in NOT_ACTIONABLE:
        yield f"{story.repairs.stop}: nothing is done (--scale-up-from-zero=false)"


def _tell_scale_ups(decision: decide.Decision) -> Iterator[str]:
    for proposal in decision.story.scale_ups:
        grown = [f"{one.group.id} {one.group.size}→{one.new_size}" for one in proposal.increases]
        if grown:
            yield f"scale up {', '.join(grown)} for {_for_whom(decision, proposal)}{_left(proposal)}"
        elif proposal.result is Result.ERROR:
            yield f"scale-up failed{_left(proposal)}"


def _tell_requests(decision: decide.Decision) -> Iterator[str]:
    """What requests for capacity were answered."""
    for key, reason in decision.story.requests.answered.items():
        yield f"ProvisioningRequest {key}: {reason}"


def _for_whom(decision: decide.Decision, proposal: Proposal) -> str:
    asked = decision.story.requests.helped
    if asked:
        return f"ProvisioningRequest {', '.join(asked)}"
    return _count(proposal.helped, "pod") if proposal.helped else "pods to come"


def _left(proposal: Proposal) -> str:
    left = _waiting(proposal)
    return f"; {_count(left, 'pod')} left, which no group helps" if left else ""


def _waiting(proposal: Proposal) -> list[int]:
    return [row for alike in proposal.remaining for row in alike.rows]


def _tell_drains(decision: decide.Decision) -> Iterator[str]:
    drains = decision.memory.durable.drains
    for one in decision.plan:
        if isinstance(one, plan.Drain):
            moved = "is empty" if drains[one.node].is_empty else f"{_count(one.evict, 'pod')} to be moved"
            yield f"scale down {one.group}: {one.node} goes, {moved}"


def _tell_quiet(decision: decide.Decision) -> Iterator[str]:
    (*_, last) = decision.story.scale_ups
    left = _count(_waiting(last), "pod")
    match last.result:
        case Result.NOT_NEEDED:
            yield "no pod needs a node"
        case Result.IN_COOLDOWN:
            yield "pods are new, more may come"
        case Result.LIMITED_BY_MAX_NODES_TOTAL:
            yield f"{left} left, and the cluster may not grow"
        case Result.NOT_TRIED:
            yield "pods were not looked at"
        case _:
            yield f"{left} left, which no group helps"
    yield _tell_kept(decision.story.scale_down)
    if decision.memory.durable.drains:
        yield f"{_count(decision.memory.durable.drains, 'node')} on the way out"


def _tell_kept(story: ScaleDownStory) -> str:
    if story.look is None or story.result is ScaleDownResult.NOT_TRIED:
        return "scale-down was not tried"
    unneeded = len(story.look.state.since)
    if story.result is ScaleDownResult.IN_COOLDOWN:
        return f"scale-down pauses with {_count(range(unneeded), 'unneeded node')}"
    reasons = readings.count_kept(story).most_common(_SHOWN)
    if not reasons:
        return "no node could go"
    return "nodes stay: " + ", ".join(f"{count} {reason}" for reason, count in reasons)


def _count(things: Sized, what: str) -> str:
    count = len(things)
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
