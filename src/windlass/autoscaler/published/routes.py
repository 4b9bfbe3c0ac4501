"""The published status over HTTP: whole as JSON, or as server-sent events.

/published           the status now (`model.Status`)
/published/stream    `event: status`, everything, and then `event: change`, what differs (`model.Change`), after every
                     loop; `event: beat` with the time in between. Whoever comes back with Last-Event-ID goes on there.

Whoever has not decided anything yet says so: 503, or a stream of beats.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from windlass import errors, unexpected
from windlass.autoscaler.explaining import Answering
from windlass.autoscaler.published.publisher import Message, Publisher
from windlass.engine.decide import decide
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings

STATUS_PATH = "/published"
STREAM_PATH = "/published/stream"

BEAT_S = 5.0
"""A reader that hears nothing for a few of these knows that it is cut off."""
_RETRY_MS = 1000

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_routes(app: web.Application, published: Publisher, asked: Answering) -> None:
    """Serve the status. `asked` is who can be asked between two loops, for those who begin to watch then."""
    is_ending = asyncio.Event()

    async def end(_: web.Application) -> None:
        is_ending.set()

    app.on_shutdown.append(end)
    app.router.add_get(STATUS_PATH, _answering(published, asked))
    app.router.add_get(STREAM_PATH, _streaming(published, asked, is_ending))


async def catch_up(published: Publisher, asked: Answering) -> None:
    """Make a status now, where none is kept up to date. WindlassError while nothing was decided, or if it fails."""
    if published.status is not None:
        return
    try:
        await asked.ask(lambda *moment: _look(published, *moment))
    except errors.WindlassError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {unexpected.describe(error)}"
        unexpected.report(unexpected.Place.REPORTER, "the published status", said, error)
        raise errors.WindlassError(f"the status could not be made: {said}") from error


def _look(published: Publisher, seen: Observation, memory: Memory, settings: Settings, now_s: float) -> None:
    decision = decide(seen, memory, settings, now_s)
    published.look(decision.evaluated, decision, now_s)


def _answering(published: Publisher, asked: Answering) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        with published.watch() as watcher:
            try:
                await catch_up(published, asked)
            except errors.WindlassError as error:
                return web.Response(status=503, text=f"{error}\n")
            (message,) = published.take(watcher)
        return web.Response(body=message.data, content_type="application/json")

    return answer


def _streaming(published: Publisher, asked: Answering, is_ending: asyncio.Event) -> Handler:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        response.content_type = "text/event-stream"
        await response.prepare(request)
        if request.method == "HEAD":
            return response  # whatever follows would be taken for the next answer
        with (
            contextlib.suppress(ConnectionResetError),  # it went away
            published.watch(request.headers.get("Last-Event-ID", "")) as watcher,
        ):
            await response.write(f"retry: {_RETRY_MS}\n\n".encode())
            while not is_ending.is_set():
                await response.write(await _catch_up(published, asked))
                for message in published.take(watcher):
                    await response.write(spell(message))
                if not await _wait_any(watcher.wait(), is_ending.wait(), BEAT_S):
                    await response.write(_beat(published))
        return response

    return stream


async def _catch_up(published: Publisher, asked: Answering) -> bytes:
    """What there is to say of it, if anything."""
    try:
        await catch_up(published, asked)
    except errors.WindlassError as error:
        return _beat(published, str(error))
    return b""


def spell(message: Message) -> bytes:
    """One server-sent event."""
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (message.id.encode(), message.event.encode(), message.data)


def _beat(published: Publisher, trouble: str = "") -> bytes:
    said = {"now_s": published.now_s(), "trouble": trouble}
    return b"event: beat\ndata: %s\n\n" % msgspec.json.encode(said)


async def _wait_any(news: Awaitable[None], end: Awaitable[object], within_s: float) -> bool:
    """Did one of both come in time?"""
    tasks = [asyncio.ensure_future(news), asyncio.ensure_future(end)]
    try:
        done, _ = await asyncio.wait(tasks, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for task in tasks:
            task.cancel()
