"""OpenShift's own sync as far as a pair of Machine API needs it: what machine-api-migration writes, and as whom.

It holds its Lease, replaces the mirror and mirrored Machines by what Machine API has (annotations as they are), applies
its condition, and reverts whatever else is there.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.controllers.openshift.machineset_sync.machine_set_pairs import World
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.kube import errors, request_builders, resources, time_formats

Json = dict[str, Any]

NAME = "machine-api-migration"
LEASES = resources.LEASES.untyped()
CONDITION_MANAGER = "MachineSetSyncController-SynchronizedCondition"
_PREFIXES = {MACHINE_API.delete_machine: CLUSTER_API.delete_machine}


async def renew(scene: World) -> None:
    spec = {"holderIdentity": NAME, "leaseDurationSeconds": 137}
    spec["renewTime"] = time_formats.format_micro_time(scene.clock.now_s())
    body = {"metadata": {"name": f"{NAME}-leader", "namespace": CLUSTER_API.namespace}, "spec": spec}
    await scene.as_manager(NAME).apply(LEASES, body, force=True)


@contextlib.asynccontextmanager
async def at_work(scene: World, delay_s: float = 0.02) -> AsyncIterator[None]:
    """With that sync running; it reacts `delay_s` after a change."""
    await renew(scene)
    running = asyncio.ensure_future(_run(scene, delay_s))
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _run(scene: World, delay_s: float) -> None:
    seen, renewed_s = -1, scene.clock.now_s()
    while True:
        await scene.clock.sleep(delay_s)
        if scene.clock.now_s() > renewed_s + 26.0:
            renewed_s = scene.clock.now_s()
            await renew(scene)
        if scene.server.version != seen:
            seen = scene.server.version
            await _sync(scene)


async def _sync(scene: World) -> None:
    api = scene.as_manager(NAME)
    for which in ("machine_sets", "machines"):
        here, there = (getattr(each, which)() for each in machine_apis.MACHINE_APIS)
        for found in (await api.list(here, request_builders.ListOptions(MACHINE_API.namespace))).items:
            with contextlib.suppress(errors.NotFound, errors.Conflict):
                mirror = await api.get(there, found["metadata"]["name"], CLUSTER_API.namespace)
                wanted = _mirrored(found, mirror, is_set=which == "machine_sets")
                if wanted != mirror:
                    await api.update(there, wanted)
        if which == "machine_sets":
            await _print_line(scene, here)


def _mirrored(found: Json, mirror: Json, *, is_set: bool) -> Json:
    annotations = {
        _PREFIXES.get(key, key) if not is_set else key: value
        for key, value in (found["metadata"].get("annotations") or {}).items()
    }
    annotations[machine_apis.PAUSED_ANNOTATION] = ""
    wanted = {**mirror, "metadata": {**mirror["metadata"], "annotations": annotations}}
    return wanted | ({"spec": {**mirror["spec"], "replicas": found["spec"].get("replicas", 1)}} if is_set else {})


async def _print_line(scene: World, here: resources.Resource[Json]) -> None:
    for found in (await scene.api.list(here, request_builders.ListOptions(MACHINE_API.namespace))).items:
        condition = {"type": "Synchronized", "status": "True", "reason": "ResourceSynchronized", "message": "theirs"}
        there = (found.get("status") or {}).get("conditions") or []
        if condition in [{key: item.get(key) for key in condition} for item in there]:
            continue
        metadata = {"name": found["metadata"]["name"], "namespace": MACHINE_API.namespace}
        body = {"metadata": metadata, "status": {"conditions": [condition]}}
        await scene.as_manager(CONDITION_MANAGER).apply(here, body, subresource="status", force=True)
