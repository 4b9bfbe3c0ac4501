"""Clock port: the only source of time and sleeping.

`RealClock` is the machine's. `VirtualClock` stands still while tasks run and jumps to the next timer when all wait, so
that hours of simulation take milliseconds and runs are reproducible:

    clock = VirtualClock()
    clock.run(scenario())     # sleeps and asyncio timers take no real time
"""

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

_STALL_S = 10.0
"""Real time that a virtual clock waits for a thread or socket if no timer is pending."""
_THREAD_STALL_S = 300.0
"""The same while an executor thread works: decisions take long on a busy machine."""

# CLOCK_BOOTTIME includes suspend: a leader that was suspended must see that its lease has expired.
_STEADY = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """Source of time, and sleep."""

    def now_s(self) -> float:
        """Wall clock: seconds since the epoch, for people and API objects. It may be set back."""

    def monotonic_s(self) -> float:
        """Monotonic clock, for durations and deadlines."""

    async def sleep(self, seconds: float) -> None:
        """Sleep; 0 or less yields to other tasks."""


class RealClock:
    """The machine's clock."""

    def now_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.monotonic() if _STEADY is None else time.clock_gettime(_STEADY)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))


class VirtualClock:
    """A virtual clock. The wall clock starts at `now_s`, the monotonic clock at 0."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._elapsed_s = 0.0
        self._wall_at_zero_s = now_s

    def now_s(self) -> float:
        return self._wall_at_zero_s + self._elapsed_s

    def monotonic_s(self) -> float:
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        """Sleep at least this long.

        asyncio wakes sleepers up to a nanosecond early. Sleeping for the rest would then not advance virtual time, and
        loop for ever.
        """
        until_s = self._elapsed_s + max(seconds, 0.0)
        await asyncio.sleep(max(seconds, 0.0))
        self._elapsed_s = max(self._elapsed_s, until_s)

    def set_wall(self, now_s: float) -> None:
        """Set the wall clock forward or back. Timers are not affected."""
        self._wall_at_zero_s = now_s - self._elapsed_s

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in virtual time: all sleeps and asyncio timers follow this clock."""
        with asyncio.Runner(loop_factory=lambda: _VirtualEventLoop(self)) as runner:
            return runner.run(main)

    def _advance(self, seconds: float) -> None:
        self._elapsed_s += seconds


async def run_with_timeout(time: Clock, seconds: float, act: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine with a timeout by this clock; TimeoutError if it expires."""
    acting = asyncio.ensure_future(act)
    waiting = asyncio.ensure_future(time.sleep(seconds))
    try:
        await asyncio.wait((acting, waiting), return_when=asyncio.FIRST_COMPLETED)
        if not acting.done():
            raise TimeoutError(f"not done within {seconds:g} s")
        return acting.result()
    finally:
        for task in (acting, waiting):
            task.cancel()
        await asyncio.gather(acting, waiting, return_exceptions=True)


class _VirtualEventLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, which stands still while an executor works."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._selecting = _JumpingSelector(clock)
        super().__init__(self._selecting)

    def time(self) -> float:
        return self._clock.monotonic_s()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], T], *args: *Arguments
    ) -> asyncio.Future[T]:
        working = super().run_in_executor(executor, func, *args)
        self._selecting.working.add(working)
        working.add_done_callback(self._selecting.working.discard)
        return working


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that advances the virtual clock in place of waiting.

    While a thread works it really waits, so that results do not depend on the machine's load.
    """

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self.working = set[asyncio.Future[Any]]()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is not None and not self.working:
            self._clock._advance(timeout)
            return ready
        ready = super().select(_THREAD_STALL_S if self.working else _STALL_S)
        if not ready:
            raise RuntimeError(
                "virtual clock: everything waits for a thread that does not end"
                if self.working
                else "virtual clock: everything waits, and nothing is due ever again"
            )
        return ready
