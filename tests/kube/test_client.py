import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from tests.kube.fake_api_server import Bytes, Server, answer, refusal
from windlass import clock, klog
from windlass.kube import client, errors, flow_control, request_builders, resources, transport
from windlass.kube.request_builders import ListOptions

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "resourceVersion": "7"},
    "spec": {"providerID": "x://n", "futureField": {"deep": [1]}},
}

Answer = transport.Response | Exception


class Script:
    """Answers as written."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = deque(answers)
        self.requests: list[transport.Request] = []

    async def send(self, request: transport.Request) -> transport.Response:
        self.requests.append(request)
        said = self.answers.popleft()
        if isinstance(said, Exception):
            raise said
        return said

    @property
    def calls(self) -> list[str]:
        return [request.line for request in self.requests]


def run(server: transport.Transport, act: Callable[[client.Client], Coroutine[Any, Any, Any]], **settings: Any) -> Any:
    """What the call gives, and the virtual time it took."""
    virtual = clock.VirtualClock()
    api = client.Client(server, virtual, client.ClientSettings(**settings), random.Random(1))
    result = virtual.run(act(api))
    return result, virtual.monotonic_s()


def get_node(api: client.Client) -> Coroutine[Any, Any, Any]:
    return api.get(resources.NODES, "n")


def test_objects_are_read_as_models_or_as_the_json_they_are() -> None:
    async def act(api: client.Client) -> None:
        node = await api.get(resources.NODES, "n")
        assert node.meta.name == "n"
        assert node.spec is not None
        assert node.spec.provider_id == "x://n"
        assert await api.get(resources.NODES.untyped(), "n") == NODE

    run(Script(answer(200, NODE), answer(200, NODE)), act)


def test_unknown_fields_survive_being_read_and_written() -> None:
    server = Script(answer(200, NODE), answer(200, NODE))

    async def act(api: client.Client) -> None:
        raw = await api.get(resources.NODES.untyped(), "n")
        raw["spec"]["unschedulable"] = True
        await api.update(resources.NODES, raw)

    run(server, act)
    sent = msgspec.json.decode(server.requests[1].body)
    assert sent["spec"] == {"providerID": "x://n", "futureField": {"deep": [1]}, "unschedulable": True}
    assert server.calls[1] == "PUT /api/v1/nodes/n?fieldManager=windlass"


def test_requests_say_who_sends_them() -> None:
    server = Script(answer(200, NODE))
    run(server, get_node, user_agent="me/1.0")

    assert server.requests[0].headers == {"user-agent": "me/1.0", "accept": "application/json"}
    assert client.ClientSettings().user_agent.startswith("windlass/")


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (405, "MethodNotAllowed", errors.MethodNotAllowed),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Gone),
        (410, "Gone", errors.Gone),
        (415, "UnsupportedMediaType", errors.UnsupportedMediaType),
        (418, "", errors.ApiError),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerError),
        (500, "ServerTimeout", errors.ServerTimeout),
        (503, "ServiceUnavailable", errors.ServiceUnavailable),
        (504, "Timeout", errors.ServerTimeout),
    ],
)
def test_every_refusal_has_its_type_and_carries_the_status(code: int, reason: str, kind: type[errors.ApiError]) -> None:
    with pytest.raises(errors.ApiError) as caught:
        run(Script(refusal(code, reason, "because")), get_node, patience=flow_control.RetryPolicy(tries=1))

    assert type(caught.value) is kind
    assert caught.value.status.reason == reason
    assert caught.value.message == "because"
    assert str(caught.value) == f"GET /api/v1/nodes/n: {code} {reason or 'without a reason'}: because"


def test_a_refusal_that_is_no_status_is_quoted() -> None:
    with pytest.raises(errors.Forbidden) as caught:
        run(Script(transport.Response(403, {}, Bytes(b"go ", b"away\n"))), get_node)

    assert caught.value.message == "go away"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("too old resource version: 12 (345)", "too old resource version"),
        ("Timeout: Too large resource version: 9, current: 8", "Timeout: Too large resource version"),
        ("read tcp 10.0.0.5:54321->10.96.0.1:443: connection reset", "read tcp 10.96.0.1:443: connection reset"),
        ("read tcp [::1]:54321->[::2]:443: connection reset", "read tcp [::2]:443: connection reset"),
        ("minReplicas: Invalid value: 3", "minReplicas: Invalid value: 3"),
    ],
)
def test_the_text_of_an_error_leaves_out_what_changes_in_a_server_s_message(said: str, text: str) -> None:
    refused = errors.from_response("GET /x", 410, {}, msgspec.json.encode({"message": said, "reason": "Expired"}))
    assert str(refused) == f"GET /x: 410 Expired: {text}"
    assert refused.message == said


def test_two_refusals_of_a_watch_have_the_same_text() -> None:
    """Each asks for another time and another resourceVersion."""

    async def act(api: client.Client) -> set[str]:
        texts, workers = set(), ListOptions(labels="role=worker")
        for version, timeout_s in (("5", 300), ("6", 301)):
            with pytest.raises(errors.Forbidden) as caught:
                async for _ in api.watch(resources.NODES, workers, resource_version=version, timeout_s=timeout_s):
                    pass
            texts.add(str(caught.value))
        return texts

    texts, _ = run(Script(refusal(403, "Forbidden", "no"), refusal(403, "Forbidden", "no")), act)
    assert texts == {"GET /api/v1/nodes?labelSelector=role=worker&watch=true: 403 Forbidden: no"}


def test_a_read_is_tried_again_after_faults_that_pass() -> None:
    lost = errors.ConnectionLost("GET", "reset")
    server = Script(lost, refusal(500), refusal(503), errors.ConnectFailed("GET", "refused"), answer(200, NODE))

    node, took_s = run(server, get_node)
    assert node.meta.name == "n"
    backoffs_s = 0.25 + 0.5 + 1 + 2
    assert backoffs_s / 2 <= took_s <= backoffs_s


def test_a_call_is_given_up_after_a_few_tries() -> None:
    server = Script(*(refusal(503, "ServiceUnavailable") for _ in range(9)))

    with pytest.raises(errors.ServiceUnavailable):
        run(server, get_node)
    assert len(server.requests) == 5


def test_retry_after_is_kept_to() -> None:
    server = Script(refusal(429, "TooManyRequests", retry_after="12"), answer(200, NODE))

    assert run(server, get_node)[1] == 12.0


def test_a_server_that_asks_for_too_much_patience_is_left_to_the_caller() -> None:
    with pytest.raises(errors.TooManyRequests) as caught:
        run(Script(refusal(429, "TooManyRequests", retry_after="600")), get_node)

    assert caught.value.retry_after_s == 600.0


def create(api: client.Client) -> Coroutine[Any, Any, Any]:
    return api.create(resources.NODES, NODE)


def patch_steps(api: client.Client) -> Coroutine[Any, Any, Any]:
    return api.json_patch(resources.NODES, "n", [{"op": "add", "path": "/spec/taints/-", "value": {}}])


@pytest.mark.parametrize("act", [create, patch_steps])
def test_what_must_not_happen_twice_is_not_tried_again_once_the_server_may_have_acted(
    act: Callable[[client.Client], Coroutine[Any, Any, Any]],
) -> None:
    for failure in (errors.ConnectionLost("x", "reset"), refusal(500, "InternalError"), refusal(504, "Timeout")):
        server = Script(failure)
        with pytest.raises(errors.KubeError):
            run(server, act)
        assert len(server.requests) == 1


@pytest.mark.parametrize("act", [create, patch_steps])
def test_what_the_server_cannot_have_acted_on_is_always_tried_again(
    act: Callable[[client.Client], Coroutine[Any, Any, Any]],
) -> None:
    server = Script(errors.ConnectFailed("x", "refused"), refusal(429, retry_after="1"), answer(201, NODE))

    run(server, act)
    assert len(server.requests) == 3


def test_the_answer_of_a_disruption_budget_is_not_an_overload() -> None:
    causes = [{"reason": "DisruptionBudget", "message": "needs 2 healthy pods and has 2 currently"}]
    body = {"reason": "TooManyRequests", "details": {"causes": causes, "retryAfterSeconds": 10}}
    server = Script(answer(429, body, retry_after="10"))

    with pytest.raises(errors.TooManyRequests) as caught:
        run(server, lambda api: api.evict("p", "ns"))
    assert caught.value.is_disruption_budget
    assert caught.value.retry_after_s == 10.0
    assert caught.value.status.causes[0].message == "needs 2 healthy pods and has 2 currently"


def test_calls_keep_to_their_rate() -> None:
    async def act(api: client.Client) -> list[float]:
        done: list[float] = []

        async def call() -> None:
            await get_node(api)
            done.append(api.clock.monotonic_s())

        await asyncio.gather(*(call() for _ in range(7)))
        await api.clock.sleep(100.0)
        await asyncio.gather(*(call() for _ in range(4)))
        return done

    server = Script(*(answer(200, NODE) for _ in range(11)))
    done, _ = run(server, act, qps=2.0, burst=3)
    assert done == [0.0, 0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 102.0, 102.0, 102.0, 102.5]


class Slow:
    """Answers after a while, byte by byte."""

    def __init__(self, time: clock.Clock, head_s: float, byte_s: float) -> None:
        self._clock, self._head_s, self._byte_s = time, head_s, byte_s

    async def send(self, request: transport.Request) -> transport.Response:
        await self._clock.sleep(self._head_s)
        return transport.Response(200, {}, self._drip())

    async def _drip(self) -> AsyncGenerator[bytes, None]:
        for byte in b'{"metadata":{}}':
            await self._clock.sleep(self._byte_s)
            yield bytes([byte])


@pytest.mark.parametrize(("head_s", "byte_s"), [(40.0, 0.0), (10.0, 5.0)])
def test_a_call_ends_in_time_wherever_the_server_is_slow(head_s: float, byte_s: float) -> None:
    virtual = clock.VirtualClock()
    api = client.Client(
        Slow(virtual, head_s, byte_s),
        virtual,
        client.ClientSettings(timeout_s=30.0, patience=flow_control.RetryPolicy(tries=1)),
    )

    with pytest.raises(errors.CallTimedOut):
        virtual.run(get_node(api))
    assert virtual.monotonic_s() == 30.0


def test_a_list_is_the_sum_of_its_pages() -> None:
    virtual = clock.VirtualClock()

    async def main() -> None:
        server = Server()
        for i in range(7):
            await server.put(f"n{i}")
        api = client.Client(server, virtual, client.ClientSettings(page_size=3))
        objects = await api.list(resources.CONFIG_MAPS)
        assert [config_map.meta.name for config_map in objects.items] == [f"n{i}" for i in range(7)]
        assert objects.resource_version == "17"
        raw = await api.list(resources.CONFIG_MAPS.untyped(), ListOptions())
        assert raw.items[0]["kind"] == "ConfigMap"
        assert len(server.requests) == 6

    virtual.run(main())


def test_a_list_whose_pages_expire_is_read_in_one_piece() -> None:
    virtual = clock.VirtualClock()

    async def main() -> None:
        server = Server()
        for i in range(7):
            await server.put(f"n{i}")
        server.faults.extend([lambda request: None, lambda request: server.forget()])
        api = client.Client(server, virtual, client.ClientSettings(page_size=3))
        assert len((await api.list(resources.CONFIG_MAPS)).items) == 7
        assert "limit" not in dict(server.requests[-1].query)

    virtual.run(main())


def test_a_malformed_object_in_a_list_is_named_and_the_rest_is_kept() -> None:
    items = [NODE, {"metadata": {"name": "odd"}, "spec": {"taints": "none"}}, 5, {"metadata": {"name": "last"}}]
    body = {"kind": "NodeList", "metadata": {"resourceVersion": "9"}, "items": items}

    found, _ = run(Script(answer(200, body)), lambda api: api.list(resources.NODES))
    assert [node.meta.name for node in found.items] == ["n", "last"]
    assert [str(item) for item in found.malformed] == [
        "Node odd: spec.taints: found 'none', expected array | null",
        "Node without a name: the object: found 5, expected object",
    ]


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"{}", b'{"status": "ok"}', b'{"metadata": {"resourceVersion": "9"}}']
)
def test_what_is_no_list_is_an_unusable_answer(body: bytes) -> None:
    with pytest.raises(errors.InvalidResponse):
        run(Script(transport.Response(200, {}, Bytes(body))), lambda api: api.list(resources.NODES))


@pytest.mark.parametrize("body", [b'{"items": null}', b'{"items": [], "metadata": {}}'])
def test_an_empty_list_is_one_that_says_so(body: bytes) -> None:
    found, _ = run(Script(transport.Response(200, {}, Bytes(body))), lambda api: api.list(resources.NODES))
    assert not found.items


def test_a_dry_client_changes_nothing_anywhere() -> None:
    server = Script(answer(200, NODE), answer(200, NODE), answer(200, {}), answer(201, {}))

    async def act(api: client.Client) -> None:
        await api.merge_patch(resources.NODES, "n", {})
        await api.apply(resources.NODES, NODE)
        await api.delete(resources.NODES, "n")
        await api.evict("p", "ns")

    run(server, act, writer=request_builders.WriteOptions("me", dry_run=True))
    assert [dict(request.query).get("dryRun") for request in server.requests[:2]] == ["All", "All"]
    assert all(b'"dryRun":["All"]' in request.body for request in server.requests[2:])


def test_the_scale_of_an_object_at_zero_says_nothing() -> None:
    server = Script(answer(200, {"kind": "Scale", "spec": {}}), answer(200, {"kind": "Scale", "spec": {"replicas": 2}}))

    async def act(api: client.Client) -> list[int]:
        before = await api.get_scale(resources.MACHINE_DEPLOYMENTS, "d", "ns")
        after = await api.scale(resources.MACHINE_DEPLOYMENTS, "d", 2, "ns", resource_version="7")
        return [scale["spec"].get("replicas", 0) for scale in (before, after)]

    assert run(server, act)[0] == [0, 2]


def test_every_call_is_logged_at_verbosity_nine_and_not_before(caplog: pytest.LogCaptureFixture) -> None:
    for level, lines in ((klog.verbosity_level(8), 0), (klog.verbosity_level(9), 2)):
        caplog.clear()
        with caplog.at_level(level, "windlass.kube.client"):
            run(Script(errors.ConnectionLost("GET", "reset"), answer(200, NODE)), get_node)
        assert len(caplog.records) == lines
    assert caplog.messages == ["GET /api/v1/nodes/n: GET: reset, 0 ms", "GET /api/v1/nodes/n: 200, 0 ms"]
    assert logging.DEBUG < klog.verbosity_level(9) < logging.INFO == klog.verbosity_level(0)
