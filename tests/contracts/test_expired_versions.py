"""What happens to lists and watches of a version that the server has forgotten."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
import pytest_asyncio

from testbed import fixtures, sharing
from tests.contracts import conftest, objects
from tests.contracts.api_client import Api
from windlass import clock
from windlass.apiserver import embedded_server, server
from windlass.kube import rest_config

GADGETS = objects.GADGETS


@dataclass(frozen=True, slots=True)
class Forgetful:
    """A server of our own that can be made to forget."""

    api: Api
    forget: Callable[[], Awaitable[None]]


@pytest_asyncio.fixture(params=conftest.SERVERS)
async def forgetful(request: pytest.FixtureRequest) -> AsyncIterator[Forgetful]:
    if request.param == "embedded":
        real = clock.RealClock()
        served = server.Server(real)

        async def compact() -> None:
            served.compact()

        api = Api(embedded_server.InProcessTransport(served, real), "default", False)
        await conftest.define_kinds(api)
        yield Forgetful(api, compact)
        return
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.running() as bed:
        async with rest_config.load_rest_config(clock.RealClock(), str(bed.kubeconfig)).connect() as carrier:
            api = Api(carrier, "default", True)

            async def restart() -> None:
                # etcd forgets; the API server's own cache does so only when it ends.
                await asyncio.to_thread(bed.compact)
                await asyncio.to_thread(bed.kill, "kube-apiserver")
                await asyncio.to_thread(bed.start, "kube-apiserver")
                await conftest.define_kinds(api)

            await conftest.define_kinds(api)
            yield Forgetful(api, restart)


async def test_a_forgotten_version_is_expired_for_lists_pages_and_watches(forgetful: Forgetful) -> None:
    api = forgetful.api
    for name in "abcd":
        (await api.create(GADGETS, objects.gadget(name, size=1))).expect(201)
    first = (await api.list(GADGETS, limit=2)).expect(200)
    (await api.merge(GADGETS, "d", {"spec": {"size": 2}})).expect(200)
    (await api.create(GADGETS, objects.gadget("e"))).expect(201)
    await forgetful.forget()

    page = (await api.list(GADGETS, **{"continue": first.metadata["continue"]})).expect(410)
    assert page.reason == "Expired"
    assert page.message.startswith(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder"
    )
    # The token in the refusal goes on, with what is there now.
    rest = (await api.list(GADGETS, **{"continue": page.metadata["continue"]})).expect(200)
    assert [item["metadata"]["name"] for item in rest.obj["items"]] == ["c", "d", "e"]
    assert rest.obj["items"][1]["spec"]["size"] == 2

    exact = await api.list(GADGETS, resourceVersion=first.version, resourceVersionMatch="Exact")
    assert exact.expect(410).message == "The resourceVersion for the provided list is too old."

    async with api.watch(GADGETS, resourceVersion=first.version) as events:
        error = await events.next()
    assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")

    fresh = (await api.list(GADGETS)).expect(200)
    async with api.watch(GADGETS, resourceVersion=fresh.version) as events:
        (await api.delete(GADGETS, "a")).expect(200)
        assert (await events.next())["type"] == "DELETED"
