"""Status: how the cluster and each group stand, as the peer's status ConfigMap tells it.

    Initializing   until the first loop has ended
    Running        health, scale-up and scale-down of the cluster and of each group, each with the time of the last look
                   and the time since when it has been so

Since when is kept from loop to loop (`Since`), and read back from the ConfigMap's text at the start (`status_text`), so
that a restart does not make everything look new.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.autoscaler.act.outcome import Outcome
from windlass.autoscaler.report import words
from windlass.engine import backoff, decide, facts, plan
from windlass.engine.backoff import Backoff
from windlass.engine.readiness import NOBODY, Readiness

MAX_MESSAGE = 500
"""Characters of an error message that are shown: the ConfigMap must stay below 1 MiB."""
TRUNCATED = "<truncated>"

HEALTH, SCALE_UP, SCALE_DOWN = "health", "scaleUp", "scaleDown"
CLUSTER = ""
"""In the place of a group's name."""

Since = Mapping[tuple[str, str], tuple[str, float | None]]
"""By group and part: its status, and since when it has been so; None if nobody looked yet."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One part of the status. `probed_s` is None where nobody has looked yet."""

    status: str
    probed_s: float | None
    since_s: float | None


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One group."""

    name: str
    health: Condition
    nodes: Readiness
    target_size: int
    min_size: int
    max_size: int
    scale_up: Condition
    backoff: Backoff | None
    scale_down: Condition
    candidates: int
    replicas_owner: facts.ReplicasOwner | None = None


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The whole cluster."""

    health: Condition
    nodes: Readiness
    scale_up: Condition
    scale_down: Condition
    candidates: int


@dataclass(frozen=True, slots=True)
class Candidates:
    """Unneeded nodes, as scale-down last found them."""

    probed_s: float | None = None
    by_group: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status:
    """Everything. Without a cluster part, nobody has decided anything yet."""

    at_s: float
    cluster: ClusterStatus | None = None
    groups: tuple[GroupStatus, ...] = ()
    message: str = ""
    since: Since = field(default_factory=dict)
    candidates: Candidates = field(default_factory=Candidates)
    held: tuple[facts.HeldGroup, ...] = ()
    """Groups that are left alone for now, and why."""


def initializing(now_s: float, since: Since | None = None, message: str = "") -> Status:
    """Nothing is known yet, but perhaps since when things were as they were."""
    return Status(now_s, message=message, since=since or {})


def describe(
    groups: tuple[facts.NodeGroup, ...],
    group_of: Mapping[str, facts.NodeGroup],
    decision: decide.Decision,
    outcome: Outcome,
    before: Status,
    now_s: float,
) -> Status:
    """How things stand when a loop has ended. `group_of` is by node name; `before` is what was told last."""
    if message := words.not_actionable(decision.story.repairs.stop):
        return initializing(now_s, before.since, message)
    return _Description(groups, group_of, decision, outcome, before, now_s).make()


class _Description:
    """A status in the making."""

    def __init__(
        self,
        groups: tuple[facts.NodeGroup, ...],
        group_of: Mapping[str, facts.NodeGroup],
        decision: decide.Decision,
        outcome: Outcome,
        before: Status,
        now_s: float,
    ) -> None:
        self._groups, self._group_of, self._story = groups, group_of, decision.story
        self._memory, self._before, self._now_s = decision.memory.durable, before, now_s
        self._sizes = {group: size.target for group, size in decision.story.repairs.sizes.items()}
        self._sizes |= {one.group: one.to_size for one in outcome.done if isinstance(one, plan.Resize)}
        self._since: dict[tuple[str, str], tuple[str, float | None]] = {}
        self._candidates = self._find_candidates()

    def make(self) -> Status:
        groups = tuple(self._describe_group(group) for group in self._groups)
        return Status(self._now_s, self._describe_cluster(groups), groups, "", self._since, self._candidates)

    def _find_candidates(self) -> Candidates:
        if self._story.scale_down.look is None:
            return self._before.candidates
        unneeded = (self._group_of[name].id for name in self._memory.scale_down.since if name in self._group_of)
        return Candidates(self._now_s, Counter(unneeded))

    def _describe_cluster(self, groups: tuple[GroupStatus, ...]) -> ClusterStatus:
        health, total = self._story.health, self._candidates.by_group.values()
        grows = any(group.scale_up.status == "InProgress" for group in groups)
        return ClusterStatus(
            self._note(CLUSTER, HEALTH, _healthy(health.verdict.is_healthy), self._now_s),
            health.total,
            self._note(CLUSTER, SCALE_UP, "InProgress" if grows else "NoActivity", self._now_s),
            self._note(CLUSTER, SCALE_DOWN, _candidates(sum(total)), self._candidates.probed_s),
            sum(total),
        )

    def _describe_group(self, group: facts.NodeGroup) -> GroupStatus:
        found = self._story.health.groups[group.id].readiness
        probed_s = None if found is None else self._now_s
        waiting = backoff.find(self._memory.health.backoffs, group.id, self._now_s)
        is_healthy = group.id not in self._story.unhealthy
        growth = self._judge_growth(group, found or NOBODY, is_healthy, waiting)
        candidates = self._candidates.by_group.get(group.id, 0)
        return GroupStatus(
            group.id,
            self._note(group.id, HEALTH, _healthy(is_healthy), probed_s),
            found or NOBODY,
            self._sizes[group.id],
            group.min_size,
            group.max_size,
            self._note(group.id, SCALE_UP, growth, probed_s),
            waiting if growth == "Backoff" else None,
            self._note(group.id, SCALE_DOWN, _candidates(candidates), self._candidates.probed_s),
            candidates,
            group.replicas_owner,
        )

    def _judge_growth(self, group: facts.NodeGroup, found: Readiness, is_healthy: bool, waiting: Backoff | None) -> str:
        if group.id in self._memory.health.requests.scale_ups and self._sizes[group.id] > found.arrived:
            return "InProgress"
        if not is_healthy:
            return "Unhealthy"
        return "NoActivity" if waiting is None else "Backoff"

    def _note(self, group: str, part: str, status: str, probed_s: float | None) -> Condition:
        """Since when it has been so: as before, or since now."""
        last, since_s = self._before.since.get((group, part), ("", None))
        if status != last or since_s is None:
            since_s = probed_s
        self._since[group, part] = (status, since_s)
        return Condition(status, probed_s, since_s)


def _healthy(is_healthy: bool) -> str:
    return "Healthy" if is_healthy else "Unhealthy"


def _candidates(count: int) -> str:
    return "CandidatesPresent" if count > 0 else "NoCandidates"


def truncate(message: str) -> str:
    """A message short enough to be shown."""
    if len(message) <= MAX_MESSAGE:
        return message
    return message[: MAX_MESSAGE - len(TRUNCATED)] + TRUNCATED
