"""A request that several groups serve together, on Cluster API: all of them grow, or none has grown."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.autoscaler.capacity_apis import api_objects
from tests.providers.clusterapi import management_cluster
from windlass import clock
from windlass.autoscaler import app
from windlass.autoscaler.autoscaler import run_inline
from windlass.autoscaler.options.process_options import LeaderElectionOptions, ProcessOptions
from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.model.settings import ProvisioningRequestSettings, Settings
from windlass.kube import resources
from windlass.providers.clusterapi import auto_discovery

SERVED = Settings(provisioning_requests=ProvisioningRequestSettings(enable_provisioning_requests=True))
ALONE = ProcessOptions(leader_election=LeaderElectionOptions(leader_elect=False))
SMALL, LARGE = "MachineDeployment/default/small", "MachineDeployment/default/large"


@contextlib.asynccontextmanager
async def autoscaling(bed: management_cluster.Bed) -> AsyncIterator[None]:
    """The whole process meanwhile, with the provider of Cluster API; nobody makes Machines."""
    servers = app.ApiServers(bed.carrier, bed.carrier)
    config = auto_discovery.Config()
    running = app.AutoscalerProcess(servers, SERVED, ALONE, config, bed.clock, run_inline, random.Random(1))
    parts = (running.cluster_state.run(), running.provider.run(), running.lead())
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def played(scenario: Callable[[management_cluster.Bed], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a scenario: two groups at zero, which together have room for six pods, and neither alone."""

    def test() -> None:
        time = clock.VirtualClock(management_cluster.NOW_S)
        bed = management_cluster.Bed(time, "v1beta2", auto_discovery.Config())
        api_objects.install(bed, "provisioningrequests")
        bed.server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})
        bed.group("small", 0, (0, 2), annotations=management_cluster.enough("4"))
        bed.group("large", 0, (0, 2), annotations=management_cluster.enough("8"))
        api_objects.add_template(bed, cpu="3")
        api_objects.ask(bed, "r", 6, provisioning_request_queue.ATOMIC_SCALE_UP_CLASS)

        async def main() -> None:
            async with autoscaling(bed):
                await scenario(bed)

        time.run(main())

    return test


async def sizes(bed: management_cluster.Bed) -> tuple[int, int]:
    return await bed.replicas(SMALL), await bed.replicas(LARGE)


async def answer(bed: management_cluster.Bed) -> dict[str, str]:
    request = await bed.api.get(resources.PROVISIONING_REQUESTS.untyped(), "r", "default")
    return api_objects.reasons(request.get("status", {}))


def raised(bed: management_cluster.Bed) -> list[str]:
    """The groups whose size was written, in order."""
    return [call.split("/")[-2] for call in bed.carrier.calls if call.startswith("PATCH") and call.endswith("/scale")]


@played
async def test_groups_grow_together_for_what_none_has_room_for(bed: management_cluster.Bed) -> None:
    await bed.clock.sleep(30)
    assert await sizes(bed) == (2, 2)
    assert await answer(bed) == {"Accepted": "Accepted", "Provisioned": "CapacityIsProvisioned"}


@played
async def test_a_group_that_grew_in_vain_is_lowered_again_and_all_grow_once_none_refuses(
    bed: management_cluster.Bed,
) -> None:
    bed.carrier.forbid("PATCH", "machinedeployments/large/scale")
    await bed.clock.sleep(30)
    assert sorted(raised(bed)) == ["large", "small", "small"], "raised, and lowered again"
    assert await sizes(bed) == (0, 0)
    assert (await answer(bed)).get("Provisioned") != "CapacityIsProvisioned"
    bed.carrier.allow()
    await bed.clock.sleep(1200)
    assert await sizes(bed) == (2, 2)
    assert (await answer(bed))["Provisioned"] == "CapacityIsProvisioned"
