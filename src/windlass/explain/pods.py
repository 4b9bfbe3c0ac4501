"""Pods: where one stands, what each group says to it, and what is done for it."""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from windlass.engine import dtypes, facts, pod_traits
from windlass.engine.scale_up import pending, proposing
from windlass.explain import choices, look, unevaluated, verdicts
from windlass.explain.choices import ChoiceAccount
from windlass.explain.verdicts import GroupVerdict


class PodState(enum.StrEnum):
    """Where a pod stands."""

    SCHEDULED = "Scheduled"
    """It is on `node`."""
    TERMINATING = "Terminating"
    GATED = "Gated"
    """Scheduling gates keep the scheduler from looking at it."""
    OTHER_SCHEDULER = "OtherScheduler"
    """Its scheduler is none of --allowed-scheduler-names."""
    NOT_JUDGED = "NotJudged"
    """The scheduler has not said yet that it fits nowhere."""
    PREEMPTING = "Preempting"
    """Others are preempted for it on `node`."""
    EXPENDABLE = "Expendable"
    """Its priority is below `limit`: it is worth no node."""
    HAS_ROOM = "HasRoom"
    """There is room for it on `node`; the scheduler is to bind it."""
    UPCOMING = "WaitsForUpcomingNode"
    """There will be room for it on a node of `group` that is on its way, by `until_s`."""
    DAEMONSET = "DaemonSetPod"
    """Pods of DaemonSets belong to nodes that are there: none is added for them."""
    TOO_YOUNG = "TooYoung"
    """It has not waited long enough; it has at `until_s`."""
    LOOP_ENDED = "LoopEnded"
    """Nothing is scaled up now: `why`."""
    MAX_NODES = "MaxNodesTotalReached"
    """The cluster has as many nodes as --max-nodes-total, `limit`, allows."""
    MORE_TO_COME = "MorePodsLikely"
    """Others came just now, and more may: one scale-up should serve them all."""
    HELPED = "Helped"
    """`group` grows for it."""
    LATER = "Later"
    """Some group could help, but not in this loop."""
    HELD = "GroupsHeld"
    """Groups that would take it cannot grow now."""
    NOWHERE = "NoGroupFits"
    """No group's node would take it."""
    UNEVALUATED = "NotEvaluated"
    """Evaluating it raises an error that nothing foresaw: `why`."""


@dataclass(frozen=True, slots=True)
class PodAccount:
    """All that is to be told of a pod."""

    namespace: str
    name: str
    at_s: float
    state: PodState
    created_s: float
    requests: Mapping[str, int]
    """In each resource's own unit: millicores, bytes, pieces."""
    owner: str = ""
    """Kind and name of its controller."""
    priority: int | None = None
    unschedulable_since_s: float | None = None
    node: str = ""
    group: str = ""
    until_s: float | None = None
    limit: int | None = None
    why: str = ""
    alike: int = 1
    """Pending pods that are treated alike, this one included."""
    groups: tuple[GroupVerdict, ...] = ()
    choice: ChoiceAccount | None = None
    """What the expanders chose for it: now, or when the node was asked for that it waits for."""
    chosen_s: float | None = None
    """When; None if it is about to be."""
    complaint: str = ""
    """What of it cannot be read, or does not count as it is written; empty of a pod that is used as it is."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class _Standing:
    """The state with what belongs to it."""

    state: PodState
    node: str = ""
    group: str = ""
    until_s: float | None = None
    limit: int | None = None
    why: str = ""


def describe(at: look.Look, row: int) -> PodAccount:
    """The pod in this row of the snapshot."""
    pod = at.snapshot.pod(row)
    told = PodAccount(
        pod.namespace,
        pod.name,
        at.now_s,
        PodState.SCHEDULED,
        pod.created_s,
        dict(pod.spec.requests),
        f"{pod.owner.kind} {pod.owner.name}" if pod.owner else "",
        pod.spec.priority,
        pod.unschedulable_since_s,
        pod.node_name,
    )
    if row not in at.snapshot.waiting():
        group = at.seen.group_of_nodes().get(pod.node_name)
        return replace(told, group=group.id if group else "", why=unevaluated.find_of_pod(at, row))
    if why := unevaluated.find_of_pod(at, row):
        return replace(told, state=PodState.UNEVALUATED, why=why)
    with at.scene() as scene:
        judged = verdicts.judge(at, scene, row)
        standing = find_standing(at, scene, row, pod, lambda: judged)
    proposal = find_proposal(at, row)
    past = at.past.get(standing.group) if standing.state is PodState.UPCOMING else None
    return replace(
        told,
        state=standing.state,
        node=standing.node,
        group=standing.group,
        until_s=standing.until_s,
        limit=standing.limit,
        why=standing.why,
        alike=_count_alike(at, row),
        groups=judged,
        choice=past.choice if past else choices.describe(proposal) if proposal else None,
        chosen_s=past.at_s if past else None,
    )


def find_standing(
    at: look.Look, scene: look.Scene, row: int, pod: facts.Pod, judge: Callable[[], Sequence[GroupVerdict]]
) -> _Standing:
    """Where a pod that waits stands; asked as the loop asks, up to the first answer. The groups are asked last."""
    if why := unevaluated.find_of_pod(at, row):
        return _Standing(PodState.UNEVALUATED, why=why)
    return _find_why_not_asked(at, scene, row, pod) or _find_place(at, scene, row, pod) or _find_help(at, row, judge)


def _find_why_not_asked(at: look.Look, scene: look.Scene, row: int, pod: facts.Pod) -> _Standing | None:
    """Is the pod nobody's business, or not yet?"""
    chosen = at.settings.pods
    if pod.is_terminating:
        return _Standing(PodState.TERMINATING)
    if chosen.allowed_scheduler_names and pod.scheduler not in chosen.allowed_scheduler_names:
        return _Standing(PodState.OTHER_SCHEDULER, why=pod.scheduler)
    if row in scene.waiting.nominated:
        return _Standing(PodState.PREEMPTING, pod.nominated_node)
    if row not in scene.waiting.unschedulable and row not in scene.waiting.unprocessed:
        return _Standing(PodState.GATED if pod.is_gated else PodState.NOT_JUDGED, why=pod.scheduler)
    cutoff = chosen.expendable_pods_priority_cutoff
    if pending.is_expendable(pod.spec, cutoff):
        return _Standing(PodState.EXPENDABLE, limit=cutoff)
    return None


