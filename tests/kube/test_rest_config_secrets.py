"""Kubeconfigs of Secrets: whoever writes one cannot have us ask what only we can reach."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web

from windlass import clock, errors
from windlass.kube import errors as kube_errors
from windlass.kube import http_transport, rest_config
from windlass.kube.transport import Request

REFUSED: dict[str, dict[str, Any]] = {
    "a query": {"server": "https://host/latest/meta-data?x="},
    "an empty query": {"server": "https://host/latest/meta-data?"},
    "a fragment": {"server": "https://host/#"},
    "a user": {"server": "https://user:password@host"},
}
"""In any case."""
INSECURE: dict[str, dict[str, Any]] = {
    "no TLS": {"server": "http://host:6443"},
    "no verification": {"insecure-skip-tls-verify": True},
    "a proxy": {"proxy-url": "http://proxy:3128"},
    "loopback": {"server": "https://127.0.0.1:6443"},
    "loopback as IPv6": {"server": "https://[::1]:6443"},
    "loopback as mapped": {"server": "https://[::ffff:127.0.0.1]:6443"},
    "link-local": {"server": "https://169.254.169.254"},
    "link-local as IPv6": {"server": "https://[fe80::1]"},
    "unspecified": {"server": "https://0.0.0.0:6443"},
}
"""Unless they are allowed."""


def read(cluster: dict[str, Any], **options: bool) -> rest_config.RestConfig:
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://host:6443", **cluster}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    return rest_config.read_secret_kubeconfig(
        clock.VirtualClock(), msgspec.json.encode(config), "of Cluster a/b", **options
    )


@pytest.mark.parametrize("allow_insecure", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_a_server_whose_path_we_would_not_choose_is_refused(name: str, allow_insecure: bool) -> None:
    with pytest.raises(errors.InvalidInput, match="kubeconfig of Cluster a/b: server: found a "):
        read(REFUSED[name], allow_insecure=allow_insecure)


@pytest.mark.parametrize("name", INSECURE)
def test_what_is_insecure_is_refused_unless_it_is_allowed(name: str) -> None:
    with pytest.raises(errors.InvalidInput, match=r"\(--machine-pool-allow-insecure-kubeconfigs allows it\)$"):
        read(INSECURE[name])
    assert not read(INSECURE[name], allow_insecure=True).blocks_internal_addresses


@pytest.mark.parametrize("server", ["https://host:6443", "https://10.0.0.1:6443/prefix", "https://[2001:db8::1]"])
def test_servers_elsewhere_are_connected_to_with_care(server: str) -> None:
    config = read({"server": server})
    assert (config.server, config.blocks_internal_addresses, config.tls.verify) == (server, True, True)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "0.0.0.0", "0.1.2.3", "::",
        "::ffff:0.0.0.0", "169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "100.100.100.200", "168.63.129.16",
        "192.0.0.192", "224.0.0.1", "ff02::1",
    ],
)  # fmt: skip
def test_addresses_that_only_we_can_reach_are_told(address: str) -> None:
    assert http_transport.explain_blocked_address(address).startswith(f"{address} is a")


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "192.168.1.1", "172.16.0.1", "8.8.8.8", "fd00::1", "2001:db8::1", "host"]
)
def test_other_addresses_are_not(address: str) -> None:
    assert http_transport.explain_blocked_address(address) == ""


@pytest.mark.parametrize(
    "server",
    [
        "https://[::1", "https://[", "https://]", "https://host:99999999", "https://host:-1", "https://host:x",
        "https://ho st", "https://h\0ost", "https://\u2100", "https://a\nb", "https:///x", "https://:443", "https://a..b",
        f"https://{'a' * 300}", "https://.", "https://host:443:443", "https://\u202e", "host", "", "file:///etc/passwd",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(server: str) -> None:
    with pytest.raises(errors.InvalidInput, match="cluster 'c': server: found"):
        read({"server": server})


async def test_what_cannot_be_sent_is_an_error_of_ours() -> None:
    async with metadata() as (port, asked):
        carrier = http_transport.HttpTransport(f"http://127.0.0.1:{port}")
        with pytest.raises(kube_errors.ConnectFailed, match="the request cannot be sent"):
            await carrier.send(Request("GET", "/latest", headers={"authorization": "Bearer a\r\nb"}))
        await carrier.aclose()
    assert asked == []


@contextlib.asynccontextmanager
async def metadata() -> AsyncIterator[tuple[int, list[str]]]:
    """A service on a loopback address, and what it was asked; it sends everyone elsewhere."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.raw_path)
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1], asked
    finally:
        await runner.cleanup()


async def test_a_name_that_leads_to_a_loopback_address_is_not_connected_to() -> None:
    async with metadata() as (port, asked):
        carrier = http_transport.HttpTransport(f"http://localhost:{port}", is_guarded=True)
        with pytest.raises(kube_errors.ConnectFailed, match="is a loopback address"):
            await carrier.send(Request("GET", "/latest"))
        await carrier.aclose()
    assert asked == []


async def test_redirects_are_not_followed() -> None:
    async with metadata() as (port, asked):
        carrier = http_transport.HttpTransport(f"http://localhost:{port}")
        assert (await carrier.send(Request("GET", "/latest"))).status == 302
        await carrier.aclose()
    assert asked == ["/latest"]
