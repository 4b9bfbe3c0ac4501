"""LatticeClusters of lattice.dev, which Lattice's own operator reconciles: its objects, as ../shared describes them.

Its operator is played: MachineDeployments are applied by `lattice-capi-client`, static pools sized by a merge patch.
"""

import copy
import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controllers.machine_pool.management_cluster import definition
from tests.controllers.worker_pool_cluster import DEFINITIONS, NOW_S, World, owners
from windlass import clock
from windlass.controllers import controller_interface, controller_runtime, machine_deployments
from windlass.controllers.lattice import controller
from windlass.controllers.lattice.model import LatticeSettings
from windlass.kube import resources

Json = dict[str, Any]

UPSTREAM = Path(__file__).parents[4] / "shared" / "upstream" / "lattice"
LATTICE = resources.Resource("lattice.dev/v1alpha1", "latticeclusters", "LatticeCluster", False, Json)
SYSTEM = "lattice-system"

recorded = pytest.mark.skipif(
    not UPSTREAM.is_dir(), reason="NOT JUDGED: Lattice's objects are not described at ../shared/upstream"
)


def make(site: controller_runtime.ControllerContext) -> controller_interface.Controller:
    """With an autoscaler that is looked for, and never deployed: the embedded server has no RBAC."""
    return controller.new_controller(site, LatticeSettings())


def lattice_definition() -> Json:
    body = definition("lattice.dev", "LatticeCluster", "v1alpha1")
    body["spec"]["scope"] = "Cluster"
    return body


def pool(replicas: int, *limits: int) -> Json:
    return {"replicas": replicas, **dict(zip(("min", "max"), limits, strict=False))}


def cluster(name: str = "prod", *, pivoted: bool = True, **pools: Json) -> tuple[Json, Json]:
    """A LatticeCluster and its status."""
    spec = {"nodes": {"controlPlane": {"replicas": 1}, "workerPools": pools}}
    return {"metadata": {"name": name}, "spec": spec}, {"status": {"pivotComplete": pivoted, "phase": "Ready"}}


def rendered(name: str, pool_id: str, limits: tuple[int, int] | None, replicas: int | None) -> Json:
    names = (machine_deployments.MIN_SIZE_ANNOTATION, machine_deployments.MAX_SIZE_ANNOTATION)
    annotations = dict(zip(names, map(str, limits or ()), strict=False))
    spec: Json = {"clusterName": name, "template": {"spec": {"clusterName": name, "version": "v1.32.0"}}}
    if replicas is not None:
        spec["replicas"] = replicas
    metadata = {"name": f"{name}-pool-{pool_id}", "namespace": f"capi-{name}", "annotations": annotations}
    return {"metadata": metadata, "spec": spec}


async def put(scene: World, given: tuple[Json, Json]) -> None:
    body, status = given
    await scene.api.apply(LATTICE, copy.deepcopy(body), force=True)
    await scene.api.merge_patch(LATTICE, body["metadata"]["name"], status, "", subresource="status")
    await scene.settle()


async def play(scene: World, *bodies: Json) -> None:
    upstream = scene.client("lattice-capi-client")
    for body in bodies:
        await upstream.apply(scene.deployments, copy.deepcopy(body), force=True)
    await scene.settle()


async def run_autoscaler(scene: World, *flags: str) -> None:
    """Upstream's own, as its bootstrap makes it."""
    container = {"name": "cluster-autoscaler", "image": "upstream", "args": list(flags)}
    spec: Json = {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}}
    spec["template"] = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}
    body = {"metadata": {"name": "cluster-autoscaler", "namespace": SYSTEM}, "spec": spec}
    await scene.client("upstream").apply(resources.DEPLOYMENTS.untyped(), body, force=True)


async def told(scene: World, reason: str) -> list[str]:
    found = (await scene.api.list(resources.EVENTS.untyped())).items
    return [event["message"] for event in found if event["reason"] == reason]


