"""The clock port: whoever needs the time or wants to wait asks a `Clock`, never the operating system.

`Real` is the machine's. `Virtual` stands still while anything can run and jumps to the next thing due when nothing
can, so that hours pass in milliseconds and every run is the same:

    clock = Virtual()
    clock.run(scenario())     # its sleeps, and all timers of asyncio, cost nothing
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
"""Real seconds that a virtual clock with nothing due waits for a thread or a socket before it gives up."""
_THREAD_STALL_S = 300.0
"""The same while a thread works for it: decisions on a busy machine take their time."""

# CLOCK_BOOTTIME goes on while the machine sleeps; a leader that slept must know that its lease ran out meanwhile.
_STEADY = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """What time it is, and how to let it pass."""

    def now_s(self) -> float:
        """Seconds since the epoch, as the wall clock has it: for people and API objects. It may be set back."""

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment; never goes back. For everything that lasts or expires."""

    async def sleep(self, seconds: float) -> None:
        """Wait. Zero or less lets others run."""


class RealClock:
    """The machine's clock."""

    def now_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.monotonic() if _STEADY is None else time.clock_gettime(_STEADY)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))


class VirtualClock:
    """A clock that jumps. Begins at `now_s` by the wall and at zero by the monotonic reading."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._elapsed_s = 0.0
        self._wall_at_zero_s = now_s

    def now_s(self) -> float:
        return self._wall_at_zero_s + self._elapsed_s

    def monotonic_s(self) -> float:
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        """At least so long.

        asyncio wakes sleepers up to a billionth of a second early. Whoever then sleeps for the rest, while others have
        something to do, would do so for ever if time stood still.
        """
        until_s = self._elapsed_s + max(seconds, 0.0)
        await asyncio.sleep(max(seconds, 0.0))
        self._elapsed_s = max(self._elapsed_s, until_s)

    def set_wall(self, now_s: float) -> None:
        """Someone corrects the wall clock, forward or back. Nothing that waits notices."""
        self._wall_at_zero_s = now_s - self._elapsed_s

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end in virtual time. Sleeps and asyncio's timers all follow this clock."""
        with asyncio.Runner(loop_factory=lambda: _VirtualEventLoop(self)) as runner:
            return runner.run(main)

    def _advance(self, seconds: float) -> None:
        self._elapsed_s += seconds


async def run_with_timeout(time: Clock, seconds: float, act: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives, if it does so in time by this clock; otherwise it is cancelled, and TimeoutError."""
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
    """An event loop whose time is a virtual clock's. Time stands still while an executor works for it."""

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
    """Asked to wait, it looks for what is there already, and otherwise moves the clock instead.

    With work in a thread it really waits, for the thread to end: how far it is must not depend on the machine's load.
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
