"""A pod, for people."""

from collections.abc import Callable, Iterator, Mapping

from windlass.explain.choices import ChoiceAccount
from windlass.explain.pods import PodAccount, PodState
from windlass.explain.telling import verdicts, words
from windlass.explain.telling.words import PLAIN, Tones
from windlass.explain.verdicts import GroupVerdict

_SETTLED = (PodState.SCHEDULED, PodState.TERMINATING)
_BAD = (PodState.NOWHERE, PodState.HELD, PodState.LOOP_ENDED, PodState.UNEVALUATED)


def tell(pod: PodAccount, tones: Tones = PLAIN) -> Iterator[str]:
    """Everything, most important first."""
    yield f"{tones.strong(f'pod {pod.key}')}  {_introduce(pod)}"
    yield ""
    yield _tone(pod, tones)(_conclude(pod))
    if pod.complaint:
        yield tones.note(f"It is not used as it is: {pod.complaint}.")
    if pod.choice is not None:
        yield ""
        if pod.chosen_s is not None:
            yield f"It was asked for {words.ago(pod.chosen_s, pod.at_s)}."
        yield from tell_choice(pod.choice, tones)
    if pod.groups and pod.state not in _SETTLED:
        yield ""
        yield from _tell_groups(pod, tones)
        yield from _tell_remedies(pod, tones)


def _introduce(pod: PodAccount) -> str:
    parts = [f"asks for {words.requests(pod.requests)}"]
    if pod.owner:
        alike = f", one of {pod.alike} alike" if pod.alike > 1 else ""
        parts.append(f"{pod.owner}{alike}")
    if pod.priority:
        parts.append(f"priority {pod.priority}")
    if pod.state not in _SETTLED:
        parts.append(f"waiting for {words.lasting(pod.at_s - pod.created_s)}")
    return " · ".join(parts)


def _tone(pod: PodAccount, tones: Tones) -> "_Tone":
    if pod.state in (PodState.SCHEDULED, PodState.HAS_ROOM, PodState.HELPED, PodState.UPCOMING):
        return tones.good
    return tones.bad if pod.state in _BAD else tones.note


def _conclude(pod: PodAccount) -> str:
    """Where it stands, as one sentence."""
    return _SENTENCES[pod.state](pod)


def _say_scheduled(pod: PodAccount) -> str:
    if not pod.node:
        return "It is bound to a node that is not known here."
    kept = f" The node is kept: {pod.why}." if pod.why else ""
    group = f", a node of {pod.group}" if pod.group else ", a node of no group"
    return f"It is scheduled: it is on {pod.node}{group}.{kept}"


def _say_upcoming(pod: PodAccount) -> str:
    by = f" by {words.clock(pod.until_s)}, or it counts as failed" if pod.until_s is not None else ""
    return f"A node of {pod.group} that is on its way has room for it. It is expected{by}."


def _say_young(pod: PodAccount) -> str:
    when = words.until(pod.until_s, pod.at_s) if pod.until_s is not None else ""
    return f"It is too young to have a node added for it, {when} (--new-pod-scale-up-delay or its own annotation)."


def _say_helped(pod: PodAccount) -> str:
    sizes = pod.choice.sizes if pod.choice else {}
    grown = ", ".join(f"{group} {before} → {words.count(after, 'node')}" for group, (before, after) in sizes.items())
    return f"The next loop helps it: {grown}.{_say_cut(pod)}"


def _say_cut(pod: PodAccount) -> str:
    """That limits cut what the chosen group would need for its pods, where they do."""
    if pod.choice is None:
        return ""
    wanted = next((one.nodes for one in pod.choice.options if one.group == pod.choice.winner), 0)
    added = sum(after - before for before, after in pod.choice.sizes.values())
    largest = {one.group: one.max_size for one in pod.groups}
    is_full = any(after >= largest.get(group, 0) for group, (_, after) in pod.choice.sizes.items())
    if is_full or added >= wanted:
        return ""
    pods = next(one.pods for one in pod.choice.options if one.group == pod.choice.winner)
    return f" {words.count(pods, 'pod')} would need {words.count(wanted, 'node')}, and limits allow {added}: some wait."


def _say_later(pod: PodAccount) -> str:
    if pod.why:
        return f"A group would take it and may grow, but {pod.why}: its turn is next."
    return "A group would take it and may grow, but what it can give now goes to other pods."


def _say_nowhere(pod: PodAccount) -> str:
    if not pod.groups:
        return "There is no group that could grow for it."
    return "No group's new node would take it as it is." if len(pod.groups) > 1 else "A new node would not take it."


