"""The provider as a whole: watches keep the world current, and every change says whom to look after."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import aiohttp

from testbed.infrastructure import api, clusters, keys, machines, pools
from testbed.infrastructure.world import RESOURCES, Key, Object, World

_AGAIN_S = 0.5
_GONE = "gone"
"""In place of a resource, in the key of an instance that is no more."""
_LEFT_BEHIND_S = 15.0
"""So long after its instance a Node is deleted that nobody has deleted. Cluster API leaves one behind where its Machine
was deleted before it knew of the Node, and in a real cloud the node lifecycle controller does as we do here."""

Look = Callable[[World, Object], Awaitable[float]]
"""Bring an object one step on. Returns after how many seconds to look again, 0 for when something changes."""

_LOOKS: dict[str, Look] = {
    "fakeclusters": clusters.look_after_cluster,
    "fakemachinetemplates": clusters.look_after_template,
    "fakemachines": machines.look_after,
    "fakemachinepools": pools.look_after,
}


async def run(server: api.Api) -> None:
    """Provide infrastructure until cancelled."""
    world = World(server)
    listed = {resource: asyncio.Event() for resource in RESOURCES}

    async def handle(key: Key) -> None:
        if key[0] == _GONE:
            await machines.clear_away(world, *key[1:])
            return
        body = world.find(*key)
        if body is not None and (again_s := await _LOOKS[key[0]](world, body)):
            due.add(key, again_s)

    due = keys.Keys(handle)

    async def follow(resource: str) -> None:
        while True:
            try:
                await _list_and_watch(world, resource, listed, due)
            except (api.ApiError, aiohttp.ClientError, TimeoutError) as error:
                print(f"watching {resource}: {error}", flush=True)
                await asyncio.sleep(_AGAIN_S)

    async with asyncio.TaskGroup() as watches:
        for resource in RESOURCES:
            watches.create_task(follow(resource))


async def _list_and_watch(world: World, resource: str, listed: dict[str, asyncio.Event], due: keys.Keys) -> None:
    """One list, then watching until the server ends it. Nothing is looked after before all lists are in."""
    path = f"{RESOURCES[resource]}/{resource}"
    found = await world.api.call("GET", path)
    world.replace(resource, found["items"])
    listed[resource].set()
    await asyncio.gather(*(event.wait() for event in listed.values()))
    for body in found["items"]:
        _announce(world, resource, body, due)
    async for event in world.api.watch(path, found["metadata"]["resourceVersion"]):
        if event["type"] == "ERROR":
            return
        change = world.drop if event["type"] == "DELETED" else world.put
        change(resource, event["object"])
        _announce(world, resource, event["object"], due)
        if resource == "fakemachines" and event["type"] == "DELETED":
            metadata = event["object"]["metadata"]
            due.add((_GONE, metadata["namespace"], metadata["name"]), _LEFT_BEHIND_S)


def _announce(world: World, resource: str, body: Object, due: keys.Keys) -> None:
    for key in _affected(world, resource, body):
        due.add(key)


def _affected(world: World, resource: str, body: Object) -> Iterator[Key]:
    """Whom a change of an object concerns."""
    namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
    if resource in _LOOKS:
        yield resource, namespace, name
    if resource == "fakemachines":
        for pool in machines.owners(body, "FakeMachinePool"):
            yield "fakemachinepools", namespace, pool
    if resource == "machines":
        yield "fakemachines", namespace, body["spec"]["infrastructureRef"]["name"]
    if resource == "machinepools":
        yield "fakemachinepools", namespace, body["spec"]["template"]["spec"]["infrastructureRef"]["name"]
    if resource in ("machinedeployments", "machinepools"):
        for machine in world.all("fakemachines", namespace):
            group = machines.group_of(world, machine)
            if group is not None and group["metadata"]["uid"] == body["metadata"]["uid"]:
                yield "fakemachines", namespace, machine["metadata"]["name"]
