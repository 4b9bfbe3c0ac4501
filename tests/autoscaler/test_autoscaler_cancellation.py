"""Cancelled, and told of changes, at every point where a turn waits, with decisions in a thread of their own.

Each run cancels at another point: the first, the second, … up to the last. Whatever the point, the turn ends, nothing
is sent afterwards, the snapshot is whole and nobody else read it while the thread had it, and what was done is
remembered.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.autoscaler.in_process_cluster import NOW_S, Cluster
from tests.autoscaler.test_autoscaler import quick
from tests.autoscaler.test_autoscaler_decision_thread import NEW_KEY
from tests.autoscaler.test_memory_store import saved
from tests.providers.clusterapi.management_cluster import Carrier
from windlass import clock
from windlass.autoscaler.autoscaler import Autoscaler, run_in_thread
from windlass.engine import taints
from windlass.engine.loop import Decision, decide
from windlass.engine.model.settings import Settings
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.kube import request_builders, resources, transport

LASTS_S = 25.0
"""How long a run is watched: nodes come, and one goes."""
_STEPS = 60
"""Steps of the event loop while a decision stands in the middle: all that can happen then does."""
_COLUMNS = frozenset({"nodes", "pods", "tallies", "shapes", "_pods_on", "_forks", "waiting", "add_pod", "remove_pod"})


class Guarded(Snapshot):
    """A snapshot that notes who touches it while a thread has it."""

    def __init__(self) -> None:
        self.owner: threading.Thread | None = None
        self.trespasses: set[str] = set()
        super().__init__()

    def __getattribute__(self, name: str) -> Any:
        if name in _COLUMNS:
            owner = object.__getattribute__(self, "owner")
            if owner is not None and owner is not threading.current_thread():
                object.__getattribute__(self, "trespasses").add(name)
        return super().__getattribute__(name)


class Stepped(Awaitable[Any]):
    """A coroutine, with something done each time it waits."""

    def __init__(self, inner: Coroutine[Any, Any, Any], at_wait: Callable[[], None]) -> None:
        self._inner, self._at_wait = inner, at_wait

    def __await__(self) -> Generator[Any, Any, Any]:
        raised: BaseException | None = None
        while True:
            try:
                awaited = self._inner.send(None) if raised is None else self._inner.throw(raised)
            except StopIteration as end:
                return end.value
            self._at_wait()
            try:
                yield awaited
                raised = None
            except BaseException as error:
                raised = error


class Slow:
    """Carries writes, each of which takes a while to get there, and its answer to come back."""

    def __init__(self, inner: Carrier, time: clock.VirtualClock) -> None:
        self._inner, self._clock = inner, time
        self.at_wait: Callable[[], None] = lambda: None

    @property
    def sent(self) -> list[transport.Request]:
        return self._inner.sent

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method == "GET":
            return await self._inner.send(request)
        await Stepped(self._clock.sleep(0.02), self.at_wait)
        response = await self._inner.send(request)
        await Stepped(self._clock.sleep(0.02), self.at_wait)
        return response


class Parking:
    """Decides in a thread that stops at its first checkpoint, inside a fork, until the event loop has nothing to do."""

    def __init__(self, snapshot: Guarded) -> None:
        self.snapshot = snapshot
        self.decisions = 0
        self.opened = 0
        """How often the gate was open while the thread worked."""
        self.autoscaler: Autoscaler

    def choose(self, seen: Any, memory: Any, settings: Any, now_s: float, timer: Any) -> Decision:
        self.snapshot.owner = threading.current_thread()
        try:
            return decide(seen, memory, settings, now_s, replace_begin(timer, self._park))
        finally:
            self.snapshot.owner = None

    def _park(self) -> None:
        assert self._released.wait(30)

    async def think(self, work: Callable[[], Decision]) -> Decision:
        self.decisions += 1
        self._released = threading.Event()
        asyncio.get_running_loop().call_soon(self._step, _STEPS)
        return await run_in_thread(work)

    def _step(self, left: int) -> None:
        self.opened += self.snapshot.owner is not None and not self.autoscaler._cluster_state._gate.is_frozen
        if left:
            asyncio.get_running_loop().call_soon(self._step, left - 1)
        else:
            self._released.set()


def replace_begin(timer: Any, park: Callable[[], None]) -> Any:
    class Timer:
        parked = False

        def begin(self, part: str, limit_s: float) -> Any:
            if not self.parked:
                self.parked = True
                park()
            return timer.begin(part, limit_s)

        measure = timer.measure

    return Timer()


@dataclass
class Run:
    """What one run came to."""

    cancelled_at: int
    waits: int = 0
    sent_when_cancelled: int = -1
    sent_later: list[str] = field(default_factory=list)
    decided_later: int = 0
    problems: list[str] = field(default_factory=list)


def settings() -> Settings:
    chosen = quick()
    return replace(
        chosen,
        groups=replace(chosen.groups, scale_down_unneeded_time_s=4.0),
        scale_down=replace(chosen.scale_down, scale_down_delay_after_add_s=0.0, scan_interval_s=5.0),
    )


def play(cancelled_at: int) -> Run:
    run, time = Run(cancelled_at), clock.VirtualClock(NOW_S)

    async def main() -> None:
        cluster = Cluster(time, settings())
        cluster.carrier = Slow(cluster.carrier, time)  # type: ignore[assignment]
        cluster.add_group("a", 2, delete_s=1.0)
        cluster.add_group("b", 0)
        cluster.register_nodes()
        cluster.add_pod("busy", "3", node="a-1")
        cluster.add_pod("w", "4", spec={"nodeSelector": {"group": "b"}})
        await _watch(cluster, run)

    time.run(main())
    return run


def _writes(cluster: Cluster) -> list[str]:
    return [f"{request.method} {request.path}" for request in cluster.carrier.sent if request.method != "GET"]


async def _watch(cluster: Cluster, run: Run) -> None:
    snapshot = Guarded()
    parking = Parking(snapshot)
    decided: list[int] = []

    def at_wait() -> None:
        run.waits += 1
        if run.waits != run.cancelled_at:
            return
        cluster.add_pod("late", spec=NEW_KEY)
        cluster.server.handle(request_builders.build_delete(resources.PODS, "busy", "default"))
        run.sent_when_cancelled = len(_writes(cluster))
        decided.append(parking.decisions)
        cluster.going.cancel()

    async with cluster.autoscaling(snapshot=snapshot, choose=parking.choose, think=parking.think) as running:
        parking.autoscaler = running
        cluster.carrier.at_wait = at_wait  # type: ignore[attr-defined]
        turn, move_on = running._run_loop, running._advance_drains
        running.loop._iterate = lambda: Stepped(turn(), at_wait)
        running._advance_drains = lambda: Stepped(move_on(), at_wait)  # type: ignore[method-assign, assignment, return-value]
        until_s = cluster.clock.monotonic_s() + LASTS_S
        while cluster.clock.monotonic_s() < until_s and not cluster.going.done():
            cluster.register_nodes()
            await cluster.clock.sleep(0.25)
        if run.sent_when_cancelled < 0:
            assert run.waits < run.cancelled_at
            assert cluster.provider.groups["b"].size == 1, "a group was raised"
            assert cluster.provider.groups["a"].size == 1, "and a node deleted"
            return
        ended_s = cluster.clock.monotonic_s()
        await cluster.clock.sleep(20.0)
        run.decided_later = parking.decisions - decided[0]
        run.sent_later = _writes(cluster)[run.sent_when_cancelled :]
        run.problems += [
            said
            for said, is_so in {
                "the turn did not end": not cluster.going.cancelled() or ended_s >= until_s,
                "the gate was open while the thread worked": parking.opened > 0,
                f"the event loop touched {snapshot.trespasses}": bool(snapshot.trespasses),
                "the snapshot is left in a fork": snapshot.forks > 0,
                "what came meanwhile is lost": not any(snapshot.pod(row).name == "late" for row in snapshot.pending()),
                "what was done is not remembered": not await _is_remembered(cluster),
            }.items()
            if is_so
        ]


async def _is_remembered(cluster: Cluster) -> bool:
    kept = await saved(cluster)
    marked = {
        node["metadata"]["name"]
        for node in (await cluster.api.list(resources.NODES.untyped())).items
        if any(taint["key"] == taints.TO_BE_DELETED_KEY for taint in node["spec"].get("taints", ()))
    }
    raised = cluster.provider.groups["b"].size > 0 and not any(
        node.labels["group"] == "b" for node in cluster.provider.nodes
    )
    return marked <= set(kept.drains) and (not raised or "b" in kept.health.requests.scale_ups)


_PARTS = 4


@pytest.mark.parametrize("part", range(_PARTS))
def test_a_turn_can_be_cancelled_wherever_it_waits(part: int) -> None:
    number, seen = part + 1, 0
    while True:
        run = play(number)
        if run.sent_when_cancelled < 0:
            break
        assert run.problems == [], run
        assert run.sent_later == [], run
        assert run.decided_later == 0, run
        number, seen = number + _PARTS, seen + 1
    assert seen > 5
