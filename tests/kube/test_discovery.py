from collections.abc import Coroutine
from typing import Any

import pytest

from tests.kube.fake_api_server import Bytes, answer, refusal
from windlass import clock
from windlass.kube import client, discovery, errors, resources, transport

ANSWERS: dict[str, Any] = {
    "/apis": {
        "groups": [
            {
                "name": "cluster.x-k8s.io",
                "versions": [
                    {"groupVersion": "cluster.x-k8s.io/v1beta1", "version": "v1beta1"},
                    {"groupVersion": "cluster.x-k8s.io/v1beta2", "version": "v1beta2"},
                ],
                "preferredVersion": {"groupVersion": "cluster.x-k8s.io/v1beta2", "version": "v1beta2"},
            }
        ]
    },
    "/apis/cluster.x-k8s.io/v1beta2": {
        "resources": [
            {"name": "machines/status", "kind": "Machine", "namespaced": True, "verbs": ["get"]},
            {"name": "machines", "kind": "Machine", "namespaced": True, "verbs": ["get"]},
        ]
    },
    "/api/v1": {"resources": [{"name": "nodes", "kind": "Node", "namespaced": False}]},
}


class Server:
    async def send(self, request: transport.Request) -> transport.Response:
        if request.path == "/api/v2":
            return transport.Response(200, {}, Bytes(b"[]"))
        return answer(200, ANSWERS[request.path]) if request.path in ANSWERS else refusal(404, "NotFound")


def run(act: Coroutine[Any, Any, Any]) -> Any:
    return clock.VirtualClock().run(act)


API = client.Client(Server(), clock.VirtualClock(), client.ClientSettings(qps=0))


def test_a_kind_is_found_with_its_plural_and_scope() -> None:
    machines = run(discovery.find_resource(API, "cluster.x-k8s.io/v1beta2", "Machine"))
    assert machines == resources.MACHINES.untyped()
    assert run(discovery.find_resource(API, "v1", "Node")) == resources.NODES.untyped()


def test_what_the_server_does_not_have_is_not_found() -> None:
    assert run(discovery.find_resource(API, "v1", "Machine")) is None
    assert run(discovery.find_resource(API, "absent.io/v1", "Thing")) is None
    assert run(discovery.list_versions(API, "absent.io")) == []


def test_subresources_can_be_asked_for() -> None:
    assert run(discovery.has_resource(API, resources.MACHINES))
    assert run(discovery.has_resource(API, resources.MACHINES, "status"))
    assert not run(discovery.has_resource(API, resources.MACHINES, "scale"))


def test_versions_come_with_the_preferred_one_first() -> None:
    versions = run(discovery.list_versions(API, "cluster.x-k8s.io"))

    assert versions == ["cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io/v1beta1"]


def test_an_answer_that_makes_no_sense_is_said_so() -> None:
    with pytest.raises(errors.InvalidResponse, match="/api/v2"):
        run(discovery.find_resource(API, "v2", "Node"))
