"""Whoever does not lead any more changes nothing, whatever it had begun."""

from collections.abc import AsyncGenerator

import pytest

from windlass.kube import prepare, retry, transport
from windlass.kube.resources import NODES
from windlass.runtime import fencing


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
    fenced = fencing.Fenced(server, lambda: leads.pop(0))
    write, read = prepare.delete(NODES, "worker-1"), prepare.get(NODES, "worker-1")
    await fenced.send(write)
    await fenced.send(write)
    with pytest.raises(fencing.Withheld, match=r"DELETE /api/v1/nodes/worker-1.*does not lead"):
        await fenced.send(write)
    await fenced.send(read)  # nobody asks who leads
    assert server.methods == ["DELETE", "DELETE", "GET"]


def test_what_was_withheld_is_not_tried_again() -> None:
    assert not retry.is_worth_retrying(prepare.delete(NODES, "worker-1"), fencing.Withheld("DELETE"))
