"""A scene: the embedded server in virtual time, clients by manager, controllers at work, and quiet.

`Scene.settle` lets everything happen that the last change brings about.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import prometheus_client

from tests.controllers.machine_pool.management_cluster import Counting, definition
from windlass import clock
from windlass.apiserver import embedded_server, server
from windlass.controllers import controller_interface, controller_runtime
from windlass.controllers.controller_runtime import ControllerMetrics
from windlass.controllers.openshift import machine_apis
from windlass.kube import client, request_builders, transport

Json = dict[str, Any]
Make = Callable[[controller_runtime.ControllerContext], controller_interface.Controller]
Between = Callable[[transport.Transport], transport.Transport]
"""What stands between controllers and the server: see `carriers`."""
S = TypeVar("S", bound="Scene")
T = TypeVar("T")

NOW_S = 1_800_000_000.0
SETTLED_S = 3.0


def nothing(carrier: transport.Transport) -> transport.Transport:
    return carrier


def play(make: Callable[[clock.Clock], S], story: Callable[[S], Awaitable[T]]) -> T:
    """What comes of a story that is told of a new scene."""
    time = clock.VirtualClock(NOW_S)

    async def report() -> T:
        scene = make(time)
        await scene.build()
        return await story(scene)

    return time.run(report())


def of(make: Callable[[clock.Clock], S]) -> Callable[[Callable[[S], Awaitable[None]]], Callable[[], None]]:
    """What makes a test of a story."""

    def decorate(story: Callable[[S], Awaitable[None]]) -> Callable[[], None]:
        @functools.wraps(story)
        def run() -> None:
            play(make, story)

        del run.__wrapped__  # pytest would ask for the arguments
        return run

    return decorate


def machine_sets_definition(api: machine_apis.MachineApi, version: str = "") -> Json:
    body = definition(api.group, "MachineSet", version or api.versions[0])
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    body["spec"]["versions"][0]["subresources"]["scale"] = scale
    return body


class Scene:
    """Objects, and what becomes of them."""

    def __init__(self, time: clock.Clock, served: server.Server | None = None) -> None:
        self.clock = time
        self.server = served or server.Server(time)
        self.carrier: transport.Transport = embedded_server.InProcessTransport(self.server, time)
        self.api = self.as_manager("client")
        self.written = Counting(self.carrier)

    async def build(self) -> None:
        """What is there before anything happens."""

    def as_manager(self, manager: str) -> client.Client:
        return client.Client(
            self.carrier, self.clock, client.ClientSettings(qps=0, writer=request_builders.WriteOptions(manager))
        )

    @contextlib.asynccontextmanager
    async def running(self, *makes: Make, between: Between = nothing) -> AsyncIterator[None]:
        """With controllers at work."""
        self.registry = prometheus_client.CollectorRegistry()
        self.written = Counting(between(self.carrier))
        settings = client.ClientSettings(qps=0, writer=request_builders.WriteOptions("windlass"))
        site = controller_runtime.ControllerContext(
            client.Client(self.written, self.clock, settings), ControllerMetrics(self.registry), workers=2
        )
        running = [asyncio.ensure_future(make(site).run()) for make in makes]
        try:
            await self.settle()
            yield
            for item in running:
                assert not item.done(), item.exception()
        finally:
            for item in running:
                item.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def settle(self, seconds: float = SETTLED_S) -> None:
        await self.clock.sleep(seconds)

    async def is_quiet(self, seconds: float) -> bool:
        """Whether nothing is written for a while. The server's version does not tell: Events expire after an hour."""
        self.written.writes.clear()
        await self.settle(seconds)
        return self.written.writes == []
