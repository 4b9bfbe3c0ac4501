"""Once: what the next loop would have to decide on, read from the API server by someone who changes nothing.

The memory of a windlass that runs there is read from its ConfigMap, so that its timers, requests and backoffs count.
"""

import asyncio
import os

from windlass import clock, errors
from windlass.autoscaler import keeping, process
from windlass.autoscaler.batch import sources
from windlass.autoscaler.expander_server import consulting, opening
from windlass.autoscaler.observe import server_release
from windlass.autoscaler.observe.world import World
from windlass.autoscaler.wiring import Wiring
from windlass.engine import decide as engine_decide
from windlass.engine.decide import Decision
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings
from windlass.kube import client
from windlass.kube import errors as kube_errors
from windlass.providers import clusterapi
from windlass.providers.clusterapi import config as clusterapi_config

WITHIN_S = 60.0
"""A server that does not answer is not waited for any longer."""

Moment = tuple[Observation, Memory, Settings, float]


async def observe(settings: Settings, wiring: Wiring, time: clock.Clock) -> Moment:
    """The cluster of the current kubeconfig. WindlassError if it cannot be read in time."""
    found = clusterapi_config.read(wiring.node_groups.node_group_auto_discovery, os.environ)
    async with process.connect(time, wiring.clients) as servers:
        return await consult(await look(servers, settings, wiring, found, time), wiring, time)


async def look(
    servers: process.Servers, settings: Settings, wiring: Wiring, found: clusterapi.Config, time: clock.Clock
) -> Moment:
    """The same on servers that are reached already."""
    reads = client.Settings(user_agent=wiring.clients.user_agent)
    workload = client.Client(servers.workload, time, reads)
    found = clusterapi_config.apply_deviations(found, settings.deviations)
    provider = clusterapi.Provider(client.Client(servers.management, time, reads), found)
    priorities_in = wiring.objects.namespace if "priority" in settings.scale_up.expander else ""
    told = server_release.Choice(wiring.scheduler.kube_scheduler_version, dict(wiring.scheduler.feature_gates))
    world = World(workload, provider, _ignore, priorities_in, batch=sources.choose(settings), scheduler=told)
    tasks = [asyncio.create_task(world.run()), asyncio.create_task(provider.run())]
    try:
        await clock.within(time, WITHIN_S, _wait_synced(world, provider))
        memory = await keeping.Keeper(workload, wiring.objects.namespace, wiring.objects.memory_config_map).read()
        return world.observe().observation, memory, settings, time.now_s()
    except TimeoutError:
        trouble = "; ".join(f"{kind}: {why}" for kind, why in {**world.trouble, **provider.trouble}.items())
        raise errors.WindlassError(f"the cluster could not be read within {WITHIN_S:g} s: {trouble}") from None
    except kube_errors.KubeError as error:
        raise errors.WindlassError(f"the autoscaler's memory could not be read: {error}") from error
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def consult(moment: Moment, wiring: Wiring, time: clock.Clock) -> Moment:
    """With what the user's own expander says, if --grpc-expander-url tells where it is."""
    seen, memory, settings, now_s = moment
    up = settings.scale_up
    ask = process.asking(opening.open_server(up.expander, wiring.expander, is_needed=False))
    if ask is None:
        return moment

    async def decide(seen: Observation) -> Decision:
        return engine_decide.decide(seen, memory, settings, now_s)

    seen, _ = await consulting.consult(seen, decide, ask, time, up.salvo_scale_up_budget_s)
    return seen, memory, settings, now_s


async def _wait_synced(world: World, provider: clusterapi.Provider) -> None:
    await world.wait_synced()
    await provider.wait_synced()


def _ignore(_: str) -> None: ...
