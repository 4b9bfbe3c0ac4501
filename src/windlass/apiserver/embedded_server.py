"""Uses of the embedded server: an in-process transport, HTTP on a socket, and restoring objects of another server.

The in-process transport copies nothing. The socket serves plain HTTP on loopback, for kubectl and other clients.
Restored objects keep their status, uid and age.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from types import TracebackType
from typing import Any

from aiohttp import web

from windlass import clock
from windlass.apiserver import responses, server, status_errors, storage, watch
from windlass.apiserver.responses import ApiResponse
from windlass.apiserver.value_types import Json
from windlass.kube import transport

_LAST_BOOKMARK_S = 2.0
"""Time before the end of a watch at which a last bookmark is sent."""

_TURN = 16
"""Requests between two yields to the event loop: a client that never waits would starve watchers."""


class InProcessTransport:
    """Client transport to an embedded server."""

    def __init__(self, served: server.Server, clock_: clock.Clock) -> None:
        self._server = served
        self._clock = clock_
        self._sent = 0

    async def send(self, request: transport.Request) -> transport.Response:
        self._sent += 1
        if self._sent % _TURN == 0:
            await asyncio.sleep(0)
        answer = self._server.handle(request)
        if answer.watch is not None:
            stream = stream_watch(self._server, answer.watch, self._clock)
            return transport.Response(answer.status, answer.headers, stream)
        return transport.Response(answer.status, answer.headers, _BufferedBody(answer.body))


class _BufferedBody:
    """A response body in memory."""

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __aiter__(self) -> "_BufferedBody":
        return self

    async def __anext__(self) -> bytes:
        body, self._body = self._body, b""
        if not body:
            raise StopAsyncIteration
        return body

    async def aclose(self) -> None:
        self._body = b""


async def stream_watch(served: server.Server, watched: watch.Watch, clock_: clock.Clock) -> AsyncGenerator[bytes, None]:
    """The bytes of a watch, including bookmarks, until its timeout."""
    is_there = asyncio.Event()
    watched.notify = is_there.set
    timer = asyncio.create_task(_send_bookmarks(served, watched, clock_))
    try:
        while True:
            if chunk := watched.take():
                yield chunk
            elif watched.is_ended:
                return
            else:
                is_there.clear()
                await is_there.wait()
    finally:
        watched.stop()
        timer.cancel()


async def _send_bookmarks(served: server.Server, watched: watch.Watch, clock_: clock.Clock) -> None:
    settings = served.settings
    end_s = clock_.monotonic_s() + (watched.timeout_s or settings.longest_watch_s)
    last_s = end_s - _LAST_BOOKMARK_S
    while watched.sends_bookmarks and (left_s := last_s - clock_.monotonic_s()) > 0:
        await clock_.sleep(min(left_s, settings.bookmark_every_s))
        served.bookmark(watched)
    await clock_.sleep(max(end_s - clock_.monotonic_s(), 0.0))
    watched.stop()


_LARGEST_REQUEST_BYTES = 8 * 1024 * 1024

_log = logging.getLogger(__name__)


class HttpServer:
    """Serves until closed: `async with HttpServer(server, clock) as served: … served.url`."""

    def __init__(self, served: server.Server, clock_: clock.Clock, host: str = "127.0.0.1", port: int = 0) -> None:
        self._server = served
        self._clock = clock_
        self._host, self._port = host, port
        application = web.Application(client_max_size=_LARGEST_REQUEST_BYTES)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)

    @property
    def url(self) -> str:
        """The URL, once the server listens."""
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def start(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()

    async def close(self) -> None:
        await self._runner.cleanup()

    async def __aenter__(self) -> "HttpServer":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        answer = await self._respond(request)
        if answer.watch is not None:
            return await self._stream(request, answer)
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)

    async def _respond(self, request: web.Request) -> ApiResponse:
        """The server's response. Unexpected errors become a Status instead of an HTML page or a closed connection."""
        try:
            return self._server.handle(await _read_request(request))
        except web.HTTPRequestEntityTooLarge:
            refused = status_errors.too_large(f"limit is {_LARGEST_REQUEST_BYTES}")
        except Exception as error:
            _log.exception("request failed method=%s path=%s", request.method, request.path)
            refused = status_errors.internal(f"{type(error).__name__}: {error}")
        return responses.json_response(refused.code, refused.body())

    async def _stream(self, request: web.Request, answer: ApiResponse) -> web.StreamResponse:
        assert answer.watch is not None
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        stream = stream_watch(self._server, answer.watch, self._clock)
        try:
            async for chunk in stream:
                await response.write(chunk)
        except ConnectionError:
            pass  # the client has disconnected: end its watch
        finally:
            await stream.aclose()
        return response


async def _read_request(request: web.Request) -> transport.Request:
    headers = {name.lower(): value for name, value in request.headers.items()}
    query = tuple((name, value) for name, value in request.query.items())
    return transport.Request(request.method, request.raw_path.partition("?")[0], query, headers, await request.read())


