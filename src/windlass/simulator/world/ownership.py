"""Which objects a controller's objects own, and how its pods are, kept current: nobody counts them anew."""

from typing import Any

from windlass.simulator.world import edit, kinds
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


class OwnedPods(Owned):
    """Pods by the uid of their controller, and of these the ones that count and the ones that are ready."""

    def __init__(self, owner_kind: str) -> None:
        super().__init__(owner_kind, kinds.PODS)
        self._active: dict[str, dict[str, Json]] = {}
        self._ready: dict[str, int] = {}

    def hear(self, change: Change) -> str | None:
        key = super().hear(change)
        owner = edit.controller_of(change.obj)
        if key is not None and owner is not None:
            self._count(owner["uid"], change)
        return key

    def _count(self, uid: str, change: Change) -> None:
        active = self._active.setdefault(uid, {})
        before = active.pop(change.key, None)
        ready = self._ready.get(uid, 0) - (before is not None and edit.is_ready(before))
        if change.now is not None and edit.is_active(change.now):
            active[change.key] = change.now
            ready += edit.is_ready(change.now)
        self._ready[uid] = ready
        if not active:
            del self._active[uid], self._ready[uid]

    def active(self, owner: Json) -> dict[str, Json]:
        """Pods that count, by key; those that changed last come last."""
        return self._active.get(owner["metadata"]["uid"], {})

    def ready_count(self, owner: Json) -> int:
        """How many of these are ready."""
        return self._ready.get(owner["metadata"]["uid"], 0)
