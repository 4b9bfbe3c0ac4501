"""How the status comes: events cut anywhere, changes on top of a status, a server that goes away and comes back."""

import asyncio
import itertools

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.test_rows import STATUS
from windlass.autoscaler.published import changes, routes
from windlass.autoscaler.published.model import Change, Cluster, Node
from windlass.autoscaler.published.publisher import Message
from windlass.tui import events, feed

CHANGE = Change(Cluster(3700.0, nodes=5), nodes=(Node("web-9", STATUS.groups[1].id),), nodes_gone=("web-1",))
STREAM = (
    b": a comment\nretry: 1000\n\n"
    + routes.spell(Message("1", "status", msgspec.json.encode(STATUS)))
    + routes.spell(Message("2", "change", msgspec.json.encode(CHANGE)))
    + b'event: beat\ndata: {"now_s": 3805.0,\ndata:  "trouble": "it does not lead"}\n\n'
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=9))
def test_events_are_the_same_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    reader, ends = events.Reader(), [0, *sorted(cuts), len(STREAM)]
    found = [one for start, end in itertools.pairwise(ends) for one in reader.read(STREAM[start:end])]
    assert [(one.kind, one.id) for one in found] == [("status", "1"), ("change", "2"), ("beat", "")]


def test_changes_are_put_on_the_status_and_a_beat_says_what_is_wrong() -> None:
    heard = feed.Heard()
    for event in events.Reader().read(STREAM):
        heard = feed.apply(heard, event)
    assert heard.status == changes.apply(STATUS, CHANGE)
    assert (heard.now_s, heard.trouble) == (3805.0, "it does not lead")
    assert feed.apply(heard, events.Event("something new", b"{}")) == heard


async def test_a_lost_connection_is_told_and_made_again_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_AGAIN_S", 0.01)
    asked: list[str] = []

    async def stream(request: web.Request) -> web.StreamResponse:
        asked.append(request.headers.get("Last-Event-ID", ""))
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(STREAM if len(asked) == 1 else b'event: beat\ndata: {"now_s": 3900}\n\n')
        return response

    app = web.Application()
    app.router.add_get(routes.STREAM_PATH, stream)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    heard: list[feed.Heard] = []
    following = asyncio.ensure_future(feed.follow(f"http://127.0.0.1:{runner.addresses[0][1]}", heard.append))
    try:
        async with asyncio.timeout(30):
            while len(asked) < 2 or heard[-1].now_s != 3900:
                await asyncio.sleep(0.01)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await runner.cleanup()
    assert asked[:2] == ["", "2"]
    assert any(one.trouble == "the connection ended" for one in heard)
    assert heard[-1].status == changes.apply(STATUS, CHANGE)
