"""How the status comes: events cut anywhere, changes on top of a status, a server that goes away and comes back."""

import asyncio
import itertools

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.test_status_rows import STATUS
from windlass.observability import status_model, status_routes
from windlass.observability.status_model import ClusterSummary, PublishedNode, StatusChange
from windlass.observability.status_publisher import StatusMessage
from windlass.tui import status_stream

CHANGE = StatusChange(
    ClusterSummary(3700.0, nodes=5), nodes=(PublishedNode("web-9", STATUS.groups[1].id),), nodes_gone=("web-1",)
)
STREAM = (
    b": a comment\nretry: 1000\n\n"
    + status_routes.format_event(StatusMessage("1", "status", msgspec.json.encode(STATUS)))
    + status_routes.format_event(StatusMessage("2", "change", msgspec.json.encode(CHANGE)))
    + b'event: beat\ndata: {"now_s": 3805.0,\ndata:  "trouble": "it does not lead"}\n\n'
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=9))
def test_events_are_the_same_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    reader, ends = status_stream.EventStreamParser(), [0, *sorted(cuts), len(STREAM)]
    server_sent_events = [
        server_sent_event
        for start, end in itertools.pairwise(ends)
        for server_sent_event in reader.feed(STREAM[start:end])
    ]
    assert [(one.kind, one.id) for one in server_sent_events] == [("status", "1"), ("change", "2"), ("beat", "")]


def test_changes_are_put_on_the_status_and_a_beat_says_what_is_wrong() -> None:
    heard = status_stream.StatusUpdate()
    for event in status_stream.EventStreamParser().feed(STREAM):
        heard = status_stream.apply_event(heard, event)
    assert heard.status == status_model.apply_change(STATUS, CHANGE)
    assert (heard.now_s, heard.trouble) == (3805.0, "it does not lead")
    assert status_stream.apply_event(heard, status_stream.ServerSentEvent("something new", b"{}")) == heard


async def test_a_lost_connection_is_told_and_made_again_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_stream, "_RECONNECT_S", 0.01)
    asked: list[str] = []

    async def stream(request: web.Request) -> web.StreamResponse:
        asked.append(request.headers.get("Last-Event-ID", ""))
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(STREAM if len(asked) == 1 else b'event: beat\ndata: {"now_s": 3900}\n\n')
        return response

    app = web.Application()
    app.router.add_get(status_routes.PUBLISHED_STREAM_PATH, stream)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    heard: list[status_stream.StatusUpdate] = []
    following = asyncio.ensure_future(
        status_stream.follow_status(f"http://127.0.0.1:{runner.addresses[0][1]}", heard.append)
    )
    try:
        async with asyncio.timeout(30):
            while len(asked) < 2 or heard[-1].now_s != 3900:
                await asyncio.sleep(0.01)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await runner.cleanup()
    assert asked[:2] == ["", "2"]
    assert any(status_update.trouble == "the connection ended" for status_update in heard)
    assert heard[-1].status == status_model.apply_change(STATUS, CHANGE)
