"""Slow clients, on loopback. Deadlines are short here; that something ends is waited for as long as it takes."""

import asyncio
import contextlib
import errno
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest
import trustme
from aiohttp import web

from windlass.runtime import http_listener, http_server
from windlass.runtime.http_listener import ConnectionLimits

HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
WHOLE = HALF + b"\r\n"
PATIENCE_S = 60.0
QUICK_S, NEVER_S = 0.2, 3600.0
FAIR_S = 3.0
"""For what has to be done in time, on a busy machine too."""

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Slow:
    """Handlers that last, and what became of them."""

    def __init__(self) -> None:
        self.begun, self.may_end, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        self.begun.set()
        await self.may_end.wait()
        return web.Response(text="slowly")

    async def flood(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 2**16)
        finally:
            self.ended.set()


@contextlib.asynccontextmanager
async def served(
    limits: ConnectionLimits, tls: ssl.SSLContext | None = None, slow: Slow | None = None
) -> AsyncIterator[int]:
    app = web.Application()

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=f"{len(await request.read())} bytes")

    app.router.add_route("*", "/healthz", answer)
    if slow is not None:
        app.router.add_get("/slow", slow.answer)
        app.router.add_get("/flood", slow.flood)
    async with http_server.serve("127.0.0.1:0", app, tls, limits) as port:
        yield port


async def send(port: int, data: bytes) -> Stream:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    with contextlib.suppress(ConnectionError):
        await writer.drain()
    return reader, writer


async def wait_closed(stream: Stream) -> bytes:
    """What came until the other side closed."""
    reader, writer = stream
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def ask(port: int, path: str = "/healthz") -> tuple[int, str]:
    timeout = aiohttp.ClientTimeout(PATIENCE_S)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"http://127.0.0.1:{port}{path}") as got:
        return got.status, await got.text()


async def test_probes_are_answered_while_hundreds_of_half_sent_requests_hang() -> None:
    async with served(ConnectionLimits(50, NEVER_S, NEVER_S, NEVER_S)) as port:
        hanging = [await send(port, HALF) for _ in range(200)]
        hanging += await asyncio.gather(*(send(port, HALF) for _ in range(200)))  # many at once as well
        for _ in range(5):
            assert (await ask(port))[0] == 200
        closed = await asyncio.gather(*(wait_closed(item) for item in hanging[:200]))
        assert closed == [b""] * 200
        for _, writer in hanging:
            writer.close()


async def test_of_many_connections_one_that_is_being_answered_is_closed_last() -> None:
    slow = Slow()
    async with served(ConnectionLimits(3, NEVER_S, NEVER_S, NEVER_S), slow=slow) as port:
        answered = asyncio.create_task(ask(port, "/slow"))
        await slow.begun.wait()
        hanging = [await send(port, HALF) for _ in range(8)]
        assert await wait_closed(hanging[0]) == b""
        slow.may_end.set()
        assert await answered == (200, "slowly")
        for _, writer in hanging:
            writer.close()


async def test_a_request_that_is_not_sent_in_time_is_given_up_even_if_it_comes_byte_by_byte() -> None:
    async with served(ConnectionLimits(0, QUICK_S, NEVER_S, NEVER_S)) as port:
        silent, trickling = await send(port, b""), await send(port, HALF)
        assert await wait_closed(silent) == b""

        async def trickle() -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    trickling[1].write(b"X")
                    await trickling[1].drain()
                    await asyncio.sleep(QUICK_S / 10)

        trickle_ = asyncio.create_task(trickle())
        assert await wait_closed(trickling) == b""
        trickle_.cancel()


async def test_a_connection_that_is_idle_is_closed_and_a_second_request_has_its_own_time() -> None:
    async with served(ConnectionLimits(0, FAIR_S, NEVER_S, NEVER_S)) as port:
        reader, writer = await send(port, WHOLE)
        assert b"200" in await reader.readline()
        await asyncio.sleep(FAIR_S)  # longer than a first request may take
        writer.write(WHOLE)
        await reader.readuntil(b"200 OK")
        writer.write(HALF)
        assert (await wait_closed((reader, writer))).endswith(b"0 bytes")
    async with served(ConnectionLimits(0, NEVER_S, QUICK_S, NEVER_S)) as port:
        assert b"0 bytes" in await wait_closed(await send(port, WHOLE))


