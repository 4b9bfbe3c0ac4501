"""Typed Kubernetes API client with retries, rate limiting and structured errors.

`request_builders` builds requests without I/O; the client sends them, and retries those that are safe to repeat. Reads
return what the resource is declared as, a model or JSON; writes take JSON.

    node = await client.get(resources.NODES, "worker-1")                       # models.core.Node
    raw = await client.get(resources.NODES.untyped(), "worker-1")              # dict, every field
    await client.merge_patch(resources.NODES, "worker-1", {"spec": {"unschedulable": True}})
"""

import asyncio
import contextlib
import copy
import dataclasses
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from windlass import clock, klog, product
from windlass.kube import errors, flow_control, list_watch, request_builders, transport
from windlass.kube.request_builders import ALL_OBJECTS, DEFAULT_DELETE_OPTIONS, Body, DeleteOptions, ListOptions
from windlass.kube.resources import PODS, Resource, Unstructured, decoder

T = TypeVar("T")

_EVERY_CALL = klog.verbosity_level(9)
_ERRORS_FROM = 300
"""Redirects count as errors: the configuration names the server, and no other one is contacted."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of a client."""

    user_agent: str = field(default_factory=lambda: f"windlass/{product.version()}")
    """User agent; the part before the slash is the default field manager."""
    writer: request_builders.WriteOptions = field(default_factory=lambda: request_builders.WriteOptions("windlass"))
    """Field manager of writes, and dry-run."""
    qps: float = 5.0
    """Sustained calls per second; 0 is unlimited."""
    burst: int = 10
    """Burst of calls above `qps`."""
    page_size: int = 500
    """Page size of lists."""
    timeout_s: float = 30.0
    """Timeout of one call; watches have their own."""
    watch_s: float = 300.0
    """Watch timeout; up to twice this value, so that not all watches end at once."""
    silence_s: float = 150.0
    """A watch without data for this long is ended; kube-apiserver sends a bookmark every minute."""
    patience: flow_control.RetryPolicy = field(default_factory=flow_control.RetryPolicy)


