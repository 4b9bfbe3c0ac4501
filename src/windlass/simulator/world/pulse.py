"""The pulse: every part gets its turn until nothing is left to do at this moment; then time may pass.

Within a moment, parts first hear of all changes in the order of the writes, then act one after the other, the scheduler
last. Whoever else writes to the API server (an autoscaler in the same event loop) wakes the pulse.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from windlass import clock
from windlass.simulator.world import agenda
from windlass.simulator.world.api import Api, Change
from windlass.simulator.world.kinds import Kind


class Part(Protocol):
    """A piece of the world."""

    @property
    def hears(self) -> tuple[Kind, ...]:
        """Kinds whose changes it wants to be told of."""

    def react(self, change: Change) -> None:
        """Take note. Nothing is written here."""

    def act(self) -> bool:
        """Do what has become due; was there anything?"""


class Endless(Exception):
    """The parts keep each other busy without end."""


_MOST_TURNS = 5_000_000


class Pulse:
    """Gives parts their turns, and lets time pass between."""

    def __init__(self, api: Api, clock_: clock.Virtual) -> None:
        self.api = api
        self.agenda = agenda.Agenda()
        self.turns = 0
        """Changes heard and things done so far."""
        self._clock = clock_
        self._parts: tuple[Part, ...] = ()
        self._listeners: dict[Kind, tuple[Part, ...]] = {}
        self._before: list[Callable[[], None]] = []
        self._after: list[Callable[[], None]] = []
        self._waking: asyncio.Future[None] | None = None
        api.notify = self._wake

    def join(self, parts: Iterable[Part]) -> None:
        """Who takes part, in the order of their turns."""
        self._parts = (*self._parts, *parts)
        heard = {kind for part in self._parts for kind in part.hears}
        self._listeners = {kind: tuple(part for part in self._parts if kind in part.hears) for kind in heard}

    def before_each_step(self, act: Callable[[], None]) -> None:
        """To be called when time has passed and nobody has heard yet of what happened since."""
        self._before.append(act)

    def after_each_step(self, act: Callable[[], None]) -> None:
        """To be called whenever the world has come to rest at a moment."""
        self._after.append(act)

    # ── Time ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def now_s(self) -> float:
        """Seconds since the world began."""
        return self._clock.monotonic_s()

    def wall_s(self) -> float:
        return self._clock.now_s()

    def later(self, delay_s: float, act: Callable[[], None]) -> None:
        self.agenda.note(self.now_s() + delay_s, act)

    async def run(self, until_s: float) -> None:
        """Live until a moment of the monotonic clock."""
        self.step()
        while self.now_s() < until_s:
            await self._wait(min(self.agenda.next_s(), until_s))
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

    # ── Turns ────────────────────────────────────────────────────────────────────────────────────────────────────

    def step(self) -> None:
        """Do all that is to be done at this moment."""
        for act in self._before:
            act()
        most = self.turns + _MOST_TURNS + 100 * len(self.api.changes)
        while self._turn():
            if self.turns > most:
                raise Endless(f"after {most} turns at {self.now_s():g} s there is still something to do")
        for act in self._after:
            act()

    def _turn(self) -> bool:
        is_busy = self._hear()
        while (due := self.agenda.take(self.now_s())) is not None:
            self.turns += 1
            due()
            is_busy = True
        is_busy = self._hear() or is_busy
        for part in self._parts:
            if part.act():
                is_busy = True
                self._hear()
        return is_busy

    def _hear(self) -> bool:
        """Tell the parts of all changes, those that the server's own controllers make in turn included."""
        api, changes, listeners = self.api, self.api.changes, self._listeners
        api.server.settle()
        if not changes:
            return False
        while changes:
            change = changes.popleft()
            self.turns += 1
            for part in listeners.get(change.kind, ()):
                part.react(change)
            if not changes:
                api.server.settle()
        return True
