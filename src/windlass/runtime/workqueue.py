"""The work queue: keys that need attention.

A key that is added twice is handled once. A key that is added while it is being handled is handled again afterwards,
and never by two at once. A key whose handling failed comes back after a while, and after a longer one each time.
"""

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from windlass import clock, errors
from windlass.kube import flow_control

K = TypeVar("K", bound=Hashable)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkQueueSettings:
    """Retry settings of a work queue."""

    first_s: float = 0.005
    """Delay after a key's first failure; it doubles with each further one."""
    limit_s: float = 1000.0
    qps: float = 10.0
    """Sustained rate of retries over all keys."""
    burst: int = 100


class WorkQueue(Generic[K]):
    """Keys to process, in order of arrival."""

    def __init__(self, time: clock.Clock, settings: WorkQueueSettings | None = None) -> None:
        self._clock = time
        self._settings = settings or WorkQueueSettings()
        self._throttle = flow_control.RateLimiter(self._settings.qps, self._settings.burst, time)
        self._ready: deque[K] = deque()
        self._wanted: set[K] = set()
        """Keys that are ready, or that become ready when their processing ends."""
        self._handled: set[K] = set()
        self._later: list[tuple[float, int, K]] = []
        self._due_s: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._added = 0
        self._changed = asyncio.Event()

    def add(self, key: K) -> None:
        """Add a key, to be processed now."""
        if key in self._wanted:
            return
        self._wanted.add(key)
        if key not in self._handled:
            self._ready.append(key)
            self._changed.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Add a key after a delay; of several pending delays the shortest counts."""
        if seconds <= 0.0:
            self.add(key)
            return
        due_s = self._clock.monotonic_s() + seconds
        if due_s < self._due_s.get(key, due_s + 1.0):
            self._added += 1
            self._due_s[key] = due_s
            heapq.heappush(self._later, (due_s, self._added, key))
            self._changed.set()

    def retry(self, key: K) -> float:
        """Add a key after its processing failed; returns the delay in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        own_s = min(self._settings.first_s * 2.0 ** min(failures - 1, 62), self._settings.limit_s)
        wait_s = max(own_s, self._throttle.reserve())
        self.add_after(key, wait_s)
        return wait_s

    def forget(self, key: K) -> None:
        """Reset the failure count of a key."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Wait for the next key. The caller must call `done` when it is processed."""
        while True:
            self._move_due()
            if self._ready:
                key = self._ready.popleft()
                self._wanted.discard(key)
                self._handled.add(key)
                return key
            self._changed.clear()
            await self._wait()

    def done(self, key: K) -> None:
        self._handled.discard(key)
        if key in self._wanted:
            self._ready.append(key)
            self._changed.set()

    def __len__(self) -> int:
        """Keys that are ready, including those added again while being processed.

        As `workqueue_depth` of client-go: delayed keys do not count.
        """
        self._move_due()
        return len(self._wanted)

    def failures(self, key: K) -> int:
        """Consecutive failures of a key."""
        return self._failures.get(key, 0)

    def _move_due(self) -> None:
        now_s = self._clock.monotonic_s()
        while self._later and self._later[0][0] <= now_s:
            due_s, _, key = heapq.heappop(self._later)
            if self._due_s.get(key) == due_s:
                del self._due_s[key]
                self.add(key)

    async def _wait(self) -> None:
        if not self._later:
            await self._changed.wait()
            return
        try:
            await clock.run_with_timeout(
                self._clock, self._later[0][0] - self._clock.monotonic_s(), self._changed.wait()
            )
        except TimeoutError:
            return


async def run_workers(queue: WorkQueue[K], handle: Callable[[K], Awaitable[float | None]], workers: int = 1) -> None:
    """Process keys until cancelled.

    A handler returns None, or the seconds after which to process the key again. A failed one is logged and retried.
    """
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_run_worker(queue, handle))


async def _run_worker(queue: WorkQueue[K], handle: Callable[[K], Awaitable[float | None]]) -> None:
    while True:
        key = await queue.get()
        try:
            again_s = await handle(key)
        except errors.WindlassError as error:
            wait_s = queue.retry(key)
            _log.warning(
                "reconcile failed: key=%s failures=%d retry_s=%.3g error=%s", key, queue.failures(key), wait_s, error
            )
        except Exception:
            wait_s = queue.retry(key)
            _log.exception(
                "reconcile failed unexpectedly: key=%s failures=%d retry_s=%.3g", key, queue.failures(key), wait_s
            )
        else:
            queue.forget(key)
            if again_s is not None:
                queue.add_after(key, again_s)
        finally:
            queue.done(key)
