"""What was read from a part that many objects share, the containers of one owner's pods, say."""

from typing import Generic, TypeVar

Value = TypeVar("Value")

_MOST = 256
"""Parts that are shared at one time are few. Others are each of one Job, or of a pod that was decoded anew."""


class Remembered(Generic[Value]):
    """Values by the part itself, which is kept with its value, so that its id stays its own."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Value]] = {}

    def find(self, part: object) -> Value | None:
        known = self._known.get(id(part))
        return None if known is None else known[1]

    def keep(self, part: object, value: Value) -> Value:
        if len(self._known) >= _MOST:
            self._known.clear()  # nearly all of these are of pods that are gone
        self._known[id(part)] = part, value
        return value
