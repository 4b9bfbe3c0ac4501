"""Observed simulation: status and explain queries from another thread, during a simulation and after it.

The simulation has its own event loop with virtual time. An observer, such as a web server, runs in real time in another
thread: the publisher passes statuses to it, and queries run in the simulation's loop between two steps. After the end
the state is final, and queries run in the caller's thread.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from windlass import clock, errors
from windlass.autoscaler.app import AutoscalerProcess
from windlass.autoscaler.autoscaler import Autoscaler
from windlass.engine.loop import decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain import explain_context
from windlass.explain.decision_view import DecisionView
from windlass.observability import status_builder
from windlass.observability.status_publisher import StatusPublisher
from windlass.simulator import autoscaler_run
from windlass.simulator.simulation import Simulation

T = TypeVar("T")
DecisionInputs = tuple[Observation, LoopMemory, Settings, float]

_SLICE_S = 0.02
"""Longest sleep in real seconds while the simulation is ahead; queries wait for as long."""
_PAUSE_S = 0.2
"""Real seconds between two statuses."""
_SAMPLES = 600
"""Points of the trend lines over the whole scenario."""


class ObservedSimulation:
    """One run. `speed`: scenario seconds per real second; 0: as fast as possible."""

    def __init__(self, name: str, lasts_s: float, speed: float = 0.0) -> None:
        setting = status_builder.PublisherInfo("simulated", name, speed)
        sample_s = max(lasts_s / _SAMPLES, 1.0)
        self.published = StatusPublisher(self._now_s, setting, sample_s=sample_s, pause_s=_PAUSE_S)
        self._speed = speed
        self._clock: clock.VirtualClock | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._autoscaler: Autoscaler | None = None
        self._last: DecisionInputs | None = None

    # Simulation's thread

    async def run(self, story: Simulation, hear: autoscaler_run.DecisionCallback) -> None:
        """As `autoscaler_run.run_autoscaler`, at the given speed."""
        self._clock, self._loop = story.clock, asyncio.get_running_loop()
        pacing = asyncio.create_task(self._keep_pace(story.clock))
        try:
            await autoscaler_run.run_autoscaler(story, hear, self)
        finally:
            pacing.cancel()
            await self._end()

    async def _keep_pace(self, story: clock.VirtualClock) -> None:
        """Sleep whenever the simulation is ahead of the speed. Virtual time is not affected."""
        began_s, from_s = time.monotonic(), story.monotonic_s()
        while self._speed > 0.0:
            await story.sleep(self._speed * _SLICE_S)
            ahead_s = (story.monotonic_s() - from_s) / self._speed - (time.monotonic() - began_s)
            while ahead_s > 0.0:
                time.sleep(min(ahead_s, _SLICE_S))
                ahead_s -= _SLICE_S
                await asyncio.sleep(0)  # queries run meanwhile

    async def _end(self) -> None:
        """Keep the last observation for queries, and publish the end."""
        if self._autoscaler is not None and self._autoscaler.decision is not None:
            last: DecisionInputs = await self._autoscaler.query(lambda *moment: moment)
            self.published.refresh(DecisionView(decide(*last)), last[3])
            self.published.end()
            self._last = last
        self._loop = None

    def attach(self, process: AutoscalerProcess) -> None:
        """Receive the autoscaler's process."""
        self._autoscaler = process.autoscaler

    def _now_s(self) -> float:
        return 0.0 if self._clock is None else self._clock.now_s()

    # Observer's thread

    @property
    def past_choices(self) -> Mapping[str, explain_context.PastChoice]:
        """Reasons of the last scale-ups by group."""
        return {} if self._autoscaler is None else self._autoscaler.past_choices

    @property
    def set_aside(self) -> Sequence[errors.InvalidObject]:
        """Objects that cannot be read, or only in part."""
        return () if self._autoscaler is None else self._autoscaler.set_aside

    async def query(self, question: Callable[[Observation, LoopMemory, Settings, float], T]) -> T:
        """Run an explain query from another thread's event loop. WindlassError before the first decision."""
        asked, loop = self._autoscaler, self._loop
        if asked is None:
            raise errors.WindlassError("the simulation has not started")
        if loop is not None:
            answer = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked.query(question), loop))
            await asyncio.wait([answer])
            if not answer.cancelled():
                return answer.result()
        last = self._last
        if last is None:
            raise errors.WindlassError("the simulation ended before the first decision")
        return await asyncio.to_thread(lambda: question(*last))  # the state is final
