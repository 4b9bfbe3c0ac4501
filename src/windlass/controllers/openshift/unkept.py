"""Conditions that the server did not keep: definitions that OpenShift publishes have no room for them.

Without a memory of them every pass would say the same again, as an event as well.
"""

from windlass.kube import conditions

Conditions = tuple[conditions.Condition, ...]


class Unkept:
    """What was said of objects, by uid, and not kept."""

    def __init__(self) -> None:
        self._said: dict[str, Conditions] = {}

    def note(self, uid: str, said: Conditions, kept: object) -> None:
        """What was said of an object, and what its server has of it."""
        if said and not kept:
            self._said[uid] = said
        else:
            self._said.pop(uid, None)

    def recall(self, uid: str, found: Conditions) -> Conditions:
        """The conditions of an object: those that it has, or else those that it would have."""
        return found or self._said.get(uid, ())
