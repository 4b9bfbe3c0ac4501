"""A request that several groups serve together, on Cluster API: all of them grow, or none has grown."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.autoscaler.batch import stage
from tests.providers.clusterapi import bed
from windlass import clock
from windlass.autoscaler import app
from windlass.autoscaler.autoscaler import run_inline
from windlass.autoscaler.options.process_options import LeaderElectionOptions, ProcessOptions
from windlass.engine.capacity_apis import provisioning_conditions
from windlass.engine.model.settings import ProvisioningRequestSettings, Settings
from windlass.kube import resources
from windlass.providers.clusterapi import group_discovery

SERVED = Settings(provisioning_requests=ProvisioningRequestSettings(enable_provisioning_requests=True))
ALONE = ProcessOptions(leader_election=LeaderElectionOptions(leader_elect=False))
SMALL, LARGE = "MachineDeployment/default/small", "MachineDeployment/default/large"


@contextlib.asynccontextmanager
async def autoscaling(found: bed.Bed) -> AsyncIterator[None]:
    """The whole process meanwhile, with the provider of Cluster API; nobody makes Machines."""
    servers = app.ApiServers(found.carrier, found.carrier)
    config = group_discovery.Config()
    running = app.AutoscalerProcess(servers, SERVED, ALONE, config, found.clock, run_inline, random.Random(1))
    parts = (running.cluster_state.run(), running.provider.run(), running.lead())
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def played(scenario: Callable[[bed.Bed], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a scenario: two groups at zero, which together have room for six pods, and neither alone."""

    def test() -> None:
        time = clock.VirtualClock(bed.NOW_S)
        found = bed.Bed(time, "v1beta2", group_discovery.Config())
        stage.install(found, "provisioningrequests")
        found.server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})
        found.group("small", 0, (0, 2), annotations=bed.enough("4"))
        found.group("large", 0, (0, 2), annotations=bed.enough("8"))
        stage.add_template(found, cpu="3")
        stage.ask(found, "r", 6, provisioning_conditions.ATOMIC_SCALE_UP_CLASS)

        async def main() -> None:
            async with autoscaling(found):
                await scenario(found)

        time.run(main())

    return test


async def sizes(found: bed.Bed) -> tuple[int, int]:
    return await found.replicas(SMALL), await found.replicas(LARGE)


async def answer(found: bed.Bed) -> dict[str, str]:
    request = await found.api.get(resources.PROVISIONING_REQUESTS.untyped(), "r", "default")
    return stage.reasons(request.get("status", {}))


def raised(found: bed.Bed) -> list[str]:
    """The groups whose size was written, in order."""
    return [call.split("/")[-2] for call in found.carrier.calls if call.startswith("PATCH") and call.endswith("/scale")]


@played
async def test_groups_grow_together_for_what_none_has_room_for(found: bed.Bed) -> None:
    await found.clock.sleep(30)
    assert await sizes(found) == (2, 2)
    assert await answer(found) == {"Accepted": "Accepted", "Provisioned": "CapacityIsProvisioned"}


@played
async def test_a_group_that_grew_in_vain_is_lowered_again_and_all_grow_once_none_refuses(found: bed.Bed) -> None:
    found.carrier.forbid("PATCH", "machinedeployments/large/scale")
    await found.clock.sleep(30)
    assert sorted(raised(found)) == ["large", "small", "small"], "raised, and lowered again"
    assert await sizes(found) == (0, 0)
    assert (await answer(found)).get("Provisioned") != "CapacityIsProvisioned"
    found.carrier.allow()
    await found.clock.sleep(1200)
    assert await sizes(found) == (2, 2)
    assert (await answer(found))["Provisioned"] == "CapacityIsProvisioned"
