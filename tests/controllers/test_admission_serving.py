"""Webhooks over TLS."""

import asyncio
import io
import json
import ssl
from pathlib import Path

import aiohttp
import pytest
import trustme

from windlass import clock
from windlass.controllers import admission, operator_process
from windlass.runtime import http_server

HOOKS = operator_process.select_webhooks("machine_autoscaler", operator_process.OperatorSettings())
PATH = "/validate-machineautoscalers"
BAD = {"request": {"uid": "u", "operation": "CREATE", "object": {"spec": {"minReplicas": 3, "maxReplicas": 1}}}}


def write(directory: Path, authority: trustme.CA) -> None:
    made = authority.issue_cert("localhost")
    (directory / "tls.crt").write_bytes(made.cert_chain_pems[0].bytes())
    (directory / "tls.key").write_bytes(made.private_key_pem.bytes())


def test_an_object_is_judged_over_tls_also_after_the_certificate_was_replaced(tmp_path: Path) -> None:
    time = clock.RealClock()

    async def ask(port: int, authority: trustme.CA) -> bool:
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        url = f"https://localhost:{port}/validate-machineautoscalers"
        async with aiohttp.ClientSession() as session, session.post(url, json=BAD, ssl=trusting) as response:
            return bool((await response.json())["response"]["allowed"])

    async def play() -> None:
        first, second = trustme.CA(), trustme.CA()
        write(tmp_path, first)
        async with operator_process.serve_webhooks("localhost:0", tmp_path, HOOKS, time) as port:
            assert not await ask(port, first)
            write(tmp_path, second)
            for _ in range(60):
                try:
                    assert not await ask(port, second)
                    return
                except aiohttp.ClientConnectorError:
                    await asyncio.sleep(0.5)
            raise AssertionError("the new certificate is never shown")

    asyncio.run(play())


async def ask_app(body: bytes, hook: admission.Webhook | None = None) -> tuple[int, bytes]:
    """As the operator serves it, but for TLS."""
    async with http_server.serve("127.0.0.1:0", operator_process.make_webhook_app({PATH: hook or HOOKS[PATH]})) as port:
        url = f"http://127.0.0.1:{port}{PATH}"
        async with aiohttp.ClientSession() as session, session.post(url, data=io.BytesIO(body)) as response:
            return response.status, await response.read()


def update(padding: str, least: int = 3) -> bytes:
    """An update from one MachineAutoscaler to another, each with so much in an annotation; as API servers write it."""
    found = {"metadata": {"annotations": {"a": padding}}, "spec": {"minReplicas": least, "maxReplicas": 4}}
    review = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {"uid": "705ab4f5-6393", "operation": "UPDATE", "object": found, "oldObject": found},
    }
    return json.dumps(review).encode()


def read(answer: tuple[int, bytes]) -> tuple[bool, str]:
    status, body = answer
    response = json.loads(body)["response"]
    assert (status, response["uid"]) == (200, "705ab4f5-6393")
    return response["allowed"], response.get("status", {}).get("message", "")


async def test_a_review_of_several_megabytes_is_judged() -> None:
    assert read(await ask_app(update("x" * 3_000_000))) == (True, "")
    allowed, why = read(await ask_app(update("x" * 3_000_000, least=9)))
    assert (allowed, "max replicas" in why) == (False, True)


async def test_a_review_that_is_too_long_is_denied() -> None:
    """Not an error, which an API server passes by where the failure policy is Ignore."""
    assert read(await ask_app(update("x" * 5_000_000))) == (False, "the review has more than 8388608 bytes")


async def test_a_review_that_is_nested_too_deeply_is_denied() -> None:
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    allowed, why = read(await ask_app(update("").replace(b'"minReplicas": 3', b'"minReplicas": ' + deep)))
    assert (allowed, "recursion" in why) == (False, True)


async def test_what_a_hook_did_not_foresee_is_denied(caplog: pytest.LogCaptureFixture) -> None:
    def fail(asked: admission.AdmissionRequest) -> admission.AdmissionResponse:
        raise OverflowError("odd")

    assert read(await ask_app(update(""), fail)) == (
        False,
        "it cannot be judged: an unexpected error, see the operator's log",
    )
    assert "unexpected error: place=webhook" in caplog.text


async def test_what_is_no_review_is_a_bad_request() -> None:
    status, body = await ask_app(b'{"request": {"object": {"uid": "x"}}}')
    assert (status, b"found no AdmissionReview" in body) == (400, True)
