"""Retry: whether a call that failed is worth another try, and when. Pure; the client waits.

A call that the server cannot have acted on may always be tried again. One that it may have acted on, only if doing it
twice is the same as doing it once.
"""

import random
from dataclasses import dataclass

from windlass.kube import errors, prepare
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
class Policy:
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
        return request.headers.get("content-type") in (prepare.MERGE_PATCH, prepare.APPLY_PATCH)
    return request.method in ("GET", "PUT", "DELETE")
