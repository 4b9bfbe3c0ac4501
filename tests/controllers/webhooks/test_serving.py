"""Webhooks over TLS."""

import asyncio
import ssl
from pathlib import Path

import aiohttp
import trustme

from windlass import clock
from windlass.controllers import registry
from windlass.controllers.webhooks import serving

HOOKS = registry.hooks("machine_autoscaler", registry.Settings())
BAD = {"request": {"uid": "u", "operation": "CREATE", "object": {"spec": {"minReplicas": 3, "maxReplicas": 1}}}}


def write(directory: Path, authority: trustme.CA) -> None:
    made = authority.issue_cert("localhost")
    (directory / "tls.crt").write_bytes(made.cert_chain_pems[0].bytes())
    (directory / "tls.key").write_bytes(made.private_key_pem.bytes())


def test_an_object_is_judged_over_tls_also_after_the_certificate_was_replaced(tmp_path: Path) -> None:
    time = clock.Real()

    async def ask(port: int, authority: trustme.CA) -> bool:
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        url = f"https://localhost:{port}/validate-machineautoscalers"
        async with aiohttp.ClientSession() as session, session.post(url, json=BAD, ssl=trusting) as response:
            return bool((await response.json())["response"]["allowed"])

    async def play() -> None:
        first, second = trustme.CA(), trustme.CA()
        write(tmp_path, first)
        async with serving.serve("localhost:0", tmp_path, HOOKS, time) as port:
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
