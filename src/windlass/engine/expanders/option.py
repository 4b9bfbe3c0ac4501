"""An option: grow this group by so many nodes, and these pods get a place."""

from dataclasses import dataclass

from windlass.engine import facts


@dataclass(frozen=True, slots=True)
class Helped:
    """Pods that are alike and get a place: one of them, and how many there are."""

    pod: facts.Pod
    count: int = 1


@dataclass(frozen=True, slots=True)
class Option:
    """One way to help pending pods."""

    group: str
    """Id of the node group that would grow."""
    template: facts.Node
    """What a new node of the group looks like."""
    node_count: int
    pods: tuple[Helped, ...] = ()
    similar_groups: tuple[str, ...] = ()
    """Ids of the groups that the new nodes may be shared with."""
    exists: bool = True
    """False for a group that would have to be created first."""
    debug: str = ""
    """What the group says of itself, for people."""

    @property
    def pod_count(self) -> int:
        return sum(helped.count for helped in self.pods)
