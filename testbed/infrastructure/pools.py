"""FakeMachinePool: as many instances as its MachinePool wants, each of them a FakeMachine.

With `spec.machines` the instances are shown to Cluster API, which then keeps a Machine for each and takes it, and the
instance, away through it. Without, the pool alone takes instances away, newest first, and replaces lost ones, as a
cloud's own group does.
"""

from testbed.infrastructure import definitions, machines
from testbed.infrastructure.world import Object, World

FINALIZER = "fake.infrastructure/pool"
_MARK = "cluster.x-k8s.io/delete-machine"


async def look_after(world: World, pool: Object) -> float:
    namespace = pool["metadata"]["namespace"]
    instances = _instances(world, pool)
    if pool["metadata"].get("deletionTimestamp"):
        return await _close(world, pool, instances)
    owner = next((world.find("machinepools", namespace, name) for name in machines.owners(pool, "MachinePool")), None)
    if owner is None:
        return 0.0  # Cluster API adopts it first
    if FINALIZER not in pool["metadata"].get("finalizers", ()):
        finalizers = [*pool["metadata"].get("finalizers", ()), FINALIZER]
        version = pool["metadata"]["resourceVersion"]
        pool = await world.patch(
            "fakemachinepools", pool, {"metadata": {"finalizers": finalizers, "resourceVersion": version}}
        )
    await _resize(world, pool, owner, instances)
    await _report(world, pool, _instances(world, pool))
    return 0.0


def _instances(world: World, pool: Object) -> list[Object]:
    """Oldest first."""
    name = pool["metadata"]["name"]
    found = [
        machine
        for machine in world.all("fakemachines", pool["metadata"]["namespace"])
        if name in machines.owners(machine, "FakeMachinePool")
    ]
    return sorted(found, key=lambda machine: (machine["metadata"]["creationTimestamp"], machine["metadata"]["name"]))


async def _resize(world: World, pool: Object, owner: Object, instances: list[Object]) -> None:
    shown = bool(pool["spec"].get("machines"))
    if not shown:
        for lost in filter(_is_lost, instances):
            await world.delete("fakemachines", lost)
    staying = [machine for machine in instances if not _is_going(world, machine) and (shown or not _is_lost(machine))]
    wanted = owner["spec"].get("replicas", 1)
    for _ in range(wanted - len(staying)):
        await world.create("fakemachines", pool["metadata"]["namespace"], _instance(pool, owner))
    if len(staying) > wanted:
        newest_first = sorted(reversed(staying), key=lambda machine: not _is_marked(world, machine))
        for victim in newest_first[: len(staying) - wanted]:
            machine = _machine(world, victim)
            await (world.delete("machines", machine) if machine else world.delete("fakemachines", victim))


async def _report(world: World, pool: Object, instances: list[Object]) -> None:
    """Cluster API reads `status.ready` of pools, though its contract says `initialization.provisioned`: both."""
    running = [machine for machine in instances if machine.get("spec", {}).get("providerID") and not _is_lost(machine)]
    ids = [machine["spec"]["providerID"] for machine in running if not machine["metadata"].get("deletionTimestamp")]
    if pool["spec"].get("providerIDList") != ids:
        await world.patch("fakemachinepools", pool, {"spec": {"providerIDList": ids}})
    status: Object = {"ready": True, "initialization": {"provisioned": True}, "replicas": len(ids)}
    if pool["spec"].get("machines"):
        status["infrastructureMachineKind"] = "FakeMachine"
    if pool.get("status") != status:
        await world.patch("fakemachinepools", pool, {"status": status}, "status")


async def _close(world: World, pool: Object, instances: list[Object]) -> float:
    for machine in instances:
        if not machine["metadata"].get("deletionTimestamp"):
            await world.delete("fakemachines", machine)
    finalizers = pool["metadata"].get("finalizers", [])
    if FINALIZER in finalizers and not _instances(world, pool):
        left = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
        await world.patch("fakemachinepools", pool, {"metadata": {"finalizers": left}})
    return 0.0


def _instance(pool: Object, owner: Object) -> Object:
    metadata, spec = pool["metadata"], pool["spec"]
    labels = {machines.POOL: owner["metadata"]["name"]}
    if spec.get("machines"):
        labels |= {
            "cluster.x-k8s.io/cluster-name": owner["spec"]["clusterName"],
            "cluster.x-k8s.io/pool-name": owner["metadata"]["name"],
        }
    version = f"{definitions.GROUP}/{definitions.VERSION}"
    reference = {"apiVersion": version, "kind": pool["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": version,
        "kind": "FakeMachine",
        "metadata": {"generateName": metadata["name"] + "-", "labels": labels, "ownerReferences": [reference]},
        "spec": {name: value for name, value in spec.items() if name not in ("machines", "providerIDList")},
    }


def _machine(world: World, instance: Object) -> Object | None:
    names = machines.owners(instance, "Machine")
    return next((world.find("machines", instance["metadata"]["namespace"], name) for name in names), None)


def _is_going(world: World, instance: Object) -> bool:
    machine = _machine(world, instance)
    return any(body["metadata"].get("deletionTimestamp") for body in (instance, machine) if body)


def _is_marked(world: World, instance: Object) -> bool:
    machine = _machine(world, instance)
    return machine is not None and _MARK in machine["metadata"].get("annotations", {})


def _is_lost(instance: Object) -> bool:
    stage: str = instance.get("status", {}).get("instance", "")
    return stage == "Terminated"
