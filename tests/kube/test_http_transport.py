import asyncio
import contextlib
import os
import resource
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from tests import read_only
from windlass.kube import errors, http_transport
from windlass.kube.transport import Certificate, Request


async def echo(request: web.Request) -> web.Response:
    """Says what came, and who sent it."""
    peer = request.transport.get_extra_info("peercert") if request.transport else None
    said = {
        "method": request.method,
        "raw_path": request.raw_path,
        "query": list(request.query.items()),
        "headers": {name.lower(): value for name, value in request.headers.items()},
        "body": await request.text(),
        "peer": str(peer["subjectAltName"]) if peer else "",
    }
    return web.json_response(said, status=201, headers={"Retry-After": "5"})


async def stream(request: web.Request) -> web.StreamResponse:
    """Two chunks, and then a reset, an end or nothing at all."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"one\n")
    await response.write(b"two\n")
    if request.query["then"] == "reset":
        assert request.transport is not None
        request.transport.abort()
    if request.query["then"] == "hang":
        with contextlib.suppress(ConnectionError):
            while True:
                await asyncio.sleep(0.01)
                await response.write(b".")
    return response


@contextlib.asynccontextmanager
async def serve(context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/stream", stream)
    app.router.add_route("*", "/{tail:.*}", echo)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def exchange(transport: http_transport.HttpTransport, request: Request) -> tuple[int, dict[str, str], bytes]:
    try:
        response = await transport.send(request)
        async with contextlib.aclosing(response.stream) as chunks:
            body = b"".join([chunk async for chunk in chunks])
        return response.status, dict(response.headers), body
    finally:
        await transport.aclose()


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


def server_context(ca: trustme.CA, name: str = "127.0.0.1", *, wants_clients: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert(name).configure_cert(context)
    if wants_clients:
        ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def test_a_request_arrives_as_it_was_written() -> None:
    request = Request(
        "POST",
        "/api/v1/nodes/odd%2Fname",
        (("labelSelector", "a in (b,c),d!=e&f"), ("limit", "5")),
        {"content-type": "application/json", "x-mine": "1"},
        b'{"a":1}',
    )
    async with serve() as port:
        status, headers, body = await exchange(
            http_transport.HttpTransport(f"http://127.0.0.1:{port}/prefix/"), request
        )

    assert status == 201
    assert headers["retry-after"] == "5"
    said = body.decode()
    assert "/prefix/api/v1/nodes/odd%2Fname?labelSelector=" in said
    assert '"query": [["labelSelector", "a in (b,c),d!=e&f"], ["limit", "5"]]' in said
    assert '"x-mine": "1"' in said
    assert '"accept-encoding": "identity"' in said
    assert r"{\"a\":1}" in said


async def test_the_server_is_verified_by_the_ca_that_is_given(ca: trustme.CA) -> None:
    async with serve(server_context(ca)) as port:
        transport = http_transport.HttpTransport(
            f"https://127.0.0.1:{port}", http_transport.TlsConfig(ca.cert_pem.bytes())
        )
        assert (await exchange(transport, Request("GET", "/")))[0] == 201


@pytest.mark.parametrize("tls", [http_transport.TlsConfig(), http_transport.TlsConfig(trustme.CA().cert_pem.bytes())])
async def test_a_server_that_nobody_vouches_for_is_not_talked_to(ca: trustme.CA, tls: http_transport.TlsConfig) -> None:
    async with serve(server_context(ca)) as port:
        with pytest.raises(errors.ConnectFailed, match="certificate verify failed"):
            await exchange(http_transport.HttpTransport(f"https://127.0.0.1:{port}", tls), Request("GET", "/"))


async def test_a_certificate_for_another_name_is_taken_only_under_that_name(ca: trustme.CA) -> None:
    async with serve(server_context(ca, "kubernetes.default")) as port:
        with pytest.raises(errors.ConnectFailed):
            await exchange(
                http_transport.HttpTransport(
                    f"https://127.0.0.1:{port}", http_transport.TlsConfig(ca.cert_pem.bytes())
                ),
                Request("GET", "/"),
            )
        tls = http_transport.TlsConfig(ca.cert_pem.bytes(), server_name="kubernetes.default")
        assert (await exchange(http_transport.HttpTransport(f"https://127.0.0.1:{port}", tls), Request("GET", "/")))[
            0
        ] == 201


async def test_verification_can_be_left_out_on_purpose(ca: trustme.CA) -> None:
    async with serve(server_context(ca, "somewhere.else")) as port:
        transport = http_transport.HttpTransport(f"https://127.0.0.1:{port}", http_transport.TlsConfig(verify=False))
        assert (await exchange(transport, Request("GET", "/")))[0] == 201


async def test_a_client_certificate_says_who_we_are(ca: trustme.CA) -> None:
    mine = ca.issue_cert("me@windlass")
    certificate = Certificate(b"".join(pem.bytes() for pem in mine.cert_chain_pems), mine.private_key_pem.bytes())
    async with serve(server_context(ca, wants_clients=True)) as port:
        transport = http_transport.HttpTransport(
            f"https://127.0.0.1:{port}", http_transport.TlsConfig(ca.cert_pem.bytes())
        )
        _, _, body = await exchange(transport, Request("GET", "/", certificate=certificate))
    assert b"me@windlass" in body
    assert "PRIVATE" not in repr(certificate)


async def test_no_connection_means_that_nothing_can_have_happened() -> None:
    with pytest.raises(errors.ConnectFailed, match="GET /x"):
        await exchange(http_transport.HttpTransport("http://127.0.0.1:1"), Request("GET", "/x"))


async def test_a_stream_that_ends_is_whole() -> None:
    async with serve() as port:
        answer = await exchange(
            http_transport.HttpTransport(f"http://127.0.0.1:{port}"), Request("GET", "/stream", (("then", "end"),))
        )
    assert answer[2] == b"one\ntwo\n"


async def test_a_stream_that_breaks_is_a_lost_connection() -> None:
    async with serve() as port:
        with pytest.raises(errors.ConnectionLost) as caught:
            await exchange(
                http_transport.HttpTransport(f"http://127.0.0.1:{port}"),
                Request("GET", "/stream", (("then", "reset"),)),
            )
    assert not isinstance(caught.value, errors.ConnectFailed)


async def test_a_stream_can_be_left_at_any_time() -> None:
    async with serve() as port:
        transport = http_transport.HttpTransport(f"http://127.0.0.1:{port}")
        response = await transport.send(Request("GET", "/stream", (("then", "hang"),)))
        async for chunk in response.stream:
            assert chunk.startswith(b"one")
            break
        await response.stream.aclose()
        await response.stream.aclose()
        assert (await exchange(transport, Request("GET", "/")))[0] == 201


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_same_fault_is_told_in_the_same_words(scheme: str) -> None:
    """No address of an object in memory: logs and conditions would change with every try."""
    told = set()
    for _ in range(2):
        with pytest.raises(errors.ConnectFailed) as failed:
            await exchange(http_transport.HttpTransport(f"{scheme}://127.0.0.1:1"), Request("GET", "/x"))
        told.add(str(failed.value))
    assert told == {"GET /x: cannot connect to 127.0.0.1:1: Connection refused"}


async def test_a_certificate_that_is_not_trusted_is_told_without_addresses_in_memory(ca: trustme.CA) -> None:
    async with serve(server_context(ca)) as port:
        with pytest.raises(errors.ConnectFailed) as failed:
            await exchange(http_transport.HttpTransport(f"https://127.0.0.1:{port}"), Request("GET", "/x"))
    assert str(failed.value).startswith(f"GET /x: cannot connect to 127.0.0.1:{port}: ")
    assert " object at 0x" not in str(failed.value)


async def test_a_process_without_file_descriptors_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with serve() as port:
        transport = http_transport.HttpTransport(f"http://127.0.0.1:{port}")
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        opened: list[int] = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (os.dup(0) + 8, limits[1]))
        try:
            with contextlib.suppress(OSError):
                while True:
                    opened.append(os.dup(0))
            for _ in range(3):
                with pytest.raises(errors.ConnectFailed, match=f"127.0.0.1:{port}: Too many open files$"):
                    await transport.send(Request("GET", "/x"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for item in opened:
                os.close(item)
            await transport.aclose()
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [text.rpartition(" ")[0] for text in told] == [
        f"no file descriptor is left, API calls fail: server=http://127.0.0.1:{port}"
    ]


async def test_the_last_file_descriptors_are_left_for_health() -> None:
    async with serve() as port:
        transport = http_transport.HttpTransport(f"http://127.0.0.1:{port}")
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = os.dup(0)
        os.close(highest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 6, limits[1]))
        try:
            with pytest.raises(errors.ConnectFailed, match=f"127.0.0.1:{port}: Too many open files$"):
                await transport.send(Request("GET", "/x"))
            os.close(os.dup(0))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            await transport.aclose()


async def test_where_there_is_no_limit_none_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda _: unlimited)
    async with serve() as port:
        assert (await exchange(http_transport.HttpTransport(f"http://127.0.0.1:{port}"), Request("GET", "/")))[0] == 201


async def test_a_certificate_is_loaded_where_there_are_no_anonymous_files(ca: trustme.CA) -> None:
    mine = ca.issue_cert("me@windlass")
    chain = b"".join(pem.bytes() for pem in mine.cert_chain_pems)
    context = http_transport.make_ssl_context(http_transport.TlsConfig(ca.cert_pem.bytes()))
    http_transport.load_client_certificate_by_pipes(
        context, Certificate(chain + b"#" * 200_000, mine.private_key_pem.bytes())
    )
    with pytest.raises(ssl.SSLError):
        http_transport.load_client_certificate_by_pipes(context, Certificate(b"x" * 200_000, b"none"))


def test_client_certificates_work_where_no_path_can_be_written(ca: trustme.CA, tmp_path: Path) -> None:
    """In a mount namespace where every file system is read-only, as in a pod with a read-only root and no volumes."""
    mine = ca.issue_cert("me@windlass")
    (tmp_path / "chain").write_bytes(b"".join(pem.bytes() for pem in mine.cert_chain_pems))
    (tmp_path / "key").write_bytes(mine.private_key_pem.bytes())
    code = (
        "import pathlib, sys, tempfile\n"
        "from windlass.kube import http_transport, transport\n"
        "chain, key = (pathlib.Path(path).read_bytes() for path in sys.argv[1:])\n"
        "http_transport.make_ssl_context(http_transport.TlsConfig(), transport.Certificate(chain, key))\n"
        "try: tempfile.TemporaryFile()\n"
        "except OSError: print('nothing is writable, and it is loaded')\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "chain"), str(tmp_path / "key")]
    ran = subprocess.run(read_only.wrap(words), capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stderr, ran.stdout) == ("", "nothing is writable, and it is loaded\n")
