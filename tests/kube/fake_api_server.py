"""A little API server behind the transport port: one resource, lists in pages, watches, and faults on demand."""

import asyncio
import base64
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from windlass.kube import errors, transport

Json = dict[str, Any]
Fault = Callable[[transport.Request], transport.Response | None]
"""What befalls a request. None: nothing more, it is answered as it should be."""

PATH = "/api/v1/configmaps"


class Bytes:
    """A stream of chunks that are there already."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk

    async def aclose(self) -> None:
        self.closed = True


def answer(status: int, body: object = None, **headers: str) -> transport.Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return transport.Response(status, names, Bytes(msgspec.json.encode(body)))


def refusal(code: int, reason: str = "", message: str = "", **headers: str) -> transport.Response:
    return answer(code, status(code, reason, message), **headers)


def status(code: int, reason: str = "", message: str = "") -> Json:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


class Server:
    """Holds config maps. Every change is an entry of its log; watches read the log from where they are."""

    def __init__(self, *, streaming: bool = True, chunk_bytes: int = 1 << 20) -> None:
        self.objects: dict[str, Json] = {}
        self.version = 10
        self.oldest = 10
        """Changes up to this one are forgotten."""
        self.streaming = streaming
        self.faults: deque[Fault] = deque()
        """For the requests to come, one each."""
        self.requests: list[transport.Request] = []
        self.down = False
        self.hangs = False
        """It answers nobody."""
        self.token = ""
        """What callers must show, if anything."""
        self._log: list[tuple[int, str, Json]] = []
        self._pages: dict[str, tuple[int, list[Json]]] = {}
        self._chunk_bytes = chunk_bytes
        self._changed = asyncio.Condition()
        self._watches: list[_Watch] = []

    # What happens on the server

    async def put(self, name: str, **extra: Any) -> None:
        self.version += 1
        before = self.objects.get(name)
        uid = before["metadata"]["uid"] if before else f"uid-{self.version}"
        metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(self.version)}
        found = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, **extra}
        self.objects[name] = found
        await self._happen("MODIFIED" if before else "ADDED", found)

    async def delete(self, name: str) -> None:
        found = self.objects.pop(name, None)
        if found is not None:
            self.version += 1
            metadata = {**found["metadata"], "resourceVersion": str(self.version)}
            await self._happen("DELETED", {**found, "metadata": metadata})

    def forget(self) -> None:
        """Compaction: history and pages that were begun are gone."""
        self.oldest = self.version
        self._log.clear()
        self._pages.clear()

    async def bookmark(self) -> None:
        await self._tell(lambda watch: watch.mark())

    async def say_error(self, code: int, reason: str = "") -> None:
        """End all watches with an ERROR."""
        error = {"type": "ERROR", "object": status(code, reason)}
        for watch in self._watches:
            watch.say(error)
        await self.end_watches()

    async def say_nonsense(self) -> None:
        """A line that is no JSON, on all watches."""
        await self._tell(lambda watch: watch.say_nonsense())

    async def end_watches(self) -> None:
        await self._tell(lambda watch: watch.stop())

    async def cut_watches(self, after_bytes: int = 0) -> None:
        """Reset all connections, in the middle of whatever is being sent."""
        await self._tell(lambda watch: watch.cut(after_bytes))

    async def _happen(self, kind: str, found: Json) -> None:
        self._log.append((self.version, kind, found))
        await self._tell(lambda watch: None)

    async def _tell(self, act: Callable[["_Watch"], object]) -> None:
        for watch in self._watches:
            act(watch)
        async with self._changed:
            self._changed.notify_all()

    # What it answers

    async def send(self, request: transport.Request) -> transport.Response:
        self.requests.append(request)
        if self.hangs:
            await asyncio.Event().wait()
        if self.faults and (faulty := self.faults.popleft()(request)) is not None:
            return faulty
        if self.down:
            raise errors.ConnectFailed(request.call, "connection refused")
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return refusal(401, "Unauthorized")
        query = dict(request.query)
        if request.method != "GET" or request.path != PATH:
            return refusal(404, "NotFound")
        return self._watch(request, query) if query.get("watch") else self._list(query)

    def _list(self, query: dict[str, str]) -> transport.Response:
        limit = int(query.get("limit", "0")) or len(self.objects) + 1
        if token := query.get("continue"):
            if token not in self._pages:
                return refusal(410, "Expired", "the continue parameter is too old")
            version, rest = self._pages[token]
        else:
            version, rest = self.version, [self.objects[name] for name in sorted(self.objects)]
        metadata = {"resourceVersion": str(version)}
        if len(rest) > limit:
            metadata["continue"] = base64.b64encode(f"{version}/{len(rest)}".encode()).decode()
            self._pages[metadata["continue"]] = (version, rest[limit:])
        return answer(200, {"kind": "ConfigMapList", "metadata": metadata, "items": rest[:limit]})

    def _watch(self, request: transport.Request, query: dict[str, str]) -> transport.Response:
        initial = query.get("sendInitialEvents") == "true"
        if initial and not self.streaming:
            return refusal(422, "Invalid", "sendInitialEvents is forbidden for watch unless the feature is enabled")
        at = self.version if initial else int(query["resourceVersion"])
        if at < self.oldest:
            return refusal(410, "Expired", "too old resource version")
        if at > self.version:
            return refusal(504, "Timeout", f"Too large resource version: {at}, current: {self.version}")
        watch = _Watch(self, request, at)
        self._watches.append(watch)
        if initial:
            for name in sorted(self.objects):
                watch.say({"type": "ADDED", "object": self.objects[name]})
            watch.say(_bookmark(self.version, {"k8s.io/initial-events-end": "true"}))
        return transport.Response(200, {}, watch)


class _Watch:
    """One connection."""

    def __init__(self, server: Server, request: transport.Request, at: int) -> None:
        self.at = at
        self._server = server
        self._call = request.call
        self._out = b""
        self._stopped = False
        self._cut_after: int | None = None

    def say(self, event: Json) -> None:
        self._out += msgspec.json.encode(event) + b"\n"

    def say_nonsense(self) -> None:
        self._catch_up()
        self._out += b'{"type":"ADDED","obj\x00\xff\n'

    def stop(self) -> None:
        self._stopped = True

    def cut(self, after_bytes: int) -> None:
        self._catch_up()
        self._cut_after = after_bytes

    def mark(self) -> None:
        self._catch_up()
        if not self._stopped:
            self.say(_bookmark(self.at))

    def _catch_up(self) -> None:
        if self._stopped:
            return
        if self.at < self._server.oldest:
            self.say({"type": "ERROR", "object": status(410, "Expired")})
            self.stop()
            return
        for version, kind, found in self._server._log:
            if version > self.at:
                self.say({"type": kind, "object": found})
        self.at = self._server.version

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            if self._cut_after is not None:
                if self._out and self._cut_after:
                    yield self._out[: self._cut_after]
                raise errors.ConnectionLost(self._call, "connection reset by peer")
            self._catch_up()
            out, self._out = self._out, b""
            for start in range(0, len(out), self._server._chunk_bytes):
                yield out[start : start + self._server._chunk_bytes]
            if self._stopped:
                return
            async with self._server._changed:
                if not self._out and self.at == self._server.version and self._cut_after is None:
                    await self._server._changed.wait()

    async def aclose(self) -> None:
        if self in self._server._watches:
            self._server._watches.remove(self)


def _bookmark(version: int, annotations: Json | None = None) -> Json:
    metadata = {"resourceVersion": str(version), "annotations": annotations}
    return {"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}}
