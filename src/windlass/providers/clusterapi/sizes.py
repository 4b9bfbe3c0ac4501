"""Sizes: how many replicas a group has now.

What was written here shows in the informer's store only a moment later. Until it does, what was written is what holds:
a loop that begins at once must not order the same nodes again.
"""

from windlass import selectors
from windlass.providers.clusterapi.scalable import Scalable


class Sizes:
    """Sizes written here and not seen yet."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[int, int]] = {}
        """resourceVersion and replicas by group."""

    def note(self, id: str, resource_version: str, replicas: int) -> None:
        self._written[id] = (selectors.parse_int64(resource_version) or 0, replicas)

    def read(self, group: Scalable) -> int:
        written = self._written.get(group.id)
        if written is not None:
            version, replicas = written
            if (selectors.parse_int64(group.meta.resource_version) or 0) < version:
                return replicas
            del self._written[group.id]
        return group.spec.replicas or 0
