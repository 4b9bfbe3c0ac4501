"""The controller on embedded servers, in virtual time."""

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from tests.controllers.machine_pool import management_cluster
from tests.controllers.machine_pool.management_cluster import Stage, World, conditions
from windlass import clock
from windlass.controllers import controller_runtime
from windlass.controllers.machine_pool.model import MachinePoolSettings
from windlass.kube import resources, time_formats

Test = Callable[[World, Stage], Awaitable[None]]


def in_virtual_time(test: Test) -> Callable[[], None]:
    @functools.wraps(test)
    def run() -> None:
        time = clock.VirtualClock(management_cluster.NOW_S)

        async def play() -> None:
            scene = World(time)
            await test(scene, Stage(scene))

        time.run(play())

    del run.__wrapped__  # pytest would ask for the arguments
    return run


@contextlib.asynccontextmanager
async def running_pool(
    scene: World, stage: Stage, replicas: int = 2, settings: MachinePoolSettings | None = None, **machine: Any
) -> AsyncIterator[None]:
    await stage.set()
    names = [f"p-{number}" for number in range(replicas)]
    await stage.add_nodes(*names)
    await stage.add_infrastructure("p", [f"test:///{name}" for name in names])
    await stage.add_pool("p", replicas, **machine)
    async with scene.controlled(settings):
        assert (await scene.pool("p"))["status"]["phase"] == "Running"
        yield


