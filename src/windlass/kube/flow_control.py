"""Flow control of API calls: retries, backoff with jitter, and a token-bucket rate limiter.

A call that the server cannot have executed is always safe to retry; one that it may have executed, only if it is
idempotent.
"""

import random
from dataclasses import dataclass

from windlass import clock
from windlass.kube import errors, request_builders
from windlass.kube.transport import Request


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait after each failure in a row: doubling, with jitter, up to a limit."""

    first_s: float = 0.25
    limit_s: float = 30.0

    def wait_s(self, failures: int, rng: random.Random) -> float:
        """Half of it certain, half of it chance, so that clients that failed together do not come back together."""
        whole_s = min(self.first_s * 2.0 ** min(failures - 1, 62), self.limit_s)
        return whole_s * (0.5 + 0.5 * rng.random())


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a call is given up."""

    tries: int = 5
    backoff: Backoff = Backoff(0.25, 10.0)
    longest_s: float = 60.0
    """A server that asks for more patience than this gets none: the caller decides what to do meanwhile."""

    def wait_s(self, request: Request, error: errors.KubeError, failures: int, rng: random.Random) -> float | None:
        """Seconds to wait before the next try; None: this failure is final."""
        if failures >= self.tries or error.retry_after_s > self.longest_s or not is_worth_retrying(request, error):
            return None
        return max(error.retry_after_s, self.backoff.wait_s(failures, rng))


def is_worth_retrying(request: Request, error: errors.KubeError) -> bool:
    if isinstance(error, errors.TooManyRequests):
        return not error.is_disruption_budget
    if isinstance(error, errors.ConnectFailed):
        return True
    if isinstance(error, errors.ConnectionLost | errors.ServerError):
        return is_idempotent(request)
    return False


def is_idempotent(request: Request) -> bool:
    """Doing it twice comes to the same as doing it once."""
    if request.method == "PATCH":
        return request.headers.get("content-type") in (request_builders.MERGE_PATCH, request_builders.APPLY_PATCH)
    return request.method in ("GET", "PUT", "DELETE")


class RateLimiter:
    """A bucket that holds `burst` turns and gets `qps` new ones each second. Zero or less is no limit.

    Turns are given in the order they were asked for: who comes when none is left reserves one that is still to come.
    """

    def __init__(self, qps: float, burst: int, time: clock.Clock) -> None:
        self._qps = qps
        self._burst = max(float(burst), 1.0)
        self._clock = time
        self._turns = self._burst
        self._counted_at_s = time.monotonic_s()

    async def wait(self) -> None:
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
