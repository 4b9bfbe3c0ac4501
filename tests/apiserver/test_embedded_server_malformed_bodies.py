"""Odd bodies over HTTP: each is answered with a Status that says what is wrong with the request."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from tests.apiserver.direct_client import CONFIG_MAPS, PODS
from windlass import clock
from windlass.apiserver import embedded_server, server

JSON, YAML, APPLY = "application/json", "application/yaml", "application/apply-patch+yaml"
MERGE, PATCH = "application/merge-patch+json", "application/json-patch+json"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    real = clock.RealClock()
    async with (
        embedded_server.HttpServer(server.Server(real), real) as served,
        aiohttp.ClientSession(served.url) as made,
    ):
        yield made


def nest(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def claim(levels: int) -> bytes:
    """A ResourceClaim with opaque parameters of so many levels."""
    config = b'[{"opaque":{"driver":"d","parameters":' + nest(levels) + b"}}]"
    return b'{"metadata":{"name":"deep"},"spec":{"devices":{"config":' + config + b"}}}"


@pytest.mark.parametrize(
    ("method", "path", "kind", "body"),
    [
        ("POST", CONFIG_MAPS, JSON, nest(2_000)),
        ("POST", CONFIG_MAPS, JSON, nest(100_000)),
        ("POST", CONFIG_MAPS, JSON, b'{"metadata":{"name":"a"},"data":' + nest(900) + b"}"),
        ("POST", CLAIMS, JSON, claim(2_000)),
        ("POST", CONFIG_MAPS, JSON, b"[" * 50_000),
        ("POST", CONFIG_MAPS, JSON, b'{"metadata":{"name":"\\ud800"}}'),
        ("POST", CONFIG_MAPS, JSON, b'{"metadata":{"name":"\xff"}}'),
        ("POST", CONFIG_MAPS, JSON, b'{"metadata":[]}'),
        ("POST", CONFIG_MAPS, JSON, b'{"metadata":{"name":{}}}'),
        ("POST", CONFIG_MAPS, JSON, b"null"),
        ("POST", CONFIG_MAPS, JSON, b""),
        ("POST", CONFIG_MAPS, JSON, b'{"metadata":{"name":"a","annotations":{"b":' + b"9" * 5_000 + b"}}}"),
        ("POST", PODS, JSON, b'{"metadata":{"name":"a"},"spec":{"priority":' + b"9" * 5_000 + b"}}"),
        ("POST", PODS, JSON, b'{"metadata":{"name":"a"},"spec":{"containers":[null]}}'),
        ("POST", PODS, JSON, b'{"metadata":{"name":"a"},"spec":{"containers":"x"}}'),
        ("POST", PODS, JSON, b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}],'
                             b'"terminationGracePeriodSeconds":99999999999999999999}}'),
        ("POST", CONFIG_MAPS, YAML, b"a: " + b"[" * 1_000 + b"]" * 1_000),
        ("POST", CONFIG_MAPS, YAML, b"a: &a [*a]"),
        ("POST", CONFIG_MAPS, YAML, b"a: " + b"9" * 5_000),
        ("POST", CONFIG_MAPS, "application/vnd.kubernetes.protobuf", b"k8s\x00"),
        ("PATCH", f"{CONFIG_MAPS}/c", MERGE, nest(2_000)),
        ("PATCH", f"{CONFIG_MAPS}/c", MERGE, b"[]"),
        ("PATCH", f"{CONFIG_MAPS}/c", MERGE, b"5"),
        ("PATCH", f"{CONFIG_MAPS}/c", MERGE, b'{"metadata":5}'),
        ("PATCH", f"{CONFIG_MAPS}/c", MERGE, b'{"metadata":null}'),
        ("PATCH", f"{CONFIG_MAPS}/c", PATCH, b"[1]"),
        ("PATCH", f"{CONFIG_MAPS}/c", PATCH, b'[{"op":"add","path":5,"value":1}]'),
        ("PATCH", f"{CONFIG_MAPS}/c", PATCH, b'[{"op":"replace","path":"/metadata","value":7}]'),
        ("PATCH", f"{CONFIG_MAPS}/c", PATCH, b'[{"op":"add","path":"/data/x/' + b"9" * 5_000 + b'","value":1}]'),
        ("PATCH", f"{CONFIG_MAPS}/c?fieldManager=m", APPLY, b"a: " + b"{a: " * 1_000),
        ("PATCH", f"{CONFIG_MAPS}/c?fieldManager=m", APPLY, b'{"apiVersion":1,"kind":["ConfigMap"],"metadata":{}}'),
        ("PUT", f"{CONFIG_MAPS}/c", JSON, nest(2_000)),
        ("PUT", f"{CONFIG_MAPS}/c", JSON, b'{"metadata":"c"}'),
        ("DELETE", f"{CONFIG_MAPS}/c", JSON, nest(2_000)),
        ("DELETE", f"{CONFIG_MAPS}/c", JSON, b"[]"),
        ("DELETE", f"{CONFIG_MAPS}/c", JSON, b'{"preconditions":5}'),
        ("POST", f"{PODS}/p/eviction", JSON, nest(2_000)),
        ("POST", f"{PODS}/p/binding", JSON, b'{"target":5}'),
        ("PUT", "/apis/apps/v1/namespaces/default/deployments/d/scale", JSON, b'{"spec":[]}'),
        ("POST", DEFINITIONS, JSON, b'{"metadata":{"name":"a.b"},"spec":[]}'),
        ("POST", DEFINITIONS, JSON, b'{"metadata":{"name":"a.b"},"spec":{"versions":[5],"names":3}}'),
        ("POST", BUDGETS, JSON, b'{"metadata":{"name":"b"},"spec":{"minAvailable":"' + b"9" * 5_000 + b'%"}}'),
        ("GET", f"{CONFIG_MAPS}?limit=x", JSON, b""),
        ("GET", f"{CONFIG_MAPS}?limit=" + "9" * 5_000, JSON, b""),
        ("GET", f"{CONFIG_MAPS}?continue=%ff%fe", JSON, b""),
        ("GET", f"{CONFIG_MAPS}?resourceVersion=" + "9" * 5_000, JSON, b""),
        ("GET", f"{CONFIG_MAPS}?labelSelector=%21%21%28", JSON, b""),
    ],
    ids=range(47),
)  # fmt: skip
async def test_it_is_answered_with_a_status_of_the_400s(
    session: aiohttp.ClientSession, method: str, path: str, kind: str, body: bytes
) -> None:
    async with session.post(CONFIG_MAPS, json={"metadata": {"name": "c"}, "data": {"x": "y"}}) as made:
        assert made.status == 201
    async with session.request(method, path, data=body, headers={"content-type": kind}) as answer:
        found = await answer.json()
    assert 400 <= answer.status < 500, found
    assert found["kind"] == "Status"
    assert found["message"]
    async with session.get(f"{CONFIG_MAPS}/c") as answer:
        assert (await answer.json())["data"] == {"x": "y"}


async def test_warnings_without_end_are_cut_short(session: aiohttp.ClientSession) -> None:
    body = {"metadata": {"name": "w"}, **{f"unknown\n{number}" * 20: 1 for number in range(200)}}
    async with session.post(CONFIG_MAPS, json=body) as made:
        assert made.status == 201
        assert 'unknown field \\"unknown' in made.headers["warning"]
