"""A simulation: a scenario, the world that it describes, whoever plays in it, and what came of it."""

import asyncio
import contextlib
import datetime
import gc
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

from windlass import clock
from windlass.kube import transport
from windlass.simulator.checks.checker import Checker
from windlass.simulator.checks.violation import Violation
from windlass.simulator.measure import expectations, totals
from windlass.simulator.measure.meter import Meter, Series
from windlass.simulator.scenario import driving, machinery, model
from windlass.simulator.scenario.trouble import Troubled
from windlass.simulator.trace import playing, reading
from windlass.simulator.world.world import World

Player = Callable[["Simulation"], Coroutine[Any, Any, None]]
"""Who plays: an autoscaler that talks to `Simulation.transport` by `Simulation.clock` until it is cancelled."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it. The same for the same scenario and seed, to the byte."""

    scenario: str
    totals: totals.Totals
    series: Series
    violations: tuple[Violation, ...]
    outcomes: tuple[expectations.Outcome, ...] = field(default=())

    @property
    def is_as_expected(self) -> bool:
        return not self.violations and all(outcome.is_met for outcome in self.outcomes)


@contextlib.contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Nearly all that a story leaves behind is free without the garbage collector, which would take an eighth of the
    time to look through a cluster's objects again and again.
    """
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()  # the autoscaler froze what was there when it began, and all of that is over


class Simulation:
    """One run of a scenario."""

    def __init__(self, scenario: model.Scenario, trace: reading.Trace | None = None) -> None:
        self.scenario = scenario
        self.clock = clock.Virtual(datetime.datetime.fromisoformat(scenario.begins).timestamp())
        self.world = World(self.clock, machinery.make_groups(scenario), scenario.seed)
        self.troubled = Troubled(self.world.transport, self.clock, self.world.dice.for_part("trouble"))
        self.driver = driving.Driver(scenario, self.world, self.troubled)
        self._trace = playing.TracePlayer(trace, self.world) if trace is not None else None
        self.meter = Meter(self.world, float(scenario.sample))
        self.checker = Checker(self.world.pulse, self.driver.excused)
        self.world.pulse.join((self.meter, self.checker))
        self.world.pulse.before_each_step(self.meter.read)

    @property
    def transport(self) -> transport.Transport:
        """The way to the API server, with the story's trouble on it."""
        return self.troubled

    def play(self, player: Player | None = None) -> Result:
        """The whole story, in virtual time."""
        with _collecting_seldom():
            return self.clock.run(self.live(player))

    async def live(self, player: Player | None = None) -> Result:
        """The same within an event loop of `clock`."""
        self.world.found()
        self.driver.start()
        if self._trace is not None:
            self._trace.start()
        self.world.begin()
        self.meter.begin()
        playing = asyncio.ensure_future(player(self)) if player is not None else None
        try:
            await self._live(playing)
        finally:
            if playing is not None:
                playing.cancel()
                await asyncio.gather(playing, return_exceptions=True)
        self.meter.read()
        return self.result()

    async def _live(self, playing: "asyncio.Future[None] | None") -> None:
        """Until the story is over, or until whoever plays fails."""
        living = asyncio.ensure_future(self.world.pulse.run(self.scenario.duration))
        waiting = {living} if playing is None else {living, playing}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if living.done():
            living.result()
            return
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)
        assert playing is not None
        playing.result()
        raise RuntimeError("the autoscaler ended before the story did")

    def result(self) -> Result:
        """What has come of it so far."""
        summed = totals.add_up(
            self.meter,
            evictions_by_machines=self.world.machines.evictions,
            violations=len(self.checker.violations),
        )
        judged = tuple(expectations.judge(one, summed, self.meter.series) for one in self.scenario.expect)
        return Result(self.scenario.name, summed, self.meter.series, tuple(self.checker.violations), judged)
