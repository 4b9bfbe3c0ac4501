"""The servers: the embedded one, always; a real kube-apiserver where the test bed is there."""

import asyncio
import contextlib
import itertools
import os
import secrets
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.contracts import api_client, objects
from tests.contracts.api_client import Api
from windlass import clock
from windlass.apiserver import embedded_server, server
from windlass.kube import rest_config, transport

SERVERS = ("embedded", "real")
_numbers = itertools.count()


@pytest.fixture(params=SERVERS)
def chosen(request: pytest.FixtureRequest) -> str:
    """Which server; the kubeconfig of the real one is in the environment by then."""
    if request.param == "real":
        request.getfixturevalue("real_api_server")
    return str(request.param)


@pytest_asyncio.fixture
async def api(chosen: str) -> AsyncIterator[Api]:
    """A client of the chosen server with a namespace of its own and the test's own kinds."""
    async with _connect(chosen) as carrier:
        made = Api(carrier, f"c{secrets.token_hex(4)}-{next(_numbers)}", chosen == "real")
        (await made.create(api_client.NAMESPACES, {"metadata": {"name": made.namespace}})).expect(201)
        await define_kinds(made)
        if made.is_real:
            await _wait_for_service_account(made)
        try:
            yield made
        finally:
            if made.is_real:
                for path in made.made:
                    await made.call("DELETE", path, query={"gracePeriodSeconds": 0})


@contextlib.asynccontextmanager
async def _connect(chosen: str) -> AsyncIterator[transport.Transport]:
    if chosen == "embedded":
        real = clock.RealClock()
        yield embedded_server.InProcessTransport(server.Server(real), real)
        return
    async with rest_config.load_rest_config(
        clock.RealClock(), os.environ["WINDLASS_TESTBED_KUBECONFIG"]
    ).connect() as carrier:
        yield carrier


async def define_kinds(api: Api) -> None:
    """Kinds stay defined: the real server takes seconds to take one into service."""
    for definition in objects.DEFINITIONS:
        found = await api.get(api_client.DEFINITIONS, definition["metadata"]["name"])
        if found.code == 404:
            named = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
            reply = await api.call("POST", api.path(api_client.DEFINITIONS), named | definition)
            assert reply.code in (201, 409), reply.raw
    for kind in objects.CUSTOM:

        async def is_served(kind: api_client.Kind = kind) -> bool:
            return (await api.list(kind)).code == 200

        await api_client.eventually(is_served)


async def _wait_for_service_account(api: Api) -> None:
    """Pods cannot be created before their namespace has its service account."""
    path = f"/api/v1/namespaces/{api.namespace}/serviceaccounts/default"
    while (await api.call("GET", path)).code == 404:
        await asyncio.sleep(0.02)
