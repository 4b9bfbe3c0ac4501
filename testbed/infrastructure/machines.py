"""FakeMachine: an instance of the imaginary cloud, from the request for it to its end.

    status.instance:  (none) ──provision──▶ Booting ──boot──▶ Registered
                                               └──── lose: gone ──▶ Terminated

One that boots in a few seconds is Registered when it is first heard of.

Deleting the object takes the instance back, whatever its state.
"""

import time
from collections.abc import Iterator
from typing import Any

from testbed.infrastructure import api, knobs, nodes
from testbed.infrastructure.world import Object, World

FINALIZER = "fake.infrastructure/instance"
POOL = "fake.infrastructure/pool"
"""Label of an instance that belongs to a MachinePool: the name of that."""
_DEPLOYMENT = "cluster.x-k8s.io/deployment-name"
_SETTLING_S = 0.3
_NAMING_S = 2.0
"""An instance that takes its time to boot is named on the way, after this: no cloud answers at once, and Cluster API,
which looks at a Machine after every write to its infrastructure, is still asking for the others."""
_JOINING_S = 5.0
"""One that boots within this is named when its Node is there, as providers do that wait for it to join. Cluster API
then learns of both in one look, which it writes down in one go."""
_TELLING_S = 30.0
"""What Cluster API need not know is written later."""
_HEARD, _SILENT = "heard", "silent"
"""What can be wanted of a Node."""


async def look_after(world: World, machine: Object) -> float:
    told = _knobs(world, machine)
    if machine["metadata"].get("deletionTimestamp"):
        return await _take_back(world, machine, told)
    if not any(owners(machine, "Machine", "FakeMachinePool")):
        return 0.0  # Cluster API adopts it first
    stage = machine.get("status", {}).get("instance", "")
    if stage == "Terminated":
        return 0.0
    if stage and told.lose == knobs.GONE:
        return await _lose(world, machine)
    if stage == "Booting" and world.is_registered(machine):
        stage = "Registered"
    step = {"": _provision, "Booting": _boot, "Registered": _keep}[stage]
    return await step(world, machine, told)


async def _provision(world: World, machine: Object, told: knobs.Knobs) -> float:
    """Give an instance. Whatever is said of it at once is said in one write."""
    ours = _missing_finalizer(machine)
    if told.fail:
        failure = {"failureReason": "CreateError", "failureMessage": told.fail}
        await _report(world, machine, failure, _ready("False", "ProvisioningFailed", told.fail), ours)
        return 0.0
    if left_s := world.left_s(machine, "provision", told.provision_s):
        await _report(world, machine, {}, _ready("False", "Provisioning", ""), ours)
        return left_s
    world.left_s(machine, "boot", told.boot_s)  # it boots from now on
    if left_s := world.left_s(machine, "naming", _naming_s(told)):
        return left_s
    joins = _joins_first(told)
    if joins and not await _join(world, machine, told):
        return _SETTLING_S
    name = machine["metadata"]["name"]
    status = {
        "instance": "Registered" if joins else "Booting",
        "initialization": {"provisioned": True},
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
        "failureReason": None,
        "failureMessage": None,
    }
    given = {**ours, "spec": {"providerID": provider_id(machine)}}
    try:
        machine = await _report(world, machine, status, _ready("True", "Provisioned", ""), given)
    except api.ApiError as error:
        if joins and error.code == 404:  # deleted before our finalizer could hold it
            await nodes.remove(world, name)
        raise
    return await (_keep if joins else _boot)(world, machine, told)


def _naming_s(told: knobs.Knobs) -> float:
    """How long after it began to boot. A cloud that took its time to give an instance gives its name with it."""
    if _joins_first(told):
        return told.boot_s
    return 0.0 if told.provision_s else min(told.boot_s, _NAMING_S)


def _joins_first(told: knobs.Knobs) -> bool:
    return 0.0 < told.boot_s <= _JOINING_S


async def _boot(world: World, machine: Object, told: knobs.Knobs) -> float:
    if left_s := world.left_s(machine, "boot", told.boot_s):
        return left_s
    return await _keep(world, machine, told) if await _join(world, machine, told) else _SETTLING_S


async def _join(world: World, machine: Object, told: knobs.Knobs) -> bool:
    """Register the Node. False if its name is taken."""
    heard = told.lose != knobs.UNREACHABLE and not world.left_s(machine, "ready", told.ready_s)
    if not await nodes.register(world, machine, provider_id(machine), is_heard=heard):
        taken = _ready("False", "NodeNameTaken", "there is a Node of this name that belongs to another machine")
        await _report(world, machine, {}, taken)
        return False
    if heard:
        world.note_done(machine, _HEARD)
    world.note_registered(machine)
    return True


async def _keep(world: World, machine: Object, told: knobs.Knobs) -> float:
    """Say that there is a Node, and let it be heard of, or not."""
    waits = (await _tell_registered(world, machine), await _keep_heard(world, machine, told))
    return min((wait_s for wait_s in waits if wait_s), default=0.0)


