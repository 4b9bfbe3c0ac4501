"""A wall clock that is set, forward or back, hurries nothing and holds nothing up."""

import pytest

from tests.autoscaler.in_process_cluster import Cluster, play
from tests.autoscaler.test_autoscaler import quick
from windlass import clock
from windlass.autoscaler.loop_timing import ClockSkew
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model.durable_memory import DurableMemory
from windlass.engine.model.scale_down_state import ScaleActivity

DAY_S = 86400.0
UNNEEDED_S = 20.0


def set_clock(cluster: Cluster, by_s: float) -> None:
    cluster.clock.set_wall(cluster.clock.now_s() + by_s)


@pytest.mark.parametrize("by_s", [DAY_S, 60.0, -60.0, -DAY_S])
def test_an_idle_node_goes_when_it_was_unneeded_for_long_enough(by_s: float) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 2)
        cluster.register_nodes()
        cluster.add_pod("p", "3", node="a-1")
        await cluster.clock.sleep(2 * DAY_S)  # or the nodes would be still to come after the clock is set back
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: "a-2" in running.memory.durable.scale_down.since)
            set_clock(cluster, by_s)
            took_s = await cluster.until(lambda: "a-2" in running.memory.durable.drains)
            assert UNNEEDED_S - 0.2 <= took_s <= UNNEEDED_S + 11.0  # a loop later at most

    play(scenario, quick())


def test_what_was_saved_by_a_clock_ahead_holds_nobody_up() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 2)
        cluster.register_nodes()
        cluster.add_pod("p", "3", node="a-1")
        set_clock(cluster, DAY_S)
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: "a-2" in running.memory.durable.scale_down.since)
            await cluster.clock.sleep(11.0)
        set_clock(cluster, -DAY_S)
        async with cluster.autoscaling() as running:
            took_s = await cluster.until(lambda: "a-2" in running.memory.durable.drains)
            assert took_s <= UNNEEDED_S + 11.0

    play(scenario, quick())


@pytest.mark.parametrize("by_s", [DAY_S, -DAY_S])
def test_a_clock_that_was_set_while_another_led_moves_nothing_that_the_other_wrote_down(by_s: float) -> None:
    time = clock.VirtualClock()
    jumps = ClockSkew(time)
    time.set_wall(time.now_s() + by_s)
    written = LoopMemory(durable=DurableMemory(activity=ScaleActivity(deleted_s=time.now_s() - 30.0)))
    read = jumps.correct_saved(written)
    assert (read, jumps.correct(read)) == (written, written)
