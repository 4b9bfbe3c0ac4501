"""A simulation that is watched and asked from another thread while it is played, and after it has ended.

The story has an event loop of its own, in which time jumps. Whoever watches (a web server) lives in real time, in
another thread: what is published is handed over by the publisher, questions are put into the story's loop between two
of its steps. Once the story is over nothing changes any more, and questions are answered where they are asked.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from windlass import clock, errors
from windlass.autoscaler.autoscaler import Autoscaler
from windlass.autoscaler.process import Process
from windlass.autoscaler.published import making
from windlass.autoscaler.published.publisher import Publisher
from windlass.engine.decide import decide
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings
from windlass.explain import choices
from windlass.simulator import autoscaling
from windlass.simulator.simulation import Simulation

T = TypeVar("T")
Moment = tuple[Observation, Memory, Settings, float]

_SLICE_S = 0.02
"""Real seconds for which the story may stand still at a time; questions wait for as long."""
_PAUSE_S = 0.2
"""Real seconds between two statuses: nobody looks faster."""
_SAMPLES = 600
"""Points of the lines over the whole story."""


class Watched:
    """One story. `speed`: seconds of it in a real one; 0: as fast as it goes."""

    def __init__(self, name: str, lasts_s: float, speed: float = 0.0) -> None:
        setting = making.Setting("simulated", name, speed)
        sample_s = max(lasts_s / _SAMPLES, 1.0)
        self.published = Publisher(self._now_s, setting, sample_s=sample_s, pause_s=_PAUSE_S)
        self._speed = speed
        self._clock: clock.Virtual | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._autoscaler: Autoscaler | None = None
        self._last: Moment | None = None

    # The story's side

    async def play(self, story: Simulation, hear: autoscaling.Hear) -> None:
        """As `autoscaling.play`, at the speed that was chosen."""
        self._clock, self._loop = story.clock, asyncio.get_running_loop()
        pacing = asyncio.create_task(self._keep_pace(story.clock))
        try:
            await autoscaling.play(story, hear, self)
        finally:
            pacing.cancel()
            await self._end()

    async def _keep_pace(self, story: clock.Virtual) -> None:
        """Hold the story up whenever it is ahead. Nothing in it notices, because its time is its own."""
        began_s, from_s = time.monotonic(), story.monotonic_s()
        while self._speed > 0.0:
            await story.sleep(self._speed * _SLICE_S)
            ahead_s = (story.monotonic_s() - from_s) / self._speed - (time.monotonic() - began_s)
            while ahead_s > 0.0:
                time.sleep(min(ahead_s, _SLICE_S))
                ahead_s -= _SLICE_S
                await asyncio.sleep(0)  # whoever asks is answered meanwhile

    async def _end(self) -> None:
        """Keep what there was to decide on in the end, and tell those who watch that nothing more comes."""
        if self._autoscaler is not None and self._autoscaler.decision is not None:
            last: Moment = await self._autoscaler.ask(lambda *moment: moment)
            decision = decide(*last)
            self.published.look(decision.evaluated, decision, last[3])
            self.published.end()
            self._last = last
        self._loop = None

    def meet(self, process: Process) -> None:
        """Be told who plays."""
        self._autoscaler = process.autoscaler

    def _now_s(self) -> float:
        return 0.0 if self._clock is None else self._clock.now_s()

    # The other side

    @property
    def past(self) -> Mapping[str, choices.Past]:
        """Why groups grew the last time."""
        return {} if self._autoscaler is None else self._autoscaler.past

    @property
    def set_aside(self) -> Sequence[errors.InvalidObject]:
        """Objects that cannot be read, or not in full."""
        return () if self._autoscaler is None else self._autoscaler.set_aside

    async def ask(self, question: Callable[[Observation, Memory, Settings, float], T]) -> T:
        """From an event loop of another thread. WindlassError while nothing was decided."""
        asked, loop = self._autoscaler, self._loop
        if asked is None:
            raise errors.WindlassError("the story has not begun")
        if loop is not None:
            answer = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked.ask(question), loop))
            await asyncio.wait([answer])
            if not answer.cancelled():
                return answer.result()
        last = self._last
        if last is None:
            raise errors.WindlassError("the story ended before anything was decided")
        return await asyncio.to_thread(lambda: question(*last))  # nothing of it changes any more
