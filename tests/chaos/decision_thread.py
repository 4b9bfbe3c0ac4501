"""Decisions in a thread of their own, as live, and the same every time: on a share of the days.

A thread begins when nothing else can happen at that moment, waits for the event loop to come to rest once more, and
works while that waits for it. Now and then the process is killed in between: while it decides.
"""

import asyncio
import random
import threading
from collections.abc import Callable
from typing import TypeVar

from windlass import clock
from windlass.autoscaler.autoscaler import run_in_thread

T = TypeVar("T")

_AT_REST_S = 1e-6
_STEPS = 30
"""Steps of the event loop in which all that a kill brings about has happened."""
_DIES = 0.02
"""How likely a process that will be killed is killed while it decides, each time."""


class InThread:
    """How one process decides."""

    def __init__(self, time: clock.Clock, chance: random.Random, die: Callable[[], None] | None) -> None:
        """`die` kills the process; None: nobody does."""
        self._clock, self._chance, self._die = time, chance, die

    async def __call__(self, work: Callable[[], T]) -> T:
        await self._clock.sleep(_AT_REST_S)
        released, loop = threading.Event(), asyncio.get_running_loop()

        def step(left: int) -> None:
            if left:
                loop.call_soon(step, left - 1)
            else:
                released.set()

        def decide() -> T:
            released.wait()
            return work()

        if self._die is not None and self._chance.random() < _DIES:
            self._die()
        loop.call_soon(step, _STEPS)
        return await run_in_thread(decide)
