"""Sizes: how many replicas a group has now.

What was written here shows in the informer's store only a moment later. Until it does, what was written is what holds:
a loop that begins at once must not order the same nodes again.
"""

from windlass.providers.clusterapi.put_backs import PutBacks, Size, as_number
from windlass.providers.clusterapi.scalable import Scalable


class Sizes:
    """Sizes written here and not seen yet."""

    def __init__(self, put_backs: PutBacks) -> None:
        self._put_backs = put_backs
        self._written: dict[str, Size] = {}
        """By group."""

    def note(self, id: str, size: Size) -> None:
        self._written[id] = size

    def read(self, group: Scalable) -> int:
        return self.read_version(group).replicas

    def read_version(self, group: Scalable) -> Size:
        """The size, and the resourceVersion of the object that had it."""
        seen = Size(group.spec.replicas or 0, group.meta.resource_version or "")
        written = self._written.get(group.id)
        if written is not None and as_number(seen.resource_version) < as_number(written.resource_version):
            return written
        self._written.pop(group.id, None)
        self._put_backs.look(group.id, seen)
        return seen
