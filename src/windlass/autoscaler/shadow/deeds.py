"""Deeds: what the other autoscaler was seen to do, read from two observations, one after the other."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from windlass.engine import taints
from windlass.engine.observation import Observation

_STEP = re.compile(r"\{(?P<group>\S+) (?P<from>[0-9]{1,18})->(?P<to>[0-9]{1,18}) \(max: \d+\)\}")


@dataclass(frozen=True, slots=True)
class Resized:
    """A group was given another size."""

    group: str
    from_size: int
    to_size: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Marked:
    """A node was marked to be deleted."""

    node: str
    group: str
    at_s: float


Deed: TypeAlias = Resized | Marked


@dataclass(frozen=True, slots=True)
class Said:
    """An event of the other's: what it says about a pod or a node."""

    about: str
    """`namespace/name` of a pod, or the name of a node."""
    reason: str
    message: str

    @property
    def steps(self) -> dict[str, tuple[int, int]]:
        """The groups that a scale-up raised, from and to which size."""
        found = _STEP.finditer(self.message) if self.reason == "TriggeredScaleUp" else ()
        return {each["group"]: (int(each["from"]), int(each["to"])) for each in found}


@dataclass(frozen=True, slots=True)
class Sight:
    """What one look remembers for the next."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    """Target size by group."""
    marked: frozenset[str] = frozenset()


def look(seen: Observation) -> Sight:
    """What there is to be compared with the next time."""
    marked = frozenset(node.name for node in seen.nodes if taints.has(node, taints.TO_BE_DELETED))
    return Sight({group.id: group.target_size for group in seen.groups}, marked)


def find_deeds(before: Sight, seen: Observation, now_s: float) -> tuple[Deed, ...]:
    """What was done since. A group that appears was not resized."""
    group_of = seen.group_of_nodes()
    resized = [
        Resized(group.id, before.sizes[group.id], group.target_size, now_s)
        for group in seen.groups
        if before.sizes.get(group.id, group.target_size) != group.target_size
    ]
    marked = [
        Marked(node.name, group_of[node.name].id, taints.marked_at_s(node, taints.TO_BE_DELETED) or now_s)
        for node in seen.nodes
        if node.name in group_of and node.name not in before.marked and taints.has(node, taints.TO_BE_DELETED)
    ]
    return (*resized, *marked)
