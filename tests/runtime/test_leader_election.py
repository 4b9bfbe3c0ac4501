import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kube.fake_api_server import answer, refusal
from windlass import clock, errors
from windlass.kube import client, transport
from windlass.kube import errors as kube_errors
from windlass.runtime import leader_election
from windlass.runtime.leader_election import LeaderElectionSettings, LeaderElector, LeadershipLost


class LeaseServer:
    """Holds one lease."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] = {}
        self.version = 0
        self.history: list[str] = []

    def edit(self, spec: Any) -> None:
        """Someone else writes it."""
        self.version += 1
        self.lease = {**self.lease, "spec": spec}
        self.lease["metadata"] = {**self.lease["metadata"], "resourceVersion": str(self.version)}

    def handle(self, request: transport.Request) -> transport.Response:
        body: Any = msgspec.json.decode(request.body or b"null")
        if request.method == "GET":
            return answer(200, self.lease) if self.lease else refusal(404, "NotFound")
        if request.method == "POST":
            if self.lease:
                return refusal(409, "AlreadyExists")
        elif not self.lease:
            return refusal(409, "Conflict")  # as real servers do: a uid in what is sent is a precondition
        elif body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            return refusal(409, "Conflict")
        self.version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        self.history.append(self.lease["spec"]["holderIdentity"])
        return answer(200, self.lease)


@dataclass
class Process:
    """A process of its own: its clock runs at its own speed, it can be paused, and its network can be slow or cut."""

    base: clock.VirtualClock
    server: LeaseServer
    rate: float = 1.0
    wall_offset_s: float = 0.0
    latency: Callable[[], float] = lambda: 0.0
    paused_until_s: float = 0.0
    cut: bool = False
    calls: list[str] = field(default_factory=list)
    odd: Callable[[transport.Request], Awaitable[transport.Response | None]] | None = None
    """What becomes of the next call instead: an answer, or none, and then it is sent after all."""

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
        if self.odd is not None:
            odd, self.odd = self.odd, None
            if (said := await odd(request)) is not None:
                return said
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

    def election(self, identity: str, limits: LeaderElectionSettings | None = None, seed: int = 0) -> LeaderElector:
        api = client.Client(self, self, client.ClientSettings(qps=0), random.Random(seed))
        return LeaderElector(api, "kube-system", "windlass", identity, limits, random.Random(seed))


def leads(election: LeaderElector) -> bool:
    return election.is_leader


async def forever() -> None:
    await asyncio.Event().wait()


def play(scenario: Callable[[clock.VirtualClock, LeaseServer], Awaitable[None]]) -> LeaseServer:
    virtual = clock.VirtualClock(now_s=1_794_733_665.0)
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
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
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
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
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
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        election = Process(base, server).election("a")
        async with running(election.run(forever)):
            await base.sleep(5)
        assert not election.is_leader
        assert server.lease["spec"]["holderIdentity"] == ""
        assert server.lease["spec"]["leaseDurationSeconds"] == 1

    play(scenario)


def test_who_gives_the_lease_up_does_not_lead_while_that_is_under_way() -> None:
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
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
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
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
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
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
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        first = Process(base, server, wall_offset_s=-1e8).election("a")
        second = Process(base, server, wall_offset_s=1e8).election("b", seed=1)
        async with running(first.run(forever), second.run(forever)):
            for _ in range(200):
                await base.sleep(0.7)
                assert first.is_leader + second.is_leader == 1

    play(scenario)


def test_a_renewal_whose_answer_was_lost_is_recognised_as_our_own() -> None:
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
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
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        election = Process(base, server).election("a")
        async with running(election.run(forever)) as (leading,):
            await base.sleep(1)
            server.lease = {}
            await base.sleep(12)
            assert not leading.done()
            assert election.is_leader
            assert server.lease["spec"]["holderIdentity"] == "a"

    play(scenario)


def test_nobody_takes_a_lease_that_was_deleted_before_its_holder_can_know() -> None:
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        cut = Process(base, server)
        first, second = cut.election("a"), Process(base, server).election("b", seed=1)
        async with running(first.run(forever)):
            await base.sleep(0.5)
            async with running(second.run(forever)):
                await base.sleep(4.0)
                cut.cut = True
                server.lease = {}
                while not leads(second):
                    await base.sleep(0.1)
                assert not leads(first)
                assert base.monotonic_s() > 14.0

    play(scenario)


async def _hang(_: transport.Request) -> transport.Response:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("after_s", [0.5, 3.0, 12.3, 13.9])
def test_a_call_that_hangs_costs_one_attempt_and_not_the_lease(after_s: float) -> None:
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        process = Process(base, server)
        election = process.election("a")
        async with running(election.run(forever)) as (leading,):
            await base.sleep(after_s)
            process.odd = _hang
            for _ in range(300):
                await base.sleep(0.1)
                assert leads(election)
            assert not leading.done()

    play(scenario)


SENSELESS: list[bytes] = [
    b"<html>maintenance</html>",
    b"",
    b"null",
    b"[]",
    b"{}",
    b'{"metadata": []}',
    b'{"metadata": {"name": "windlass"}, "spec": {"holderIdentity": "a"}}',
    b'{"kind": "Status", "status": "Success"}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("body", SENSELESS, ids=range(len(SENSELESS)))
def test_a_senseless_answer_is_a_failed_attempt(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield body

    async def answer_oddly(_: transport.Request) -> transport.Response:
        return transport.Response(200, {}, chunks())

    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        process = Process(base, server)
        process.odd = answer_oddly  # to the first look
        election = process.election("a")
        async with running(election.run(forever)) as (leading,):
            await base.sleep(5.5)
            assert leads(election)
            process.odd = answer_oddly  # to a renewal
            for _ in range(200):
                await base.sleep(0.1)
                assert leads(election)
            assert not leading.done()

    play(scenario)
    assert [item.levelname for item in caplog.records if "renew lease" in item.message] == ["WARNING", "WARNING"]


LASTS: list[Any] = ["soon", True, [], 0, -5, 1, 2**31 - 1, 10**400]
TRANSITIONS: list[Any] = ["many", [], -1, 1e300, 2**31 - 1]
EDITS: list[Any] = [
    *([], "a", {}, None),
    {"holderIdentity": ["a"]},
    {"holderIdentity": ""},
    {"holderIdentity": 5, "leaseDurationSeconds": 2**31 - 1, "leaseTransitions": "9" * 5000},
    *({"holderIdentity": "a", "leaseDurationSeconds": odd} for odd in LASTS),
    *({"holderIdentity": "a", "leaseTransitions": odd} for odd in TRANSITIONS),
    {"holderIdentity": "a", "renewTime": 7, "acquireTime": {}, "strategy": []},
]


@pytest.mark.parametrize("spec", EDITS, ids=range(len(EDITS)))
def test_a_leader_writes_a_lease_anew_that_someone_edited_into_nonsense(spec: Any) -> None:
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        election = Process(base, server).election("a")
        async with running(election.run(forever)):
            await base.sleep(1)
            server.edit(spec)
            for _ in range(200):
                await base.sleep(0.1)
                assert leads(election)
            assert server.lease["spec"]["holderIdentity"] == "a"
            assert server.lease["spec"]["leaseDurationSeconds"] == 15
            assert server.version >= 10

    play(scenario)


@pytest.mark.parametrize("spec", EDITS, ids=range(len(EDITS)))
def test_a_lease_of_nonsense_is_taken_in_the_end_and_not_while_its_holder_may_lead(spec: Any) -> None:
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        cut = Process(base, server)
        first, second = cut.election("a"), Process(base, server).election("b", seed=1)
        async with running(first.run(forever)):
            await base.sleep(1)
            cut.cut = True
            server.edit(spec)
            async with running(second.run(forever)):
                while not leads(second):
                    await base.sleep(0.1)
                    assert base.monotonic_s() < 1000.0
                is_released = not spec or (isinstance(spec, dict) and spec["holderIdentity"] == "")
                assert is_released or not leads(first)

    play(scenario)


def test_a_renewal_that_arrives_long_after_it_was_given_up_changes_nothing() -> None:
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        process = Process(base, server)
        election = process.election("a")
        late: list[transport.Response] = []

        async def arrive_late(request: transport.Request) -> transport.Response:
            async def deliver() -> None:
                await base.sleep(8.0)
                late.append(server.handle(request))

            delivering.append(asyncio.ensure_future(deliver()))
            return await _hang(request)

        delivering: list[asyncio.Future[None]] = []
        async with running(election.run(forever)):
            await base.sleep(1)
            process.odd = arrive_late
            for _ in range(300):
                await base.sleep(0.1)
                assert leads(election)
        assert [response.status for response in late] == [409]

    play(scenario)


@pytest.mark.parametrize("after_s", [0.1, 0.3, 0.5, 0.7, 0.9, 1.1])
def test_a_candidate_that_ends_while_it_takes_the_lease_does_not_keep_it(after_s: float) -> None:
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        election = Process(base, server, latency=lambda: 0.2).election("a")
        standing = asyncio.create_task(election.run(forever))
        await base.sleep(after_s)
        standing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await standing
        await base.sleep(10.0)
        assert server.history in ([], ["a", ""])

    play(scenario)


def test_a_candidate_that_hangs_while_it_takes_the_lease_ends_soon() -> None:
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        process = Process(base, server)
        process.odd = _hang
        standing = asyncio.create_task(process.election("a").run(forever))
        await base.sleep(0.5)
        standing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await standing
        assert base.monotonic_s() <= 1.6

    play(scenario)


def test_what_ended_leadership_is_told() -> None:
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        process = Process(base, server)
        async with running(process.election("a").run(forever)) as (leading,):
            await base.sleep(1)
            process.cut = True
            with pytest.raises(LeadershipLost, match=r"not renewed in time: PUT .*/leases/windlass.*: cut"):
                await leading
        process.cut = False
        async with running(process.election("a").run(forever)) as (leading,):
            await base.sleep(1 + 15)
            server.lease = {**server.lease, "spec": {**server.lease["spec"], "holderIdentity": "b"}}
            server.lease["metadata"] = {**server.lease["metadata"], "resourceVersion": "1000"}
            with pytest.raises(LeadershipLost, match="lost: holder is b"):
                await leading

    play(scenario)


@pytest.mark.parametrize("how", ["cancelled", "lease lost"])
def test_a_leader_that_does_not_end_is_left_behind(how: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        process = Process(base, server)
        election = process.election("a")
        let_go = asyncio.Event()

        async def lead() -> None:
            while not let_go.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await let_go.wait()

        leading = asyncio.create_task(election.run(lead))
        await base.sleep(5)
        since_s = base.monotonic_s()
        if how == "cancelled":
            leading.cancel()
        else:
            process.cut = True
        await asyncio.wait((leading,))
        assert not leads(election)
        lost_s = 0.0 if how == "cancelled" else 9.0  # its last renewal was a second ago
        assert base.monotonic_s() - since_s <= lost_s + 2.5 + 1.0
        assert (server.history[-1] == "") == (how == "cancelled")
        assert "timeout_s=2.5" in caplog.text
        let_go.set()
        await asyncio.gather(leading, return_exceptions=True)

    play(scenario)


def test_fields_of_the_lease_that_nobody_here_knows_are_kept() -> None:
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        metadata = {"name": "windlass", "namespace": "kube-system", "resourceVersion": "0", "labels": {"team": "x"}}
        server.lease = {"metadata": metadata, "spec": {"strategy": "OldestEmulationVersion", "leaseTransitions": 4}}
        async with running(Process(base, server).election("a").run(forever)):
            await base.sleep(1)
        assert server.lease["metadata"]["labels"] == {"team": "x"}
        assert server.lease["spec"]["strategy"] == "OldestEmulationVersion"
        assert server.lease["spec"]["leaseTransitions"] == 5

    play(scenario)


def test_a_long_decision_does_not_keep_the_lease_from_being_renewed() -> None:
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        election = Process(base, server).election("a")

        async def decide() -> None:
            await base.sleep(600)

        await election.run(decide)

    server = play(scenario)
    assert server.history.count("a") == 301


def test_the_lease_is_renewed_while_a_leader_puts_things_in_order() -> None:
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        election = Process(base, server).election("a", LeaderElectionSettings(end_s=60.0))

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
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        async def fail() -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await Process(base, server).election("a").run(fail)

    assert play(scenario).history == ["a", ""]


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (
            (15, 15.0, 2.0),
            "--leader-elect-lease-duration: found 15 s, expected more than --leader-elect-renew-deadline",
        ),
        ((15, 10.0, 9.0), "--leader-elect-renew-deadline: found 10 s, expected more than 1.2 times --leader-elect-ret"),
        ((15, 10.0, 0.0), "--leader-elect-retry-period: found 0 s, expected more than 0 s"),
    ],
)
def test_durations_that_cannot_work_are_refused(limits: tuple[int, float, float], told: str) -> None:
    with pytest.raises(errors.InvalidInput, match=told):
        LeaderElectionSettings(*limits)


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
    async def scenario(base: clock.VirtualClock, server: LeaseServer) -> None:
        rng = random.Random(seed)
        processes = [
            Process(base, server, rate, rng.uniform(-1e6, 1e6), lambda: slow_s * rng.random()) for rate in rates
        ]
        elections = [process.election(f"p{i}", seed=i) for i, process in enumerate(processes)]

        led_at_s: list[float] = []

        def check() -> None:
            assert sum(election.is_leader for election in elections) <= 1, [e.is_leader for e in elections]

        async def stand(election: LeaderElector) -> None:
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
