"""Pod explanation: the state of a pod, the verdict of each group on it, and the scale-up made for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from windlass.engine.loop_state import ScaleUpContext
from windlass.engine.model import arrays, facts, scale_up_status, well_known
from windlass.engine.model.provisioning import consumed_request
from windlass.engine.observation import DecisionPart
from windlass.engine.scale_up import pending_pods
from windlass.explain import explain_context, verdicts
from windlass.explain.decision_view import PodState
from windlass.explain.explain_context import ChoiceExplanation
from windlass.explain.verdicts import GroupVerdict


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """The explanation of one pod."""

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
    choice: ChoiceExplanation | None = None
    """What the expanders chose for it: now, or when the node was asked for that it waits for."""
    chosen_s: float | None = None
    """When; None if it is about to be."""
    complaint: str = ""
    """What of it cannot be read, or does not count as it is written; empty of a pod that is used as it is."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PodStateDetails:
    """The state with what belongs to it."""

    state: PodState
    node: str = ""
    group: str = ""
    until_s: float | None = None
    limit: int | None = None
    why: str = ""


def explain_pod(at: explain_context.ExplainContext, row: int) -> PodExplanation:
    """The pod in this row of the snapshot."""
    pod = at.snapshot.pod(row)
    explanation = PodExplanation(
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
    if row not in at.snapshot.pending():
        group = at.view.group_of.get(pod.node_name)
        return replace(explanation, group=group.id if group else "", why=explain_context.find_fault_of_pod(at, row))
    if reason := explain_context.find_fault_of_pod(at, row):
        return replace(explanation, state=PodState.UNEVALUATED, why=reason)
    with at.scale_up() as context:
        standings = PodStateResolver(at, context)
        judged, standing = verdicts.find_verdicts(at, context, row), standings.find(row, pod)
    number = at.view.helping_round(row)
    if standing is None:
        with at.scale_up_round() as context:
            judged = verdicts.find_verdicts(at, context, row, at.view.new_sizes)
        standing = standings.conclude(judged)
    elif standing.state is PodState.HELPED and number is not None and number > 1:
        with at.scale_up_round(number) as context:
            judged = verdicts.find_verdicts(at, context, row, at.view.new_sizes_after(number - 1))
    proposal = None if number is None else at.decision.story.scale_ups[number - 1]
    past = at.past.get(standing.group) if standing.state is PodState.UPCOMING else None
    return replace(
        explanation,
        state=standing.state,
        node=standing.node,
        group=standing.group,
        until_s=standing.until_s,
        limit=standing.limit,
        why=standing.why,
        alike=_count_equivalent(at, row),
        groups=judged,
        choice=past.choice if past else explain_context.explain_choice(proposal) if proposal else None,
        chosen_s=past.at_s if past else None,
    )


class PodStateResolver:
    """Where pods that wait stand; asked as the loop asks, up to the first answer.

    What the groups say is asked last, of pods that the loop leaves without a node (`conclude`).
    """

    def __init__(self, at: explain_context.ExplainContext, context: ScaleUpContext) -> None:
        self._at, self._context = at, context
        waiting = context.waiting
        self._nominated = frozenset(waiting.nominated).difference(waiting.drained)
        """On nodes that stay: a pod that is nominated for a node being drained needs room elsewhere."""
        self._asking = frozenset((*waiting.unschedulable, *waiting.unprocessed, *waiting.drained))
        self._unschedulable = frozenset(context.unschedulable)
        self._ignored = frozenset(at.decision.story.requests.ignored)

    def find(self, row: int, pod: facts.Pod) -> PodStateDetails | None:
        """Of the pod in this row, which waits; None if the groups are to be asked."""
        if reason := explain_context.find_fault_of_pod(self._at, row):
            return PodStateDetails(PodState.UNEVALUATED, why=reason)
        return (
            self._find_why_not_asked(row, pod)
            or self._find_end()
            or self._find_place(row)
            or self._find_why_not_helped(row, pod)
            or self._find_help(row)
        )

    def _find_why_not_asked(self, row: int, pod: facts.Pod) -> PodStateDetails | None:
        """The explanation of a pod that scale-up does not consider, or not yet; None if it does."""
        pod_settings = self._at.settings.pods
        if pod.is_terminating:
            return PodStateDetails(PodState.TERMINATING)
        if pod_settings.allowed_scheduler_names and pod.scheduler not in pod_settings.allowed_scheduler_names:
            return PodStateDetails(PodState.OTHER_SCHEDULER, why=pod.scheduler)
        if DecisionPart.SCALE_UP in self._at.observation.left_out.parts:
            return PodStateDetails(PodState.LOOP_ENDED, why="scale-up could not be evaluated; see the log")
        if row in self._nominated:
            return PodStateDetails(PodState.PREEMPTING, pod.nominated_node)
        if row not in self._asking:
            message = f" (PodScheduled: {pod.scheduling_reason})" if pod.scheduling_reason else ""
            return PodStateDetails(PodState.GATED if pod.is_gated else PodState.NOT_JUDGED, why=pod.scheduler + message)
        cutoff = pod_settings.expendable_pods_priority_cutoff
        if pending_pods.is_expendable(pod.spec, cutoff):
            return PodStateDetails(PodState.EXPENDABLE, limit=cutoff)
        return None

    def _find_end(self) -> PodStateDetails | None:
        """Did the loop end before it looked at pods? Then it found no place for any."""
        stop = self._at.decision.story.repairs.stop
        return None if stop is None else PodStateDetails(PodState.LOOP_ENDED, why=str(stop))

    def _find_place(self, row: int) -> PodStateDetails | None:
        """Has it a place on a node that exists or is on its way?"""
        snapshot = self._context.snapshot
        home = int(snapshot.pods.node_rows[row])
        if home == arrays.ABSENT:
            return None
        name = snapshot.nodes.names[home]
        group = self._context.groups.upcoming.get(name)
        if group is None:
            return PodStateDetails(PodState.HAS_ROOM, name)
        request = self._at.decision.story.health.memory.requests.scale_ups.get(group)
        return PodStateDetails(PodState.UPCOMING, group=group, until_s=request.expected_by_s if request else None)

    def _find_why_not_helped(self, row: int, pod: facts.Pod) -> PodStateDetails | None:
        """Is it a pod that no node is added for, or not yet?"""
        if well_known.is_daemonset(pod):
            return PodStateDetails(PodState.DAEMONSET)
        if row in self._ignored:
            return PodStateDetails(PodState.USES_REQUEST, why=f"{pod.namespace}/{consumed_request(pod.annotations)}")
        if row not in self._unschedulable:
            delay_s = max(self._at.settings.pods.new_pod_scale_up_delay_s, pod.scale_up_delay_s or 0.0)
            return PodStateDetails(PodState.TOO_YOUNG, until_s=pod.created_s + delay_s)
        return None

    def _find_help(self, row: int) -> PodStateDetails | None:
        """What is done for a pod that needs a new node?"""
        obstacle = self._find_obstacle()
        if obstacle is scale_up_status.ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL:
            return PodStateDetails(PodState.MAX_NODES, limit=self._at.settings.limits.max_nodes_total)
        if obstacle is scale_up_status.ScaleUpResult.IN_COOLDOWN:
            return PodStateDetails(PodState.MORE_TO_COME)
        number = self._at.view.helping_round(row)
        if number is None:
            return None
        proposal = self._at.decision.story.scale_ups[number - 1]
        if proposal.increases and proposal.choice and proposal.choice.winner:
            return PodStateDetails(PodState.HELPED, group=proposal.choice.winner.group)
        return None

    def conclude(self, judged: Sequence[GroupVerdict]) -> PodStateDetails:
        """Of a pod that is not helped, by what the groups say to it after what this loop orders."""
        if any(group_verdict.helps for group_verdict in judged):
            return PodStateDetails(PodState.LATER, why=self._find_whose_turn())
        return PodStateDetails(PodState.HELD if any(verdict.fits for verdict in judged) else PodState.NOWHERE)

    def _find_obstacle(self) -> scale_up_status.ScaleUpResult | None:
        """Why nothing is tried for any pod. Where a ProvisioningRequest is due, it is tried all the same."""
        obstacle = self._context.obstacle
        return None if obstacle is None or self._context.requested else obstacle.proposals[0].result

    def _find_whose_turn(self) -> str:
        """What is served in the place of pending pods; empty if they are."""
        story = self._at.decision.story
        is_their_turn = self._context.requested and not self._at.decision.memory.durable.requests.is_next
        return f"ProvisioningRequest {story.requests.picked} is served in this loop" if is_their_turn else ""


def _count_equivalent(at: explain_context.ExplainContext, row: int) -> int:
    for proposal in at.decision.story.scale_ups:
        for alike in (*proposal.considered, *proposal.remaining):
            if row in alike.rows:
                return len(alike.rows)
    return 1
