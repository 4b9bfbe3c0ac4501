"""Periodic loop that survives failures, and worker threads that end before their caller goes on.

An iteration begins `period_s` after the one before it began, or at once if that took longer, or when woken. A failed
iteration is logged and counted; the next one follows after a backoff.
"""

import asyncio
import contextvars
import functools
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from windlass import clock, errors

_LONGEST_S = 86400.0
"""Nobody sleeps for longer at a time: event loops do not like endless timers."""

_SAME = 1e-9
"""Of a period: two moments that are no further apart are one."""

_FIRST_PAUSE_S = 1.0
"""After a failure, doubling with each in a row up to the period: a turn that cannot succeed is not tried at once again
because something changes, as it does all the time."""

_log = logging.getLogger(__name__)

LoopIteration = Callable[[], Awaitable[object]]


def is_being_cancelled() -> bool:
    """Was the task that runs now asked to end? Then no failure may keep it from ending."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Loop:
    """One thing done again and again."""

    def __init__(self, name: str, turn: LoopIteration, period_s: float, time: clock.Clock) -> None:
        self.name = name
        self.iterations = 0
        self.failures = 0
        """In a row, up to now."""
        self.first_at_s: float | None = None
        """When the first turn began, monotonic; None before."""
        self.begun_at_s: float | None = None
        """When the last turn began, monotonic."""
        self.succeeded_at_s: float | None = None
        """When a turn last ended well, monotonic."""
        self._turn = turn
        self._period_s = period_s
        self._clock = time
        self._woken = asyncio.Event()
        self._stirred = asyncio.Event()
        """Something happened since the last turn began."""
        self._passed_until_s = -math.inf
        self._wake_s = math.inf

    def wake(self) -> None:
        """Begin the next turn now; if one is under way, right after it."""
        self._woken.set()
        self._stirred.set()

    def skip_until(self, until_s: float, wake_s: float = math.inf) -> None:
        """Turns that would begin before this, by the monotonic clock, are not taken unless something stirs.

        `wake_s` is when the last of them would have had the loop woken: the next one begins then, if that is sooner.
        """
        self._passed_until_s, self._wake_s = until_s, wake_s

    def mark_changed(self) -> None:
        """Something is different from what the last turn saw: no turn is passed over any more."""
        self._stirred.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._woken.clear()
            self._stirred.clear()
            self._passed_until_s = -math.inf
            begun_s = self.begun_at_s = self._clock.monotonic_s()
            self.first_at_s = begun_s if self.first_at_s is None else self.first_at_s
            await self._run_iteration()
            due_s = begun_s + self._period_s
            if self._passed_until_s > due_s:
                due_s = await self._skip(begun_s)
            await self._pause(begun_s)
            rest_s = due_s - self._clock.monotonic_s()
            if rest_s > 0.0 and not self._woken.is_set():
                await self._wait(rest_s, self._woken)
            else:
                await self._clock.sleep(0.0)

    async def _pause(self, begun_s: float) -> None:
        """After a turn that failed, whatever happens."""
        if self.failures:
            pause_s = min(_FIRST_PAUSE_S * 2.0 ** min(self.failures - 1, 62), self._period_s)
            await self._clock.sleep(max(begun_s + pause_s - self._clock.monotonic_s(), 0.0))

    async def _skip(self, begun_s: float) -> float:
        """Let turns pass, until the last of these or until something stirs. When the next one is due."""
        end_s = self._due_s(begun_s, self._passed_until_s)
        if end_s - self._passed_until_s > _SAME * self._period_s:  # one that begins right then wakes nobody
            end_s = min(end_s, self._wake_s)
        while not self._stirred.is_set() and (left_s := end_s - self._clock.monotonic_s()) > 0.0:
            await self._wait(min(left_s, _LONGEST_S), self._stirred)
        return min(self._due_s(begun_s, self._clock.monotonic_s()), end_s)

    def _due_s(self, begun_s: float, not_before_s: float) -> float:
        """When the first turn begins that may, whole periods after the last one."""
        if math.isinf(not_before_s):
            return not_before_s
        return begun_s + max(math.ceil((not_before_s - begun_s) / self._period_s - _SAME), 1) * self._period_s

    async def _run_iteration(self) -> None:
        self.iterations += 1
        try:
            await self._turn()
        except Exception as error:
            if is_being_cancelled():  # whatever took the place of the cancellation, the loop ends
                _log.error(
                    "%s: turn %d failed while it was being cancelled", self.name, self.iterations, exc_info=error
                )
                raise asyncio.CancelledError from error
            self.failures += 1
            is_unforeseen = not isinstance(error, errors.WindlassError)
            numbers = (self.name, self.iterations, self.failures)
            _log.error("%s: turn %d failed, %d in a row: %s", *numbers, error, exc_info=is_unforeseen)
        else:
            self.failures = 0
            self.succeeded_at_s = self._clock.monotonic_s()

    async def _wait(self, seconds: float, until: asyncio.Event) -> None:
        try:
            await clock.run_with_timeout(self._clock, seconds, until.wait())
        except TimeoutError:
            return


T = TypeVar("T")


async def run_in_thread(work: Callable[[], T]) -> T:
    """The result of `work`, run in a thread. Returns or raises only when the thread has ended, however often it is
    cancelled meanwhile.
    """
    # A future and no task: when an event loop is closed, it cancels every task there is.
    run = functools.partial(contextvars.copy_context().run, work)
    running = asyncio.get_running_loop().run_in_executor(None, run)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await _wait_ended(running)
        raise


async def _wait_ended(running: "asyncio.Future[T]") -> None:
    while not running.done():
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            continue
    if not running.cancelled():
        running.exception()  # looked at: the cancellation is what the caller gets to know of