class Client:
    """A typed client of one API server."""

    def __init__(
        self,
        server: transport.Transport,
        time: clock.Clock,
        settings: ClientSettings | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.clock = time
        self.settings = settings or ClientSettings()
        # Seeded from the process-wide generator, so that a seeded process is reproducible.
        self.rng = rng or random.Random(random.getrandbits(64))
        self._transport = server
        self.turns = asyncio.Lock()
        """Lock for long decoding in small pieces: one informer at a time."""
        self._throttle = flow_control.RateLimiter(self.settings.qps, self.settings.burst, time)

    def with_field_manager(self, manager: str) -> "Client":
        """A copy with another field manager. Rate limits are shared."""
        other = copy.copy(self)
        other.settings = dataclasses.replace(
            self.settings, writer=dataclasses.replace(self.settings.writer, manager=manager)
        )
        return other

    def without_retries(self, timeout_s: float) -> "Client":
        """A copy with a timeout and without retries. Rate limits are shared."""
        other = copy.copy(self)
        patience = dataclasses.replace(self.settings.patience, tries=1)
        other.settings = dataclasses.replace(self.settings, timeout_s=timeout_s, patience=patience)
        return other

    def with_own_rate_limit(self) -> "Client":
        """A copy with a separate rate limiter, so that neither client delays the other."""
        other = copy.copy(self)
        other._throttle = flow_control.RateLimiter(self.settings.qps, self.settings.burst, self.clock)
        return other

    # Reads

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        return await self._read(resource, request_builders.build_get(resource, name, namespace))

    async def list(
        self,
        resource: Resource[T],
        selection: ListOptions = ALL_OBJECTS,
        *,
        resource_version: str = "",
        match: str = "",
    ) -> list_watch.ObjectList[T]:
        """All selected objects at one resourceVersion.

        Lists in pages; if the continue token expires, once more without a limit.
        """
        objects: list_watch.ObjectList[T] = list_watch.ObjectList()
        try:
            async for page in self.pages(resource, selection, resource_version=resource_version, match=match):
                objects.extend(page)
        except errors.Gone:
            if not objects.resource_version:
                raise
            objects = await self._page(resource, request_builders.build_list(resource, selection))
        return objects

    async def pages(
        self,
        resource: Resource[T],
        selection: ListOptions = ALL_OBJECTS,
        *,
        resource_version: str = "",
        match: str = "",
    ) -> AsyncIterator[list_watch.ObjectList[T]]:
        """The pages of a list. `errors.Gone` if the continue token expires."""
        first = request_builders.build_list(
            resource, selection, limit=self.settings.page_size, resource_version=resource_version, match=match
        )
        page = await self._page(resource, first)
        yield page
        while page.continue_token:
            following = request_builders.build_list(
                resource, selection, limit=self.settings.page_size, continue_token=page.continue_token
            )
            page = await self._page(resource, following)
            yield page

    async def watch(
        self,
        resource: Resource[T],
        selection: ListOptions = ALL_OBJECTS,
        *,
        resource_version: str,
        timeout_s: int = 300,
    ) -> AsyncGenerator[list_watch.WatchEvent[T] | list_watch.MalformedEvent[T], None]:
        """Watch events after a resourceVersion, until the server ends the stream.

        `errors.Gone` if the resourceVersion expired. To watch permanently, use an informer.
        """
        request = request_builders.build_watch(
            resource, selection, resource_version=resource_version, timeout_s=timeout_s, silence_s=timeout_s + 30.0
        )
        decoder = list_watch.WatchDecoder(resource, request.call)
        async with contextlib.aclosing(self.stream(request)) as chunks:
            async for chunk in chunks:
                for event in decoder.feed(chunk):
                    if isinstance(event, list_watch.WatchFailed):
                        raise event.error
                    yield event

    # Writes

    async def create(self, resource: Resource[T], body: Body, namespace: str = "", *, dry_run: bool = False) -> T:
        """Create an object. With `dry_run` the result is returned without being stored."""
        writer = dataclasses.replace(self.settings.writer, dry_run=dry_run or self.settings.writer.dry_run)
        return await self._read(resource, request_builders.build_create(resource, body, namespace, writer=writer))

    async def update(self, resource: Resource[T], body: Body, *, subresource: str = "") -> T:
        """Replace an object. `errors.Conflict` if its resourceVersion is outdated."""
        request = request_builders.build_update(resource, body, subresource=subresource, writer=self.settings.writer)
        return await self._read(resource, request)

    async def merge_patch(
        self, resource: Resource[T], name: str, patch: Body, namespace: str = "", *, subresource: str = ""
    ) -> T:
        writer = self.settings.writer
        request = request_builders.build_merge_patch(
            resource, name, patch, namespace, subresource=subresource, writer=writer
        )
        return await self._read(resource, request)

    async def json_patch(
        self, resource: Resource[T], name: str, patch: Sequence[Body], namespace: str = "", *, subresource: str = ""
    ) -> T:
        writer = self.settings.writer
        request = request_builders.build_json_patch(
            resource, name, patch, namespace, subresource=subresource, writer=writer
        )
        return await self._read(resource, request)

    async def apply(self, resource: Resource[T], body: Body, *, subresource: str = "", force: bool = False) -> T:
        """Server-side apply. `errors.Conflict` if another manager owns a field, unless `force` is set."""
        writer = self.settings.writer
        request = request_builders.build_apply(resource, body, subresource=subresource, force=force, writer=writer)
        return await self._read(resource, request)

    async def delete(
        self, resource: Resource[Any], name: str, namespace: str = "", how: DeleteOptions = DEFAULT_DELETE_OPTIONS
    ) -> None:
        """Delete an object; finalizers or a pod's grace period may delay it."""
        await self.call(request_builders.build_delete(resource, name, namespace, how, writer=self.settings.writer))

    # Subresources

    async def get_scale(self, resource: Resource[Any], name: str, namespace: str = "") -> Unstructured:
        """The Scale of an object. `spec.replicas` is omitted at 0: read `spec.get("replicas", 0)`."""
        return _decode_json(await self.call(request_builders.build_get(resource, name, namespace, "scale")))

    async def scale(
        self, resource: Resource[Any], name: str, replicas: int, namespace: str = "", *, resource_version: str = ""
    ) -> Unstructured:
        """Set replicas through the scale subresource, with a resourceVersion precondition."""
        writer = self.settings.writer
        request = request_builders.build_scale(
            resource, name, replicas, namespace, resource_version=resource_version, writer=writer
        )
        return _decode_json(await self.call(request))

    async def evict(self, name: str, namespace: str, how: DeleteOptions = DEFAULT_DELETE_OPTIONS) -> None:
        """Evict a pod. `errors.TooManyRequests` with `is_disruption_budget` if a PodDisruptionBudget forbids it."""
        await self.call(request_builders.build_evict(PODS, name, namespace, how, writer=self.settings.writer))

    # Transport

    async def call(self, request: transport.Request) -> bytes:
        """Send with retries and rate limit; returns the body. Errors are those of `errors`."""
        request = dataclasses.replace(request, timeout_s=self.settings.timeout_s)
        failures = 0
        while True:
            await self._throttle.wait()
            try:
                return await self.exchange(request)
            except errors.KubeError as error:
                failures += 1
                wait_s = self.settings.patience.wait_s(request, error, failures, self.rng)
                if wait_s is None:
                    raise
            await self.clock.sleep(wait_s)

    async def stream(self, request: transport.Request) -> AsyncGenerator[bytes, None]:
        """The chunks of a streaming response; `errors.CallTimedOut` after a silence.

        The first chunk is empty and marks an accepted request. Neither retried nor rate-limited, like `exchange`: the
        caller sets the pace.
        """
        async with request_deadline(request):
            response = await self._send(request)
            if response.status >= _ERRORS_FROM:
                body = await _drain(response)
                raise errors.from_response(request.call, response.status, response.headers, body)
        async with contextlib.aclosing(response.stream):
            yield b""
            chunks = aiter(response.stream)
            while True:
                try:
                    async with request_deadline(request):
                        chunk = await anext(chunks)
                except StopAsyncIteration:
                    return
                yield chunk

    async def exchange(self, request: transport.Request) -> bytes:
        """Send once, without rate limit; returns the body."""
        async with request_deadline(request):
            response = await self._send(request)
            body = await _drain(response)
        if response.status >= _ERRORS_FROM:
            raise errors.from_response(request.call, response.status, response.headers, body)
        return body

    async def _send(self, request: transport.Request) -> transport.Response:
        request = dataclasses.replace(request, headers={"user-agent": self.settings.user_agent, **request.headers})
        if not _log.isEnabledFor(_EVERY_CALL):
            return await self._transport.send(request)
        since_s = self.clock.monotonic_s()
        outcome = "gave up"
        try:
            response = await self._transport.send(request)
            outcome = str(response.status)
        except errors.KubeError as error:
            outcome = str(error)
            raise
        finally:
            took_ms = 1000.0 * (self.clock.monotonic_s() - since_s)
            _log.log(_EVERY_CALL, "%s: %s, %.0f ms", request.line, outcome, took_ms)
        return response

    async def _read(self, resource: Resource[T], request: transport.Request) -> T:
        return resource.decode(await self.call(request))

    async def _page(self, resource: Resource[T], request: transport.Request) -> list_watch.ObjectList[T]:
        body = await self.call(request)
        try:
            return list_watch.decode_page(resource, body)
        except msgspec.MsgspecError as error:
            raise errors.InvalidResponse(request.call, str(error)) from error


@contextlib.asynccontextmanager
async def request_deadline(request: transport.Request) -> AsyncIterator[None]:
    """Run the block within the request's timeout, or raise `errors.CallTimedOut`."""
    try:
        async with asyncio.timeout(request.timeout_s):
            yield
    except TimeoutError as error:
        raise errors.CallTimedOut(request.call, f"no answer within {request.timeout_s:g} s") from error


async def _drain(response: transport.Response) -> bytes:
    try:
        return b"".join([chunk async for chunk in response.stream])
    finally:
        await response.stream.aclose()


def _decode_json(body: bytes) -> Unstructured:
    return decoder(Unstructured).decode(body)
