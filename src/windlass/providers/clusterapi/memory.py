"""Memory: what was told to go here, until it is gone.

Between the moment at which a size was lowered and the one at which Cluster API begins to delete, nothing else says that
a Machine is leaving for good. Lost in a restart: the number of Machines beyond the size then speaks for the marks.
"""

from collections.abc import Iterable

from windlass.providers.clusterapi import provider_ids


class Memory:
    """Machines, by uid, and instances without Machines, by group."""

    def __init__(self) -> None:
        self._machines: set[str] = set()
        self._instances: dict[str, set[str]] = {}

    @property
    def machines(self) -> frozenset[str]:
        return frozenset(self._machines)

    @property
    def is_empty(self) -> bool:
        return not self._machines and not any(self._instances.values())

    def remember(self, group: str, uids: Iterable[str], without_machine: Iterable[str]) -> None:
        self._machines.update(uids)
        told = (provider_ids.normalise(one) for one in without_machine)
        self._instances.setdefault(group, set()).update(told)

    def forget(self, uids: Iterable[str]) -> None:
        """These Machines stay after all."""
        self._machines -= set(uids)

    def is_leaving(self, group: str, provider_id: str) -> bool:
        return provider_ids.normalise(provider_id) in self._instances.get(group, ())

    def forget_all_but(self, uids: Iterable[str], listed: dict[str, set[str]]) -> None:
        """Keep only what still exists: Machines of these uids, instances that MachinePools still list."""
        self._machines &= set(uids)
        self._instances = {group: told & listed.get(group, set()) for group, told in self._instances.items() if told}
