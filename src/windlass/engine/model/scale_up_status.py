"""Scale-up as values: node templates, quotas, expansion options, the expanders' choice, proposals and rejected reasons."""

import enum
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from windlass.engine.model import facts
from windlass.selectors import EVERYTHING, LabelSelector


@dataclass(frozen=True, slots=True)
class SchedulablePods:
    """Pods that are alike and get a place: one of them, and how many there are."""

    pod: facts.Pod
    count: int = 1


@dataclass(frozen=True, slots=True)
class ExpansionOption:
    """One way to help pending pods."""

    group: str
    """Id of the node group that would grow."""
    template: facts.Node
    """What a new node of the group looks like."""
    node_count: int
    pods: tuple[SchedulablePods, ...] = ()
    similar_groups: tuple[str, ...] = ()
    """Ids of the groups that the new nodes may be shared with."""
    exists: bool = True
    """False for a group that would have to be created first."""
    debug: str = ""
    """What the group says of itself, for people."""

    @property
    def pod_count(self) -> int:
        return sum(helped.count for helped in self.pods)


def format_reasons(counts: Counter[str]) -> str:
    """The peer's order is that of chance."""
    ordered = sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))
    return ", ".join(f"{count} {reason}" for reason, count in ordered)


Candidate = TypeVar("Candidate")


@dataclass(frozen=True, slots=True)
class OptionKey:
    """What makes an option the same option: its group, its nodes, and the pods that it helps."""

    group: str
    nodes: int
    pods: tuple[tuple[str, int], ...] = ()
    """The first pod of each kind, as namespace/name, and how many there are."""


class ResponseEffect(enum.StrEnum):
    """What an answer is good for."""

    FOLLOWED = "followed"
    NONE_WANTED = "none wanted"
    NO_OPTION = "no option"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BestOptionsResponse:
    """What was answered about these options, or why there is no answer."""

    about: tuple[OptionKey, ...]
    groups: tuple[str, ...] = ()
    """Ids as the server named them, in its order; not all need be options."""
    failure: str = ""

    @property
    def unknown_groups(self) -> tuple[str, ...]:
        """Groups that it names and that nobody asked about, each once."""
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
    """What was chosen, what each strategy that was asked kept, and of what."""

    winner: Candidate | None
    steps: tuple[tuple[str, tuple[Candidate, ...]], ...]
    options: tuple[Candidate, ...] = ()
    opinion: BestOptionsResponse | None = None
    """What someone outside said, where it was their turn."""

    def options_given_to(self, name: str) -> tuple[Candidate, ...] | None:
        """What a strategy had to choose from; None if it was not asked."""
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
    """What came of scaling up in a loop. The names are the peer's."""

    SUCCESSFUL = "ScaleUpSuccessful"
    ERROR = "ScaleUpError"
    NO_OPTIONS = "ScaleUpNoOptionsAvailable"
    NOT_NEEDED = "ScaleUpNotNeeded"
    NOT_TRIED = "ScaleUpNotTried"
    IN_COOLDOWN = "ScaleUpInCooldown"
    LIMITED_BY_MAX_NODES_TOTAL = "ScaleUpLimitedByMaxNodesTotal"


class SkipReason(enum.StrEnum):
    """Why a group is not considered."""

    BACKOFF = "in backoff after failed scale-up"
    MAX_SIZE = "max node group size reached"
    NOT_READY = "not ready for scale-up"
    REPLICAS_OWNED = "replicas set in the Cluster topology"
    ATOMIC_TOO_LARGE = "atomic scale-up exceeds cluster node count limit"


@dataclass(slots=True)
class PodEquivalenceGroup:
    """Pending pods that are treated alike, and what the groups say of them."""

    shape: facts.PodShape
    rows: tuple[int, ...]
    """Of the snapshot."""
    pod: facts.Pod
    """One of them."""
    rejected: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Reasons by group."""
    accepted: list[str] = field(default_factory=list)
    """Groups a new node of which would take such a pod."""


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
    """What to do, for whom, and why not for the others."""

    result: ScaleUpResult
    increases: tuple[GroupIncrease, ...] = ()
    helped: tuple[int, ...] = ()
    """Rows of the pods that get a place."""
    remaining: tuple[PodEquivalenceGroup, ...] = ()
    """Pods that no group accepts."""
    awaiting: tuple[int, ...] = ()
    """Rows of pods that another group could help in a later loop."""
    skipped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    considered: tuple[PodEquivalenceGroup, ...] = ()
    """All pods that were to be helped."""
    choice: ExpanderChoice[ExpansionOption] | None = None

    def skipped_for(self, alike: PodEquivalenceGroup) -> Mapping[str, tuple[str, ...]]:
        """The skipped groups that are not known to reject these pods, and why they were skipped."""
        return {group: reasons for group, reasons in self.skipped.items() if group not in alike.rejected}


def count_rejected_reasons(proposal: ScaleUpProposal, alike: PodEquivalenceGroup, existing: Collection[str]) -> str:
    """`2 Insufficient cpu, 1 max node group size reached`: of these groups, the most common first."""
    said = (*alike.rejected.items(), *proposal.skipped_for(alike).items())
    return format_reasons(Counter(reason for group, reasons in said if group in existing for reason in reasons))


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
    """A quota that stands in the way, and the resources of it that do, by name."""

    quota: str
    resources: tuple[str, ...]
