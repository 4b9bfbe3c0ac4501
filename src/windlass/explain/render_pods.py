"""Text of a pod explanation and of the verdicts of groups on a pod. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from windlass import formatting
from windlass.engine.model import facts, scale_up_status
from windlass.explain.decision_view import PodState
from windlass.explain.obstacles import RemedyKind
from windlass.formatting import PLAIN_STYLE

if TYPE_CHECKING:  # explanations are handed in: their text needs nothing of what made them
    from collections.abc import Iterator, Mapping, Sequence

    from windlass.explain.explain_context import ChoiceExplanation
    from windlass.explain.obstacles import Obstacle, Remedy, Shortage
    from windlass.explain.pods import PodExplanation
    from windlass.explain.verdicts import GroupVerdict, ScaleUpBlocker
    from windlass.formatting import TextStyle


def describe_shortage(short: Shortage, starts_with: str) -> str:
    """`cpu: 4 asked, 3900m free on an empty node, after 100m of DaemonSets`."""
    if short.resource == facts.PODS:
        return f"pods: a new node takes {short.allocatable}, and starts with {short.taken}"
    asked = f"{short.resource}: {formatting.format_short_quantity(short.resource, short.requested, up=True)} asked"
    if short.allocatable == 0:
        return f"{asked}, its nodes have none"
    after = (
        f", after {formatting.format_short_quantity(short.resource, short.taken, up=True)} of {starts_with}"
        if short.taken
        else ""
    )
    return f"{asked}, {formatting.format_short_quantity(short.resource, short.free)} free on an empty node{after}"


def describe_obstacle(obstacle: Obstacle, starts_with: str) -> Iterator[str]:
    """The reason of one filter with its facts; one line per insufficient resource."""
    if obstacle.shortages:
        yield from (describe_shortage(short, starts_with) for short in obstacle.shortages)
        return
    said = ", ".join(obstacle.reasons)
    yield f"{said}: {obstacle.detail}" if obstacle.detail else said


def describe_blocker(hold: ScaleUpBlocker, verdict: GroupVerdict, now_s: float) -> str:
    """Why a group cannot grow, with the numbers."""
    remedy = hold.remedy
    if remedy is not None and remedy.change is RemedyKind.WAIT:
        return f"{hold.reason}, {formatting.format_until(remedy.at_s, now_s)}"
    if hold.reason == scale_up_status.SkipReason.MAX_SIZE:
        grows = "" if verdict.grows_from is None else f", {verdict.grows_from} before the next loop"
        return f"{hold.reason}: {verdict.size} of at most {verdict.max_size} nodes{grows}"
    return hold.reason


def describe_verdict(verdict: GroupVerdict, now_s: float) -> Iterator[str]:
    """Why not, one line each; nothing where the group would help."""
    for obstacle in verdict.obstacles:
        yield from describe_obstacle(obstacle, verdict.starts_with)
    yield from (f"cannot grow: {describe_blocker(hold, verdict, now_s)}" for hold in verdict.holds)


def describe_remedy(remedy: Remedy, now_s: float) -> str:
    """One change, as something to do."""
    key, amount = remedy.key, remedy.amount
    match remedy.change:
        case RemedyKind.REQUEST:
            least = formatting.format_quantity(key, amount)
            return f"request {least} {key} or less" if amount else f"request no {key}"
        case RemedyKind.TOLERATION:
            value = f"={remedy.value}" if remedy.value else ""
            return f"tolerate the taint {key}{value}:{remedy.effect}"
        case RemedyKind.SELECTOR:
            return f"nodeSelector {key}={remedy.value}" if remedy.value else f"drop {key} from the nodeSelector"
        case RemedyKind.NODE_AFFINITY:
            return "drop or widen the required node affinity"
        case RemedyKind.NODE_NAME:
            return "drop spec.nodeName"
        case RemedyKind.HOST_PORT:
            return f"give up host port {amount}/{key}"
        case RemedyKind.MAX_SKEW:
            return f"allow a maxSkew of {amount} over {key}"
        case RemedyKind.POD_AFFINITY:
            return f"drop the required pod affinity over {key}"
        case RemedyKind.POD_ANTI_AFFINITY:
            return f"drop the required pod anti-affinity over {key}"
        case RemedyKind.MAX_SIZE:
            return f"let the group have {amount} nodes"
        case RemedyKind.MAX_NODES_TOTAL:
            return f"let the cluster have {formatting.format_count(amount, 'node')} (--max-nodes-total)"
        case RemedyKind.TOPOLOGY_REPLICAS:
            return remedy.value
        case RemedyKind.WAIT:
            return f"wait {formatting.format_until(remedy.at_s, now_s)}"


def describe_remedies(remedies: Sequence[Remedy], now_s: float) -> str:
    return ", and ".join(describe_remedy(remedy, now_s) for remedy in remedies)


def describe_condition(verdict: GroupVerdict) -> str:
    """The pods whose expected places the verdict depends on, if any."""
    if not verdict.counts_on:
        return ""
    first, more = verdict.counts_on[0], len(verdict.counts_on) - 1
    if more:
        return f", provided that {first} and {more} more get the places expected for them"
    return f", provided that {first} gets the place expected for it"


_FINAL_STATES = (PodState.SCHEDULED, PodState.TERMINATING)

_BAD_STATES = (PodState.NOWHERE, PodState.HELD, PodState.LOOP_ENDED, PodState.UNEVALUATED)


def render_pod(pod: PodExplanation, tones: TextStyle = PLAIN_STYLE) -> Iterator[str]:
    """Everything, most important first."""
    yield f"{tones.strong(f'pod {pod.key}')}  {_headline(pod)}"
    yield ""
    yield _style(pod, tones)(_summary(pod))
    if pod.complaint:
        yield tones.note(f"It is not used as it is: {pod.complaint}.")
    if pod.choice is not None:
        yield ""
        if pod.chosen_s is not None:
            yield f"It was asked for {formatting.format_ago(pod.chosen_s, pod.at_s)}."
        yield from render_choice(pod.choice, tones)
    if pod.groups and pod.state not in _FINAL_STATES:
        yield ""
        yield from _render_groups(pod, tones)
        yield from _render_remedies(pod, tones)


def _headline(pod: PodExplanation) -> str:
    parts = [f"asks for {formatting.format_requests(pod.requests)}"]
    if pod.owner:
        alike = f", one of {pod.alike} alike" if pod.alike > 1 else ""
        parts.append(f"{pod.owner}{alike}")
    if pod.priority:
        parts.append(f"priority {pod.priority}")
    if pod.state not in _FINAL_STATES:
        parts.append(f"waiting for {formatting.format_duration(pod.at_s - pod.created_s)}")
    return " · ".join(parts)


def _style(pod: PodExplanation, tones: TextStyle) -> _Style:
    if pod.state in (PodState.SCHEDULED, PodState.HAS_ROOM, PodState.HELPED, PodState.UPCOMING):
        return tones.good
    return tones.bad if pod.state in _BAD_STATES else tones.note


def _summary(pod: PodExplanation) -> str:
    """Where it stands, as one sentence."""
    return _SENTENCES[pod.state](pod)


def _describe_scheduled(pod: PodExplanation) -> str:
    if not pod.node:
        return "It is bound to a node that is not known here."
    kept = f" The node is kept: {pod.why}." if pod.why else ""
    group = f", a node of {pod.group}" if pod.group else ", a node of no group"
    return f"It is scheduled: it is on {pod.node}{group}.{kept}"


def _describe_upcoming(pod: PodExplanation) -> str:
    by = f" by {formatting.format_clock(pod.until_s)}, or it counts as failed" if pod.until_s is not None else ""
    return f"A node of {pod.group} that is on its way has room for it. It is expected{by}."


def _describe_young(pod: PodExplanation) -> str:
    when = formatting.format_until(pod.until_s, pod.at_s) if pod.until_s is not None else ""
    return f"It is too young to have a node added for it, {when} (--new-pod-scale-up-delay or its own annotation)."


def _describe_helped(pod: PodExplanation) -> str:
    sizes = pod.choice.sizes if pod.choice else {}
    grown = ", ".join(
        f"{group} {before} → {formatting.format_count(after, 'node')}" for group, (before, after) in sizes.items()
    )
    return f"The next loop helps it: {grown}.{_describe_limit(pod)}"


def _describe_limit(pod: PodExplanation) -> str:
    """That limits cut what the chosen group would need for its pods, where they do."""
    if pod.choice is None:
        return ""
    desired = next(
        (
            option_explanation.nodes
            for option_explanation in pod.choice.options
            if option_explanation.group == pod.choice.winner
        ),
        0,
    )
    added = sum(after - before for before, after in pod.choice.sizes.values())
    largest = {group_verdict.group: group_verdict.max_size for group_verdict in pod.groups}
    is_full = any(after >= largest.get(group, 0) for group, (_, after) in pod.choice.sizes.items())
    if is_full or added >= desired:
        return ""
    pods = next(option.pods for option in pod.choice.options if option.group == pod.choice.winner)
    needed, needed_nodes = formatting.format_count(pods, "pod"), formatting.format_count(desired, "node")
    return f" {needed} would need {needed_nodes}, and limits allow {added}: some wait."


def _describe_later(pod: PodExplanation) -> str:
    if pod.why:
        return f"A group would take it and may grow, but {pod.why}: its turn is next."
    return "A group would take it and may grow, but what it can give now goes to other pods."


def _describe_unplaceable(pod: PodExplanation) -> str:
    if not pod.groups:
        return "There is no group that could grow for it."
    return "No group's new node would take it as it is." if len(pod.groups) > 1 else "A new node would not take it."


_Style = Callable[[str], str]

_SENTENCES: Mapping[PodState, Callable[[PodExplanation], str]] = {
    PodState.SCHEDULED: _describe_scheduled,
    PodState.TERMINATING: lambda _: "It is being deleted: nothing is done for it.",
    PodState.GATED: lambda _: "Its scheduling gates keep the scheduler from looking at it: nothing is done for it yet.",
    PodState.OTHER_SCHEDULER: lambda pod: (
        f"Its scheduler, {pod.why}, is not one of --allowed-scheduler-names: nothing is done for it."
    ),
    PodState.NOT_JUDGED: lambda pod: (
        f"Its scheduler, {pod.why}, has not marked it unschedulable yet: nothing is done for it yet."
    ),
    PodState.PREEMPTING: lambda pod: f"It waits for pods of lower priority to leave {pod.node}, which it is promised.",
    PodState.EXPENDABLE: lambda pod: (
        f"Its priority, {pod.priority}, is below {pod.limit} (--expendable-pods-priority-cutoff): "
        "it may use what is free, but no node is added for it."
    ),
    PodState.HAS_ROOM: lambda pod: f"There is room for it on {pod.node}: the scheduler should bind it.",
    PodState.UPCOMING: _describe_upcoming,
    PodState.DAEMONSET: lambda _: "It belongs to a DaemonSet: it needs its own node, and no other one is added for it.",
    PodState.USES_REQUEST: lambda pod: (
        f"It uses the capacity of ProvisioningRequest {pod.why}: nodes are added for that, not for the pod."
    ),
    PodState.TOO_YOUNG: _describe_young,
    PodState.LOOP_ENDED: lambda pod: f"Nothing is scaled up now: {pod.why}.",
    PodState.MAX_NODES: lambda pod: f"The cluster has as many nodes as it may have: {pod.limit} (--max-nodes-total).",
    PodState.MORE_TO_COME: lambda _: "Pods came just now and more may: the next loop or so serves them together.",
    PodState.HELPED: _describe_helped,
    PodState.LATER: _describe_later,
    PodState.HELD: lambda _: "A new node would take it, but no group that has such nodes can grow now.",
    PodState.NOWHERE: _describe_unplaceable,
    PodState.UNEVALUATED: lambda pod: f"Nothing is done for it: {pod.why}.",
}


def _render_groups(pod: PodExplanation, tones: TextStyle) -> Iterator[str]:
    yield tones.faint("Fit on each group's new, empty node:")
    width = formatting.max_width(verdict.group for verdict in pod.groups)
    for verdict in pod.groups:
        mark = _mark(verdict)
        head = f"  {verdict.group:{width}}  {(tones.good if verdict.helps else tones.bad)(f'{mark:13}')}  "
        blank = " " * (width + 19)
        lines = list(describe_verdict(verdict, pod.at_s)) or [_describe_free(verdict)]
        lines += [verdict.replicas_owner] if verdict.replicas_owner else []
        for line in lines:
            yield (head + line).rstrip()
            head = blank


def _mark(verdict: GroupVerdict) -> str:
    if verdict.fits:
        return "takes it" if verdict.may_grow else "would take it"
    return "refuses it" if verdict.obstacles else "unknown"


def _describe_free(verdict: GroupVerdict) -> str:
    free = formatting.format_requests(verdict.free)
    return f"{free} free on an empty node, {verdict.size} of at most {verdict.max_size} nodes"


def _render_remedies(pod: PodExplanation, tones: TextStyle) -> Iterator[str]:
    if pod.state in (PodState.HELPED, PodState.UPCOMING, PodState.HAS_ROOM) or any(
        group_verdict.helps for group_verdict in pod.groups
    ):
        return
    curable = [group for group in pod.groups if group.is_curable and group.remedies]
    yield ""
    if not curable:
        yield tones.note("No single change of the pod or of a group's size is known that would make it fit.")
        return
    yield tones.faint("What would make it fit (any one line):")
    width = formatting.max_width(group_remedies.group for group_remedies in curable)
    for one in sorted(curable, key=lambda group_remedies: len(group_remedies.remedies)):
        yield f"  {one.group:{width}}  {describe_remedies(one.remedies, pod.at_s)}{describe_condition(one)}"


def render_choice(choice: ChoiceExplanation, tones: TextStyle) -> Iterator[str]:
    """What the expanders chose between, and who decided."""
    decided = choice.steps[-1].expander if choice.steps else ""
    if choice.opinion:
        yield f"{choice.opinion[0].upper()}{choice.opinion[1:]}."
    if len(choice.options) == 1:
        yield f"{choice.winner} is the only group that can help."
        return
    yield tones.faint(f"Chosen of {formatting.format_count(len(choice.options), 'option')}, decided by {decided}:")
    rows = [
        (
            f"  {option_explanation.group}",
            str(option_explanation.nodes),
            str(option_explanation.pods),
            f"{option_explanation.waste:.3f}",
            _format_price(option_explanation.price_per_hour),
            _describe_growth(choice, option_explanation.group),
        )
        for option_explanation in choice.options
    ]
    yield from formatting.format_table(("  GROUP", "NODES", "PODS", "WASTE", "PRICE/H", ""), rows, tones)


def _format_price(price: float | None) -> str:
    return "" if price is None else formatting.format_money(price, is_price=True)


def _describe_growth(choice: ChoiceExplanation, group: str) -> str:
    if group == choice.winner:
        return "chosen"
    for step in choice.steps:
        if group not in step.kept:
            return f"dropped by {step.expander}"
    return ""
