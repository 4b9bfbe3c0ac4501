"""Which objects a controller's objects own, kept current from changes."""

from typing import Any

from windlass.simulator.world import edit
from windlass.simulator.world.api import Change
from windlass.simulator.world.kinds import Kind

Json = dict[str, Any]


class Owned:
    """Objects of one kind by the uid of their controller, where that is of the kind in question."""

    def __init__(self, owner_kind: str, owned: Kind) -> None:
        self._owner_kind = owner_kind
        self._owned = owned
        self._by_owner: dict[str, dict[str, Json]] = {}

    def hear(self, change: Change) -> str | None:
        """Take note of a change; the key of the owner that it concerns."""
        if change.kind != self._owned:
            return None
        owner = edit.controller_of(change.obj)
        if owner is None or owner["kind"] != self._owner_kind:
            return None
        uid = owner["uid"]
        if change.now is None:
            held = self._by_owner.get(uid, {})
            held.pop(change.key, None)
            if not held:
                self._by_owner.pop(uid, None)
        else:
            self._by_owner.setdefault(uid, {})[change.key] = change.now
        return f"{change.obj['metadata']['namespace']}/{owner['name']}"

    def of(self, owner: Json) -> list[Json]:
        """In the order in which they were made."""
        return list(self._by_owner.get(owner["metadata"]["uid"], {}).values())