def _find_place(at: look.Look, scene: look.Scene, row: int, pod: facts.Pod) -> _Standing | None:
    """Has it a place, or none that a new node would change?"""
    home = int(scene.snapshot.pods.node_rows[row])
    if home != dtypes.ABSENT:
        name = scene.snapshot.nodes.names[home]
        group = scene.groups.upcoming.get(name)
        if group is None:
            return _Standing(PodState.HAS_ROOM, name)
        request = at.decision.story.health.memory.requests.scale_ups.get(group)
        return _Standing(PodState.UPCOMING, group=group, until_s=request.expected_by_s if request else None)
    if pod_traits.is_daemonset(pod):
        return _Standing(PodState.DAEMONSET)
    if row not in scene.helpless:
        delay_s = max(at.settings.pods.new_pod_scale_up_delay_s, pod.scale_up_delay_s or 0.0)
        return _Standing(PodState.TOO_YOUNG, until_s=pod.created_s + delay_s)
    return None


def _find_help(at: look.Look, row: int, judge: Callable[[], Sequence[GroupVerdict]]) -> _Standing:
    """What is done for a pod that needs a new node?"""
    story = at.decision.story
    if story.repairs.stop is not None:
        return _Standing(PodState.LOOP_ENDED, why=str(story.repairs.stop))
    results = {proposal.result for proposal in story.scale_ups}
    if proposing.Result.LIMITED_BY_MAX_NODES_TOTAL in results:
        return _Standing(PodState.MAX_NODES, limit=at.settings.limits.max_nodes_total)
    if proposing.Result.IN_COOLDOWN in results:
        return _Standing(PodState.MORE_TO_COME)
    proposal = find_proposal(at, row)
    if proposal is not None and proposal.increases and proposal.choice and proposal.choice.winner:
        return _Standing(PodState.HELPED, group=proposal.choice.winner.group)
    judged = judge()
    if any(one.helps for one in judged):
        return _Standing(PodState.LATER)
    return _Standing(PodState.HELD if any(one.fits for one in judged) else PodState.NOWHERE)


def find_proposal(at: look.Look, row: int) -> proposing.Proposal | None:
    """The round that helps the pod; None if none does."""
    return next((one for one in at.decision.story.scale_ups if row in one.helped), None)


def _count_alike(at: look.Look, row: int) -> int:
    for proposal in at.decision.story.scale_ups:
        for alike in (*proposal.considered, *proposal.remaining):
            if row in alike.rows:
                return len(alike.rows)
    return 1
