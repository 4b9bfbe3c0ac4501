"""The whole cluster on one screen, and what the next loop would do."""

from collections.abc import Iterator, Sequence

from windlass.explain.choices import ChoiceAccount
from windlass.explain.cluster import ClusterAccount, Waiting
from windlass.explain.groups import GroupAccount
from windlass.explain.pods import PodState
from windlass.explain.steps import Step
from windlass.explain.telling import groups, nodes, pods, words
from windlass.explain.telling.words import PLAIN, Tones
from windlass.kube import times

_MOST = 12
"""Lines of a kind before the rest is counted."""


def tell(cluster: ClusterAccount, tones: Tones = PLAIN) -> Iterator[str]:
    """Everything, most important first."""
    yield _introduce(cluster, tones)
    if cluster.stop:
        yield tones.bad(f"Nothing else is decided: {cluster.stop}.")
    yield from _tell_unevaluated(cluster, tones)
    yield ""
    yield from _tell_groups(cluster, tones)
    for id, why in cluster.held:
        yield tones.bad(f"{id} is left alone: {why}")
    yield ""
    yield from _tell_waiting(cluster, tones)
    yield ""
    yield from _tell_nodes(cluster, tones)
    yield ""
    yield from tell_steps(cluster, tones)


def tell_plan(cluster: ClusterAccount, chosen: Sequence[ChoiceAccount], tones: Tones = PLAIN) -> Iterator[str]:
    """What the next loop would do, and why; then who is not helped."""
    yield _introduce(cluster, tones)
    if cluster.stop:
        yield tones.bad(f"Nothing else is decided: {cluster.stop}.")
    yield from _tell_unevaluated(cluster, tones)
    yield ""
    yield from tell_steps(cluster, tones)
    for choice in chosen:
        yield ""
        yield from pods.tell_choice(choice, tones)
    yield ""
    yield from _tell_waiting(cluster, tones)


def _tell_unevaluated(cluster: ClusterAccount, tones: Tones) -> Iterator[str]:
    for said in cluster.unevaluated:
        yield tones.bad(f"Decided without it: {said}.")


def _introduce(cluster: ClusterAccount, tones: Tones) -> str:
    health = tones.good("healthy") if cluster.is_healthy else tones.bad("unhealthy")
    pods = f"{words.count(cluster.running, 'pod')} on nodes, {cluster.pending} pending"
    ready = f"{cluster.ready} of {words.count(cluster.nodes, 'node')} ready"
    return f"{times.spell(cluster.at_s)}  {health}: {ready}, {pods}"


def _tell_groups(cluster: ClusterAccount, tones: Tones) -> Iterator[str]:
    if not cluster.groups:
        yield tones.note("There is no node group.")
        return
    rows = [
        (
            one.id,
            f"{one.min_size}–{one.max_size}",
            f"{one.target_size}{f' → {one.grows_to}' if one.grows_to is not None else ''}",
            str(one.ready),
            str(one.upcoming.nodes if one.upcoming else 0),
            str(len(one.unneeded)),
            str(one.deleting),
            _say_state(one, cluster.at_s),
        )
        for one in cluster.groups
    ]
    yield from words.table(("GROUP", "BOUNDS", "SIZE", "READY", "COMING", "UNNEEDED", "LEAVING", "STATE"), rows, tones)


def _say_state(group: GroupAccount, now_s: float) -> str:
    state = groups.say_state(group)
    if group.backoff is not None:
        return f"{state} {words.until(group.backoff.until_s, now_s)}: {group.backoff.code}"
    return f"{state}: {group.lacking} nodes lack" if group.lacking and state == "unhealthy" else state


def _tell_waiting(cluster: ClusterAccount, tones: Tones) -> Iterator[str]:
    if not cluster.waiting:
        yield tones.good("No pod is pending.")
        return
    shown = cluster.waiting[:_MOST]
    rows = [
        (
            one.pod if one.count == 1 else f"{one.pod} and {one.count - 1} more",
            words.lasting(cluster.at_s - one.since_s),
            words.requests(one.requests),
            _say_standing(one),
        )
        for one in shown
    ]
    yield from words.table(("PENDING", "FOR", "ASKS FOR", "STANDS"), rows, tones)
    if len(cluster.waiting) > len(shown):
        yield f"and {words.count(sum(one.count for one in cluster.waiting[_MOST:]), 'pod')} more"


def _say_standing(one: Waiting) -> str:
    match one.state:
        case PodState.HELPED:
            return f"{one.group} grows for it"
        case PodState.UPCOMING:
            return f"a node of {one.group} is on its way"
        case PodState.HAS_ROOM:
            return f"there is room on {one.node}"
        case PodState.PREEMPTING:
            return f"others leave {one.node} for it"
    return _STANDINGS.get(one.state, str(one.state))


_STANDINGS = {
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


def _tell_nodes(cluster: ClusterAccount, tones: Tones) -> Iterator[str]:
    states = ", ".join(f"{number} {_NODES.get(state, state)}" for state, number in cluster.node_states.items())
    yield f"Nodes: {states or 'none'}."
    for why, until_s in cluster.pauses:
        yield tones.note(f"Nothing is removed {why}, {words.until(until_s, cluster.at_s)}.")
    for name, drain in list(cluster.drains.items())[:_MOST]:
        first, *rest = nodes.tell_drain(drain, cluster.at_s, tones)
        yield f"  {name}: {first}"
        yield from (f"  {line}" for line in rest)


_NODES = {
    "NotAutoscaled": "in no group",
    "Leaving": "leaving",
    "GoingNow": "going now",
    "Unneeded": "unneeded",
    "Needed": "needed",
    "NoCandidate": "not asked (their group is at its minimum, or they are starting)",
    "NotTriedYet": "not tried yet",
}


def tell_steps(cluster: ClusterAccount, tones: Tones = PLAIN) -> Iterator[str]:
    """What the next loop would do."""
    if not cluster.steps:
        quiet = f" Unless something changes, not before {words.clock(cluster.quiet_until_s)}." if (
            cluster.quiet_until_s is not None
        ) else ""  # fmt: skip
        yield f"The next loop does nothing.{quiet}"
        return
    yield tones.faint("The next loop:")
    yield from (f"  {_say_step(step)}" for step in cluster.steps)


def _say_step(step: Step) -> str:
    return f"{step.text}: {step.why}" if step.why else step.text