_Tone = Callable[[str], str]
_SENTENCES: Mapping[PodState, Callable[[PodAccount], str]] = {
    PodState.SCHEDULED: _say_scheduled,
    PodState.TERMINATING: lambda _: "It is being deleted: nothing is done for it.",
    PodState.GATED: lambda _: "Its scheduling gates keep the scheduler from looking at it: nothing is done for it yet.",
    PodState.OTHER_SCHEDULER: lambda pod: (
        f"Its scheduler, {pod.why}, is not one of --allowed-scheduler-names: nothing is done for it."
    ),
    PodState.NOT_JUDGED: lambda pod: (
        f"Its scheduler, {pod.why}, has not said yet that it fits nowhere: nothing is done for it yet."
    ),
    PodState.PREEMPTING: lambda pod: f"It waits for pods of lower priority to leave {pod.node}, which it is promised.",
    PodState.EXPENDABLE: lambda pod: (
        f"Its priority, {pod.priority}, is below {pod.limit} (--expendable-pods-priority-cutoff): "
        "it may use what is free, but no node is added for it."
    ),
    PodState.HAS_ROOM: lambda pod: f"There is room for it on {pod.node}: the scheduler should bind it.",
    PodState.UPCOMING: _say_upcoming,
    PodState.DAEMONSET: lambda _: "It belongs to a DaemonSet: it needs its own node, and no other one is added for it.",
    PodState.USES_REQUEST: lambda pod: (
        f"It uses the capacity of ProvisioningRequest {pod.why}: nodes are added for that, not for the pod."
    ),
    PodState.TOO_YOUNG: _say_young,
    PodState.LOOP_ENDED: lambda pod: f"Nothing is scaled up now: {pod.why}.",
    PodState.MAX_NODES: lambda pod: f"The cluster has as many nodes as it may have: {pod.limit} (--max-nodes-total).",
    PodState.MORE_TO_COME: lambda _: "Pods came just now and more may: the next loop or so serves them together.",
    PodState.HELPED: _say_helped,
    PodState.LATER: _say_later,
    PodState.HELD: lambda _: "A new node would take it, but no group that has such nodes can grow now.",
    PodState.NOWHERE: _say_nowhere,
    PodState.UNEVALUATED: lambda pod: f"Nothing is done for it: {pod.why}.",
}


def _tell_groups(pod: PodAccount, tones: Tones) -> Iterator[str]:
    yield tones.faint("What each group's new, empty node says:")
    width = words.widest(verdict.group for verdict in pod.groups)
    for verdict in pod.groups:
        mark = _mark(verdict)
        head = f"  {verdict.group:{width}}  {(tones.good if verdict.helps else tones.bad)(f'{mark:13}')}  "
        blank = " " * (width + 19)
        lines = list(verdicts.say_verdict(verdict, pod.at_s)) or [_say_free(verdict)]
        lines += [verdict.replicas_owner] if verdict.replicas_owner else []
        for line in lines:
            yield (head + line).rstrip()
            head = blank


def _mark(verdict: GroupVerdict) -> str:
    if verdict.fits:
        return "takes it" if verdict.may_grow else "would take it"
    return "refuses it" if verdict.obstacles else "unknown"


def _say_free(verdict: GroupVerdict) -> str:
    free = words.requests(verdict.free)
    return f"{free} free on an empty node, {verdict.size} of at most {verdict.max_size} nodes"


def _tell_remedies(pod: PodAccount, tones: Tones) -> Iterator[str]:
    if pod.state in (PodState.HELPED, PodState.UPCOMING, PodState.HAS_ROOM) or any(one.helps for one in pod.groups):
        return
    curable = [one for one in pod.groups if one.is_curable and one.remedies]
    yield ""
    if not curable:
        yield tones.note("No single change of the pod or of a group's size is known that would make it fit.")
        return
    yield tones.faint("What would make it fit (any one line):")
    width = words.widest(one.group for one in curable)
    for one in sorted(curable, key=lambda one: len(one.remedies)):
        yield f"  {one.group:{width}}  {verdicts.say_remedies(one.remedies, pod.at_s)}{verdicts.say_condition(one)}"


def tell_choice(choice: ChoiceAccount, tones: Tones) -> Iterator[str]:
    """What the expanders chose between, and who decided."""
    decided = choice.steps[-1].expander if choice.steps else ""
    if choice.opinion:
        yield f"{choice.opinion[0].upper()}{choice.opinion[1:]}."
    if len(choice.options) == 1:
        yield f"{choice.winner} is the only group that can help."
        return
    yield tones.faint(f"Chosen of {words.count(len(choice.options), 'option')}, decided by {decided}:")
    rows = [
        (
            f"  {one.group}",
            str(one.nodes),
            str(one.pods),
            f"{one.waste:.3f}",
            "" if one.price_per_hour is None else f"{one.price_per_hour:g}",
            _say_course(choice, one.group),
        )
        for one in choice.options
    ]
    yield from words.table(("  GROUP", "NODES", "PODS", "WASTE", "PRICE/H", ""), rows, tones)


def _say_course(choice: ChoiceAccount, group: str) -> str:
    if group == choice.winner:
        return "chosen"
    for step in choice.steps:
        if group not in step.kept:
            return f"dropped by {step.expander}"
    return ""
