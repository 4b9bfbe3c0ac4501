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
"""Maximum duration of one sleep: event loops reject very long timers."""

_SAME = 1e-9
"""Moments closer than this share of the period count as equal."""

_FIRST_PAUSE_S = 1.0
"""First backoff after a failure; it doubles up to the period. Changes do not shorten it, since they arrive all the
time."""

_log = logging.getLogger(__name__)

LoopIteration = Callable[[], Awaitable[object]]


def is_being_cancelled() -> bool:
    """True if the current task is being cancelled. No error handler may then keep it running."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Loop:
    """A periodic loop."""

    def __init__(self, name: str, turn: LoopIteration, period_s: float, time: clock.Clock) -> None:
        self.name = name
        self.iterations = 0
        self.failures = 0
        """Consecutive failures."""
        self.first_at_s: float | None = None
        """Monotonic time of the first iteration; None before it."""
        self.begun_at_s: float | None = None
        """Monotonic time of the last iteration's beginning."""
        self.succeeded_at_s: float | None = None
        """Monotonic time of the last success."""
        self._iterate = turn
        self._period_s = period_s
        self._clock = time
        self._woken = asyncio.Event()
        self._input_changed = asyncio.Event()
        """True if an input changed since the last iteration began."""
        self._skipped_until_s = -math.inf
        self._wake_s = math.inf

    def wake(self) -> None:
        """Start the next iteration now, or right after the current one."""
        self._woken.set()
        self._input_changed.set()

    def skip_until(self, until_s: float, wake_s: float = math.inf) -> None:
        """Skip iterations before this monotonic time, unless `mark_changed` is called.

        `wake_s` is when the last skipped iteration would have called `wake`: the next iteration starts then if that is
        earlier.
        """
        self._skipped_until_s, self._wake_s = until_s, wake_s

    def mark_changed(self) -> None:
        """An input changed: no more iterations are skipped."""
        self._input_changed.set()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._woken.clear()
            self._input_changed.clear()
            self._skipped_until_s = -math.inf
            begun_s = self.begun_at_s = self._clock.monotonic_s()
            self.first_at_s = begun_s if self.first_at_s is None else self.first_at_s
            await self._run_iteration()
            due_s = begun_s + self._period_s
            if self._skipped_until_s > due_s:
                due_s = await self._skip(begun_s)
            await self._pause(begun_s)
            rest_s = due_s - self._clock.monotonic_s()
            if rest_s > 0.0 and not self._woken.is_set():
                await self._wait(rest_s, self._woken)
            else:
                await self._clock.sleep(0.0)

    async def _pause(self, begun_s: float) -> None:
        """Backoff after a failed iteration."""
        if self.failures:
            pause_s = min(_FIRST_PAUSE_S * 2.0 ** min(self.failures - 1, 62), self._period_s)
            await self._clock.sleep(max(begun_s + pause_s - self._clock.monotonic_s(), 0.0))

    async def _skip(self, begun_s: float) -> float:
        """Wait through skipped iterations, or until an input changes; returns when the next iteration is due."""
        end_s = self._due_s(begun_s, self._skipped_until_s)
        if end_s - self._skipped_until_s > _SAME * self._period_s:  # an iteration that starts right then calls no wake
            end_s = min(end_s, self._wake_s)
        while not self._input_changed.is_set() and (left_s := end_s - self._clock.monotonic_s()) > 0.0:
            await self._wait(min(left_s, _LONGEST_S), self._input_changed)
        return min(self._due_s(begun_s, self._clock.monotonic_s()), end_s)

    def _due_s(self, begun_s: float, not_before_s: float) -> float:
        """Start of the next allowed iteration, a whole number of periods after the last one."""
        if math.isinf(not_before_s):
            return not_before_s
        return begun_s + max(math.ceil((not_before_s - begun_s) / self._period_s - _SAME), 1) * self._period_s

    async def _run_iteration(self) -> None:
        self.iterations += 1
        try:
            await self._iterate()
        except Exception as error:
            if is_being_cancelled():  # cancelled, whatever exception replaced the cancellation
                _log.error(
                    "loop iteration failed during cancellation: loop=%s iteration=%d",
                    self.name, self.iterations, exc_info=error,
                )  # fmt: skip
                raise asyncio.CancelledError from error
            self.failures += 1
            is_unexpected = not isinstance(error, errors.WindlassError)
            _log.error(
                "loop iteration failed: loop=%s iteration=%d consecutive=%d error=%s",
                self.name, self.iterations, self.failures, error, exc_info=is_unexpected,
            )  # fmt: skip
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
    """Run `work` in a thread; returns or raises only after the thread has ended, even if the task is cancelled."""
    # A future, not a task: closing an event loop cancels all tasks.
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
        running.exception()  # retrieved; the caller gets the cancellation
