"""A stage: a reporter on an embedded API server in virtual time, and loops played by hand before it."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.kube.faulty_transport import Faulty
from tests.observability.recorded_situations import NOW_S, PEER, carried_out
from windlass import clock
from windlass.apiserver import embedded_server, server
from windlass.engine import drain_loop
from windlass.engine import loop as engine_loop
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import plan
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.kube import client, errors, resources, transport
from windlass.observability.reporter import Reporter

CONFIG_MAPS, EVENTS = resources.CONFIG_MAPS.untyped(), resources.EVENTS.untyped()


class Stage:
    """One process that reports."""

    def __init__(self, settings: Settings = PEER, **wired: Any) -> None:
        self.clock = clock.VirtualClock(NOW_S)
        self.settings, self.memory = settings, LoopMemory()
        carrier = embedded_server.InProcessTransport(server.Server(self.clock), self.clock)
        self.faults = Faulty(carrier, random.Random(1))
        self.calls: list[tuple[str, str]] = []
        """Method and path of every request."""
        self.api = client.Client(self, self.clock, client.ClientSettings(qps=0))
        self._wired = wired

    def play(self, script: Callable[["Stage"], Awaitable[None]]) -> "Stage":
        """Run a script while the reporter runs."""

        async def main() -> None:
            self.reporter = Reporter(self.api, self.settings, **self._wired)
            await self.reporter.start()
            running = asyncio.create_task(self.reporter.run())
            try:
                await script(self)
                await self.clock.sleep(5.0)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

        self.clock.run(main())
        return self

    def loop(
        self, observation: Observation, failed: Mapping[plan.Instruction, str] | None = None
    ) -> engine_loop.Decision:
        """Observe, decide, act, report."""
        now_s = self.clock.now_s()
        self.reporter.begin_loop()
        decision = engine_loop.decide(observation, self.memory, self.settings, now_s)
        self.memory = decision.memory
        account = self.reporter.before_acting(observation, decision, now_s)
        self.reporter.after_acting(account, carried_out(decision.plan, failed))
        self.reporter.end_loop()
        return decision

    def move_drains(
        self, observation: Observation, failed: Mapping[plan.Instruction, str] | None = None
    ) -> drain_loop.DrainLoopResult:
        now_s = self.clock.now_s()
        advanced = drain_loop.advance(observation, self.memory, self.settings, now_s)
        self.memory = advanced.memory
        account = self.reporter.before_acting(observation, advanced, now_s)
        self.reporter.after_acting(account, carried_out(advanced.plan, failed))
        return advanced

    async def send(self, request: transport.Request) -> transport.Response:
        self.calls.append((request.method, request.path))
        return await self.faults.send(request)

    async def status(self, name: str = "cluster-autoscaler-status") -> dict[str, Any] | None:
        try:
            return await self.api.get(CONFIG_MAPS, name, "kube-system")
        except errors.NotFound:
            return None

    async def events(self) -> list[dict[str, Any]]:
        return list((await self.api.list(EVENTS)).items)
