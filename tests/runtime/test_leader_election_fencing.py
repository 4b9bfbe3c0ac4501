"""Whoever does not lead any more changes nothing, whatever it had begun."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from windlass.kube import auth, errors, flow_control, http_transport, request_builders, transport
from windlass.kube.resources import NODES
from windlass.runtime import leader_election


class Noting:
    """A server that takes everything."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    async def send(self, request: transport.Request) -> transport.Response:
        self.methods.append(request.method)

        async def body() -> AsyncGenerator[bytes, None]:
            yield b"{}"

        return transport.Response(200, {}, body())


async def test_writes_of_a_process_that_stood_still_past_its_lease_are_not_sent() -> None:
    leads = [True, True, False]
    server = Noting()
    fenced = leader_election.FencedTransport(server, lambda: leads.pop(0))
    write, read = request_builders.build_delete(NODES, "worker-1"), request_builders.build_get(NODES, "worker-1")
    await fenced.send(write)
    await fenced.send(write)
    with pytest.raises(errors.WriteFenced, match=r"DELETE /api/v1/nodes/worker-1.*does not lead"):
        await fenced.send(write)
    await fenced.send(read)  # nobody asks who leads
    assert server.methods == ["DELETE", "DELETE", "GET"]


def test_what_was_withheld_is_not_tried_again() -> None:
    assert not flow_control.is_worth_retrying(
        request_builders.build_delete(NODES, "worker-1"), errors.WriteFenced("DELETE")
    )


class Slow:
    """A plugin that gives credentials when it is let go, each time others."""

    def __init__(self) -> None:
        self.asked, self.let_go, self.given = asyncio.Event(), asyncio.Event(), 0

    async def current(self) -> auth.Credential:
        self.asked.set()
        await self.let_go.wait()
        self.given += 1
        return auth.bearer_credential(str(self.given))

    def reject(self, credential: auth.Credential) -> None:
        self.let_go.clear()
        self.asked.clear()


async def test_a_write_whose_credentials_came_after_the_lease_was_lost_is_not_sent() -> None:
    leads, server, plugin = [True], Noting(), Slow()
    fenced = leader_election.FencedTransport(auth.AuthenticatedTransport(server, plugin), lambda: leads[0])
    sending = asyncio.create_task(fenced.send(request_builders.build_delete(NODES, "worker-1")))
    await plugin.asked.wait()
    leads[0] = False
    plugin.let_go.set()
    with pytest.raises(errors.WriteFenced):
        await sending
    assert server.methods == []
    await fenced.send(request_builders.build_get(NODES, "worker-1"))


async def test_a_write_that_is_signed_again_after_the_lease_was_lost_is_not_sent_again() -> None:
    class Refusing(Noting):
        async def send(self, request: transport.Request) -> transport.Response:
            response = await super().send(request)
            return transport.Response(401, {}, response.stream)

    leads, server, plugin = [True], Refusing(), Slow()
    plugin.let_go.set()
    fenced = leader_election.FencedTransport(auth.AuthenticatedTransport(server, plugin), lambda: leads[0])
    sending = asyncio.create_task(fenced.send(request_builders.build_delete(NODES, "worker-1")))
    while server.methods != ["DELETE"] or plugin.let_go.is_set():
        await asyncio.sleep(0)
    leads[0] = False
    plugin.let_go.set()
    with pytest.raises(errors.WriteFenced):
        await sending
    assert server.methods == ["DELETE"]


async def test_a_write_whose_connection_was_made_after_the_lease_was_lost_is_not_sent() -> None:
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            got.append(await reader.readuntil(b"\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    leads = [True, False]  # when it is handed over, and when the connection is there
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        connections = http_transport.HttpTransport(f"http://127.0.0.1:{port}")
        try:
            fenced = leader_election.FencedTransport(connections, lambda: leads.pop(0))
            with pytest.raises(errors.WriteFenced):
                await fenced.send(request_builders.build_delete(NODES, "worker-1"))
            response = await fenced.send(request_builders.build_get(NODES, "worker-1"))
            assert response.status == 200
            await response.stream.aclose()
        finally:
            await connections.aclose()
    assert got == [b"GET /api/v1/nodes/worker-1 HTTP/1.1\r\n"]
