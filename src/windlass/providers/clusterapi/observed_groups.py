"""Observed groups: each is read again only when something that it is read from is different.

A group is read from its object, its MachineSets, its Machines, their nodes, its infrastructure template and its size.
Machines and nodes are many: what changes of them marks the owners of the Machines concerned. All else is compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.engine import facts


@dataclass(frozen=True, slots=True)
class Origin:
    """What a group is read from, without its Machines and nodes."""

    objects: tuple[object, ...]
    """The group itself, its MachineSets, its infrastructure template and all MachineDrainRules, as they were read."""
    replicas: int
    is_mirror: bool
    has_unread_member: bool
    owners: tuple[str, ...]
    """Who owns its Machines, as `kind/namespace/name`."""

    def is_same(self, other: "Origin") -> bool:
        return (
            len(self.objects) == len(other.objects)
            and all(one is two for one, two in zip(self.objects, other.objects, strict=True))
            and (self.replicas, self.is_mirror, self.has_unread_member, self.owners)
            == (other.replicas, other.is_mirror, other.has_unread_member, other.owners)
        )


@dataclass(frozen=True, slots=True)
class _Kept:
    origin: Origin
    listed: frozenset[str]
    group: facts.NodeGroup


class ObservedGroups:
    """Groups as they were read last."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._looked_at: set[str] = set()
        self._owners: set[str] = set()
        """Owners of Machines that changed, or whose nodes did, since the last observation."""
        self._provider_ids: set[str] = set()
        """Of nodes that changed since, normalised: those of MachinePools may have no Machines."""

    def mark(self, owners: Iterable[str], provider_ids: Iterable[str] = ()) -> None:
        """Groups of these owners, and those that list these provider ids, must be read again."""
        self._owners.update(owners)
        self._provider_ids.update(provider_ids)

    def find(self, id: str, origin: Origin) -> facts.NodeGroup | None:
        """The group, if it would be read the same again."""
        kept = self._kept.get(id)
        if kept is None or not kept.origin.is_same(origin):
            return None
        if not self._owners.isdisjoint(origin.owners) or not self._provider_ids.isdisjoint(kept.listed):
            return None
        self._looked_at.add(id)
        return kept.group

    def keep(self, id: str, origin: Origin, listed: Iterable[str], group: facts.NodeGroup) -> None:
        """`listed` are provider ids that the group names itself, normalised."""
        self._kept[id] = _Kept(origin, frozenset(listed), group)
        self._looked_at.add(id)

    def end(self) -> None:
        """All groups were looked at: forget those that were not found or kept, and what changed before."""
        self._kept = {id: kept for id, kept in self._kept.items() if id in self._looked_at}
        self._looked_at, self._owners, self._provider_ids = set(), set(), set()
