"""HTTP routes of the published status and of explain.

/published, /published/stream    status as JSON, and as server-sent events
/published/history               samples and decisions of the past; ?after=SECONDS for those after a time
/published/decisions/NUMBER      one decision: the expander's options, pods, refusals, what followed
/explain/…, /statusz             verdicts for a pod, node, group or the cluster, as JSON or with ?output=text

A process that does not lead has no memory to answer from and returns 503.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import msgspec
from aiohttp import web

from windlass import errors, klog
from windlass.engine.loop import decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain import explain_context, queries
from windlass.explain.decision_view import DecisionView
from windlass.explain.nodes import NodeExplanation
from windlass.explain.pods import PodExplanation
from windlass.explain.queries import ExplainQuery, SubjectKind
from windlass.observability.status_publisher import StatusMessage, StatusPublisher

T = TypeVar("T")

EXPLAIN_PATH = "/explain/"

STATUSZ_PATH = "/statusz"

_EXPLAIN_PATHS = {
    SubjectKind.POD: f"{EXPLAIN_PATH}pod/{{namespace}}/{{name}}",
    SubjectKind.NODE: f"{EXPLAIN_PATH}node/{{name}}",
    SubjectKind.GROUP: f"{EXPLAIN_PATH}group/{{name:.+}}",
    SubjectKind.CLUSTER: STATUSZ_PATH,
}

_OBJECT_KINDS = {SubjectKind.POD: "Pod", SubjectKind.NODE: "Node"}


class ExplainSource(Protocol):
    """Answers questions between two decisions."""

    @property
    def past_choices(self) -> Mapping[str, explain_context.PastChoice]:
        """Reasons for past choices of node groups."""

    @property
    def set_aside(self) -> Sequence[errors.InvalidObject]:
        """Objects that cannot be read completely."""

    async def query(self, question: Callable[[Observation, LoopMemory, Settings, float], T]) -> T:
        """Answer a question. WindlassError without a decision to answer from."""


def explain_path(question: ExplainQuery) -> str:
    """Return the path of a question."""
    return _EXPLAIN_PATHS[question.about].replace(":.+", "").format(namespace=question.namespace, name=question.name)


def add_explain_routes(app: web.Application, asked: ExplainSource) -> None:
    """Add the routes of explain."""
    for about, path in _EXPLAIN_PATHS.items():
        app.router.add_get(path, _make_explain_handler(about, asked))


def _explain(
    asked: ExplainSource, moment: tuple[Observation, LoopMemory, Settings, float]
) -> explain_context.ExplainContext:
    return replace(explain_context.evaluate(*moment), past=asked.past_choices)


def _make_explain_handler(about: SubjectKind, asked: ExplainSource) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        found = request.match_info
        question = ExplainQuery(about, found.get("name", ""), found.get("namespace", ""))
        wants_text = request.query.get("output") == "text"
        try:
            answer = await asked.query(lambda *moment: queries.answer_query(question, _explain(asked, moment)))
            return _explain_response(_add_warning(answer, asked.set_aside), wants_text)
        except errors.WindlassError as error:
            return web.Response(status=503, text=f"{error}\n")
        except Exception as error:
            said = f"{type(error).__name__}: {klog.describe_error(error)}"
            klog.report_error(klog.ErrorPlace.EXPLAIN, str(question), said, error)
            return web.Response(status=503, text=f"{question} could not be explained: {said}; see the log\n")

    return handle


def _add_warning(
    answer: queries.Explanation | queries.ObjectNotFound, set_aside: Sequence[errors.InvalidObject]
) -> queries.Explanation | queries.ObjectNotFound:
    """Add a warning about an invalid object to the answer."""
    match answer:
        case queries.ObjectNotFound(question) if not answer.why and question.about in _OBJECT_KINDS:
            name = f"{question.namespace}/{question.name}" if question.about is SubjectKind.POD else question.name
            return replace(answer, why=_find_warning(set_aside, _OBJECT_KINDS[question.about], name))
        case PodExplanation():
            return replace(answer, complaint=_find_warning(set_aside, "Pod", answer.key))
        case NodeExplanation():
            return replace(answer, complaint=_find_warning(set_aside, "Node", answer.name))
    return answer


def _find_warning(set_aside: Sequence[errors.InvalidObject], kind: str, name: str) -> str:
    return next((str(invalid) for invalid in set_aside if (invalid.kind, invalid.name) == (kind, name)), "")


def _explain_response(answer: queries.Explanation | queries.ObjectNotFound, wants_text: bool) -> web.Response:
    if isinstance(answer, queries.ObjectNotFound):
        return web.Response(status=404, text=f"{answer}\n")
    if wants_text:
        return web.Response(text="\n".join(queries.render_explanation(answer)) + "\n")
    return web.Response(body=queries.encode_explanation(answer), content_type="application/json")


PUBLISHED_PATH = "/published"

PUBLISHED_STREAM_PATH = "/published/stream"

HISTORY_PATH = "/published/history"

DECISION_PATH = "/published/decisions/{number:[0-9]{1,18}}"

_COMPRESSED_APART_BYTES = 16 * 1024
"""Responses from this size on are compressed in a thread: the loop of the autoscaler runs beside."""

HEARTBEAT_S = 5.0
"""Heartbeat interval of event streams; a client that misses a few reconnects."""

_RECONNECT_MS = 1000

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_status_routes(app: web.Application, published: StatusPublisher, asked: ExplainSource) -> None:
    """Add the routes of the status. `asked`: source of a status for watchers that subscribe between two loops."""
    is_ending = asyncio.Event()

    async def end(_: web.Application) -> None:
        is_ending.set()

    app.on_shutdown.append(end)
    app.router.add_get(PUBLISHED_PATH, _make_status_handler(published, asked))
    app.router.add_get(HISTORY_PATH, _make_history_handler(published))
    app.router.add_get(DECISION_PATH, _make_decision_handler(published))
    app.router.add_get(PUBLISHED_STREAM_PATH, _make_stream_handler(published, asked, is_ending))


async def refresh_status(published: StatusPublisher, asked: ExplainSource) -> None:
    """Publish a status now, if none is kept current. WindlassError before the first decision, or if it fails."""
    if published.status is not None:
        return
    try:
        await asked.query(lambda *moment: _decide_now(published, *moment))
    except errors.WindlassError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {klog.describe_error(error)}"
        klog.report_error(klog.ErrorPlace.REPORTER, "the published status", said, error)
        raise errors.WindlassError(f"the status could not be made: {said}") from error


def _decide_now(
    published: StatusPublisher, observation: Observation, memory: LoopMemory, settings: Settings, now_s: float
) -> None:
    published.refresh(DecisionView(decide(observation, memory, settings, now_s)), now_s)


def _make_status_handler(published: StatusPublisher, asked: ExplainSource) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        with published.watch() as watcher:
            try:
                await refresh_status(published, asked)
            except errors.WindlassError as error:
                return web.Response(status=503, text=f"{error}\n")
            (message,) = published.take_messages(watcher)
        return web.Response(body=message.data, content_type="application/json")

    return answer


def _make_history_handler(published: StatusPublisher) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        after = request.query.get("after", "-inf")
        try:
            after_s = float(after)
        except ValueError:
            return web.Response(status=400, text=f"after: found {after!r}, expected seconds since the epoch\n")
        response = _json_response(published.encode_history(after_s))
        response.enable_compression()
        return response

    return answer


def _make_decision_handler(published: StatusPublisher) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        number = int(request.match_info["number"])
        found = published.find_decision(number)
        if found is None:
            return web.Response(status=404, text=f"decision {number} is not kept\n")
        return _json_response(msgspec.json.encode(found))

    return answer


def _json_response(body: bytes) -> web.Response:
    return web.Response(
        body=body,
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
        zlib_executor_size=_COMPRESSED_APART_BYTES,
    )


def _make_stream_handler(published: StatusPublisher, asked: ExplainSource, is_ending: asyncio.Event) -> Handler:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        response.content_type = "text/event-stream"
        await response.prepare(request)
        if request.method == "HEAD":
            return response  # later bytes would be read as the next response
        with (
            contextlib.suppress(ConnectionResetError),  # the client disconnected
            published.watch(request.headers.get("Last-Event-ID", "")) as watcher,
        ):
            await response.write(f"retry: {_RECONNECT_MS}\n\n".encode())
            while not is_ending.is_set():
                await response.write(await _refresh_or_heartbeat(published, asked))
                for message in published.take_messages(watcher):
                    await response.write(format_event(message))
                if not await _wait_any(watcher.wait(), is_ending.wait(), HEARTBEAT_S):
                    await response.write(_format_heartbeat(published))
        return response

    return stream


async def _refresh_or_heartbeat(published: StatusPublisher, asked: ExplainSource) -> bytes:
    """Return a new status if there is one, otherwise a heartbeat."""
    try:
        await refresh_status(published, asked)
    except errors.WindlassError as error:
        return _format_heartbeat(published, str(error))
    return b""


def format_event(message: StatusMessage) -> bytes:
    """Format a server-sent event."""
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (message.id.encode(), message.event.encode(), message.data)


def _format_heartbeat(published: StatusPublisher, trouble: str = "") -> bytes:
    said = {"now_s": published.now_s(), "trouble": trouble}
    return b"event: beat\ndata: %s\n\n" % msgspec.json.encode(said)


async def _wait_any(news: Awaitable[None], end: Awaitable[object], within_s: float) -> bool:
    """Wait for either. Return whether one completed in time."""
    tasks = [asyncio.ensure_future(news), asyncio.ensure_future(end)]
    try:
        done, _ = await asyncio.wait(tasks, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for task in tasks:
            task.cancel()