_FIRST = ("CustomResourceDefinition", "Namespace", "PriorityClass")
"""Kinds that others depend on, in order of creation."""

_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
"""Metadata that a server sets, and that other objects may refer to."""

_DROPPED = ("resourceVersion", "managedFields", "generation", "selfLink")

_PRIORITY = ("priority", "priorityClassName", "preemptionPolicy")
"""Fields of a pod that are restored even if its PriorityClass is not among the objects."""


class UnusableObject(Exception):
    """An object that cannot be created; the message names it."""


def restore_objects(served: server.Server, objects: Iterable[Any]) -> int:
    """Create objects, CRDs and namespaces first, and return their number. UnusableObject for the first refusal.

    Lists are flattened. An owner that is not among the objects counts as alive: no object is collected because of it.
    """
    checked_objects = [_check_object(item) for item in _flatten_lists(objects)]
    checked_objects.sort(key=lambda obj: _FIRST.index(obj["kind"]) if obj["kind"] in _FIRST else len(_FIRST))
    with served.without_garbage_collection():
        for obj in checked_objects:
            try:
                _restore_one(served, obj)
            except status_errors.StatusError as refused:
                raise UnusableObject(f"{_object_name(obj)}: {refused.message}") from None
            except RecursionError:
                raise UnusableObject(f"{_object_name(obj)}: it is nested too deeply") from None
    return len(checked_objects)


def _flatten_lists(objects: Iterable[Any]) -> Iterable[Any]:
    for entry in objects:
        items = entry.get("items") if isinstance(entry, dict) else None
        if isinstance(items, list) and str(entry.get("kind", "")).endswith("List"):
            named = {"apiVersion": entry.get("apiVersion"), "kind": entry["kind"].removesuffix("List")}
            yield from ({**named, **item} if isinstance(item, dict) else item for item in items)
        else:
            yield entry


def _check_object(obj: Any) -> Json:
    """Check that an object has apiVersion, kind and name."""
    if not isinstance(obj, dict) or not all(isinstance(obj.get(key), str) for key in ("apiVersion", "kind")):
        raise UnusableObject(f"found {_shorten_value(obj)}, expected an object with apiVersion and kind")
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name", metadata.get("generateName")), str):
        raise UnusableObject(f"{obj['kind']}: found metadata {_shorten_value(metadata)}, expected a name")
    if not isinstance(metadata.get("namespace", ""), str):
        raise UnusableObject(
            f"{_object_name(obj)}: found namespace {_shorten_value(metadata['namespace'])}, expected a string"
        )
    return obj


def _shorten_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _object_name(obj: Json) -> str:
    metadata = obj["metadata"]
    name = metadata.get("name") or metadata.get("generateName")
    return f"{obj['kind']} {metadata['namespace']}/{name}" if metadata.get("namespace") else f"{obj['kind']} {name}"


def _restore_one(served: server.Server, obj: Json) -> None:
    resource = served.find_resource(obj)
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _DROPPED}
    if resource.is_namespaced:
        _ensure_namespace(served, metadata.setdefault("namespace", "default"))
    kept = {name: metadata.pop(name) for name in _KEPT if name in metadata}
    spec, priority = obj.get("spec"), {}
    if resource.key == ("", "pods") and isinstance(spec, dict):
        priority = {name: spec[name] for name in _PRIORITY if name in spec}
        spec = {name: value for name, value in spec.items() if name not in _PRIORITY}
    body = {**obj, "metadata": metadata, **({} if spec is None else {"spec": spec})}
    if resource.key == ("", "namespaces") and served.core.find(resource, "", metadata["name"]):
        return
    created = served.create(body)
    if isinstance(obj.get("status"), dict) and resource.has_status:
        created = _set_status(served, created, obj["status"])
    if kept or priority:
        _overwrite(served, created, kept, priority)


def _ensure_namespace(served: server.Server, name: str) -> None:
    if served.core.find(served.core.resource("", "namespaces"), "", name) is None:
        served.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def _set_status(served: server.Server, created: Json, desired: Json) -> Json:
    path = f"{served.collection(created)}/{created['metadata']['name']}/status"
    body = storage.encode_json({**created, "status": desired})
    answer = served.handle(transport.Request("PUT", path, (), {"content-type": "application/json"}, body))
    stored: Json = storage.decode_json(answer.body)
    if answer.status >= 300:
        raise status_errors.StatusError(answer.status, "", str(stored.get("message")))
    return stored


def _overwrite(served: server.Server, created: Json, metadata: Json, spec: Json) -> None:
    """Overwrite fields that only the server may set."""
    obj = {**created, "metadata": {**created["metadata"], **metadata}}
    if spec:
        obj["spec"] = {**created["spec"], **spec}
    table = served.core.table(served.find_resource(obj))
    served.core.store.write(
        table, storage.storage_key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"]), obj
    )
    served.run_controllers()
