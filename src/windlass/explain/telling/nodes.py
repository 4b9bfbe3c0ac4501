"""A node, for people."""

from collections.abc import Iterator

from windlass.engine import facts
from windlass.engine.scale_down.removal import Unremovable
from windlass.explain.drains import DrainAccount
from windlass.explain.fates import Fate, Homeless, PodFate
from windlass.explain.nodes import NodeAccount, NodeState, Usage
from windlass.explain.telling import words
from windlass.explain.telling.words import PLAIN, Tones

_TITLES = {
    NodeState.NOT_AUTOSCALED: "It stays",
    NodeState.NEEDED: "It stays",
    NodeState.NO_CANDIDATE: "It stays",
    NodeState.NOT_TRIED: "It stays for now",
    NodeState.UNNEEDED: "It is unneeded",
    NodeState.GOING: "It goes",
}


def tell(node: NodeAccount, tones: Tones = PLAIN) -> Iterator[str]:
    """Everything, most important first."""
    yield f"{tones.strong(f'node {node.name}')}  {_introduce(node)}"
    yield ""
    yield from _conclude(node, tones)
    if node.complaint:
        yield tones.note(f"It is not used as it is: {node.complaint}.")
    if node.usage is not None and node.reason != Unremovable.NOT_UNDERUTILIZED:
        yield _say_usage(node.usage)
    if node.homeless is not None:
        yield from tell_homeless(node.homeless)
    if node.drain is not None:
        yield from tell_drain(node.drain, node.at_s, tones)
    yield ""
    yield from _tell_pods(node, tones)


def _introduce(node: NodeAccount) -> str:
    group = (
        f"group {node.group}, {words.count(node.size, 'node')}, at least {node.min_size}"
        if node.group
        else "in no group"
    )
    ready = "ready" if node.is_ready else "not ready"
    return f"{group} · {ready} · {words.lasting(node.at_s - node.created_s)} old"


def _conclude(node: NodeAccount, tones: Tones) -> Iterator[str]:
    tone = tones.note if node.state in (NodeState.UNNEEDED, NodeState.GOING, NodeState.LEAVING) else tones.good
    reason = f" ({node.reason})" if node.reason else ""
    if node.state is NodeState.UNNEEDED and node.since_s is not None:
        yield tone(f"It is unneeded {words.since(node.since_s, node.at_s)}.")
        yield f"It {node.why}{reason}{_say_until(node)}."
    elif node.state is NodeState.LEAVING:
        yield tone("It is on its way out.")
    else:
        yield f"{tone(_TITLES[node.state])}: {_say_why(node)}{reason}{_say_until(node)}."


def _say_why(node: NodeAccount) -> str:
    used = node.usage
    if used is None or node.reason != Unremovable.NOT_UNDERUTILIZED:
        return f"it {node.why}"
    other = facts.MEMORY if used.resource == facts.CPU else facts.CPU
    less = f" ({other} {words.share(min(used.cpu, used.memory))})" if used.resource in (facts.CPU, facts.MEMORY) else ""
    return (
        f"its pods ask for {words.share(used.share)} of its {used.resource}{less}, "
        f"and it may go at {words.share(used.threshold)} or less"
    )


def _say_until(node: NodeAccount) -> str:
    return f", {words.until(node.until_s, node.at_s)}" if node.until_s is not None else ""


def _say_usage(used: Usage) -> str:
    shares = f"cpu {words.share(used.cpu)}, memory {words.share(used.memory)}"
    if used.resource not in (facts.CPU, facts.MEMORY):
        shares = f"{used.resource} {words.share(used.gpu)}"
    return f"Of what it has, its pods ask for {shares}; it may go up to {words.share(used.threshold)}."


def tell_homeless(homeless: Homeless) -> Iterator[str]:
    """Why a pod finds no place elsewhere."""
    yield f"{homeless.pod} finds no place on the {words.count(homeless.nodes, 'other node')}:"
    for reason, number in homeless.reasons:
        yield f"  {number} {reason}"
    if homeless.alone_on:
        taken = "it would fit there alone, but what else must move, or waits for room, takes it"
        yield f"  {len(homeless.alone_on)} {taken} ({words.list_up(homeless.alone_on, 3)})"


def tell_drain(drain: DrainAccount, now_s: float, tones: Tones) -> Iterator[str]:
    """How far it is on its way out."""
    next_at = f"; looked at again by {words.clock(drain.until_s)}" if drain.until_s is not None else ""
    yield f"{_PHASES.get(drain.phase, drain.phase)}; begun {words.ago(drain.since_s, now_s)}{next_at}."
    if drain.waits_for:
        yield f"  waits for {words.list_up(drain.waits_for)}"
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


def _tell_pods(node: NodeAccount, tones: Tones) -> Iterator[str]:
    if not node.pods and not node.awaited:
        yield "It has no pods."
        return
    heading = "Its pods, if it went:" if node.state is not NodeState.LEAVING else "Its pods:"
    yield tones.faint(heading)
    rows = [(f"  {one.pod}", str(one.fate), _say_fate(one)) for one in node.pods]
    rows += [(f"  {one}", "waits", "there is room for it here, which counts as taken") for one in node.awaited]
    yield from words.table(("  POD", "FATE", "WHY OR WHERE"), rows, tones)


def _say_fate(one: PodFate) -> str:
    if one.fate is Fate.MOVES:
        return f"to {one.destination}" if one.destination else one.why or "nobody looked where to"
    return one.why
