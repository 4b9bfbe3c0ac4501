"""The real autoscaler on such a day: killed, started again, with a clock that cannot be trusted."""

import asyncio
import random

from tests.chaos.drawing import Day
from tests.chaos.faults import Edit, Jump, Kill
from tests.chaos.weather import Outdoors, Skies
from windlass import clock
from windlass.kube import errors, transport
from windlass.simulator import autoscaling
from windlass.simulator.simulation import Simulation
from windlass.simulator.world import edit, groups, kinds

_READS = ("GET", "HEAD")


class Skewed:
    """A process's own idea of the time: the wall clock may be wrong, what lasts is not."""

    def __init__(self, inner: clock.Clock, jumps: tuple[Jump, ...]) -> None:
        self._inner, self._jumps = inner, jumps

    def now_s(self) -> float:
        at_s = self._inner.monotonic_s()
        off_s = sum(jump.by_s for jump in self._jumps if jump.at_s <= at_s < jump.at_s + jump.lasts_s)
        return self._inner.now_s() + off_s

    def monotonic_s(self) -> float:
        return self._inner.monotonic_s()

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class Lifeline:
    """What ties one process to the world. Once it is cut, nothing that the process still does gets out."""

    def __init__(self, inner: transport.Transport, time: clock.Clock, kill: Kill | None) -> None:
        self._inner, self._time, self._kill = inner, time, kill
        self._writes = 0
        self.cut = asyncio.Event()

    async def send(self, request: transport.Request) -> transport.Response:
        if self.cut.is_set():
            raise errors.ConnectFailed(request.call, "this process is dead")
        if request.method in _READS or not self._is_last():
            return await self._inner.send(request)
        if self._kill is not None and self._kill.has_acted:
            answer = await self._inner.send(request)
            await answer.stream.aclose()
        self.cut.set()
        await asyncio.Event().wait()  # the process goes before it hears of it
        raise AssertionError

    def _is_last(self) -> bool:
        kill = self._kill
        if kill is None or not kill.writes or self._time.monotonic_s() < kill.at_s:
            return False
        self._writes += 1
        return self._writes == kill.writes


class Lives:
    """Plays a day: one process after the other."""

    def __init__(self, day: Day, skies: Skies) -> None:
        self._day, self._skies = day, skies
        self.deaths = 0

    async def __call__(self, simulation: Simulation) -> None:
        for one in self._day.edits:
            _put_nonsense(simulation, one)
        way = Outdoors(simulation.transport, self._skies)
        time = Skewed(simulation.clock, self._day.jumps)
        for number, kill in enumerate((*self._day.kills, None)):
            line = Lifeline(way, time, kill)
            await self._live(simulation, line, time, kill, random.Random(simulation.scenario.seed + number))
            assert kill is not None
            self.deaths += 1
            await time.sleep(kill.down_s)

    async def _live(
        self, simulation: Simulation, line: Lifeline, time: clock.Clock, kill: Kill | None, chance: random.Random
    ) -> None:
        """From its start until it is killed, or until the day is over."""
        living = asyncio.ensure_future(autoscaling.live(simulation.scenario, line, time, chance))
        dying = asyncio.ensure_future(line.cut.wait())
        if kill is not None and not kill.writes:
            asyncio.get_running_loop().call_at(kill.at_s, line.cut.set)
        try:
            await asyncio.wait((living, dying), return_when=asyncio.FIRST_COMPLETED)
            if living.done():
                living.result()
                raise AssertionError("the autoscaler ended by itself")
        finally:
            line.cut.set()
            for task in (living, dying):
                task.cancel()
            await asyncio.gather(living, dying, return_exceptions=True)


def _put_nonsense(simulation: Simulation, fault: Edit) -> None:
    key, api = f"{groups.NAMESPACE}/{fault.group}", simulation.world.api
    was = api.all(kinds.MACHINE_DEPLOYMENTS)[key]["metadata"]["annotations"][fault.annotation]

    def write(value: str) -> None:
        found = api.all(kinds.MACHINE_DEPLOYMENTS)[key]
        api.update(kinds.MACHINE_DEPLOYMENTS, edit.with_annotation(found, fault.annotation, value))

    simulation.world.pulse.later(fault.at_s, lambda: write(fault.value))
    simulation.world.pulse.later(fault.at_s + fault.lasts_s, lambda: write(was))
