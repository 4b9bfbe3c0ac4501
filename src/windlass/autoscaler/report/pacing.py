"""The pace of events: a few at once, many one after the other.

A decision about hundreds of pods has an event for each. Written at once they would be in the way of what was decided:
just then the API server makes the machines that those pods wait for. Nobody waits for an event.
"""

from windlass import clock

AT_ONCE = 20
PER_S = 10.0
WITHIN_S = 60.0
"""Where so many wait that this would take longer than this, they go faster."""


class Pace:
    """Keeps those who ask apart."""

    def __init__(self, time: clock.Clock) -> None:
        self._clock = time
        self._due_s = float("-inf")
        """When the next would be due, if none ever went at once."""
        self._hurries = False

    def hurry(self) -> None:
        """From now on nobody waits."""
        self._hurries = True

    async def wait(self, waiting: int) -> None:
        """After one of them, before the next; `waiting` is how many follow."""
        now_s = self._clock.monotonic_s()
        pause_s = 1.0 / max(PER_S, waiting / WITHIN_S)
        self._due_s = max(self._due_s, now_s - AT_ONCE / PER_S) + pause_s
        await self._clock.sleep(0.0 if self._hurries else max(self._due_s - now_s, 0.0))
