"""Decisions in a thread of their own, as live: what cancels a turn waits for it, and nothing changes under it."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.autoscaler.in_process_cluster import Cluster, play
from windlass.autoscaler import loop_timing
from windlass.autoscaler.autoscaler import run_in_thread
from windlass.engine.loop import decide
from windlass.engine.model.plan import PlanResult

NEW_KEY = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"brand-new-key": "x"}},
        }
    ]
}
"""Of a pod that cannot be added to a snapshot inside a fork."""


class Holding:
    """Decides, and stops in the middle of it, inside a fork, until it is let go."""

    def __init__(self, wait: Callable[[], object]) -> None:
        self.begun, self.wait = asyncio.Event(), wait
        self.decisions = 0
        self._loop = asyncio.get_running_loop()

    def decide(self, seen: Any, memory: Any, settings: Any, now_s: float, timer: Any) -> Any:
        self.decisions += 1
        seen.snapshot.fork()
        try:
            self._loop.call_soon_threadsafe(self.begun.set)
            self.wait()
        finally:
            seen.snapshot.revert()
        return decide(seen, memory, settings, now_s, timer)


def test_a_cancellation_waits_for_the_decision_and_nothing_is_applied_under_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        let_go = threading.Event()
        holding = Holding(lambda: let_go.wait(30))
        async with cluster.autoscaling(think=run_in_thread, choose=holding.decide) as running:
            await holding.begun.wait()
            generation = running._cluster_state.snapshot.generation
            cluster.add_pod("late", spec=NEW_KEY)
            for _ in range(20):
                await asyncio.sleep(0)
            cluster.going.cancel()
            for _ in range(20):
                await asyncio.sleep(0)
            assert not cluster.going.done()
            assert running._cluster_state.snapshot.generation == generation
            let_go.set()
            with contextlib.suppress(asyncio.CancelledError):
                await cluster.going
            assert cluster.going.cancelled()
            assert holding.decisions == 1
            assert running.loop.iterations == 1
            assert running._cluster_state.snapshot.generation > generation, "what waited came after all"

    play(scenario)


def test_a_decision_that_is_not_wanted_any_more_ends_at_its_next_checkpoint() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        cluster.add_pod("p")
        begun, aborted = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def resume(seen: Any, memory: Any, settings: Any, now_s: float, timer: loop_timing.DecisionTimer) -> Any:
            loop.call_soon_threadsafe(begun.set)
            try:
                while True:
                    decide(seen, memory, settings, now_s, timer)
            except loop_timing.DecisionAborted:
                aborted.set()
                raise

        async with cluster.autoscaling(think=run_in_thread, choose=resume) as running:
            await begun.wait()
            cluster.going.cancel()
            await asyncio.wait((cluster.going,))
            assert aborted.is_set()
            assert running.loop.iterations == 1
            assert running._cluster_state.snapshot.forks == 0

    play(scenario)


def test_what_a_decision_imagines_is_seen_by_nobody_else() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 3)
        cluster.register_nodes()
        let_go, begun, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()

        def inject(seen: Any, memory: Any, settings: Any, now_s: float, timer: Any) -> Any:
            with seen.snapshot.scratch():
                seen.snapshot.mark_gone(seen.snapshot.nodes.rows["a-2"])
                seen.snapshot.append(seen.snapshot.nodes.facts[0], ["imagined"])
                loop.call_soon_threadsafe(begun.set)
                let_go.wait(30)
            return decide(seen, memory, settings, now_s, timer)

        async with cluster.autoscaling(think=run_in_thread, choose=inject) as running:
            await begun.wait()
            try:
                world = running._cluster_state
                assert sorted(node.name for node in world.nodes()) == ["a-1", "a-2", "a-3"]
                found = world.find_node("a-2")
                assert found is not None
                assert found.name == "a-2"
                assert world.find_node("imagined") is None
                assert world._find_lacking({"x"}) == []
            finally:
                let_go.set()

    play(scenario)


def test_only_the_last_loop_says_when_the_next_one_is_woken() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(1.0)
            before, woken = running.loop.iterations, list[float]()
            running.loop.wake = lambda: woken.append(cluster.clock.monotonic_s())  # type: ignore[method-assign]
            assert running.decision is not None
            for rest_s in (1.0, 2.0, 3.0):
                soon = replace(running.decision, quiet_until_s=cluster.clock.now_s() + rest_s)
                running._schedule_next(soon, PlanResult())
            since_s = cluster.clock.monotonic_s()
            await cluster.clock.sleep(5.0)
            assert [round(at_s - since_s, 1) for at_s in woken] == [3.0]
            assert running.loop.iterations == before

    play(scenario)
