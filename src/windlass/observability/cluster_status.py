"""Cluster status: health, scale-up and scale-down of the cluster and of each node group, as in the status ConfigMap."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine.cluster_state import health
from windlass.engine.model import node_groups, plan
from windlass.engine.model.cluster_health import Backoff, Readiness
from windlass.engine.model.plan import PlanResult
from windlass.explain.decision_view import DecisionView, GroupView
from windlass.observability import object_events

MAX_MESSAGE_LENGTH = 500
"""Maximum length of an error message: the ConfigMap must stay below 1 MiB."""
TRUNCATED = "<truncated>"

HEALTH, SCALE_UP, SCALE_DOWN = "health", "scaleUp", "scaleDown"
CLUSTER_SCOPE = ""
"""Key of the cluster in place of a group's id."""

TransitionTimes = Mapping[tuple[str, str], tuple[str, float | None]]
"""Status and transition time by group and condition; None if it was never probed."""


@dataclass(frozen=True, slots=True)
class StatusCondition:
    """One condition of the status. `probed_s`: None before the first probe."""

    status: str
    probed_s: float | None
    since_s: float | None


@dataclass(frozen=True, slots=True)
class NodeGroupStatus:
    """Status of one node group."""

    name: str
    health: StatusCondition
    nodes: Readiness
    target_size: int
    min_size: int
    max_size: int
    scale_up: StatusCondition
    backoff: Backoff | None
    scale_down: StatusCondition
    candidates: int
    replicas_owner: node_groups.ReplicasOwner | None = None


@dataclass(frozen=True, slots=True)
class ClusterWideStatus:
    """Status of the whole cluster."""

    health: StatusCondition
    nodes: Readiness
    scale_up: StatusCondition
    scale_down: StatusCondition
    candidates: int


@dataclass(frozen=True, slots=True)
class ScaleDownCandidates:
    """Unneeded nodes of the last scale-down simulation."""

    probed_s: float | None = None
    by_group: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AutoscalerStatus:
    """The complete status. Without a cluster part before the first decision."""

    at_s: float
    cluster: ClusterWideStatus | None = None
    groups: tuple[NodeGroupStatus, ...] = ()
    message: str = ""
    since: TransitionTimes = field(default_factory=dict)
    candidates: ScaleDownCandidates = field(default_factory=ScaleDownCandidates)
    held: tuple[node_groups.HeldGroup, ...] = ()
    """Groups that are not scaled for now, and why."""


def initial_status(now_s: float, since: TransitionTimes | None = None, message: str = "") -> AutoscalerStatus:
    """Return the status before the first loop, with the transition times of an earlier process."""
    return AutoscalerStatus(now_s, message=message, since=since or {})


def build_cluster_status(
    view: DecisionView, outcome: PlanResult, before: AutoscalerStatus, now_s: float
) -> AutoscalerStatus:
    """Build the status after a loop. `before`: the previous status."""
    if message := object_events.describe_not_actionable(view.record.repairs.stop):
        return initial_status(now_s, before.since, message)
    return _StatusBuilder(view, outcome, before, now_s).build()


class _StatusBuilder:
    """Builder of a status."""

    def __init__(self, view: DecisionView, outcome: PlanResult, before: AutoscalerStatus, now_s: float) -> None:
        self._view, self._before, self._now_s = view, before, now_s
        self._resized = {
            instruction.group: instruction.to_size
            for instruction in outcome.done
            if isinstance(instruction, plan.Resize)
        }
        self._since: dict[tuple[str, str], tuple[str, float | None]] = {}
        self._candidates = before.candidates
        if view.evaluation is not None:
            by_group = {id: len(group.unneeded) for id, group in view.groups.items() if group.unneeded}
            self._candidates = ScaleDownCandidates(now_s, by_group)

    def build(self) -> AutoscalerStatus:
        groups = tuple(self._describe_group(group) for group in self._view.groups.values())
        return AutoscalerStatus(self._now_s, self._describe_cluster(groups), groups, "", self._since, self._candidates)

    def _describe_cluster(self, groups: tuple[NodeGroupStatus, ...]) -> ClusterWideStatus:
        health, candidates = self._view.record.health, sum(self._candidates.by_group.values())
        is_growing = any(group.scale_up.status == "InProgress" for group in groups)
        return ClusterWideStatus(
            self._find_transition_time(CLUSTER_SCOPE, HEALTH, _health_status(health.verdict.is_healthy), self._now_s),
            health.total,
            self._find_transition_time(
                CLUSTER_SCOPE, SCALE_UP, "InProgress" if is_growing else "NoActivity", self._now_s
            ),
            self._find_transition_time(
                CLUSTER_SCOPE, SCALE_DOWN, _scale_down_status(candidates), self._candidates.probed_s
            ),
            candidates,
        )

    def _describe_group(self, view: GroupView) -> NodeGroupStatus:
        group, readiness = view.group, view.readiness
        is_probed = view.health is not None and view.health.readiness is not None
        probed_s = self._now_s if is_probed else None
        target_size = self._resized.get(group.id, view.target_size)
        backoff = health.find_backoff(self._view.decision.memory.durable.health.backoffs, group.id, self._now_s)
        scale_up = self._scale_up_status(view, target_size, backoff)
        candidates = self._candidates.by_group.get(group.id, 0)
        return NodeGroupStatus(
            group.id,
            self._find_transition_time(group.id, HEALTH, _health_status(view.is_healthy), probed_s),
            readiness,
            target_size,
            group.min_size,
            group.max_size,
            self._find_transition_time(group.id, SCALE_UP, scale_up, probed_s),
            backoff if scale_up == "Backoff" else None,
            self._find_transition_time(group.id, SCALE_DOWN, _scale_down_status(candidates), self._candidates.probed_s),
            candidates,
            group.replicas_owner,
        )

    def _scale_up_status(self, view: GroupView, target_size: int, backoff: Backoff | None) -> str:
        requests = self._view.decision.memory.durable.health.requests.scale_ups
        if view.group.id in requests and target_size > view.readiness.arrived:
            return "InProgress"
        if not view.is_healthy:
            return "Unhealthy"
        return "NoActivity" if backoff is None else "Backoff"

    def _find_transition_time(self, group: str, part: str, status: str, probed_s: float | None) -> StatusCondition:
        """Return the transition time of a condition: the previous one, or now if its status changed."""
        last, since_s = self._before.since.get((group, part), ("", None))
        if status != last or since_s is None:
            since_s = probed_s
        self._since[group, part] = (status, since_s)
        return StatusCondition(status, probed_s, since_s)


def _health_status(is_healthy: bool) -> str:
    return "Healthy" if is_healthy else "Unhealthy"


def _scale_down_status(count: int) -> str:
    return "CandidatesPresent" if count > 0 else "NoCandidates"


def truncate_message(message: str) -> str:
    """Truncate a message to the maximum length."""
    if len(message) <= MAX_MESSAGE_LENGTH:
        return message
    return message[: MAX_MESSAGE_LENGTH - len(TRUNCATED)] + TRUNCATED
