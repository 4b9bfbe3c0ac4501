"""The real autoscaler on such a day: killed, stopped, started again, with a clock that cannot be trusted."""

import asyncio
import random
from collections.abc import Coroutine

from tests.chaos import decision_thread, leader_contention, write_rate
from tests.chaos.day_generator import Day
from tests.chaos.fault_injector import Outdoors, Skies
from tests.chaos.faults import Edit, Kill
from tests.chaos.process_transport import Lifeline, Own, Standstill
from windlass.autoscaler.autoscaler import DecisionRunner, run_inline
from windlass.engine.loop import Decision
from windlass.kube import transport
from windlass.runtime.leader_election import LeadershipLost
from windlass.simulator import autoscaler_run
from windlass.simulator.cluster import api_client, node_groups
from windlass.simulator.simulation import Simulation

_RESTARTS_S = 10.0
"""How long after its end a process is started again by whoever looks after it."""


class Lives:
    """Plays a day: one process after the other, or two beside each other where one of them stands still at times."""

    def __init__(self, day: Day, skies: Skies) -> None:
        self._day, self._skies = day, skies
        self.deaths = 0
        self.successions = 0
        """How often a process found that it did not lead any more."""
        self.complaints: list[str] = []

    async def __call__(self, simulation: Simulation) -> None:
        for edit in self._day.edits:
            _put_nonsense(simulation, edit)
        if not self._day.pauses:
            await self._live_on(simulation, Standstill(simulation.clock), self._day.kills, None)
            return
        lease = leader_contention.Lease(simulation, self.complaints)
        rivals = [leader_contention.Rival(lease, Standstill(simulation.clock)) for _ in range(2)]
        for pause in self._day.pauses:
            leader_contention.pause_leader(simulation, pause, rivals)
        async with asyncio.TaskGroup() as together:
            for number, rival in enumerate(rivals):
                kills = self._day.kills[number::2]
                together.create_task(self._live_on(simulation, rival.standstill, kills, rival))

    async def _live_on(
        self,
        simulation: Simulation,
        standstill: Standstill,
        kills: tuple[Kill, ...],
        rival: leader_contention.Rival | None,
    ) -> None:
        """One life after the other, each ended by a kill; until the day is over."""
        seed, time = simulation.scenario.seed, Own(simulation.clock, self._day.jumps, standstill)
        inner: transport.Transport = write_rate.Paced(simulation.transport, simulation.clock, self.complaints)
        inner = inner if rival is None else rival.through(inner)
        left = list(kills)
        number = 0
        while True:
            kill = left[0] if left else None
            line = Lifeline(Outdoors(inner, self._skies), time, kill)
            chance = random.Random(seed + number)
            number += 1
            think: DecisionRunner[Decision] = run_inline
            if self._day.in_thread:
                die = None if kill is None else line.cut.set
                think = decision_thread.InThread(simulation.clock, random.Random(f"{seed} {number}"), die)
            life = (
                autoscaler_run.run_process(simulation.scenario, line, time, chance, run_decision=think)
                if rival is None
                else leader_contention.take_part(simulation.scenario, line, time, chance, think)
            )
            if await self._live(life, line, kill, may_end=rival is not None):
                assert kill is not None
                left.pop(0)
                self.deaths += 1
                await simulation.clock.sleep(kill.down_s)
            else:
                self.successions += 1
                await simulation.clock.sleep(_RESTARTS_S)

    async def _live(
        self, life: Coroutine[object, object, None], line: Lifeline, kill: Kill | None, *, may_end: bool
    ) -> bool:
        """From its start until it is killed, or until the day is over. False: it ended by itself."""
        living = asyncio.ensure_future(life)
        dying = asyncio.ensure_future(line.cut.wait())
        if kill is not None and not kill.writes:
            asyncio.get_running_loop().call_at(kill.at_s, line.cut.set)
        try:
            await asyncio.wait((living, dying), return_when=asyncio.FIRST_COMPLETED)
            if not living.done():
                return True
            if may_end and _has_lost(living.exception()):
                return False
            living.result()
            raise AssertionError("the autoscaler ended by itself")
        finally:
            line.cut.set()
            for task in (living, dying):
                task.cancel()
            await asyncio.gather(living, dying, return_exceptions=True)


def _has_lost(error: BaseException | None) -> bool:
    """Did it end because it does not lead any more, and for no other reason?"""
    return isinstance(error, BaseExceptionGroup) and error.split(LeadershipLost)[1] is None


def _put_nonsense(simulation: Simulation, fault: Edit) -> None:
    key, api = f"{node_groups.NAMESPACE}/{fault.group}", simulation.cluster.api
    was = api.list_objects(api_client.MACHINE_DEPLOYMENTS)[key]["metadata"]["annotations"][fault.annotation]

    def write(value: str) -> None:
        found = api.list_objects(api_client.MACHINE_DEPLOYMENTS)[key]
        api.update(api_client.MACHINE_DEPLOYMENTS, api_client.with_annotation(found, fault.annotation, value))

    simulation.cluster.event_loop.call_later(fault.at_s, lambda: write(fault.value))
    simulation.cluster.event_loop.call_later(fault.at_s + fault.lasts_s, lambda: write(was))
