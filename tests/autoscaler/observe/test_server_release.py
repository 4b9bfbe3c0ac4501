"""Which release's filters are applied to a live cluster: the flag's, or that of the API server."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from windlass import clock, releases
from windlass.apiserver import core, inprocess, server
from windlass.autoscaler.observe import server_release
from windlass.autoscaler.observe.world import World
from windlass.kube import client, errors, transport
from windlass.providers import simulated


class Answering:
    """A server that cannot be reached for the first few calls, and then answers everything alike."""

    def __init__(self, failures: int = 0, status: int = 200, body: bytes = b'{"gitVersion": "v1.37.1"}') -> None:
        self.failures, self._status, self._body = failures, status, body

    async def send(self, request: transport.Request) -> transport.Response:
        if self.failures:
            self.failures -= 1
            raise errors.ConnectFailed(request.call, "refused")

        async def stream() -> AsyncGenerator[bytes, None]:
            yield self._body

        return transport.Response(self._status, {}, stream())


def find(found: Answering, choice: server_release.Choice, said: list[errors.KubeError]) -> releases.Release:
    time = clock.Virtual()
    return time.run(server_release.find(client.Client(found, time), choice, said.append))


def test_the_servers_version_decides_and_gates_come_on_top() -> None:
    gates = {"VolumeLimitScaling": False}
    found = find(Answering(), server_release.Choice(gates=gates), [])
    assert found == releases.with_gates(releases.NEWEST, gates)


def test_the_flag_decides_without_asking() -> None:
    assert find(Answering(failures=1000), server_release.Choice("1.36"), []) == releases.OLDEST


def test_a_server_that_cannot_be_reached_is_asked_again_and_reported() -> None:
    said: list[errors.KubeError] = []
    assert find(Answering(failures=12), server_release.Choice(), said) == releases.NEWEST
    assert said


@pytest.mark.parametrize(("status", "body"), [(403, b"{}"), (404, b"{}"), (200, b"[]"), (200, b'{"gitVersion": 7}')])
def test_a_server_that_tells_no_version_is_taken_for_the_oldest_release(status: int, body: bytes) -> None:
    assert find(Answering(status=status, body=body), server_release.Choice(), []) == releases.OLDEST


@pytest.mark.parametrize("version", ["v1.36.3", "v1.37.1"])
def test_pods_are_read_and_filtered_by_the_servers_release(version: str) -> None:
    time = clock.Virtual()
    served = server.Server(time, core.Settings(version=version))
    api = client.Client(inprocess.InProcess(served, time), time)
    world = World(api, simulated.Provider(time), lambda kind: None, scheduler=server_release.Choice())

    async def follow() -> None:
        following = asyncio.create_task(world.run())
        await world.wait_synced()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    time.run(follow())
    assert world.snapshot.release == releases.nearest(version)
