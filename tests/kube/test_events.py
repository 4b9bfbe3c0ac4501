import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from tests.kube.fake_api_server import answer, refusal
from windlass import clock
from windlass.kube import client, events, transport
from windlass.kube.events import NORMAL, WARNING, InvolvedObject

POD = InvolvedObject("v1", "Pod", "p", "ns", "uid-1")
NODE = InvolvedObject("v1", "Node", "n")
START_S = 1_794_733_665.0


class Server:
    """Keeps events; a patch of one that is gone is a 404."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        self.refusing = False

    async def send(self, request: transport.Request) -> transport.Response:
        self.calls.append(request.method)
        if self.refusing:
            return refusal(403, "Forbidden")
        body = msgspec.json.decode(request.body)
        if request.method == "POST":
            assert request.path == f"/api/v1/namespaces/{body['metadata']['namespace']}/events"
            assert body["metadata"]["name"] not in self.events
            self.events[body["metadata"]["name"]] = body
            return answer(201, body)
        name = request.path.rpartition("/")[2]
        if name not in self.events:
            return refusal(404, "NotFound")
        self.events[name].update(body)
        return answer(200, self.events[name])


def play(
    scenario: Callable[[events.EventRecorder, Server, clock.VirtualClock], Awaitable[None]], **options: Any
) -> Server:
    virtual = clock.VirtualClock(now_s=START_S)
    server = Server()

    async def main() -> None:
        recorder = events.EventRecorder(
            client.Client(server, virtual, client.ClientSettings(qps=0)), "windlass", **options
        )
        running = asyncio.create_task(recorder.run())
        await scenario(recorder, server, virtual)
        await recorder.wait_written()
        running.cancel()

    virtual.run(main())
    return server


def test_an_event_says_what_happened_to_whom_and_when() -> None:
    async def scenario(recorder: events.EventRecorder, server: Server, virtual: clock.VirtualClock) -> None:
        recorder.record(POD, NORMAL, "TriggeredScaleUp", "one more node")
        recorder.record(NODE, WARNING, "ScaleDownFailed", "no")

    server = play(scenario)
    first, second = server.events.values()
    assert first["metadata"] == {"name": f"p.{int(START_S * 1e9) + 1:x}", "namespace": "ns"}
    assert first["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "ns",
        "name": "p",
        "uid": "uid-1",
    }
    assert (first["type"], first["reason"], first["message"]) == ("Normal", "TriggeredScaleUp", "one more node")
    assert first["firstTimestamp"] == first["lastTimestamp"] == "2026-11-15T09:07:45Z"
    assert first["count"] == 1
    assert first["source"] == {"component": "windlass"}
    assert second["metadata"]["namespace"] == "default"


def test_the_same_again_within_five_minutes_is_counted_and_told_with_the_next() -> None:
    async def scenario(recorder: events.EventRecorder, server: Server, virtual: clock.VirtualClock) -> None:
        for _ in range(31):
            recorder.record(POD, NORMAL, "NotTriggerScaleUp", "no group fits")
            await virtual.sleep(10)

    server = play(scenario)
    assert server.calls == ["POST", "PATCH"]
    (event,) = server.events.values()
    assert event["count"] == 31
    assert event["firstTimestamp"] == "2026-11-15T09:07:45Z"
    assert event["lastTimestamp"] == "2026-11-15T09:12:45Z"


def test_another_message_for_the_same_reason_waits_its_turn_and_is_an_event_of_its_own() -> None:
    async def scenario(recorder: events.EventRecorder, server: Server, virtual: clock.VirtualClock) -> None:
        recorder.record(POD, NORMAL, "NotTriggerScaleUp", "1 in backoff")
        await virtual.sleep(10)
        recorder.record(POD, NORMAL, "NotTriggerScaleUp", "2 in backoff")
        recorder.record(POD, NORMAL, "TriggeredScaleUp", "another reason")
        await virtual.sleep(300)
        recorder.record(POD, NORMAL, "NotTriggerScaleUp", "2 in backoff")

    server = play(scenario)
    assert [(event["message"], event["count"]) for event in server.events.values()] == [
        ("1 in backoff", 1),
        ("another reason", 1),
        ("2 in backoff", 2),
    ]


def test_without_a_window_every_occurrence_is_written() -> None:
    async def scenario(recorder: events.EventRecorder, server: Server, virtual: clock.VirtualClock) -> None:
        for _ in range(3):
            recorder.record(POD, NORMAL, "NotTriggerScaleUp", "no group fits")

    server = play(scenario, window_s=0.0)
    assert server.calls == ["POST", "PATCH", "PATCH"]
    assert [event["count"] for event in server.events.values()] == [3]


def test_an_event_that_the_server_let_go_of_is_written_anew() -> None:
    async def scenario(recorder: events.EventRecorder, server: Server, virtual: clock.VirtualClock) -> None:
        recorder.record(POD, NORMAL, "NotTriggerScaleUp", "no group fits")
        await virtual.sleep(1000)
        server.events.clear()
        recorder.record(POD, NORMAL, "NotTriggerScaleUp", "no group fits")

    server = play(scenario)
    assert server.calls == ["POST", "PATCH", "POST"]
    assert [event["count"] for event in server.events.values()] == [1]


def test_a_jump_of_the_wall_clock_opens_no_window() -> None:
    async def scenario(recorder: events.EventRecorder, server: Server, virtual: clock.VirtualClock) -> None:
        recorder.record(POD, NORMAL, "NotTriggerScaleUp", "no group fits")
        virtual.set_wall(START_S + 1e6)
        recorder.record(POD, NORMAL, "NotTriggerScaleUp", "no group fits")

    assert play(scenario).calls == ["POST"]


def test_what_cannot_be_written_is_let_go() -> None:
    dropped = []

    async def scenario(recorder: events.EventRecorder, server: Server, virtual: clock.VirtualClock) -> None:
        server.refusing = True
        recorder.record(POD, NORMAL, "A", "refused")
        await recorder.wait_written()
        server.refusing = False
        for i in range(1200):
            recorder.record(InvolvedObject("v1", "Pod", f"p{i}"), NORMAL, "A", "too many at once")
        await recorder.wait_written()
        dropped.append(recorder.dropped)

    server = play(scenario)
    assert len(server.events) == 1000
    assert dropped == [201]


def test_what_is_remembered_is_bounded() -> None:
    correlator = events.EventCorrelator()
    for i in range(20_000):
        correlator.correlate(events.EventOccurrence(InvolvedObject("v1", "Pod", str(i)), NORMAL, "A", "m"), 0.0, 0.0)

    assert len(correlator._records) == len(correlator._quiet_until_s) == 8192


def test_what_servers_have_let_go_of_is_forgotten() -> None:
    """Nodes come and go, and each has events of its own: a process that lives for weeks keeps none of them."""
    correlator = events.EventCorrelator()
    for hour in range(100):
        for minute in range(60):
            about = InvolvedObject("v1", "Node", f"{hour}-{minute}")
            correlator.correlate(events.EventOccurrence(about, NORMAL, "A", "m"), 0.0, 3600.0 * hour + 60.0 * minute)

    assert len(correlator._records) <= 61
    assert len(correlator._quiet_until_s) <= 66


def test_an_event_that_happens_again_after_hours_is_a_new_one() -> None:
    correlator = events.EventCorrelator()
    event = events.EventOccurrence(POD, NORMAL, "A", "m")
    first, later = correlator.correlate(event, 0.0, 0.0), correlator.correlate(event, 7200.0, 7200.0)
    assert first is not None
    assert later is not None
    assert not later.exists
    assert (later.count, later.first_s) == (1, 7200.0)
    assert later.name != first.name
