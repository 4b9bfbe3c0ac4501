"""Keeping pods: what controllers have in common whose objects own pods.

An object is due when it changes or one of its pods does, and is looked at once, however much changed.
"""

from typing import Any

from windlass.simulator.world import edit, kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.kinds import Kind
from windlass.simulator.world.ownership import Owned
from windlass.simulator.world.pulse import Pulse
from windlass.simulator.world.stamps import Stamps

Json = dict[str, Any]


class PodKeeping:
    """A controller of one kind. `reconcile` says what becomes of an object that is due."""

    def __init__(self, pulse: Pulse, kind: Kind, pods: Owned) -> None:
        self.hears = (kind, kinds.PODS)
        self._pulse, self._api = pulse, pulse.api
        self._stamps = Stamps(pulse.api)
        self._kind, self._owned = kind, pods
        self._due: dict[str, None] = {}

    def react(self, change: Change) -> None:
        key = self._owned.hear(change)
        if change.kind == self._kind:
            key = change.key
            if change.now is None:
                self._stamps.forget(change.obj["metadata"]["uid"])
        if key is not None:
            self._due[key] = None

    def act(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            found = self._api.find(self._kind, key)
            if found is not None and not edit.is_deleting(found):
                self.reconcile(key, found)
        return bool(due)

    def reconcile(self, key: str, found: Json) -> None:
        """Make it so."""
        raise NotImplementedError