async def _tell_registered(world: World, machine: Object) -> float:
    if machine["status"]["instance"] == "Registered":
        return 0.0
    is_pooled = any(owners(machine, "FakeMachinePool"))  # its Machine is made after it, and waits for a sign of life
    if not is_pooled and (left_s := world.left_s(machine, "telling", _TELLING_S)):
        return left_s
    await _report(world, machine, {"instance": "Registered"}, _ready("True", "Provisioned", ""))
    return 0.0


async def _keep_heard(world: World, machine: Object, told: knobs.Knobs) -> float:
    """One that someone deleted does not come back: its kubelet knows no better."""
    left_s = world.left_s(machine, "ready", told.ready_s)
    wanted = _SILENT if told.lose == knobs.UNREACHABLE else _HEARD
    if world.is_done(machine, wanted) or (wanted == _HEARD and left_s):
        return left_s
    node = await nodes.find(world, machine["metadata"]["name"])
    if node is not None and wanted == _SILENT and (nodes.is_heard(node) or nodes.is_ready(node)):
        await nodes.fall_silent(node, world)
        return _SETTLING_S
    if node is not None and wanted == _HEARD and not nodes.is_heard(node):
        await nodes.be_heard(node, world)
    world.note_done(machine, wanted)
    return left_s


async def _lose(world: World, machine: Object) -> float:
    """The instance is gone, and the cloud's node controller deletes its Node. Cluster API is told, and goes on."""
    await nodes.remove(world, machine["metadata"]["name"])
    condition = _ready("False", "InstanceTerminated", "the instance is gone")
    await _report(world, machine, {"instance": "Terminated"}, condition)
    return 0.0


async def _take_back(world: World, machine: Object, told: knobs.Knobs) -> float:
    finalizers = machine["metadata"].get("finalizers", [])
    if FINALIZER not in finalizers:
        return 0.0
    if left_s := world.left_s(machine, "terminate", told.terminate_s):
        return left_s
    if not any(owners(machine, "Machine")):  # for a Machine, Cluster API deletes the Node
        await nodes.remove(world, machine["metadata"]["name"])
    left = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
    await world.patch("fakemachines", machine, {"metadata": {"finalizers": left}})
    return 0.0


async def clear_away(world: World, namespace: str, name: str) -> None:
    """Delete the Node of an instance that is no more, if it is still there."""
    node = await nodes.find(world, name)
    if node is not None and node["spec"].get("providerID") == _identify(namespace, name):
        print(f"Node {name} was left behind by its machine", flush=True)
        await nodes.remove(world, name)


def owners(body: Object, *kinds: str) -> Iterator[str]:
    """Names of the owners that are of these kinds."""
    return (owner["name"] for owner in body["metadata"].get("ownerReferences", ()) if owner["kind"] in kinds)


def group_of(world: World, machine: Object) -> Object | None:
    """The MachineDeployment or MachinePool that a machine belongs to."""
    namespace, labels = machine["metadata"]["namespace"], machine["metadata"].get("labels", {})
    if pool := labels.get(POOL):
        return world.find("machinepools", namespace, pool)
    return world.find("machinedeployments", namespace, labels.get(_DEPLOYMENT, ""))


def provider_id(machine: Object) -> str:
    return _identify(machine["metadata"]["namespace"], machine["metadata"]["name"])


def _identify(namespace: str, name: str) -> str:
    return f"fake:///{namespace}/{name}"


def _knobs(world: World, machine: Object) -> knobs.Knobs:
    namespace = machine["metadata"]["namespace"]
    owning = [world.find("machines", namespace, name) for name in owners(machine, "Machine")]
    speaking = [group_of(world, machine), *owning, machine]
    return knobs.read(*(body["metadata"].get("annotations") or {} for body in speaking if body is not None))


def _missing_finalizer(machine: Object) -> Object:
    """The change that adds ours, unless it is there."""
    metadata = machine["metadata"]
    finalizers = metadata.get("finalizers", ())
    if FINALIZER in finalizers:
        return {}
    return {"metadata": {"finalizers": [*finalizers, FINALIZER], "resourceVersion": metadata["resourceVersion"]}}


def _ready(status: str, reason: str, message: str) -> Object:
    return {"type": "Ready", "status": status, "reason": reason, "message": message}


async def _report(
    world: World, machine: Object, status: Object, condition: Object, more: Object | None = None
) -> Object:
    """Write a status and its one condition, unless that is what it says already, and `more` in the same write."""
    known: dict[str, Any] = machine.get("status", {})
    said = known.get("conditions", [{}])[0]
    if not more and condition.items() <= said.items() and status.items() <= known.items():
        return machine
    if said.get("status") == condition["status"]:
        since = said["lastTransitionTime"]
    else:
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    change = {**status, "conditions": [{**condition, "lastTransitionTime": since}]}
    return await world.patch("fakemachines", machine, {**(more or {}), "status": change})
