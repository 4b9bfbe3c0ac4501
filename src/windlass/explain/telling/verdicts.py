"""What groups say to a pod, and what would change their minds, in words."""

from collections.abc import Iterator, Sequence

from windlass.engine import facts
from windlass.engine.scale_up import proposing
from windlass.explain import amounts
from windlass.explain.obstacles import Obstacle, Shortage
from windlass.explain.remedies import Change, Remedy
from windlass.explain.telling import words
from windlass.explain.verdicts import GroupVerdict, Hold


def say_shortage(short: Shortage, starts_with: str) -> str:
    """`cpu: 4 asked, 3900m free on an empty node, after 100m of DaemonSets`."""
    if short.resource == facts.PODS:
        return f"pods: a new node takes {short.allocatable}, and starts with {short.taken}"
    asked = f"{short.resource}: {amounts.shorten(short.resource, short.requested, up=True)} asked"
    if short.allocatable == 0:
        return f"{asked}, its nodes have none"
    after = f", after {amounts.shorten(short.resource, short.taken, up=True)} of {starts_with}" if short.taken else ""
    return f"{asked}, {amounts.shorten(short.resource, short.free)} free on an empty node{after}"


def say_obstacle(obstacle: Obstacle, starts_with: str) -> Iterator[str]:
    """What one filter says, with what decided; each resource that is short on a line of its own."""
    if obstacle.shortages:
        yield from (say_shortage(short, starts_with) for short in obstacle.shortages)
        return
    said = ", ".join(obstacle.reasons)
    yield f"{said}: {obstacle.detail}" if obstacle.detail else said


def say_hold(hold: Hold, verdict: GroupVerdict, now_s: float) -> str:
    """Why a group cannot grow, with the numbers."""
    remedy = hold.remedy
    if remedy is not None and remedy.change is Change.WAIT:
        return f"{hold.reason}, {words.until(remedy.at_s, now_s)}"
    if hold.reason == proposing.Skip.MAX_SIZE:
        grows = "" if verdict.grows_from is None else f", {verdict.grows_from} before the next loop"
        return f"{hold.reason}: {verdict.size} of at most {verdict.max_size} nodes{grows}"
    return hold.reason


def say_verdict(verdict: GroupVerdict, now_s: float) -> Iterator[str]:
    """Why not, one line each; nothing where the group would help."""
    for obstacle in verdict.obstacles:
        yield from say_obstacle(obstacle, verdict.starts_with)
    yield from (f"cannot grow: {say_hold(hold, verdict, now_s)}" for hold in verdict.holds)


def say_remedy(remedy: Remedy, now_s: float) -> str:
    """One change, as something to do."""
    key, amount = remedy.key, remedy.amount
    match remedy.change:
        case Change.REQUEST:
            least = amounts.spell(key, amount)
            return f"request {least} {key} or less" if amount else f"request no {key}"
        case Change.TOLERATION:
            value = f"={remedy.value}" if remedy.value else ""
            return f"tolerate the taint {key}{value}:{remedy.effect}"
        case Change.SELECTOR:
            return f"nodeSelector {key}={remedy.value}" if remedy.value else f"drop {key} from the nodeSelector"
        case Change.NODE_AFFINITY:
            return "drop or widen the required node affinity"
        case Change.NODE_NAME:
            return "drop spec.nodeName"
        case Change.HOST_PORT:
            return f"give up host port {amount}/{key}"
        case Change.MAX_SKEW:
            return f"allow a maxSkew of {amount} over {key}"
        case Change.POD_AFFINITY:
            return f"drop the required pod affinity over {key}"
        case Change.POD_ANTI_AFFINITY:
            return f"drop the required pod anti-affinity over {key}"
        case Change.MAX_SIZE:
            return f"let the group have {amount} nodes"
        case Change.MAX_NODES_TOTAL:
            return f"let the cluster have {words.count(amount, 'node')} (--max-nodes-total)"
        case Change.TOPOLOGY_REPLICAS:
            return remedy.value
        case Change.WAIT:
            return f"wait {words.until(remedy.at_s, now_s)}"


def say_remedies(remedies: Sequence[Remedy], now_s: float) -> str:
    return ", and ".join(say_remedy(remedy, now_s) for remedy in remedies)


def say_condition(verdict: GroupVerdict) -> str:
    """Whose places it hangs on, if on anybody's."""
    if not verdict.counts_on:
        return ""
    first, more = verdict.counts_on[0], len(verdict.counts_on) - 1
    if more:
        return f", provided that {first} and {more} more get the places expected for them"
    return f", provided that {first} gets the place expected for it"