def in_lattice(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    """On a server that has lattice.dev and not lattice.io."""

    @functools.wraps(test)
    def run() -> None:
        time = clock.VirtualClock(NOW_S)

        async def within() -> None:
            scene = World(time)
            await set_up(scene)
            await test(scene)

        time.run(within())

    del run.__wrapped__  # pytest would ask for the arguments
    return run


async def set_up(scene: World) -> None:
    body = definition("cluster.x-k8s.io", "MachineDeployment", "v1beta2")
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    body["spec"]["versions"][0]["subresources"]["scale"] = scale
    await scene.api.create(DEFINITIONS, body)
    await scene.api.create(DEFINITIONS, lattice_definition())
    for name in (SYSTEM, "capi-prod"):
        await scene.api.create(resources.NAMESPACES.untyped(), {"metadata": {"name": name}})


@in_lattice
async def test_pools_are_toggled_both_ways_and_nothing_of_upstreams_changes(scene: World) -> None:
    await run_autoscaler(scene, "--node-group-auto-discovery=clusterapi:namespace=capi-prod")
    await put(scene, cluster(general=pool(2, 1, 10), static=pool(1)))
    await play(scene, rendered("prod", "general", (1, 10), None), rendered("prod", "static", None, 0))
    name, namespace = "prod-pool-general", "capi-prod"
    status = (await scene.api.get(LATTICE, "prod"))["status"]
    autoscaler = await scene.api.get(resources.DEPLOYMENTS.untyped(), "cluster-autoscaler", SYSTEM)
    async with scene.controlled(make):
        assert await scene.size(name, namespace) == (1, True)  # there is no webhook of Cluster API
        for replicas in (10, 2):
            await scene.scale(name, namespace, replicas)
            await scene.catch_up()
            await play(scene, rendered("prod", "general", (1, 10), None))
            assert await scene.size(name, namespace) == (replicas, True)
        await put(scene, cluster(general=pool(3), static=pool(1)))
        await play(scene, rendered("prod", "general", None, None))
        await scene.client("unknown").merge_patch(scene.deployments, name, {"spec": {"replicas": 3}}, namespace)
        await scene.settle()
        assert (await scene.size(name, namespace))[0] == 3
        await put(scene, cluster(general=pool(3, 5, 10), static=pool(1)))
        await scene.settle()
        assert (await scene.size(name, namespace))[1], "limits are applied before upstream does"
        await play(scene, rendered("prod", "general", (5, 10), None))
        found = await scene.deployment(name, namespace)
        assert owners(found, "spec", "template", "spec", "version") == {"lattice-capi-client"}
        annotation = ("metadata", "annotations", machine_deployments.MIN_SIZE_ANNOTATION)
        assert owners(found, *annotation) == {"lattice-capi-client"}, "and left to it then"
        static = await scene.deployment("prod-pool-static", namespace) or {}
        assert {entry["manager"] for entry in static["metadata"]["managedFields"]} <= {"lattice-capi-client", "client"}
        scene.written.writes.clear()
        await scene.settle(7200.0)
        assert scene.written.writes == []
    assert (await scene.api.get(LATTICE, "prod"))["status"] == status
    assert await scene.api.get(resources.DEPLOYMENTS.untyped(), "cluster-autoscaler", SYSTEM) == autoscaler


@in_lattice
async def test_a_cluster_that_no_autoscaler_looks_at_says_so_once(scene: World) -> None:
    await run_autoscaler(scene, "--node-group-auto-discovery=clusterapi:namespace=capi-system")
    await put(scene, cluster(general=pool(2, 1, 10)))
    await play(scene, rendered("prod", "general", (1, 10), 1))
    async with scene.controlled(make):
        await scene.settle(1800.0)
        (message,) = await told(scene, "PoolsNotDiscovered")
        assert message == (
            "no autoscaler scales the pools in namespace capi-prod: Deployment lattice-system/cluster-autoscaler"
            " discovers pools in capi-system; set --node-group-auto-discovery=clusterapi:namespace=capi-prod"
        )


@in_lattice
async def test_pools_of_a_child_that_does_not_manage_itself_yet_get_no_autoscaler(scene: World) -> None:
    await put(scene, cluster(pivoted=False, general=pool(2, 1, 10)))
    await play(scene, rendered("prod", "general", (1, 10), 1))
    async with scene.controlled(make):
        await scene.settle(1800.0)
        (message,) = await told(scene, "PoolsNotDiscovered")
        assert "before the cluster manages itself (status.pivotComplete)" in message
        assert (await scene.api.list(resources.DEPLOYMENTS.untyped())).items == []


@in_lattice
async def test_kinds_that_come_later_need_no_restart(scene: World) -> None:
    await scene.api.delete(DEFINITIONS, "latticeclusters.lattice.dev")
    await run_autoscaler(scene)
    async with scene.controlled(make):
        await scene.settle(60.0)
        await scene.api.create(DEFINITIONS, lattice_definition())
        await put(scene, cluster(general=pool(2, 1, 10)))
        await play(scene, rendered("prod", "general", None, 1))
        await scene.settle(60.0)
        assert (await scene.size("prod-pool-general", "capi-prod"))[1]


def documents(path: Path) -> list[Json]:
    return [body for body in yaml.safe_load_all(path.read_text()) if body]


def names_in(folder: str) -> list[str]:
    found = sorted(path.stem for path in (UPSTREAM / folder).glob("*.yaml"))
    return [name for name in found if name != "expected-messages"] or ["absent"]


async def put_described(scene: World, name: str, body: Json) -> None:
    """On the definition as it is described."""
    await scene.api.delete(DEFINITIONS, "latticeclusters.lattice.dev")
    await scene.api.create(DEFINITIONS, documents(UPSTREAM / "lattice.dev_latticeclusters.described.yaml")[0])
    await scene.settle(1.0)
    status = {"status": body.pop("status", {"pivotComplete": True})}
    await scene.api.create(LATTICE, body)
    await scene.api.merge_patch(LATTICE, body["metadata"]["name"], status, "", subresource="status")
    namespace = f"capi-{body['metadata']['name']}"
    await scene.api.create(resources.NAMESPACES.untyped(), {"metadata": {"name": namespace}})
    await run_autoscaler(scene, f"--node-group-auto-discovery=clusterapi:namespace={namespace}")


@recorded
@pytest.mark.parametrize("name", names_in("valid"))
def test_a_described_cluster_is_taken_as_it_is(name: str) -> None:
    @in_lattice
    async def run(scene: World) -> None:
        (body,) = documents(UPSTREAM / "valid" / f"{name}.yaml")
        await put_described(scene, name, body)
        made = UPSTREAM / "machinedeployments" / f"{name}.yaml"
        await play(scene, *(documents(made) if made.is_file() else ()))
        await scene.catch_up()
        before = (await scene.api.list(scene.deployments)).items
        about = await scene.api.get(LATTICE, body["metadata"]["name"])
        async with scene.controlled(make):
            await scene.settle(1800.0)
        assert await scene.api.get(LATTICE, body["metadata"]["name"]) == about
        assert (await scene.api.list(resources.EVENTS.untyped())).items == []
        after = (await scene.api.list(scene.deployments)).items
        for old, new in zip(before, after, strict=True):
            for field in ("labels", "annotations"):
                assert new["metadata"].get(field) == old["metadata"].get(field)
            is_autoscaled = machine_deployments.MIN_SIZE_ANNOTATION in (old["metadata"].get("annotations") or {})
            skipped = ("replicas",) if is_autoscaled else ()
            assert {key: new["spec"][key] for key in new["spec"] if key not in skipped} == {
                key: old["spec"][key] for key in old["spec"] if key not in skipped
            }

    run()


@recorded
@pytest.mark.parametrize("name", names_in("invalid"))
def test_what_is_wrong_is_said_in_upstreams_words(name: str) -> None:
    @in_lattice
    async def run(scene: World) -> None:
        (body,) = documents(UPSTREAM / "invalid" / f"{name}.yaml")
        (messages,) = documents(UPSTREAM / "invalid" / "expected-messages.yaml")
        await put_described(scene, name, body)
        async with scene.controlled(make):
            await scene.settle(1800.0)
        found = (await scene.api.list(resources.EVENTS.untyped())).items
        assert [event["message"] for event in found] == [messages[name]]

    run()
