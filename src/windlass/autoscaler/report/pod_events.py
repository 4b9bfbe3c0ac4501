"""Events of scaling up: to pods whether they triggered it, and of limits and priorities that decided."""

from collections.abc import Iterable, Iterator, Sequence

from windlass import errors
from windlass.autoscaler import priorities
from windlass.autoscaler.report import words
from windlass.engine.expanders import priority
from windlass.engine.expanders.outside import Worth
from windlass.engine.observation import Observation
from windlass.engine.provisioning.request import consumed_by
from windlass.engine.quarantine import Faults
from windlass.engine.scale_up import refusals
from windlass.engine.scale_up.proposing import Alike, Proposal, Result
from windlass.engine.settings import Settings
from windlass.engine.story import Story
from windlass.explain import opinions
from windlass.kube.events import NORMAL, WARNING, About, Occurrence

_MOST_CONSUMERS = 50


def about_pod(seen: Observation, row: int) -> About:
    pods = seen.snapshot.pods
    return About("v1", "Pod", pods.names[row], pods.kind(row).namespace, pods.uids[row])


def tell_helped(seen: Observation, story: Story) -> Iterator[tuple[Proposal, list[Occurrence]]]:
    """To each pod that a round helps, what was raised in it."""
    for proposal in story.scale_ups:
        if proposal.result is Result.SUCCESSFUL and proposal.increases:
            message = f"pod triggered scale-up: {words.increases(proposal.increases)}"
            yield (
                proposal,
                [Occurrence(about_pod(seen, row), NORMAL, "TriggeredScaleUp", message) for row in proposal.helped],
            )


def tell_left(seen: Observation, story: Story) -> Iterator[Occurrence]:
    """To each pod that no group helps, why. A round that raises something tells nobody that it was not for them."""
    existing = frozenset(group.id for group in seen.groups if group.exists)
    for proposal in story.scale_ups:
        if proposal.result in (Result.SUCCESSFUL, Result.ERROR):
            continue
        for alike in proposal.remaining:
            message = f"pod didn't trigger scale-up: {spell_reasons(proposal, alike, existing)}"
            for row in alike.rows:
                yield Occurrence(about_pod(seen, row), NORMAL, "NotTriggerScaleUp", message)


def tell_unevaluated(seen: Observation, faults: Faults) -> Iterator[Occurrence]:
    """To pods that wait and cannot be evaluated: nothing is done for them, and why. So many in a loop."""
    if not faults:
        return
    table, left_out = seen.snapshot.pods, seen.left_out
    rows = [row for row in seen.snapshot.waiting() if left_out.has_pending(table.kind(row))]
    for row in rows[:_MOST_CONSUMERS]:
        kind = table.kind(row)
        error = next(
            fault.error for fault in faults if fault.suspect.value == kind or fault.suspect.name == kind.namespace
        )
        message = f"pod didn't trigger scale-up: it could not be evaluated: {error}"
        yield Occurrence(about_pod(seen, row), NORMAL, "NotTriggerScaleUp", message)


def tell_consumers(seen: Observation, story: Story) -> Iterator[Occurrence]:
    """To pods that wait and use what a ProvisioningRequest asked for: they trigger nothing. So many in a loop."""
    for row in story.requests.ignored[:_MOST_CONSUMERS]:
        kind = seen.snapshot.pods.kind(row)
        name = consumed_by(dict(kind.annotations))
        message = f"pod didn't trigger scale-up: it uses ProvisioningRequest {kind.namespace}/{name}"
        yield Occurrence(about_pod(seen, row), NORMAL, "NotTriggerScaleUp", message)


def spell_reasons(proposal: Proposal, alike: Alike, existing: frozenset[str]) -> str:
    """What groups say, counted."""
    if proposal.result is Result.LIMITED_BY_MAX_NODES_TOTAL:
        return words.MAX_TOTAL
    return refusals.count_reasons(proposal, alike, existing)


def tell_limits(seen: Observation, story: Story, settings: Settings, status: About) -> Iterator[Occurrence]:
    """Was --max-nodes-total in the way?"""
    limit = settings.limits.max_nodes_total
    if limit > 0 and _reaches(limit, seen, story):
        yield Occurrence(status, WARNING, "MaxNodesTotalReached", words.max_total_reached(limit))


def _reaches(limit: int, seen: Observation, story: Story) -> bool:
    upcoming = story.repairs.upcoming.values()
    nodes = len(seen.nodes) + sum(one.nodes - len(one.not_started) for one in upcoming)
    for proposal in story.scale_ups:
        if proposal.result is Result.LIMITED_BY_MAX_NODES_TOTAL:
            return True
        best = proposal.choice.winner if proposal.choice is not None else None
        if best is not None and best.node_count + nodes > limit:
            return True
        nodes += sum(increase.added for increase in proposal.increases)
    return False


def tell_priorities(seen: Observation, story: Story, namespace: str) -> Iterator[Occurrence]:
    """Groups that the priority expander passed over because no rule of the user matches them."""
    if not seen.priorities:
        return
    about = About("v1", "ConfigMap", priorities.NAME, namespace)
    for proposal in story.scale_ups:
        asked = _groups_asked(proposal)
        unmatched = [group for group in asked if priority.rank(group, seen.priorities) is None]
        for group in unmatched:
            message = (
                f"Priority expander: node group {group} not found in priority expander configuration. "
                "The group won't be used."
            )
            yield Occurrence(about, WARNING, "PriorityConfigMapNotMatchedGroup", message)
        if asked and len(unmatched) == len(asked):
            message = (
                "Priority expander: no priorities info found for any of the expansion options. No options filtered."
            )
            yield Occurrence(about, WARNING, "PriorityConfigMapNoGroupMatched", message)


def _groups_asked(proposal: Proposal) -> Sequence[str]:
    """Groups among which the priority expander was to choose."""
    names = [name for name, _ in proposal.choice.steps] if proposal.choice is not None else []
    if proposal.choice is None or "priority" not in names:
        return ()
    place = names.index("priority")
    if place > 0:
        return [option.group for option in proposal.choice.steps[place - 1][1]]
    return sorted({group for alike in proposal.considered for group in alike.accepted})


def tell_opinions(seen: Observation, status: About) -> Iterator[Occurrence]:
    """What the user's own expander was asked in vain."""
    for opinion in seen.opinions:
        if opinion.worth in (Worth.FAILED, Worth.NO_OPTION):
            yield Occurrence(status, WARNING, "GRPCExpanderFailed", opinions.say(opinion))


def tell_invalid_priorities(namespace: str, complaints: Iterable[errors.InvalidObject]) -> Iterator[Occurrence]:
    """The rules cannot be read; those read before stay in force."""
    for complaint in complaints:
        if (complaint.kind, complaint.name) == ("ConfigMap", f"{namespace}/{priorities.NAME}"):
            about = About("v1", "ConfigMap", priorities.NAME, namespace)
            message = f"Wrong configuration for priority expander: {complaint}. Ignoring update."
            yield Occurrence(about, WARNING, "PriorityConfigMapInvalid", message)
