"""Text of node, group and cluster explanations, and of the plan of the next loop. Nothing is decided here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass import formatting
from windlass.engine.model import facts
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.explain import render_pods
from windlass.explain.decision_view import PodState, RemovalState
from windlass.explain.groups import TemplateSource
from windlass.explain.nodes import PodDisposition
from windlass.formatting import PLAIN_STYLE
from windlass.kube import time_formats

if TYPE_CHECKING:  # explanations are handed in: their text needs nothing of what made them
    from collections.abc import Iterator, Sequence

    from windlass.explain.cluster import ClusterExplanation, PendingPods, PlanStep
    from windlass.explain.explain_context import ChoiceExplanation
    from windlass.explain.groups import GroupExplanation, TemplateExplanation
    from windlass.explain.nodes import DrainExplanation, NodeExplanation, NodeUsage, PodOnRemoval, UnplacedPod
    from windlass.formatting import TextStyle

_TITLES = {
    RemovalState.NOT_AUTOSCALED: "It stays",
    RemovalState.NEEDED: "It stays",
    RemovalState.NO_CANDIDATE: "It stays",
    RemovalState.NOT_TRIED: "It stays for now",
    RemovalState.UNNEEDED: "It is unneeded",
    RemovalState.GOING: "It goes",
}


def render_node(node: NodeExplanation, tones: TextStyle = PLAIN_STYLE) -> Iterator[str]:
    """Everything, most important first."""
    yield f"{tones.strong(f'node {node.name}')}  {_node_headline(node)}"
    yield ""
    yield from _render_conclusion(node, tones)
    if node.complaint:
        yield tones.note(f"It is not used as it is: {node.complaint}.")
    if node.usage is not None and node.reason != UnremovableReason.NOT_UNDERUTILIZED:
        yield _describe_usage(node.usage)
    if node.homeless is not None:
        yield from render_unplaced(node.homeless)
    if node.drain is not None:
        yield from render_drain(node.drain, node.at_s, tones)
    yield ""
    yield from _render_dispositions(node, tones)


def _node_headline(node: NodeExplanation) -> str:
    group = (
        f"group {node.group}, {formatting.format_count(node.size, 'node')}, at least {node.min_size}"
        if node.group
        else "in no group"
    )
    ready = "ready" if node.is_ready else "not ready"
    return f"{group} · {ready} · {formatting.format_duration(node.at_s - node.created_s)} old"


def _render_conclusion(node: NodeExplanation, tones: TextStyle) -> Iterator[str]:
    tone = tones.note if node.state in (RemovalState.UNNEEDED, RemovalState.GOING, RemovalState.LEAVING) else tones.good
    reason = f" ({node.reason})" if node.reason else ""
    if node.state is RemovalState.UNNEEDED and node.since_s is not None:
        yield tone(f"It is unneeded {formatting.format_since(node.since_s, node.at_s)}.")
        yield f"It {node.why}{reason}{_describe_until(node)}."
    elif node.state is RemovalState.LEAVING:
        yield tone("It is on its way out.")
    else:
        yield f"{tone(_TITLES[node.state])}: {_describe_reason(node)}{reason}{_describe_until(node)}."


def _describe_reason(node: NodeExplanation) -> str:
    used = node.usage
    if used is None or node.reason != UnremovableReason.NOT_UNDERUTILIZED:
        return f"it {node.why}"
    other = facts.MEMORY if used.resource == facts.CPU else facts.CPU
    less = (
        f" ({other} {formatting.format_share(min(used.cpu, used.memory))})"
        if used.resource in (facts.CPU, facts.MEMORY)
        else ""
    )
    return (
        f"its pods ask for {formatting.format_share(used.share)} of its {used.resource}{less}, "
        f"and it may go at {formatting.format_share(used.threshold)} or less"
    )


def _describe_until(node: NodeExplanation) -> str:
    return f", {formatting.format_until(node.until_s, node.at_s)}" if node.until_s is not None else ""


def _describe_usage(used: NodeUsage) -> str:
    shares = f"cpu {formatting.format_share(used.cpu)}, memory {formatting.format_share(used.memory)}"
    if used.resource not in (facts.CPU, facts.MEMORY):
        shares = f"{used.resource} {formatting.format_share(used.gpu)}"
    return f"Of what it has, its pods ask for {shares}; it may go up to {formatting.format_share(used.threshold)}."


def render_unplaced(homeless: UnplacedPod) -> Iterator[str]:
    """Why a pod finds no place elsewhere."""
    yield f"{homeless.pod} finds no place on the {formatting.format_count(homeless.nodes, 'other node')}:"
    for reason, number in homeless.reasons:
        yield f"  {number} {reason}"
    if homeless.alone_on:
        taken = "it would fit there alone, but what else must move, or waits for room, takes it"
        yield f"  {len(homeless.alone_on)} {taken} ({formatting.format_list(homeless.alone_on, 3)})"


def render_drain(drain: DrainExplanation, now_s: float, tones: TextStyle) -> Iterator[str]:
    """How far it is on its way out."""
    next_at = f"; looked at again by {formatting.format_clock(drain.until_s)}" if drain.until_s is not None else ""
    yield f"{_PHASES.get(drain.phase, drain.phase)}; begun {formatting.format_ago(drain.since_s, now_s)}{next_at}."
    if drain.waits_for:
        yield f"  waits for {formatting.format_list(drain.waits_for)}"
    for said in drain.refused:
        yield f"  refused: {said}"
    if drain.failure:
        details = f": {'; '.join(drain.details)}" if drain.details else ""
        yield tones.bad(f"  given up: {drain.failure}{details}")


_PHASES = {
    "marking": "Its taint is being set",
    "settling": "Its taint is set; the scheduler is given time to see it",
    "evicting": "Its pods are being evicted",
    "terminating": "Its pods were evicted and are ending",
    "held": "It is empty; an annotation delays its deletion",
    "gathering": "It is empty, and waits for others of its group to be deleted with them",
    "deleting": "Its machine is being deleted",
    "rolling back": "Its removal failed; its marks are being taken off",
}


def _render_dispositions(node: NodeExplanation, tones: TextStyle) -> Iterator[str]:
    if not node.pods and not node.awaited:
        yield "It has no pods."
        return
    heading = "Its pods, if it went:" if node.state is not RemovalState.LEAVING else "Its pods:"
    yield tones.faint(heading)
    rows = [
        (f"  {pod_on_removal.pod}", str(pod_on_removal.fate), _describe_disposition(pod_on_removal))
        for pod_on_removal in node.pods
    ]
    rows += [(f"  {item}", "waits", "there is room for it here, which counts as taken") for item in node.awaited]
    yield from formatting.format_table(("  POD", "FATE", "WHY OR WHERE"), rows, tones)


def _describe_disposition(pod_on_removal: PodOnRemoval) -> str:
    if pod_on_removal.fate is PodDisposition.MOVES:
        return (
            f"to {pod_on_removal.destination}"
            if pod_on_removal.destination
            else pod_on_removal.why or "destination not evaluated"
        )
    return pod_on_removal.why


def render_group(group: GroupExplanation, tones: TextStyle = PLAIN_STYLE) -> Iterator[str]:
    """Everything, most important first."""
    yield f"{tones.strong(f'group {group.id}')}  {_group_headline(group)}"
    yield ""
    yield from _render_group_state(group, tones)
    yield from _render_next(group, tones)
    yield from _render_past(group)
    yield ""
    yield from _render_template(group.template, tones)


def _group_headline(group: GroupExplanation) -> str:
    price = f" · {_format_price(group)} per node" if group.price_per_hour is not None else ""
    whole = " · all or nothing" if group.goes_whole else ""
    return f"{formatting.format_count(group.target_size, 'node')}, {group.min_size} to {group.max_size}{price}{whole}"


def _render_group_state(group: GroupExplanation, tones: TextStyle) -> Iterator[str]:
    state = describe_group_state(group)
    yield (tones.good if state == "healthy" else tones.bad)(f"It is {state}.")
    parts = [f"{group.ready} ready"]
    parts += [f"{group.unready} not ready"] if group.unready else []
    parts += [f"{group.not_started} starting"] if group.not_started else []
    if group.unregistered:
        late = f" ({group.long_unregistered} for too long)" if group.long_unregistered else ""
        parts.append(f"{formatting.format_count(group.unregistered, 'instance')} without a node{late}")
    parts += [f"{group.deleting} on their way out"] if group.deleting else []
    lacking = f"; {group.lacking} should be ready and are not" if group.lacking else ""
    yield f"Nodes: {', '.join(parts)}{lacking}."
    if group.replicas_owner:
        effect = "It is neither raised nor lowered" if group.is_left_alone else "It is scaled in vain"
        yield tones.bad(f"{effect}: {group.replicas_owner}.")
    if group.backoff is not None:
        back = group.backoff
        code = f"{back.code}: {back.message}" if back.message else back.code
        yield f"It failed {formatting.format_ago(back.failed_s, group.at_s)}: {code}."
        yield f"It is left alone {formatting.format_until(back.until_s, group.at_s)}."
    if group.upcoming is not None:
        coming = group.upcoming
        by = (
            f", expected by {formatting.format_clock(coming.expected_by_s)}" if coming.expected_by_s is not None else ""
        )
        yield f"{formatting.format_count(coming.nodes, 'node')} on the way{by}."
    if group.wrong_size_since_s is not None:
        yield f"Its size has been wrong {formatting.format_since(group.wrong_size_since_s, group.at_s)}."
    for error in group.errors:
        yield tones.bad(f"An instance could not be created: {error}")


def describe_group_state(group: GroupExplanation) -> str:
    """In a word or two."""
    if group.is_left_alone:
        return "left alone"
    if group.backoff is not None:
        return "backing off"
    if not group.is_healthy:
        return "unhealthy"
    return "rolling out" if group.is_rolling_out else "healthy"


def _render_next(group: GroupExplanation, tones: TextStyle) -> Iterator[str]:
    if group.grows_to is not None:
        yield tones.note(f"The next loop raises it to {formatting.format_count(group.grows_to, 'node')}.")
    if group.drains:
        yield tones.note(f"The next loop begins to remove {formatting.format_list(group.drains)}.")
    if group.unneeded:
        yield f"Unneeded: {formatting.format_list(group.unneeded)}."


def _render_past(group: GroupExplanation) -> Iterator[str]:
    past = {"grew": group.added_s, "lost a node to scale-down": group.deleted_s, "failed a removal": group.failed_s}
    told = [
        f"{what} {formatting.format_ago(then_s, group.at_s)}" for what, then_s in past.items() if then_s is not None
    ]
    if told:
        yield f"Lately it {', '.join(told)}."


def _render_template(template: TemplateExplanation, tones: TextStyle) -> Iterator[str]:
    if template.source is TemplateSource.NOWHERE:
        yield tones.bad("No node template: the group has no node, and the provider reports no template.")
        return
    example = f" ({template.example})" if template.example else ""
    yield tones.faint(f"Node template, from {template.source}{example}:")
    quantities = formatting.format_quantities(tuple(template.allocatable.items()))
    rows = [
        (f"  {resource}", total, _describe_taken(template, resource), _describe_left(template, resource))
        for resource, total in quantities.items()
    ]
    yield from formatting.format_table(("  RESOURCE", "ALLOCATABLE", "ITS OWN PODS", "FREE"), rows, tones)
    if template.pods:
        yield f"  it starts with {formatting.format_list(template.pods)}"
    for taint in template.taints:
        yield f"  taint {taint}"
    for key, value in sorted(template.labels.items()):
        yield f"  label {key}={value}"


def _describe_taken(template: TemplateExplanation, resource: str) -> str:
    taken = _taken_amount(template, resource)
    return formatting.format_quantity(resource, taken) if taken else ""


def _describe_left(template: TemplateExplanation, resource: str) -> str:
    return formatting.format_quantity(resource, template.allocatable[resource] - _taken_amount(template, resource))


def _taken_amount(template: TemplateExplanation, resource: str) -> int:
    return len(template.pods) if resource == "pods" else template.taken.get(resource, 0)


_MAX_ROWS = 12
"""Lines of a kind before the rest is counted."""


def render_cluster_explanation(
    cluster: ClusterExplanation, tones: TextStyle = PLAIN_STYLE, *, is_wide: bool = False
) -> Iterator[str]:
    """Everything, most important first; `is_wide`: with prices, and without limits of lines."""
    yield _cluster_headline(cluster, tones)
    if cluster.stop:
        yield tones.bad(f"Nothing else is decided: {cluster.stop}.")
    yield from _render_unevaluated(cluster, tones)
    yield ""
    yield from _render_groups(cluster, tones, is_wide=is_wide)
    for id, reason in cluster.held:
        yield tones.bad(f"{id} is left alone: {reason}")
    yield ""
    yield from _render_pending(cluster, tones, is_wide=is_wide)
    yield ""
    yield from _render_nodes(cluster, tones)
    yield ""
    yield from render_steps(cluster, tones)


def render_plan(
    cluster: ClusterExplanation,
    choice_explanations: Sequence[ChoiceExplanation],
    tones: TextStyle = PLAIN_STYLE,
    *,
    is_wide: bool = False,
) -> Iterator[str]:
    """What the next loop would do, and why; then who is not helped."""
    yield _cluster_headline(cluster, tones)
    if cluster.stop:
        yield tones.bad(f"Nothing else is decided: {cluster.stop}.")
    yield from _render_unevaluated(cluster, tones)
    yield ""
    yield from render_steps(cluster, tones)
    for choice in choice_explanations:
        yield ""
        yield from render_pods.render_choice(choice, tones)
    yield ""
    yield from _render_pending(cluster, tones, is_wide=is_wide)


def _render_unevaluated(cluster: ClusterExplanation, tones: TextStyle) -> Iterator[str]:
    for said in cluster.unevaluated:
        yield tones.bad(f"Decided without it: {said}.")


def _cluster_headline(cluster: ClusterExplanation, tones: TextStyle) -> str:
    health = tones.good("healthy") if cluster.is_healthy else tones.bad("unhealthy")
    pods = f"{formatting.format_count(cluster.running, 'pod')} on nodes, {cluster.pending} pending"
    ready = f"{cluster.ready} of {formatting.format_count(cluster.nodes, 'node')} ready"
    return f"{time_formats.format_time(cluster.at_s)}  {health}: {ready}, {pods}"


def _render_groups(cluster: ClusterExplanation, tones: TextStyle, *, is_wide: bool) -> Iterator[str]:
    if not cluster.groups:
        yield tones.note("There is no node group.")
        return
    rows = [
        (
            group.id,
            f"{group.min_size}–{group.max_size}",
            f"{group.target_size}{f' → {group.grows_to}' if group.grows_to is not None else ''}",
            str(group.ready),
            str(group.upcoming.nodes if group.upcoming else 0),
            str(len(group.unneeded)),
            str(group.deleting),
            *([_format_price(group)] if is_wide else []),
            _describe_group_row(group, cluster.at_s),
        )
        for group in cluster.groups
    ]
    prices = ["PER NODE"] if is_wide else []
    yield from formatting.format_table(
        ("GROUP", "BOUNDS", "SIZE", "READY", "COMING", "UNNEEDED", "LEAVING", *prices, "STATE"), rows, tones
    )


def _format_price(group: GroupExplanation) -> str:
    return "" if group.price_per_hour is None else formatting.format_money_per_hour(group.price_per_hour)


def _describe_group_row(group: GroupExplanation, now_s: float) -> str:
    state = describe_group_state(group)
    if group.backoff is not None:
        return f"{state} {formatting.format_until(group.backoff.until_s, now_s)}: {group.backoff.code}"
    return f"{state}: {group.lacking} nodes lack" if group.lacking and state == "unhealthy" else state


def _render_pending(cluster: ClusterExplanation, tones: TextStyle, *, is_wide: bool) -> Iterator[str]:
    if not cluster.waiting:
        yield tones.good("No pod is pending.")
        return
    shown = cluster.waiting if is_wide else cluster.waiting[:_MAX_ROWS]
    rows = [
        (
            pending_pods.pod if pending_pods.count == 1 else f"{pending_pods.pod} and {pending_pods.count - 1} more",
            formatting.format_duration(cluster.at_s - pending_pods.since_s),
            formatting.format_requests(pending_pods.requests),
            _describe_pod_state(pending_pods),
        )
        for pending_pods in shown
    ]
    yield from formatting.format_table(("PENDING", "FOR", "ASKS FOR", "STANDS"), rows, tones)
    if len(cluster.waiting) > len(shown):
        yield f"and {formatting.format_count(sum(group.count for group in cluster.waiting[len(shown) :]), 'pod')} more"


def _describe_pod_state(pending_pods: PendingPods) -> str:
    match pending_pods.state:
        case PodState.HELPED:
            return f"{pending_pods.group} grows for it"
        case PodState.UPCOMING:
            return f"a node of {pending_pods.group} is on its way"
        case PodState.HAS_ROOM:
            return f"there is room on {pending_pods.node}"
        case PodState.PREEMPTING:
            return f"others leave {pending_pods.node} for it"
    return _POD_STATES.get(pending_pods.state, str(pending_pods.state))


_POD_STATES = {
    PodState.NOWHERE: "fits no group",
    PodState.HELD: "fits, but the groups cannot grow",
    PodState.LATER: "waits for a later loop",
    PodState.EXPENDABLE: "expendable: no node is added",
    PodState.DAEMONSET: "a DaemonSet's: no node is added",
    PodState.USES_REQUEST: "uses a ProvisioningRequest's capacity: no node is added",
    PodState.TOO_YOUNG: "too young",
    PodState.GATED: "gated",
    PodState.NOT_JUDGED: "the scheduler has not looked yet",
    PodState.OTHER_SCHEDULER: "another scheduler's",
    PodState.TERMINATING: "terminating",
    PodState.MAX_NODES: "the cluster may have no more nodes",
    PodState.MORE_TO_COME: "more pods are coming: in a moment",
    PodState.LOOP_ENDED: "nothing is decided now",
    PodState.UNEVALUATED: "could not be evaluated: see the log",
}


def _render_nodes(cluster: ClusterExplanation, tones: TextStyle) -> Iterator[str]:
    states = ", ".join(f"{number} {_NODE_STATES[RemovalState(state)]}" for state, number in cluster.node_states.items())
    yield f"Nodes: {states or 'none'}."
    for reason, until_s in cluster.pauses:
        yield tones.note(f"Nothing is removed {reason}, {formatting.format_until(until_s, cluster.at_s)}.")
    for name, drain in list(cluster.drains.items())[:_MAX_ROWS]:
        first, *rest = render_drain(drain, cluster.at_s, tones)
        yield f"  {name}: {first}"
        yield from (f"  {line}" for line in rest)


_NODE_STATES = {
    RemovalState.NOT_AUTOSCALED: "in no group",
    RemovalState.LEAVING: "leaving",
    RemovalState.GOING: "going now",
    RemovalState.UNNEEDED: "unneeded",
    RemovalState.NEEDED: "needed",
    RemovalState.NO_CANDIDATE: "not asked (their group is at its minimum, or they are starting)",
    RemovalState.NOT_TRIED: "not tried yet",
}


def render_steps(cluster: ClusterExplanation, tones: TextStyle = PLAIN_STYLE) -> Iterator[str]:
    """What the next loop would do."""
    if not cluster.steps:
        quiet = f" Unless something changes, not before {formatting.format_clock(cluster.quiet_until_s)}." if (
            cluster.quiet_until_s is not None
        ) else ""  # fmt: skip
        yield f"The next loop does nothing.{quiet}"
        return
    yield tones.faint("The next loop:")
    yield from (f"  {_describe_step(step)}" for step in cluster.steps)


def _describe_step(step: PlanStep) -> str:
    return f"{step.text}: {step.why}" if step.why else step.text
