"""Over HTTP: what kubectl sends, sent by hand."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest_asyncio

from tests.apiserver.direct_client import config_map, pod
from windlass import clock
from windlass.apiserver import embedded_server, server

_PODS = "/api/v1/namespaces/default/pods"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    real = clock.RealClock()
    async with (
        embedded_server.HttpServer(server.Server(real), real) as served,
        aiohttp.ClientSession(served.url) as made,
    ):
        yield made


async def test_objects_are_served(session: aiohttp.ClientSession) -> None:
    async with session.post(_PODS, json=pod("p")) as answer:
        assert answer.status == 201
        assert answer.content_type == "application/json"
        assert (await answer.json())["metadata"]["name"] == "p"
    async with session.get(f"{_PODS}/p") as answer:
        assert answer.status == 200
    async with session.get(f"{_PODS}/nobody") as answer:
        assert answer.status == 404
        assert (await answer.json())["reason"] == "NotFound"


async def test_a_table_is_served(session: aiohttp.ClientSession) -> None:
    async with session.post(_PODS, json=pod("p")) as answer:
        assert answer.status == 201
    async with session.get(_PODS, headers={"accept": _TABLE}) as answer:
        table = await answer.json()
    assert table["kind"] == "Table"
    assert table["rows"][0]["cells"][0] == "p"


async def test_an_apply_is_taken_as_kubectl_sends_it(session: aiohttp.ClientSession) -> None:
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\ndata: {a: '1'}\n"
    path = "/api/v1/namespaces/default/configmaps/c"
    query = {"fieldManager": "kubectl", "fieldValidation": "Strict", "force": "false"}
    headers = {"content-type": "application/apply-patch+yaml"}
    async with session.patch(path, data=body, params=query, headers=headers) as answer:
        assert answer.status == 201
        assert (await answer.json())["metadata"]["managedFields"][0]["manager"] == "kubectl"


async def test_a_watch_streams_line_by_line(session: aiohttp.ClientSession) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    async with session.get(path, params={"watch": "true", "resourceVersion": "0"}) as answer:
        assert answer.status == 200
        for name in ("a", "b"):
            async with session.post(path, json=config_map(name)) as made:
                assert made.status == 201
            line = await asyncio.wait_for(answer.content.readline(), 60)
            event = msgspec.json.decode(line)
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)


async def test_many_watch_at_once_and_all_see_all(session: aiohttp.ClientSession) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    query = {"watch": "true", "resourceVersion": "0"}
    watches = [await session.get(path, params=query) for _ in range(5)]
    for number in range(20):
        async with session.post(path, json=config_map(f"c{number}")) as made:
            assert made.status == 201
    for answer in watches:
        names = [
            msgspec.json.decode(await asyncio.wait_for(answer.content.readline(), 60))["object"]["metadata"]["name"]
            for _ in range(20)
        ]
        assert names == [f"c{number}" for number in range(20)]
        answer.close()


async def test_names_with_colons_and_percents_arrive_whole(session: aiohttp.ClientSession) -> None:
    async with session.get("/apis/apps/v1/namespaces/default/deployments/a%3Ab") as answer:
        assert (await answer.json())["message"] == 'deployments.apps "a:b" not found'


async def test_a_client_that_goes_takes_its_watch_along(session: aiohttp.ClientSession) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    answer = await session.get(path, params={"watch": "true", "resourceVersion": "0"})
    answer.close()
    for number in range(3):
        async with session.post(path, json=config_map(f"c{number}")) as made:
            assert made.status == 201
