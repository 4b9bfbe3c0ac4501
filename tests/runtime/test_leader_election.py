import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kube.little_server import answer, refusal
from windlass import clock, errors
from windlass.kube import client, transport
from windlass.kube import errors as kube_errors
from windlass.runtime import leader_election
from windlass.runtime.leader_election import Election, LeadershipLost, Settings


class LeaseServer:
    """Holds one lease."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] = {}
        self.version = 0
        self.history: list[str] = []

    def handle(self, request: transport.Request) -> transport.Response:
        body: Any = msgspec.json.decode(request.body or b"null")
        if request.method == "GET":
            return answer(200, self.lease) if self.lease else refusal(404, "NotFound")
        if request.method == "POST":
            if self.lease:
                return refusal(409, "AlreadyExists")
        elif not self.lease:
            return refusal(404, "NotFound")
        elif body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            return refusal(409, "Conflict")
        self.version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        self.history.append(self.lease["spec"]["holderIdentity"])
        return answer(200, self.lease)


@dataclass
class Process:
    """A process of its own: its clock runs at its own speed, it can be paused, and its network can be slow or cut."""

    base: clock.Virtual
    server: LeaseServer
    rate: float = 1.0
    wall_offset_s: float = 0.0
    latency: Callable[[], float] = lambda: 0.0
    paused_until_s: float = 0.0
    cut: bool = False
    calls: list[str] = field(default_factory=list)

    def now_s(self) -> float:
        return self.base.now_s() + self.wall_offset_s

    def monotonic_s(self) -> float:
        return self.base.monotonic_s() * self.rate + 1000.0 * self.rate

    async def sleep(self, seconds: float) -> None:
        await self.base.sleep(seconds / self.rate)
        await self.stand_still()

    async def stand_still(self) -> None:
        while self.paused_until_s > self.base.monotonic_s():
            await self.base.sleep(self.paused_until_s - self.base.monotonic_s())

    async def send(self, request: transport.Request) -> transport.Response:
        self.calls.append(request.method)
        await self.base.sleep(self.latency())
        if self.cut:
            await self.base.sleep(self.latency())
            await self.stand_still()
            raise kube_errors.ConnectionLost(request.call, "cut")
        response = self.server.handle(request)
        await self.base.sleep(self.latency())
        await self.stand_still()
        if self.cut:
            raise kube_errors.ConnectionLost(request.call, "cut")
        return response

    def election(self, identity: str, limits: Settings | None = None, seed: int = 0) -> Election:
        api = client.Client(self, self, client.Settings(qps=0), random.Random(seed))
        return Election(api, "kube-system", "windlass", identity, limits, random.Random(seed))


def leads(election: Election) -> bool:
    return election.is_leader


async def forever() -> None:
    await asyncio.Event().wait()


def play(scenario: Callable[[clock.Virtual, LeaseServer], Awaitable[None]]) -> LeaseServer:
    virtual = clock.Virtual(now_s=1_794_733_665.0)
    server = LeaseServer()

    async def main() -> None:
        await scenario(virtual, server)

    virtual.run(main())
    return server


@contextlib.asynccontextmanager
async def running(*acts: Awaitable[Any]) -> Any:
    tasks = [asyncio.ensure_future(act) for act in acts]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_the_first_candidate_leads_at_once_and_renews() -> None:
    async def scenario(base: clock.Virtual, server: LeaseServer) -> None:
        process = Process(base, server)
        election = process.election("a")
        async with running(election.run(forever)):
            assert not leads(election)
            await base.sleep(61)
            assert leads(election)
            assert server.lease["spec"] == {
                "holderIdentity": "a",
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-11-15T09:07:45.000000Z",
                "renewTime": "2026-11-15T09:08:45.000000Z",
                "leaseTransitions": 0,
            }
            assert process.calls == ["GET", "POST"] + ["PUT"] * 30

    play(scenario)


def test_a_lease_that_is_released_is_taken_without_waiting_for_its_end() -> None:
    async def scenario(base: clock.Virtual, server: LeaseServer) -> None:
        first, second = Process(base, server).election("a"), Process(base, server).election("b", seed=1)

        async def lead_for_a_while() -> None:
            await base.sleep(30)

        async with running(second.run(forever), first.run(lead_for_a_while)) as _:
            await base.sleep(0.1)
            assert (first.is_leader, second.is_leader) in ((True, False), (False, True))
            leader, other = (first, second) if first.is_leader else (second, first)
            assert other.holder == ("a" if leader is first else "b")
            await base.sleep(29.8)
            await base.sleep(5)
            assert second.is_leader

    server = play(scenario)
    assert set(server.history) <= {"a", "b", ""}


def test_on_cancellation_the_lease_is_released() -> None:
    async def scenario(base: clock.Virtual, server: LeaseServer) -> None:
        election = Process(base, server).election("a")
        async with running(election.run(forever)):
            await base.sleep(5)
        assert not election.is_leader
        assert server.lease["spec"]["holderIdentity"] == ""
        assert server.lease["spec"]["leaseDurationSeconds"] == 1

    play(scenario)


def test_who_gives_the_lease_up_does_not_lead_while_that_is_under_way() -> None:
    async def scenario(base: clock.Virtual, server: LeaseServer) -> None:
        process = Process(base, server, latency=lambda: 0.5)
        election = process.election("a")
        running = asyncio.create_task(election.run(forever))
        await base.sleep(2.5)
        assert leads(election)
        running.cancel()
        await base.sleep(0.7)
        assert server.history[-1] == ""
        assert not running.done()
        assert not leads(election)
        with pytest.raises(asyncio.CancelledError):
            await running

    play(scenario)


def test_a_leader_that_is_cut_off_stops_before_anyone_else_begins() -> None:
    async def scenario(base: clock.Virtual, server: LeaseServer) -> None:
        cut = Process(base, server)
        first, second = cut.election("a"), Process(base, server).election("b", seed=1)
        stopped: list[float] = []

        async def lead() -> None:
            try:
                await forever()
            finally:
                stopped.append(base.monotonic_s())

        async with running(first.run(lead)) as (leading,):
            await base.sleep(0.5)
            async with running(second.run(forever)):
                await base.sleep(20.5)
                cut.cut = True
                await base.sleep(8.9)
                assert leads(first)
                await base.sleep(0.2)
                assert not leads(first)
                await base.sleep(10)
                assert leads(second)
                with pytest.raises(LeadershipLost):
                    await leading
                # Last renewal at 20 s, so that it led until 30 s.
                assert stopped == [pytest.approx(30.0)]

    play(scenario)


def test_a_leader_that_was_paused_finds_out_when_it_wakes_and_does_not_take_part_again() -> None:
    async def scenario(base: clock.Virtual, server: LeaseServer) -> None:
        sleeper = Process(base, server)
        first, second = sleeper.election("a"), Process(base, server).election("b", seed=1)
        async with running(first.run(forever)) as (leading,):
            await base.sleep(1)
            async with running(second.run(forever)):
                sleeper.paused_until_s = 60.0
                await base.sleep(30)
                assert second.is_leader
                assert not first.is_leader
                await base.sleep(60)
                assert second.is_leader
                with pytest.raises(LeadershipLost):
                    await leading

    play(scenario)


def test_a_wall_clock_that_is_wrong_by_years_makes_no_difference() -> None:
    async def scenario(base: clock.Virtual, server: LeaseServer) -> None:
        first = Process(base, server, wall_offset_s=-1e8).election("a")
        second = Process(base, server, wall_offset_s=1e8).election("b", seed=1)
        async with running(first.run(forever), second.run(forever)):
            for _ in range(200):
                await base.sleep(0.7)
                assert first.is_leader + second.is_leader == 1

    play(scenario)


def test_a_renewal_whose_answer_was_lost_is_recognised_as_our_own() -> None:
    async def scenario(base: clock.Virtual, server: LeaseServer) -> None:
        process = Process(base, server)
        election = process.election("a")
        async with running(election.run(forever)):
            await base.sleep(1)
            server.version += 1
            server.lease["metadata"]["resourceVersion"] = str(server.version)
            await base.sleep(60)
            assert election.is_leader

    server = play(scenario)
    assert server.history[-1] == ""


def test_a_lease_that_someone_deleted_is_made_anew() -> None:
    async def scenario(base: clock.Virtual, server: LeaseServer) -> None:
        election = Process(base, server).election("a")
        async with running(election.run(forever)) as (leading,):
            await base.sleep(1)
            server.lease = {}
            await base.sleep(12)
            assert leading.done()
            with pytest.raises(LeadershipLost):
                await leading
        async with running(election.run(forever)):
            await base.sleep(1)
            assert election.is_leader

    play(scenario)


def test_fields_of_the_lease_that_nobody_here_knows_are_kept() -> None:
    async def scenario(base: clock.Virtual, server: LeaseServer) -> None:
        metadata = {"name": "windlass", "namespace": "kube-system", "resourceVersion": "0", "labels": {"team": "x"}}
        server.lease = {"metadata": metadata, "spec": {"strategy": "OldestEmulationVersion", "leaseTransitions": 4}}
        async with running(Process(base, server).election("a").run(forever)):
            await base.sleep(1)
        assert server.lease["metadata"]["labels"] == {"team": "x"}
        assert server.lease["spec"]["strategy"] == "OldestEmulationVersion"
        assert server.lease["spec"]["leaseTransitions"] == 5

    play(scenario)


def test_a_long_decision_does_not_keep_the_lease_from_being_renewed() -> None:
    async def scenario(base: clock.Virtual, server: LeaseServer) -> None:
        election = Process(base, server).election("a")

        async def decide() -> None:
            await base.sleep(600)

        await election.run(decide)

    server = play(scenario)
    assert server.history.count("a") == 301


def test_the_lease_is_renewed_while_a_leader_puts_things_in_order() -> None:
    async def scenario(base: clock.Virtual, server: LeaseServer) -> None:
        election = Process(base, server).election("a")

        async def lead() -> None:
            try:
                await forever()
            finally:
                await base.sleep(60)

        running = asyncio.create_task(election.run(lead))
        await base.sleep(5)
        running.cancel()
        await base.sleep(59)
        assert election.is_leader
        with pytest.raises(asyncio.CancelledError):
            await running
        assert server.history[-1] == ""

    play(scenario)


def test_what_leading_raises_comes_out_and_the_lease_is_released() -> None:
    async def scenario(base: clock.Virtual, server: LeaseServer) -> None:
        async def fail() -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await Process(base, server).election("a").run(fail)

    assert play(scenario).history == ["a", ""]


@pytest.mark.parametrize("limits", [(15, 15.0, 2.0), (15, 10.0, 9.0), (15, 10.0, 0.0)])
def test_durations_that_cannot_work_are_refused(limits: tuple[int, float, float]) -> None:
    with pytest.raises(errors.InvalidInput, match="leader election"):
        Settings(*limits)


def test_identities_are_never_the_same() -> None:
    assert leader_election.make_identity() != leader_election.make_identity()


mishaps = st.lists(
    st.tuples(
        st.floats(0.1, 20.0),
        st.integers(0, 2),
        st.sampled_from(["pause", "cut", "mend"]),
        st.floats(1.0, 40.0),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=40)
@given(
    mishaps=mishaps,
    rates=st.tuples(*[st.floats(0.85, 1.15)] * 3),
    seed=st.integers(0, 1000),
    slow_s=st.sampled_from([0.0, 0.3, 4.0]),
)
def test_there_are_never_two_leaders(
    mishaps: list[tuple[float, int, str, float]], rates: tuple[float, ...], seed: int, slow_s: float
) -> None:
    async def scenario(base: clock.Virtual, server: LeaseServer) -> None:
        rng = random.Random(seed)
        processes = [
            Process(base, server, rate, rng.uniform(-1e6, 1e6), lambda: slow_s * rng.random()) for rate in rates
        ]
        elections = [process.election(f"p{i}", seed=i) for i, process in enumerate(processes)]

        led_at_s: list[float] = []

        def check() -> None:
            assert sum(election.is_leader for election in elections) <= 1, [e.is_leader for e in elections]

        async def stand(election: Election) -> None:
            async def lead() -> None:
                check()
                led_at_s.append(base.monotonic_s())
                await base.sleep(rng.choice((2.0, 30.0)))

            while True:
                with contextlib.suppress(LeadershipLost):
                    await election.run(lead)

        async def watch() -> None:
            while True:
                check()
                await base.sleep(2.0)

        async with running(watch(), *(stand(election) for election in elections)) as tasks:
            for wait_s, which, what, pause_s in mishaps:
                await base.sleep(wait_s)
                process = processes[which]
                if what == "pause":
                    process.paused_until_s = base.monotonic_s() + pause_s
                process.cut = what == "cut" or (process.cut and what != "mend")
            for process in processes:
                process.cut = False
            await base.sleep(100)
            assert not any(task.done() for task in tasks), [task.exception() for task in tasks if task.done()]
            if slow_s < 1.0:
                assert led_at_s[-1] > base.monotonic_s() - 60.0, "nobody leads any more"

    play(scenario)
