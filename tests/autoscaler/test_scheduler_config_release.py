"""Which release's filters are applied to a live cluster: the flag's, or that of the API server."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from tests.providers import fake_provider
from windlass import clock, scheduler_releases
from windlass.apiserver import embedded_server, registry, server
from windlass.autoscaler import scheduler_config
from windlass.autoscaler.cluster_informers import ClusterState
from windlass.kube import client, errors, transport


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


def find(
    answering: Answering, choice: scheduler_config.SchedulerRelease, kube_errors: list[errors.KubeError]
) -> scheduler_releases.SchedulerRelease:
    time = clock.VirtualClock()
    return time.run(scheduler_config.find_scheduler_release(client.Client(answering, time), choice, kube_errors.append))


def test_the_servers_version_decides_and_gates_come_on_top() -> None:
    gates = {"VolumeLimitScaling": False}
    scheduler_release = find(Answering(), scheduler_config.SchedulerRelease(gates=gates), [])
    assert scheduler_release == scheduler_releases.with_feature_gates(scheduler_releases.NEWEST_RELEASE, gates)


def test_the_flag_decides_without_asking() -> None:
    assert (
        find(Answering(failures=1000), scheduler_config.SchedulerRelease("1.36"), [])
        == scheduler_releases.OLDEST_RELEASE
    )


def test_a_server_that_cannot_be_reached_is_asked_again_and_reported() -> None:
    kube_errors: list[errors.KubeError] = []
    assert (
        find(Answering(failures=12), scheduler_config.SchedulerRelease(), kube_errors)
        == scheduler_releases.NEWEST_RELEASE
    )
    assert kube_errors


@pytest.mark.parametrize(("status", "body"), [(403, b"{}"), (404, b"{}"), (200, b"[]"), (200, b'{"gitVersion": 7}')])
def test_a_server_that_tells_no_version_is_taken_for_the_oldest_release(status: int, body: bytes) -> None:
    assert (
        find(Answering(status=status, body=body), scheduler_config.SchedulerRelease(), [])
        == scheduler_releases.OLDEST_RELEASE
    )


@pytest.mark.parametrize("version", ["v1.36.3", "v1.37.1"])
def test_pods_are_read_and_filtered_by_the_servers_release(version: str) -> None:
    time = clock.VirtualClock()
    served = server.Server(time, registry.ServerSettings(version=version))
    api = client.Client(embedded_server.InProcessTransport(served, time), time)
    world = ClusterState(
        api, fake_provider.Provider(time), lambda kind: None, scheduler=scheduler_config.SchedulerRelease()
    )

    async def follow() -> None:
        following = asyncio.create_task(world.run())
        await world.wait_synced()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    time.run(follow())
    assert world.snapshot.release == scheduler_releases.nearest_release(version)
