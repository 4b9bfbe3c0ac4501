"""Informer: keeps a sink equal to one resource of an API server for as long as it runs.

    nodes = store.Store[core.Node]()
    node_informer = Informer(api, resources.NODES, nodes)
    running = asyncio.create_task(node_informer.run())
    await node_informer.wait_synced()

The reflector decides what to request and what a response means; the informer does the I/O.
"""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from windlass import errors
from windlass.kube import client, reflector, request_builders, transport
from windlass.kube import errors as kube_errors
from windlass.kube.resources import Resource

T = TypeVar("T")
R = TypeVar("R")

_CAUGHT_UP_S = 2.0
"""Silence after which a resumed watch counts as caught up: a server sends missed events at once."""

RECONNECT_S = 10.0
"""Maximum duration of a reconnect before the sink counts as outdated. A failed attempt makes it outdated at once."""

_LONG_S = 0.005
"""Decoding time after which other tasks run, and after which data is decoded in smaller chunks. Malformed objects take
many times longer to decode; a thousand of them must not block the event loop."""

_PIECE_BYTES = 16384


class Informer(Generic[T]):
    """Keeps a sink current with one resource of one server."""

    def __init__(
        self,
        api: client.Client,
        resource: Resource[T],
        sink: reflector.Sink[T],
        selection: request_builders.ListOptions = request_builders.ALL_OBJECTS,
        settings: reflector.ReflectorSettings | None = None,
    ) -> None:
        self.resource = resource
        self._client = api
        reflector_settings = settings or reflector.ReflectorSettings(
            watch_s=api.settings.watch_s, silence_s=api.settings.silence_s
        )
        self._reflector = reflector.Reflector(resource, sink, api.rng, selection, reflector_settings)
        self._synced = asyncio.Event()
        self._opened_s: float | None = None
        """Monotonic time when the stream was opened."""
        self._is_slow = False
        """True if the last chunk took long to decode."""
        self._broken_s: float | None = None
        """Monotonic time when the watch broke, while no reconnect has failed."""

    @property
    def synced(self) -> bool:
        """True after the first complete list."""
        return self._reflector.synced

    @property
    def counts(self) -> reflector.ReflectorCounts:
        return self._reflector.counts

    @property
    def malformed(self) -> Mapping[str, errors.InvalidObject]:
        """Errors of malformed objects, by key."""
        return self._reflector.malformed

    @property
    def last_error(self) -> kube_errors.KubeError | None:
        """Why the sink may be outdated, such as a missing permission; None if it is current.

        A broken watch counts after `RECONNECT_S`, since a resumed watch delivers missed events.
        """
        is_reconnecting = self._broken_s is not None and not self._is_past(self._broken_s, RECONNECT_S)
        return None if self._is_current or is_reconnecting else self._reflector.last_error

    @property
    def _is_current(self) -> bool:
        if self._reflector.last_error is None:
            return True
        return (
            self._opened_s is not None and self._reflector.is_watching and self._is_past(self._opened_s, _CAUGHT_UP_S)
        )

    def _is_past(self, since_s: float, seconds: float) -> bool:
        return self._client.clock.monotonic_s() - since_s >= seconds

    @property
    def resource_version(self) -> str:
        """The resourceVersion that the sink has reached."""
        return self._reflector.resource_version

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def run(self) -> None:
        """List and watch until cancelled. Errors of the server are retried."""
        while True:
            step = self._reflector.next_step()
            # Yield even without backoff: a long list of many pages must not block other tasks.
            await self._client.clock.sleep(step.wait_s)
            since_s = self._client.clock.monotonic_s()
            try:
                if step.streams:
                    await self._stream(step.request, since_s)
                else:
                    page = await self._client.exchange(step.request)
                    await self._in_turn(functools.partial(self._reflector.receive_page, step.request, page))
            except kube_errors.KubeError as error:
                self._record_failure(error)
                self._reflector.fail(error, self._client.clock.monotonic_s() - since_s)
            finally:
                self._opened_s = None
            self._update_synced()

    async def _stream(self, request: transport.Request, since_s: float) -> None:
        async with contextlib.aclosing(self._client.stream(request)) as chunks:
            async for chunk in chunks:
                if self._opened_s is None:
                    self._opened_s = self._client.clock.monotonic_s()
                if not await self._receive(chunk):
                    return
                self._update_synced()
        self._reflector.end_stream(self._client.clock.monotonic_s() - since_s)

    async def _receive(self, chunk: bytes) -> bool:
        """Feed a chunk to the reflector; False if the stream must be closed.

        Slow chunks are decoded in turns, piece by piece.
        """
        pieces = [chunk]
        if self._is_slow:
            pieces = [chunk[begin : begin + _PIECE_BYTES] for begin in range(0, len(chunk), _PIECE_BYTES)]
        for piece in pieces:
            if not await self._in_turn(functools.partial(self._reflector.receive, piece)):
                return False
        return True

    async def _in_turn(self, read: Callable[[], R]) -> R:
        """Decode a chunk; if that took long, other tasks run before any informer goes on."""
        async with self._client.turns:
            began_s = self._client.clock.monotonic_s()
            found = read()
            self._is_slow = self._is_past(began_s, _LONG_S)
            if self._is_slow:
                await self._client.clock.sleep(0.0)
            return found

    def _record_failure(self, error: kube_errors.KubeError) -> None:
        """The watch broke, was silent for too long, or could not be opened."""
        is_refused = self._opened_s is None and not isinstance(error, kube_errors.Gone)
        if not self.synced or is_refused or isinstance(error, kube_errors.CallTimedOut):
            self._broken_s = None
        elif self._is_current:
            self._broken_s = self._client.clock.monotonic_s()

    def _update_synced(self) -> None:
        if self._reflector.synced and not self._synced.is_set():
            self._synced.set()
