"""Throttle: not more than so many calls a second, with a burst allowed after a quiet time."""

from windlass import clock


class Throttle:
    """A bucket that holds `burst` turns and gets `qps` new ones each second. Zero or less is no limit.

    Turns are given in the order they were asked for: who comes when none is left reserves one that is still to come.
    """

    def __init__(self, qps: float, burst: int, time: clock.Clock) -> None:
        self._qps = qps
        self._burst = max(float(burst), 1.0)
        self._clock = time
        self._turns = self._burst
        self._counted_at_s = time.monotonic_s()

    async def wait_turn(self) -> None:
        wait_s = self.reserve()
        if wait_s > 0.0:
            await self._clock.sleep(wait_s)

    def reserve(self) -> float:
        """Take a turn; returns the seconds until it may be used."""
        if self._qps <= 0.0:
            return 0.0
        now_s = self._clock.monotonic_s()
        self._turns = min(self._turns + (now_s - self._counted_at_s) * self._qps, self._burst)
        self._counted_at_s = now_s
        self._turns -= 1.0
        return max(-self._turns / self._qps, 0.0)
