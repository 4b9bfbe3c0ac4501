"""Event loop of the simulated cluster: components run until nothing is due, then virtual time advances.

Within a step, components first receive all changes in the order of the writes, then sync one after the other, the
scheduler last. A write by another client, such as an autoscaler in the same asyncio loop, wakes the loop.
"""

import asyncio
import heapq
import math
from collections.abc import Callable, Iterable
from typing import Protocol

from windlass import clock
from windlass.simulator.cluster.api_client import ApiClient, Change, GroupResource

_TOLERANCE_S = 1e-6
"""Tolerance for rounding errors in sums of floating-point delays."""


class TimerQueue:
    """Callbacks by monotonic time. Timers are not cancelled: a callback checks whether it still applies."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._noted = 0

    def schedule(self, at_s: float, act: Callable[[], None]) -> None:
        self._noted += 1
        heapq.heappush(self._due, (at_s, self._noted, act))

    def next_s(self) -> float:
        """When the next callback is due; infinity if there is none."""
        return self._due[0][0] if self._due else math.inf

    def pop_due(self, now_s: float) -> Callable[[], None] | None:
        """The next callback that is due by now."""
        if self._due and self._due[0][0] <= now_s + _TOLERANCE_S:
            return heapq.heappop(self._due)[2]
        return None


class Component(Protocol):
    """A component of the simulated cluster."""

    @property
    def watched_kinds(self) -> tuple[GroupResource, ...]:
        """Kinds whose changes it receives."""

    def on_change(self, change: Change) -> None:
        """Note a change. Nothing is written here."""

    def sync(self) -> bool:
        """Do what is due; True if anything was."""


class Livelock(Exception):
    """Components trigger each other without end."""


_MAX_TURNS = 5_000_000


class EventLoop:
    """Runs components, and advances time between steps."""

    def __init__(self, api: ApiClient, clock_: clock.VirtualClock) -> None:
        self.api = api
        self.timers = TimerQueue()
        self.turns = 0
        """Number of changes and syncs so far."""
        self._clock = clock_
        self._parts: tuple[Component, ...] = ()
        self._listeners: dict[GroupResource, tuple[Component, ...]] = {}
        self._before: list[Callable[[], None]] = []
        self._after: list[Callable[[], None]] = []
        self._waking: asyncio.Future[None] | None = None
        api.notify = self._wake

    def add_components(self, parts: Iterable[Component]) -> None:
        """Add components, in the order of their syncs."""
        self._parts = (*self._parts, *parts)
        heard = {kind for part in self._parts for kind in part.watched_kinds}
        self._listeners = {kind: tuple(part for part in self._parts if kind in part.watched_kinds) for kind in heard}

    def before_each_step(self, act: Callable[[], None]) -> None:
        """Add a callback for the time after an advance and before changes are dispatched."""
        self._before.append(act)

    def after_each_step(self, act: Callable[[], None]) -> None:
        """Add a callback for the end of each step."""
        self._after.append(act)

    # ── Time ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def now_s(self) -> float:
        """Seconds since the start of virtual time."""
        return self._clock.monotonic_s()

    def wall_s(self) -> float:
        return self._clock.now_s()

    def call_later(self, delay_s: float, act: Callable[[], None]) -> None:
        self.timers.schedule(self.now_s() + delay_s, act)

    async def run(self, until_s: float) -> None:
        """Run until a time of the monotonic clock."""
        self.step()
        while self.now_s() < until_s:
            await self._wait(min(self.timers.next_s(), until_s))
            self.step()

    async def _wait(self, until_s: float) -> None:
        if self.api.changes:
            return
        loop = asyncio.get_running_loop()
        self._waking = loop.create_future()
        timer = loop.call_at(until_s, self._wake)
        try:
            await self._waking
        finally:
            self._waking = None
            timer.cancel()

    def _wake(self) -> None:
        if self._waking is not None and not self._waking.done():
            self._waking.set_result(None)

    # ── Steps ────────────────────────────────────────────────────────────────────────────────────────────────────

    def step(self) -> None:
        """Run components until nothing is due at this time."""
        for act in self._before:
            act()
        most = self.turns + _MAX_TURNS + 100 * len(self.api.changes)
        while self._run_components():
            if self.turns > most:
                raise Livelock(f"after {most} turns at {self.now_s():g} s there is still something to do")
        for act in self._after:
            act()

    def _run_components(self) -> bool:
        is_busy = self._dispatch_changes()
        while (due := self.timers.pop_due(self.now_s())) is not None:
            self.turns += 1
            due()
            is_busy = True
        is_busy = self._dispatch_changes() or is_busy
        for part in self._parts:
            if part.sync():
                is_busy = True
                self._dispatch_changes()
        return is_busy

    def _dispatch_changes(self) -> bool:
        """Dispatch all changes to components, including those that the server's own controllers make in response."""
        api, changes, listeners = self.api, self.api.changes, self._listeners
        api.server.run_controllers()
        if not changes:
            return False
        while changes:
            change = changes.popleft()
            self.turns += 1
            for part in listeners.get(change.kind, ()):
                part.on_change(change)
            if not changes:
                api.server.run_controllers()
        return True
