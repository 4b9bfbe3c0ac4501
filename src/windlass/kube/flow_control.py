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
    """Exponential backoff with jitter and an upper limit."""

    first_s: float = 0.25
    limit_s: float = 30.0

    def wait_s(self, failures: int, rng: random.Random) -> float:
        """The n-th wait: half fixed, half random, so that clients that failed together retry at different times."""
        whole_s = min(self.first_s * 2.0 ** min(failures - 1, 62), self.limit_s)
        return whole_s * (0.5 + 0.5 * rng.random())


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Which failed calls are retried, and how often."""

    tries: int = 5
    backoff: Backoff = Backoff(0.25, 10.0)
    longest_s: float = 60.0
    """Maximum Retry-After that is honoured; with a longer one the call fails."""

    def wait_s(self, request: Request, error: errors.KubeError, failures: int, rng: random.Random) -> float | None:
        """Seconds until the next retry; None if the failure is final."""
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
    """True if executing the request twice has the effect of executing it once."""
    if request.method == "PATCH":
        return request.headers.get("content-type") in (request_builders.MERGE_PATCH, request_builders.APPLY_PATCH)
    return request.method in ("GET", "PUT", "DELETE")


class RateLimiter:
    """A token bucket with `burst` tokens, refilled at `qps`. 0 or less is unlimited.

    Tokens are granted in order of request; without one left, a future token is reserved.
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
        """Reserve a token; returns the seconds until it is valid."""
        if self._qps <= 0.0:
            return 0.0
        now_s = self._clock.monotonic_s()
        self._turns = min(self._turns + (now_s - self._counted_at_s) * self._qps, self._burst)
        self._counted_at_s = now_s
        self._turns -= 1.0
        return max(-self._turns / self._qps, 0.0)
