"""Scale-up as values: node templates, quotas, expansion options, expander choice, proposals and rejected reasons."""

import enum
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from windlass.engine.model import facts
from windlass.selectors import EVERYTHING, LabelSelector


@dataclass(frozen=True, slots=True)
class SchedulablePods:
    """Equivalent pods that an option schedules: one of them, and their number."""

    pod: facts.Pod
    count: int = 1


@dataclass(frozen=True, slots=True)
class ExpansionOption:
    """One way to schedule pending pods: new nodes of one group."""

    group: str
    """Id of the node group that would grow."""
    template: facts.Node
    """The template of a new node of the group."""
    node_count: int
    pods: tuple[SchedulablePods, ...] = ()
    similar_groups: tuple[str, ...] = ()
    """Ids of the groups that the new nodes may be shared with."""
    exists: bool = True
    """False for a group that would have to be created first."""
    debug: str = ""
    """Description of the group for logs and external expanders."""

    @property
    def pod_count(self) -> int:
        return sum(pods.count for pods in self.pods)


def format_reasons(counts: Counter[str]) -> str:
    """`2 reason, 1 other`: most common first. Cluster Autoscaler's order is that of a Go map, so it is not fixed."""
    ordered = sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))
    return ", ".join(f"{count} {reason}" for reason, count in ordered)


Candidate = TypeVar("Candidate")


@dataclass(frozen=True, slots=True)
class OptionKey:
    """The identity of an option: group, number of nodes, and the pods it schedules."""

    group: str
    nodes: int
    pods: tuple[tuple[str, int], ...] = ()
    """The first pod of each kind, as namespace/name, and how many there are."""


class ResponseEffect(enum.StrEnum):
    """The effect of a response on the options."""

    FOLLOWED = "followed"
    NONE_WANTED = "none wanted"
    NO_OPTION = "no option"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BestOptionsResponse:
    """The external expander's response for these options, or why there is none."""

    about: tuple[OptionKey, ...]
    groups: tuple[str, ...] = ()
    """Ids as the server named them, in its order; not all need be options."""
    failure: str = ""

    @property
    def unknown_groups(self) -> tuple[str, ...]:
        """Groups in the response that are not among the options, each once."""
        asked = {offer.group for offer in self.about}
        return tuple(dict.fromkeys(group for group in self.groups if group not in asked))

    @property
    def effect(self) -> ResponseEffect:
        if self.failure:
            return ResponseEffect.FAILED
        if not self.groups:
            return ResponseEffect.NONE_WANTED
        asked = {offer.group for offer in self.about}
        return ResponseEffect.NO_OPTION if asked.isdisjoint(self.groups) else ResponseEffect.FOLLOWED


@dataclass(frozen=True, slots=True)
class ExpanderChoice(Generic[Candidate]):
    """The chosen option, and the options that each applied strategy kept."""

    winner: Candidate | None
    steps: tuple[tuple[str, tuple[Candidate, ...]], ...]
    options: tuple[Candidate, ...] = ()
    opinion: BestOptionsResponse | None = None
    """The external expander's response, if the chain reached it."""

    def options_given_to(self, name: str) -> tuple[Candidate, ...] | None:
        """The options given to a strategy; None if the chain did not reach it."""
        before = self.options
        for asked, kept in self.steps:
            if asked == name:
                return before
            before = kept
        return None


@dataclass(frozen=True, slots=True)
class GroupTemplate:
    """A new node of a group, and the DaemonSet and mirror pods that it would start with."""

    node: facts.Node
    pods: tuple[facts.Pod, ...] = ()


class ScaleUpResult(enum.StrEnum):
    """The result of scale-up in a loop, by Cluster Autoscaler's names."""

    SUCCESSFUL = "ScaleUpSuccessful"
    ERROR = "ScaleUpError"
    NO_OPTIONS = "ScaleUpNoOptionsAvailable"
    NOT_NEEDED = "ScaleUpNotNeeded"
    NOT_TRIED = "ScaleUpNotTried"
    IN_COOLDOWN = "ScaleUpInCooldown"
    LIMITED_BY_MAX_NODES_TOTAL = "ScaleUpLimitedByMaxNodesTotal"


class SkipReason(enum.StrEnum):
    """Why a group is skipped in scale-up."""

    BACKOFF = "in backoff after failed scale-up"
    MAX_SIZE = "max node group size reached"
    NOT_READY = "not ready for scale-up"
    REPLICAS_OWNED = "replicas set in the Cluster topology"
    REPLICAS_MANAGED = "replicas set by the infrastructure provider"
    ATOMIC_TOO_LARGE = "atomic scale-up exceeds cluster node count limit"


@dataclass(slots=True)
class PodEquivalenceGroup:
    """A pod equivalence group: pending pods with the same scheduling properties, and each group's verdict."""

    shape: facts.PodShape
    rows: tuple[int, ...]
    """Of the snapshot."""
    pod: facts.Pod
    """One of them."""
    rejected: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Reasons by group."""
    accepted: list[str] = field(default_factory=list)
    """Groups whose template fits such a pod."""


@dataclass(frozen=True, slots=True)
class SizedGroup:
    """A group's target size and how large it may become."""

    id: str
    size: int
    max_size: int


@dataclass(frozen=True, slots=True)
class GroupIncrease:
    """A group that grows."""

    group: SizedGroup
    new_size: int

    @property
    def added(self) -> int:
        return self.new_size - self.group.size


@dataclass(frozen=True, slots=True)
class ScaleUpProposal:
    """The scale-up of one round: increases, the pods they schedule, and reasons for the others."""

    result: ScaleUpResult
    increases: tuple[GroupIncrease, ...] = ()
    helped: tuple[int, ...] = ()
    """Rows of the pods that the increases schedule."""
    remaining: tuple[PodEquivalenceGroup, ...] = ()
    """Pods that no group accepts."""
    awaiting: tuple[int, ...] = ()
    """Rows of pods that another group could schedule in a later loop."""
    skipped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    considered: tuple[PodEquivalenceGroup, ...] = ()
    """All pods of the round."""
    choice: ExpanderChoice[ExpansionOption] | None = None

    def skipped_for(self, alike: PodEquivalenceGroup) -> Mapping[str, tuple[str, ...]]:
        """The skipped groups that are not known to reject these pods, and why they were skipped."""
        return {group: reasons for group, reasons in self.skipped.items() if group not in alike.rejected}


def count_rejected_reasons(proposal: ScaleUpProposal, alike: PodEquivalenceGroup, existing: Collection[str]) -> str:
    """`2 Insufficient cpu, 1 max node group size reached`: of these groups, the most common first."""
    by_group = (*alike.rejected.items(), *proposal.skipped_for(alike).items())
    return format_reasons(Counter(reason for group, reasons in by_group if group in existing for reason in reasons))


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits on the nodes that it selects. A resource that it does not name is not limited."""

    id: str
    limits: Mapping[str, int]
    """In whole units: cores, bytes, pieces."""
    selector: LabelSelector = EVERYTHING

    def applies_to(self, node: facts.Node) -> bool:
        return self.selector.matches(node.labels)


@dataclass(frozen=True, slots=True)
class ExceededQuota:
    """An exceeded quota and the names of its exceeded resources."""

    quota: str
    resources: tuple[str, ...]