def old(pool: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pool["status"].get("deprecated", {}).get("v1beta1", {})
    return found


# A quiet life


@in_virtual_time
async def test_a_quiet_system_writes_nothing(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        scene.written.writes.clear()
        await scene.settle(2.0 * 3600.0)
        assert scene.written.writes == []


@in_virtual_time
async def test_heartbeats_of_nodes_wake_nobody(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        await scene.settle(10.0)
        passes = "windlass_controller_reconcile_total"
        labels = {"controller": "machine_pool", "result": "success"}
        before = scene.registry.get_sample_value(passes, labels)
        body = management_cluster.node("p-0")
        body["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:00:05Z"
        await scene.apply(body)
        await scene.settle()
        assert scene.registry.get_sample_value(passes, labels) == before


@in_virtual_time
async def test_a_new_leader_carries_on_where_the_last_one_left(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        pass
    await stage.add_infrastructure("p", ["test:///p-0"])
    async with scene.controlled():
        assert await scene.get("Node", "p-1") is None
        assert (await scene.pool("p"))["status"]["phase"] == "ScalingUp"


@in_virtual_time
async def test_whoever_does_not_lead_changes_neither_the_management_nor_the_workload_cluster(
    scene: World, stage: Stage
) -> None:
    async with running_pool(scene, stage):
        pass
    await stage.add_infrastructure("p", ["test:///p-0"])
    before = scene.management.version  # the workload cluster's as well; too early for Events to expire
    async with scene.controlled(lease=controller_runtime.LeaseSettings("default")):
        await scene.settle(600.0)
        assert scene.errors() > 0
        assert scene.management.version == before
    assert await scene.get("Node", "p-1") is not None


@in_virtual_time
async def test_metrics_say_what_is_wanted_and_what_is_there_until_the_pool_is_gone(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        labels = {"namespace": "default", "name": "p", "count": "ready"}
        assert scene.registry.get_sample_value("windlass_machine_pool_replicas", labels) == 2
        await scene.delete("MachinePool", "p")
        await scene.settle(30.0)
        assert scene.registry.get_sample_value("windlass_machine_pool_replicas", labels) is None


# Nodes that come, go and change


@in_virtual_time
async def test_a_node_that_is_no_longer_ready_is_noticed(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        await stage.add_nodes("p-1", ready=False)
        await scene.settle()
        pool = await scene.pool("p")
        assert (old(pool)["readyReplicas"], old(pool)["unavailableReplicas"]) == (1, 1)
        assert pool["status"]["phase"] == "ScalingUp"
        assert conditions(pool)["ReplicasReady"]["reason"] == "WaitingForReplicasReady"
        await stage.add_nodes("p-1")
        await scene.settle()
        assert (await scene.pool("p"))["status"]["phase"] == "Running"


@in_virtual_time
async def test_all_nodes_lost_at_once_are_noticed(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        for name in ("p-0", "p-1"):
            await scene.delete("Node", name)
        await scene.settle()
        pool = await scene.pool("p")
        assert "nodeRefs" not in pool["status"]
        assert old(pool).get("readyReplicas", 0) == 0
        assert pool["status"]["phase"] == "ScalingUp"


@in_virtual_time
async def test_nodes_become_available_when_their_time_has_passed_and_not_before(scene: World, stage: Stage) -> None:
    await stage.set()
    since = time_formats.format_time(management_cluster.NOW_S)
    await scene.apply(management_cluster.node("p-0", since=since))
    await stage.add_infrastructure("p", ["test:///p-0"])
    await stage.add_pool("p", 1, minReadySeconds=100)
    async with scene.controlled():
        assert old(await scene.pool("p")).get("availableReplicas", 0) == 0
        await scene.settle(90.0)
        assert old(await scene.pool("p")).get("availableReplicas", 0) == 0
        await scene.settle(10.0)
        pool = old(await scene.pool("p"))
        assert (pool["availableReplicas"], pool.get("unavailableReplicas", 0)) == (1, 0)


@in_virtual_time
async def test_infrastructure_without_a_count_has_as_many_replicas_as_instances(scene: World, stage: Stage) -> None:
    await stage.set()
    await stage.add_nodes("p-0")
    await stage.add_infrastructure("p", ["test:///p-0"], replicas=None)
    await stage.add_pool("p", 1)
    async with scene.controlled():
        pool = await scene.pool("p")
        assert pool["status"]["replicas"] == 1
        assert [ref["name"] for ref in pool["status"]["nodeRefs"]] == ["p-0"]
        assert pool["status"]["phase"] == "Running"


@in_virtual_time
async def test_infrastructure_that_says_nothing_is_no_order_to_delete_every_node(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        await stage.add_infrastructure("p", [], replicas=None)
        await scene.settle()
        assert await scene.get("Node", "p-0") is not None
        assert (await scene.pool("p"))["spec"]["providerIDList"] == ["test:///p-0", "test:///p-1"]


@in_virtual_time
async def test_instances_that_leave_take_their_nodes_with_them(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        await stage.add_infrastructure("p", ["test:///p-1"])
        await scene.settle()
        assert await scene.get("Node", "p-0") is None
        assert await scene.get("Node", "p-1") is not None
        await stage.add_infrastructure("p", [])
        await scene.settle()
        assert await scene.get("Node", "p-1") is None


@in_virtual_time
async def test_an_externally_managed_pool_is_scaling_until_someone_writes_the_replicas(
    scene: World, stage: Stage
) -> None:
    async with running_pool(scene, stage):
        annotations = {"cluster.x-k8s.io/replicas-managed-by": "karpenter"}
        kind = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool"}
        await scene.apply({**kind, "metadata": {"name": "p", "annotations": annotations}})
        await stage.add_nodes("p-2")
        await stage.add_infrastructure("p", [f"test:///p-{number}" for number in range(3)])
        await scene.settle()
        assert (await scene.pool("p"))["status"]["phase"] == "Scaling"
        await scene.apply({**kind, "metadata": {"name": "p"}, "spec": {"replicas": 3}})
        await scene.settle()
        assert (await scene.pool("p"))["status"]["phase"] == "Running"


# Machines


@in_virtual_time
async def test_counters_follow_the_machines_at_once(scene: World, stage: Stage) -> None:
    await stage.set()
    await stage.add_nodes("m-0")
    labels = {"cluster.x-k8s.io/cluster-name": "work", "cluster.x-k8s.io/pool-name": "p"}
    kind = {"apiVersion": f"{management_cluster.INFRASTRUCTURE}/v1beta1", "kind": "NewMachine"}
    await scene.apply({**kind, "metadata": {"name": "m-0", "labels": labels}, "spec": {"providerID": "test:///m-0"}})
    await stage.add_infrastructure("p", ["test:///m-0"], infrastructureMachineKind="NewMachine")
    await stage.add_pool("p", 1)
    machine = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "m-0"}}
    async with scene.controlled():
        made = await scene.get("Machine", "m-0")
        assert made is not None
        assert made["spec"]["version"] == "v1.36.3"
        applied = [item["manager"] for item in made["metadata"]["managedFields"] if item["operation"] == "Apply"]
        assert set(applied) == {"machinepool-controller"}
        for ready in (True, False):
            said = [{"type": "Ready", "status": str(ready)}, {"type": "Available", "status": str(ready)}]
            await scene.apply({**machine, "status": {"conditions": said}})
            await scene.settle()
            status = (await scene.pool("p"))["status"]
            assert (status["readyReplicas"], status["availableReplicas"]) == (int(ready), int(ready))
            assert status["upToDateReplicas"] == 1
        await scene.delete("NewMachine", "m-0")
        await stage.add_infrastructure("p", [], infrastructureMachineKind="NewMachine")
        await scene.settle()
        assert await scene.get("Machine", "m-0") is not None, "Machines are never deleted here"


@in_virtual_time
async def test_a_label_that_leaves_the_template_leaves_the_machines(scene: World, stage: Stage) -> None:
    await stage.set()
    labels = {"cluster.x-k8s.io/cluster-name": "work", "cluster.x-k8s.io/pool-name": "p"}
    kind = {"apiVersion": f"{management_cluster.INFRASTRUCTURE}/v1beta1", "kind": "NewMachine"}
    await scene.apply({**kind, "metadata": {"name": "m-0", "labels": labels}, "spec": {}})
    await stage.add_infrastructure("p", [], infrastructureMachineKind="NewMachine")
    await stage.add_pool("p", 0)
    pool = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "metadata": {"name": "p"}}
    async with scene.controlled():
        for value in ("a", None):
            template = {"metadata": {"labels": {"team": value}}}
            await scene.apply({**pool, "spec": {"template": template}})
            await scene.settle()
            made = await scene.get("Machine", "m-0")
            assert made is not None
            assert made["metadata"]["labels"].get("team") == value


# Failures


@in_virtual_time
async def test_a_providers_failure_is_terminal_and_stays(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        failure = {"failureReason": "CreateError", "failureMessage": "no quota"}
        await stage.add_infrastructure("p", ["test:///p-0", "test:///p-1"], **failure)
        await scene.settle()
        pool = await scene.pool("p")
        assert old(pool)["failureReason"] == "CreateError"
        assert old(pool)["failureMessage"] == "NewPool default/p failed: no quota"
        assert old(pool)["readyReplicas"] == 2
        assert pool["status"]["phase"] == "Failed"
        gone: dict[str, Any] = dict.fromkeys(failure)
        await stage.add_infrastructure("p", ["test:///p-0", "test:///p-1"], **gone)
        await scene.settle()
        pool = await scene.pool("p")
        assert (old(pool)["failureReason"], pool["status"]["phase"]) == ("CreateError", "Failed")
        assert [event["reason"] for event in await scene.events("p") if event["type"] == "Warning"] == ["CreateError"]


@in_virtual_time
async def test_a_failure_without_a_reason_of_the_providers_is_told_as_failed(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        await stage.add_infrastructure("p", ["test:///p-0", "test:///p-1"], failureMessage="no quota")
        await scene.settle()
        assert (await scene.pool("p"))["status"]["phase"] == "Failed"
        (event,) = [event for event in await scene.events("p") if event["type"] == "Warning"]
        assert (event["reason"], event["message"]) == ("Failed", "NewPool default/p failed: no quota")


@in_virtual_time
async def test_rotation_copies_every_new_secret_name_but_only_if_asked_for(scene: World, stage: Stage) -> None:
    for rotate in (False, True):
        name = f"p{int(rotate)}"
        if not rotate:
            await stage.set()
        boot = {
            "apiVersion": f"{management_cluster.INFRASTRUCTURE}/v1beta1",
            "kind": "NewBoot",
            "metadata": {"name": name},
        }
        status = {"initialization": {"dataSecretCreated": True}, "dataSecretName": "first"}
        await scene.apply({**boot, "spec": {}, "status": status})
        await stage.add_infrastructure(name, [])
        reference = {"apiGroup": management_cluster.INFRASTRUCTURE, "kind": "NewBoot", "name": name}
        await stage.add_pool(name, 0, bootstrap={"configRef": reference})
        async with scene.controlled(MachinePoolSettings(rotate_bootstrap_secret=rotate)):
            await scene.apply({**boot, "status": {"dataSecretName": "second"}})
            await scene.settle()
            bootstrap = (await scene.pool(name))["spec"]["template"]["spec"]["bootstrap"]
            assert bootstrap["dataSecretName"] == ("second" if rotate else "first")


# Deletion


@in_virtual_time
async def test_deletion_removes_all_nodes_and_then_the_pool(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        await stage.add_nodes("stranger")
        await scene.delete("MachinePool", "p")
        await scene.settle()
        assert await scene.get("NewPool", "p") is None
        assert await scene.get("Node", "p-0") is None
        assert await scene.get("Node", "p-1") is None
        assert await scene.get("Node", "stranger") is not None
        assert await scene.get("MachinePool", "p") is None


@in_virtual_time
async def test_deletion_waits_for_an_unreachable_cluster_only_until_its_timeout(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        scene.down.add("https://work.example:6443")
        await scene.settle(60.0)
        await scene.delete("MachinePool", "p")
        await scene.settle(5.0)
        assert (await scene.pool("p"))["status"]["phase"] == "Deleting"
        await scene.settle(10.0)
        assert await scene.get("MachinePool", "p") is None
        scene.down.clear()
        assert await scene.get("Node", "p-0") is not None
        warnings = [event["reason"] for event in await scene.events("p") if event["type"] == "Warning"]
        assert "NodeDeletionGivenUp" in warnings


@in_virtual_time
async def test_deletion_without_a_timeout_waits_for_as_long_as_it_takes(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage, deletion={"nodeDeletionTimeoutSeconds": 0}):
        scene.down.add("https://work.example:6443")
        await scene.settle(60.0)
        await scene.delete("MachinePool", "p")
        await scene.settle(7200.0)
        assert (await scene.pool("p"))["status"]["phase"] == "Deleting"
        scene.down.clear()
        await scene.settle(60.0)
        assert await scene.get("MachinePool", "p") is None
        assert await scene.get("Node", "p-0") is None


@in_virtual_time
async def test_a_pool_whose_cluster_is_gone_can_still_be_deleted(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        await scene.delete("Cluster", "work")
        await _forget_finalizers(scene)
        await scene.delete("MachinePool", "p")
        await scene.settle(30.0)
        assert await scene.get("Cluster", "work") is None
        assert await scene.get("MachinePool", "p") is None


async def _forget_finalizers(scene: World) -> None:
    """As an administrator who lets a Cluster go at once."""
    version = f"cluster.x-k8s.io/{scene.version}"
    metadata = {"name": "work", "namespace": "default", "finalizers": None}
    await scene.apply({"apiVersion": version, "kind": "Cluster", "metadata": metadata})


# Deletion of the Cluster


async def _hold_infrastructure(scene: World, finalizers: list[str] | None) -> None:
    """A provider that takes its time."""
    metadata = {"name": "p", "namespace": "default", "finalizers": finalizers}
    api_version = f"{management_cluster.INFRASTRUCTURE}/v1beta1"
    await scene.apply({"apiVersion": api_version, "kind": "NewPool", "metadata": metadata})


@in_virtual_time
async def test_a_deleted_cluster_takes_its_pools_along_and_stays_until_they_are_gone(
    scene: World, stage: Stage
) -> None:
    async with running_pool(scene, stage):
        scene.add_cluster("other")
        await stage.add_cluster("other")
        await stage.add_infrastructure("q", [])
        await stage.add_pool("q", 0, cluster="other")
        await scene.settle()
        await _hold_infrastructure(scene, ["test/instances"])
        await scene.delete("Cluster", "work")
        await scene.settle(5.0)
        assert (await scene.pool("p"))["status"]["phase"] == "Deleting"
        assert await scene.get("Cluster", "work") is not None
        await _hold_infrastructure(scene, None)
        await scene.settle()
        assert [await scene.get(kind, "p") for kind in ("MachinePool", "NewPool")] == [None, None]
        assert await scene.get("Node", "p-0") is None
        assert await scene.get("Cluster", "work") is None
        assert "DeletedWithCluster" in [event["reason"] for event in await scene.events("p")]
        assert "deletionTimestamp" not in (await scene.pool("q"))["metadata"]


@in_virtual_time
async def test_a_cluster_without_pools_is_let_go(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        held = await scene.get("Cluster", "work")
        assert held is not None
        assert held["metadata"]["finalizers"] == ["windlass.internal/machine-pools"]
        await scene.delete("MachinePool", "p")
        await scene.settle()
        let_go = await scene.get("Cluster", "work")
        assert let_go is not None
        assert not let_go["metadata"].get("finalizers")
        await scene.delete("Cluster", "work")
        assert await scene.get("Cluster", "work") is None


@in_virtual_time
async def test_the_pools_of_a_paused_cluster_stay_until_it_goes_on(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        cluster = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster"}
        cluster["metadata"] = {"name": "work", "namespace": "default"}  # type: ignore[assignment]
        await scene.apply({**cluster, "spec": {"paused": True}})
        await scene.delete("Cluster", "work")
        await scene.settle(600.0)
        assert "deletionTimestamp" not in (await scene.pool("p"))["metadata"]
        await scene.apply({**cluster, "spec": {"paused": False}})
        await scene.settle()
        assert await scene.get("MachinePool", "p") is None
        assert await scene.get("Cluster", "work") is None


# Workload clusters


@in_virtual_time
async def test_an_unreachable_cluster_leaves_counters_as_they_were_and_is_told_of(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        scene.down.add("https://work.example:6443")
        await scene.settle(120.0)
        pool = await scene.pool("p")
        assert (old(pool)["readyReplicas"], pool["status"]["phase"]) == (2, "Running")
        assert "versions" not in pool["status"]
        assert conditions(pool)["InputsValid"]["reason"] == "WorkloadClusterUnreachable"
        scene.written.writes.clear()
        await scene.settle(1200.0)
        assert not [write for write in scene.written.writes if "machinepools" in write]
        scene.down.clear()
        await scene.settle(60.0)
        pool = await scene.pool("p")
        assert "InputsValid" not in conditions(pool)
        assert pool["status"]["versions"] == [{"version": "v1.36.3", "replicas": 2}]


@in_virtual_time
async def test_two_clusters_at_once_are_told_apart(scene: World, stage: Stage) -> None:
    await stage.set()
    other = scene.add_cluster("other")
    await stage.add_cluster("other")
    await stage.add_nodes("same")
    body = management_cluster.node("same", version="v1.35.0")
    await other.create(resources.NODES, management_cluster.without_status(body))
    await other.merge_patch(resources.NODES, "same", {"status": body["status"]}, subresource="status")
    for name, cluster in (("one", "work"), ("two", "other")):
        await stage.add_infrastructure(name, ["test:///same"])
        await stage.add_pool(name, 1, cluster=cluster)
    async with scene.controlled():
        entry, two = await scene.pool("one"), await scene.pool("two")
        assert [item["status"]["phase"] for item in (entry, two)] == ["Running", "Running"]
        assert entry["status"]["versions"] != two["status"]["versions"]
        assert entry["status"]["nodeRefs"][0]["uid"] != two["status"]["nodeRefs"][0]["uid"]
        assert "InputsValid" not in {**conditions(entry), **conditions(two)}
        await scene.delete("MachinePool", "two")
        await scene.settle(5.0)
        assert await scene.get("Node", "same") is not None
        assert not (await other.list(resources.NODES)).items


@in_virtual_time
async def test_a_kubeconfig_that_changes_is_used_at_once(scene: World, stage: Stage) -> None:
    async with running_pool(scene, stage):
        other = scene.add_cluster("other")
        body = management_cluster.node("p-0", version="v1.35.0")
        await other.create(resources.NODES, management_cluster.without_status(body))
        await other.merge_patch(resources.NODES, "p-0", {"status": body["status"]}, subresource="status")
        await scene.apply(
            management_cluster.secret("work-kubeconfig", management_cluster.kubeconfig("https://other.example:6443"))
        )
        await scene.settle(5.0)
        assert (await scene.pool("p"))["status"]["versions"] == [{"version": "v1.35.0", "replicas": 1}]


# The other version


def test_a_server_that_has_only_v1beta1_is_served_in_v1beta1() -> None:
    time = clock.VirtualClock(management_cluster.NOW_S)

    async def play() -> None:
        scene = World(time, "v1beta1")
        stage = Stage(scene)
        await stage.set()
        await stage.add_nodes("p-0")
        await stage.add_infrastructure("p", ["test:///p-0"])
        await stage.add_pool("p", 1)
        async with scene.controlled():
            pool = await scene.pool("p")
            status = pool["status"]
            assert (status["phase"], status["readyReplicas"], status["bootstrapReady"]) == ("Running", 1, True)
            assert status["infrastructureReady"] is True
            assert status["v1beta2"]["readyReplicas"] == 1
            assert [item["type"] for item in status["conditions"]] == [
                "Ready", "BootstrapReady", "InfrastructureReady", "ReplicasReady"]  # fmt: skip
            assert [entry["type"] for entry in status["v1beta2"]["conditions"]] == ["Paused"]
            assert "deprecated" not in status
            assert pool["metadata"]["ownerReferences"][0]["apiVersion"] == "cluster.x-k8s.io/v1beta1"
            infra = await scene.get("NewPool", "p")
            assert infra is not None
            assert infra["metadata"]["ownerReferences"][0]["apiVersion"] == "cluster.x-k8s.io/v1beta1"
            await scene.delete("MachinePool", "p")
            await scene.settle(5.0)
            assert await scene.get("MachinePool", "p") is None

    time.run(play())
