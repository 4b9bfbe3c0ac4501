"""Events and the status go on, whatever the server answers and whatever fails in writing one of them."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from windlass import clock, klog
from windlass.apiserver import embedded_server, registry, server
from windlass.engine.model.settings import Settings
from windlass.kube import client, resources, transport
from windlass.kube.events import EventOccurrence, InvolvedObject
from windlass.observability import reporter as observability_reporter

BODIES = [b"<html>maintenance</html>", b"", b"null", b"[]", b"{}", b'{"metadata": 1}', b"[" * 50_000]


class Net:
    """Answers what a test wants answered oddly with these bytes, and carries the rest to the server."""

    def __init__(self, time: clock.VirtualClock) -> None:
        self.clock, self.server = time, server.Server(time, registry.ServerSettings())
        self.server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})
        self.inner = embedded_server.InProcessTransport(self.server, time)
        self.is_odd: Callable[[transport.Request], bool] = lambda _: False
        self.body = b""

    async def send(self, request: transport.Request) -> transport.Response:
        if not self.is_odd(request):
            return await self.inner.send(request)

        async def chunks() -> AsyncGenerator[bytes, None]:
            yield self.body

        return transport.Response(200, {}, chunks())

    async def events(self) -> set[str]:
        api = client.Client(self.inner, self.clock, client.ClientSettings(qps=0))
        return {str(item["message"]) for item in (await api.list(resources.EVENTS.untyped())).items}


def play(scenario: Callable[[Net, observability_reporter.Reporter], Awaitable[None]]) -> None:
    time = clock.VirtualClock(1.7e9)

    async def main() -> None:
        net = Net(time)
        reporter = observability_reporter.Reporter(
            client.Client(net, time, client.ClientSettings(qps=0), random.Random(1)), Settings()
        )
        await reporter.start()
        writing = asyncio.create_task(reporter.run())
        try:
            await scenario(net, reporter)
            assert not writing.done()
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    time.run(main())


def report(reporter: observability_reporter.Reporter, number: int) -> None:
    reporter._emit((EventOccurrence(InvolvedObject("v1", "Node", f"n{number}"), "Normal", "ScaleDown", f"m{number}"),))


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_an_odd_answer_costs_no_event_but_its_own(body: bytes) -> None:
    async def scenario(net: Net, reporter: observability_reporter.Reporter) -> None:
        net.body = body
        for number in range(4):
            net.is_odd = lambda request, odd=number == 1: odd and "/events" in request.path  # type: ignore[misc]
            report(reporter, number)
            await net.clock.sleep(5.0)
        assert await net.events() >= {"m0", "m2", "m3"}

    play(scenario)


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_an_odd_answer_to_the_status_is_made_up_for(body: bytes) -> None:
    async def scenario(net: Net, reporter: observability_reporter.Reporter) -> None:
        net.body, net.is_odd = body, lambda request: "/configmaps" in request.path
        reporter._writer.put(reporter._status)
        await net.clock.sleep(5.0)
        net.is_odd = lambda _: False
        await client.Client(net.inner, net.clock).delete(
            resources.CONFIG_MAPS, "cluster-autoscaler-status", "kube-system"
        )
        for _ in range(3):  # what it believes to have found may be odd once more
            reporter._writer.put(reporter._status)
            await net.clock.sleep(70.0)
        api = client.Client(net.inner, net.clock)
        assert (await api.get(resources.CONFIG_MAPS.untyped(), "cluster-autoscaler-status", "kube-system"))["data"]

    play(scenario)


def test_what_fails_in_an_unforeseen_way_is_counted_and_begun_again() -> None:
    async def scenario(net: Net, reporter: observability_reporter.Reporter) -> None:
        before, record, fails = (
            klog.UNEXPECTED_ERRORS.counts()[klog.ErrorPlace.REPORTER],
            reporter._recorder.record,
            [True, True],
        )

        def fail(*arguments: object, **more: object) -> None:
            if fails:
                fails.pop()
                raise ZeroDivisionError
            record(*arguments, **more)  # type: ignore[arg-type]

        reporter._recorder.record = fail  # type: ignore[method-assign]
        for number in range(4):
            report(reporter, number)
        await net.clock.sleep(30.0)
        assert await net.events() == {"m2", "m3"}
        assert klog.UNEXPECTED_ERRORS.counts()[klog.ErrorPlace.REPORTER] == before + 2

    play(scenario)