async def test_a_body_that_does_not_come_in_time_is_a_timeout() -> None:
    async with served(ConnectionLimits(0, FAIR_S, QUICK_S, NEVER_S)) as port:
        stream = await send(port, b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
        assert b"408 Request Timeout" in await wait_closed(stream)
        stream = await send(port, b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nhalf")
        assert b"4 bytes" in await wait_closed(stream)


async def test_a_client_that_reads_nothing_is_closed() -> None:
    slow = Slow()
    async with served(ConnectionLimits(0, NEVER_S, NEVER_S, QUICK_S), slow=slow) as port:
        reader, writer = await send(port, b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(PATIENCE_S):
            await slow.ended.wait()
        writer.close()


async def test_a_client_that_waits_for_its_answer_is_not_closed() -> None:
    slow = Slow()
    async with served(ConnectionLimits(0, FAIR_S, QUICK_S, QUICK_S), slow=slow) as port:
        answered = asyncio.create_task(ask(port, "/slow"))
        await slow.begun.wait()
        await asyncio.sleep(1.5 * FAIR_S)  # longer than any deadline
        slow.may_end.set()
        assert await answered == (200, "slowly")


async def test_a_tls_handshake_that_is_not_made_in_time_is_given_up() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority = trustme.CA()
    authority.issue_cert("localhost").configure_cert(context)
    async with served(ConnectionLimits(2, FAIR_S, NEVER_S, NEVER_S), context) as port:
        hanging = [await send(port, b"") for _ in range(4)]
        assert await asyncio.gather(*(wait_closed(item) for item in hanging)) == [b""] * 4
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://localhost:{port}/healthz", ssl=trusting) as got,
        ):
            assert got.status == 200


async def test_nothing_is_left_at_the_end_of_handshakes_and_requests_that_hang() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    for tls in (None, context):
        async with served(ConnectionLimits(0, NEVER_S, NEVER_S, NEVER_S), tls) as port:
            hanging = [await send(port, HALF if tls is None else b"") for _ in range(3)]
            await asyncio.sleep(0.1)
        for item in hanging:
            assert await wait_closed(item) == b""
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_too_few_file_descriptors_are_logged_once_and_do_not_end_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()
    accept, failures = loop.sock_accept, iter(range(5))

    async def fail_first(sock: object) -> object:
        if next(failures, None) is not None:
            raise OSError(errno.EMFILE, "Too many open files")
        return await accept(sock)  # type: ignore[arg-type]

    monkeypatch.setattr(http_listener, "_ACCEPT_AGAIN_S", 0.001)
    monkeypatch.setattr(loop, "sock_accept", fail_first)
    with caplog.at_level(logging.WARNING):
        async with served(ConnectionLimits()) as port:
            assert (await ask(port))[0] == 200
    assert [record.getMessage() for record in caplog.records] == [
        "failed to accept connection: error='Too many open files' open=0"
    ]


@pytest.mark.parametrize(("descriptors", "most"), [(30, 8), (200, 50), (1024, 256), (resource.RLIM_INFINITY, 256)])
def test_most_file_descriptors_are_left_for_others(
    descriptors: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert ConnectionLimits().count_connections() == most


async def test_connections_that_come_all_at_once_take_no_more_file_descriptors_than_are_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    accept, accepted, open_at_once = loop.sock_accept, list[socket.socket](), list[int]()

    async def note(sock: socket.socket) -> object:
        found, address = await accept(sock)
        accepted.append(found)
        open_at_once.append(sum(item.fileno() >= 0 for item in accepted))
        return found, address

    monkeypatch.setattr(loop, "sock_accept", note)
    async with served(ConnectionLimits(5, NEVER_S, NEVER_S, NEVER_S)) as port:
        clients = [socket.socket() for _ in range(100)]
        for client in clients:  # without a pause, so that all of them wait to be accepted
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(("127.0.0.1", port))
        assert (await ask(port))[0] == 200
        for client in clients:
            client.close()
    assert len(accepted) > 100
    assert max(open_at_once) <= 5 + 5
