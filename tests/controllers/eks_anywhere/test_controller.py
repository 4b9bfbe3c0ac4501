"""The EKS Anywhere controller on the embedded server, in virtual time."""

import asyncio
import contextlib
import random
from typing import Any

import prometheus_client
import pytest

from tests.controllers import worker_pool_cluster
from tests.controllers.machine_pool.management_cluster import definition
from tests.controllers.worker_pool_cluster import DEFINITIONS, EKS, TEMPLATES, World, in_virtual_time, owners
from windlass import clock
from windlass.controllers import controller_interface, controller_runtime, machine_deployments
from windlass.controllers.eks_anywhere import controller
from windlass.controllers.eks_anywhere.model import EksAnywhereSettings
from windlass.kube import errors, resources, transport

NS = "eksa-system"
MD = "prod-a"
Json = dict[str, Any]


def make(site: controller_runtime.ControllerContext) -> controller_interface.Controller:
    return controller.new_controller(site, EksAnywhereSettings())


def group(name: str = "a", count: int | None = None, limits: tuple[int, int] | None = None) -> Json:
    made = {"name": name, **TEMPLATES, **({} if count is None else {"count": count})}
    return (
        made
        if limits is None
        else {**made, "autoscalingConfiguration": dict(zip(("minCount", "maxCount"), limits, strict=True))}
    )


async def put(scene: World, *groups: Json) -> None:
    await scene.put(EKS, "prod", "default", {"workerNodeGroupConfigurations": list(groups)})


async def conditions(scene: World) -> dict[str, Json]:
    found = await scene.api.get(EKS, "prod", "default")
    return {item["type"]: item for item in found["status"]["conditions"]}


@in_virtual_time
async def test_a_kind_that_a_cluster_refers_to_and_that_cannot_be_read_is_told_of(scene: World) -> None:
    await scene.set(NS, "prod")
    reference = {"spec": {"managedExternalEtcdRef": {"kind": "EtcdadmCluster", "name": "prod-etcd"}}}
    await scene.api.merge_patch(scene.clusters, "prod", reference, NS)
    made: list[controller_interface.Controller] = []

    def remember(site: controller_runtime.ControllerContext) -> controller_interface.Controller:
        made.append(make(site))
        return made[0]

    async with scene.controlled(remember):
        await put(scene, group(count=3))
        await scene.settle(60.0)
        assert "etcdadmclusters" in made[0].check_ready()
        etcd = definition("etcdcluster.cluster.x-k8s.io", "EtcdadmCluster", "v1beta1")
        await scene.api.create(DEFINITIONS, etcd)
        await scene.settle(600.0)
        assert made[0].check_ready() == ""
        assert await scene.size(MD, NS) == (3, False)


@in_virtual_time
async def test_a_static_group_gets_what_it_asks_for_and_the_cluster_is_ready_when_it_has_it(scene: World) -> None:
    await scene.set(NS, "prod")
    async with scene.controlled(make):
        await put(scene, group(count=3))
        assert await scene.size(MD, NS) == (3, False)
        assert (await conditions(scene))["WorkersReady"]["reason"] == "OutdatedInformation"
        await scene.catch_up()
        assert (await conditions(scene))["Ready"]["status"] == "True"
        await scene.scale(MD, NS, 5)
        assert await scene.size(MD, NS) == (3, False)
        status = (await scene.api.get(EKS, "prod", "default"))["status"]
        assert (status["observedGeneration"], status["reconciledGeneration"]) == (1, 1)


@in_virtual_time
async def test_an_autoscaled_group_begins_with_its_minimum_and_keeps_what_the_autoscaler_makes_of_it(
    scene: World,
) -> None:
    await scene.set(NS, "prod")
    async with scene.controlled(make):
        await put(scene, group(count=77, limits=(2, 9)))
        assert await scene.size(MD, NS) == (2, True)
        await scene.scale(MD, NS, 7)
        await scene.catch_up()
        assert owners(await scene.deployment(MD, NS), "spec", "replicas") == {"cluster-autoscaler"}
        await put(scene, group(count=1, limits=(2, 9)))
        await scene.settle(3600.0)
        assert await scene.size(MD, NS) == (7, True)
        assert (await conditions(scene))["WorkersReady"]["status"] == "True"


@in_virtual_time
async def test_groups_are_toggled_without_losing_their_size(scene: World) -> None:
    await scene.set(NS, "prod")
    async with scene.controlled(make):
        await put(scene, group(limits=(2, 9)))
        await scene.scale(MD, NS, 7)
        await put(scene, group(count=4))
        assert await scene.size(MD, NS) == (4, False)
        assert owners(await scene.deployment(MD, NS), "spec", "replicas") >= {"eks-a-controller"}
        for count, kept in ((4, 4), (12, 9), (1, 2)):
            await put(scene, group(count=count))
            assert await scene.size(MD, NS) == (count, False)
            await put(scene, group(count=count, limits=(2, 9)))
            assert await scene.size(MD, NS) == (kept, True)
            assert owners(await scene.deployment(MD, NS), "spec", "replicas") == {"eks-a-controller-handover"}


@in_virtual_time
async def test_a_quiet_system_writes_nothing(scene: World) -> None:
    await scene.set(NS, "prod")
    async with scene.controlled(make):
        await put(scene, group(count=3), group("b", limits=(1, 5)))
        await scene.catch_up()
        await scene.scale("prod-b", NS, 4)
        await scene.catch_up()
        scene.written.writes.clear()
        await scene.settle(7200.0)
        assert scene.written.writes == []
    async with scene.controlled(make):  # a new leader finds nothing to do either
        await scene.settle(60.0)
        assert scene.written.writes == []


@in_virtual_time
async def test_an_unready_cluster_is_looked_at_every_10_s_and_nothing_is_written_meanwhile(scene: World) -> None:
    await scene.set(NS, "prod")
    async with scene.controlled(make):
        await put(scene, group(count=3))
        passes = "windlass_controller_reconcile_total", {"controller": "eks_anywhere", "result": "success"}
        scene.written.writes.clear()
        before = scene.registry.get_sample_value(*passes) or 0.0
        await scene.settle(100.0)
        assert (scene.registry.get_sample_value(*passes) or 0.0) - before == 10.0
        assert scene.written.writes == []


@in_virtual_time
async def test_a_scale_between_looking_and_handing_over_is_not_lost(scene: World) -> None:
    await scene.set(NS, "prod")
    async with scene.controlled(make):
        await put(scene, group(count=3))
        await scene.catch_up()

    class Racing:
        """Someone scales just before replicas are handed over."""

        def __init__(self, carrier: transport.Transport) -> None:
            self._carrier, self.raced = carrier, 0

        async def send(self, request: transport.Request) -> transport.Response:
            if ("fieldManager", "eks-a-controller-handover") in request.query and not self.raced:
                self.raced += 1
                await scene.autoscaler.scale(scene.deployments, MD, 6, NS)
            return await self._carrier.send(request)

    await put(scene, group(count=3, limits=(2, 9)))
    async with scene.controlled(make, Racing):
        await scene.settle(10.0)
        assert await scene.size(MD, NS) == (6, True)
        assert owners(await scene.deployment(MD, NS), "spec", "replicas") == {"cluster-autoscaler"}


@in_virtual_time
async def test_a_refused_group_does_not_keep_the_others_back_and_is_tried_again(scene: World) -> None:
    await scene.set(NS, "prod")

    class Refusing:
        """One MachineDeployment cannot be written."""

        refuses = True

        def __init__(self, carrier: transport.Transport) -> None:
            self._carrier = carrier

        async def send(self, request: transport.Request) -> transport.Response:
            if self.refuses and request.method == "PATCH" and request.path.endswith("machinedeployments/prod-a"):
                raise errors.ConnectFailed(request.call, "no")
            return await self._carrier.send(request)

    async with scene.controlled(make, Refusing):
        await put(scene, group(count=1), group("b", count=1))
        await scene.settle(60.0)  # the client has patience of its own
        assert await scene.deployment(MD, NS) is None
        assert await scene.size("prod-b", NS) == (1, False)
        status = (await scene.api.get(EKS, "prod", "default"))["status"]
        assert "reconciledGeneration" not in status
        Refusing.refuses = False
        await scene.settle(600.0)
        assert await scene.size(MD, NS) == (1, False)
        assert (await scene.api.get(EKS, "prod", "default"))["status"]["reconciledGeneration"] == 1


@pytest.mark.parametrize("strategy", [None, "InPlace"])
def test_workers_that_are_replaced_not_ready_or_not_available_are_named(strategy: str | None) -> None:
    @in_virtual_time
    async def play(scene: World) -> None:
        await scene.set(NS, "prod")
        upgrade = "RollingUpgradeInProgress" if strategy is None else "InPlaceUpgradeInProgress"
        chosen = {} if strategy is None else {"upgradeRolloutStrategy": {"type": strategy}}
        async with scene.controlled(make):
            await put(scene, {**group(count=3), **chosen})
            for said, reason in (
                ({"upToDateReplicas": 2}, upgrade),
                ({"readyReplicas": 1}, "NodesNotReady"),
                ({"conditions": [{"type": "Available", "status": "False"}]}, "MachineDeploymentNotReady"),
            ):
                await scene.catch_up()
                assert (await conditions(scene))["WorkersReady"]["status"] == "True"
                await scene.api.merge_patch(scene.deployments, MD, {"status": said}, NS, subresource="status")
                await scene.settle(12.0)
                found = (await conditions(scene))["WorkersReady"]
                assert (found["status"], found["reason"]) == ("False", reason)

    play()


@in_virtual_time
async def test_groups_that_go_take_their_machine_deployments_with_them_and_others_stay(scene: World) -> None:
    await scene.set(NS, "prod")
    async with scene.controlled(make):
        await put(scene, group(count=1), group("b", count=1))
        own = {"name": "prod-own", "namespace": NS, "labels": {"cluster.x-k8s.io/cluster-name": "prod"}}
        await scene.api.create(scene.deployments, {"metadata": own, "spec": {"clusterName": "prod", "replicas": 1}})
        await put(scene, group(count=1))
        assert await scene.deployment("prod-b", NS) is None
        assert await scene.deployment("prod-own", NS) is not None


@in_virtual_time
async def test_a_bad_group_leaves_what_was_there_and_says_why(scene: World) -> None:
    """The definition's rules refuse such a group; where they are not in force the controller does."""
    await scene.set(NS, "prod")
    async with scene.controlled(make):
        await put(scene, group(limits=(2, 9)))
        await scene.scale(MD, NS, 5)
        await scene.catch_up()
        for bad in (group(limits=(9, 2)), group(limits=(-1, 2)), group(count=-3)):
            await put(scene, bad)
            assert await scene.size(MD, NS) == (5, True)
            assert (await scene.api.get(EKS, "prod", "default"))["status"]["failureReason"] == "ClusterInvalid"
        await put(scene, group(limits=(2, 9)))
        assert "failureReason" not in (await scene.api.get(EKS, "prod", "default"))["status"]


KUBEADM = resources.Resource(
    "controlplane.cluster.x-k8s.io/v1beta2", "kubeadmcontrolplanes", "KubeadmControlPlane", True, Json
)
ETCD = resources.Resource("etcdcluster.cluster.x-k8s.io/v1beta1", "etcdadmclusters", "EtcdadmCluster", True, Json)


async def say_control_plane(scene: World, *said: tuple[str, str]) -> None:
    """A control plane of one node, with these conditions."""
    with contextlib.suppress(errors.AlreadyExists):
        await scene.api.create(KUBEADM, {"metadata": {"name": "prod", "namespace": NS}, "spec": {}})
    counts = {"replicas": 1, "readyReplicas": 1, "upToDateReplicas": 1, "observedGeneration": 1}
    status = {**counts, "conditions": [{"type": kind, "status": value, "message": "why"} for kind, value in said]}
    await scene.api.merge_patch(KUBEADM, "prod", {"status": status}, NS, subresource="status")
    await scene.settle(12.0)


@in_virtual_time
async def test_a_kubeadm_control_plane_is_looked_at_where_the_cluster_names_one(scene: World) -> None:
    await scene.set(NS, "prod")
    reference = {"spec": {"controlPlaneRef": {"kind": "KubeadmControlPlane", "name": "prod"}}}
    await scene.api.merge_patch(scene.clusters, "prod", reference, NS)
    async with scene.controlled(make):
        await put(scene, group(count=0))
        await scene.catch_up()
        found = await conditions(scene)
        assert found["ControlPlaneInitialized"]["reason"] == "ControlPlaneInitializationInProgress"
        assert found["WorkersReady"]["reason"] == "ControlPlaneNotInitialized"
        assert found["DefaultCNIConfigured"]["reason"] == "ControlPlaneNotReady"
        await say_control_plane(scene, ("Available", "True"))
        found = await conditions(scene)
        assert {kind: item["status"] for kind, item in found.items()} == dict.fromkeys(
            ("Ready", "ControlPlaneInitialized", "ControlPlaneReady", "WorkersReady"), "True"
        )
        for said, reason in (
            (("ControlPlaneComponentsHealthy", "False"), "ControlPlaneComponentsUnhealthy"),
            (("Available", "False"), "KubeadmControlPlaneNotReady"),
        ):
            await say_control_plane(scene, said)
            found = await conditions(scene)
            for kind in ("ControlPlaneReady", "Ready"):
                assert (found[kind]["reason"], found[kind]["severity"]) == (reason, "Error")


@in_virtual_time
async def test_a_control_plane_without_the_external_etcd_that_it_wants_is_not_ready(scene: World) -> None:
    await scene.set(NS, "prod")
    await scene.api.create(DEFINITIONS, definition("etcdcluster.cluster.x-k8s.io", ETCD.kind, "v1beta1"))
    reference = {"spec": {"managedExternalEtcdRef": {"kind": ETCD.kind, "name": "prod-etcd"}}}
    await scene.api.merge_patch(scene.clusters, "prod", reference, NS)
    async with scene.controlled(make):
        spec = {"workerNodeGroupConfigurations": [group(count=0)], "externalEtcdConfiguration": {"count": 1}}
        await scene.put(EKS, "prod", "default", spec)
        await scene.settle(12.0)
        assert (await conditions(scene))["ControlPlaneReady"]["reason"] == "ExternalEtcdNotAvailable"
        await scene.api.create(ETCD, {"metadata": {"name": "prod-etcd", "namespace": NS}, "spec": {}})
        status = {"status": {"ready": True, "observedGeneration": 1}}
        await scene.api.merge_patch(ETCD, "prod-etcd", status, NS, subresource="status")
        await scene.settle(12.0)
        assert (await conditions(scene))["ControlPlaneReady"]["status"] == "True"


@in_virtual_time
async def test_a_cni_that_is_not_to_be_upgraded_is_left_as_it_is_said_and_counts_for_nothing(scene: World) -> None:
    await scene.set(NS, "prod")
    async with scene.controlled(make):
        await put(scene, group(count=0))
        found = [*(await conditions(scene)).values()]
        skipped = {"type": "DefaultCNIConfigured", "status": "False", "reason": "SkipUpgrades", "severity": "Warning"}
        status = {"status": {"conditions": [*found, skipped]}}
        await scene.api.merge_patch(EKS, "prod", status, "default", subresource="status")
        await put(scene, group(count=1))
        assert (await conditions(scene))["Ready"]["reason"] == "OutdatedInformation"
        await scene.catch_up()
        now = await conditions(scene)
        assert (now["DefaultCNIConfigured"]["reason"], now["Ready"]["status"]) == ("SkipUpgrades", "True")


@in_virtual_time
async def test_without_a_cluster_of_cluster_api_nothing_is_made(scene: World) -> None:
    await scene.set(NS, "other")
    async with scene.controlled(make):
        await put(scene, group(count=1))
        assert await scene.deployment(MD, NS) is None
        await scene.api.create(scene.clusters, {"metadata": {"name": "prod", "namespace": NS}, "spec": {}})
        await scene.settle()
        assert await scene.size(MD, NS) == (1, False)


@in_virtual_time
async def test_of_two_clusters_of_one_name_the_older_has_its_groups_and_the_other_says_so(scene: World) -> None:
    await scene.set(NS, "prod")
    async with scene.controlled(make):
        await put(scene, group(count=1))
        await scene.put(EKS, "prod", NS, {"workerNodeGroupConfigurations": [group(count=5)]})
        assert await scene.size(MD, NS) == (1, False)
        other = (await scene.api.get(EKS, "prod", NS))["status"]
        assert other["failureMessage"] == "Cluster default/prod has the same name, and is older"
        await scene.api.delete(EKS, "prod", "default")
        await scene.settle()
        assert await scene.size(MD, NS) == (5, False)
        assert "failureMessage" not in (await scene.api.get(EKS, "prod", NS))["status"]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_either_version_of_cluster_api_serves(version: str) -> None:
    time = clock.VirtualClock(worker_pool_cluster.NOW_S)

    async def play() -> None:
        scene = World(time, version)
        await scene.set(NS, "prod")
        async with scene.controlled(make):
            await put(scene, group(count=2), group("b", limits=(1, 5)))
            await scene.catch_up()
            assert (await conditions(scene))["Ready"]["status"] == "True"
            reference = (await scene.deployment(MD, NS) or {})["spec"]["template"]["spec"]["infrastructureRef"]
            assert ("apiVersion" in reference) == (version == "v1beta1")
            scene.written.writes.clear()
            await scene.settle(3600.0)
            assert scene.written.writes == []

    time.run(play())


async def put_rival(scene: World, name: str, made: Json) -> None:
    """Another Cluster, whose control plane is up."""
    await scene.api.create(scene.clusters, {"metadata": {"name": name, "namespace": NS}, "spec": {}})
    status = {"status": {"conditions": [{"type": "ControlPlaneInitialized", "status": "True"}]}}
    await scene.api.merge_patch(scene.clusters, name, status, NS, subresource="status")
    await scene.put(EKS, name, "default", {"workerNodeGroupConfigurations": [made]})


async def owner_of(scene: World, name: str) -> str:
    found = await scene.deployment(name, NS)
    assert found is not None
    owner: str = found["spec"]["clusterName"]
    return owner


@in_virtual_time
async def test_a_name_that_two_clusters_make_belongs_to_whose_it_is_first(scene: World) -> None:
    """`prod` and `b-c` make the same name as `prod-b` and `c`."""
    await scene.set(NS, "prod")
    async with scene.controlled(make):
        await put(scene, group("b-c", count=2))
        await scene.catch_up()
        await put_rival(scene, "prod-b", group("c", count=9))
        await scene.settle(60.0)
        assert await owner_of(scene, "prod-b-c") == "prod"
        assert await scene.size("prod-b-c", NS) == (2, False)
        told = (
            "workerNodeGroupConfigurations[c]: MachineDeployment prod-b-c belongs to Cluster prod; choose another name"
        )
        other = (await scene.api.get(EKS, "prod-b", "default"))["status"]
        assert other["failureMessage"] == told
        working = {item["type"]: item for item in other["conditions"]}["WorkersReady"]
        assert (working["status"], working["reason"]) == ("False", "WorkerNodeGroupsInvalid")
        assert (await conditions(scene))["WorkersReady"]["status"] == "True"
        await put(scene)  # the group goes, and with it the MachineDeployment
        await scene.settle(60.0)
        assert await owner_of(scene, "prod-b-c") == "prod-b"
        assert await scene.size("prod-b-c", NS) == (9, False)
        assert "failureMessage" not in (await scene.api.get(EKS, "prod-b", "default"))["status"]


@in_virtual_time
async def test_a_name_that_two_clusters_make_is_made_by_the_older_if_it_is_not_there(scene: World) -> None:
    await scene.set(NS, "prod")
    await put_rival(scene, "prod-b", group("c", count=9))
    await scene.settle(5.0)
    await put(scene, group("b-c", count=2))
    async with scene.controlled(make):
        await scene.settle(60.0)
        assert await owner_of(scene, "prod-b-c") == "prod-b"
        assert await scene.size("prod-b-c", NS) == (9, False)


def rendered(name: str, replicas: int | None, *, domain: str = "", limits: tuple[int, int] | None = None) -> Json:
    """A MachineDeployment as EKS Anywhere's own controller applies it."""
    machine = {"clusterName": "prod", "version": "v1.33.1-eks-1-33-7", **({"failureDomain": domain} if domain else {})}
    spec: Json = {"clusterName": "prod", "selector": {"matchLabels": {}}, "template": {"spec": machine}}
    spec["rollout"] = {"strategy": {"type": "RollingUpdate"}}
    if replicas is not None:
        spec["replicas"] = replicas
    names = (machine_deployments.MIN_SIZE_ANNOTATION, machine_deployments.MAX_SIZE_ANNOTATION)
    annotations = dict(zip(names, map(str, limits or ()), strict=False))
    return {"metadata": {"name": name, "namespace": NS, "annotations": annotations}, "spec": spec}


def limits_of(found: Json | None) -> Json:
    assert found is not None
    limits: Json = found["metadata"].get("annotations") or {}
    return limits


async def put_adopted(scene: World, *groups: Json) -> None:
    made = [{"machineGroupRef": {"name": "m"}, **item} for item in groups]
    await scene.put(EKS, "prod", "default", {"workerNodeGroupConfigurations": made, "datacenterRef": {"name": "d"}})


@in_virtual_time
async def test_a_group_without_templates_is_adopted_and_nothing_of_it_is_made_or_deleted(scene: World) -> None:
    await scene.set(NS, "prod")
    upstream = scene.client("eks-a-controller")
    async with scene.controlled(make):
        await put_adopted(scene, {"name": "a", "count": 3}, {"name": "gone", "count": 1})
        await scene.settle(60.0)
        assert (await scene.api.list(scene.deployments)).items == []
        found = (await conditions(scene))["WorkersReady"]
        assert (found["reason"], found["message"]) == ("ScalingUp", "Scaling up worker nodes, 4 expected (0 actual)")
        for body in (
            rendered("prod-a-x", 2, domain="x"),
            rendered("prod-a-y", 1, domain="y"),
            rendered("prod-gone", 1),
        ):
            await upstream.apply(scene.deployments, body, force=True)
        await scene.settle()
        await scene.catch_up()
        assert (await conditions(scene))["WorkersReady"]["status"] == "True"
        before = {item["metadata"]["name"]: item["spec"] for item in (await scene.api.list(scene.deployments)).items}
        await put_adopted(scene, {"name": "a", "count": 3})
        await scene.settle(60.0)
        items = (await scene.api.list(scene.deployments)).items
        assert {item["metadata"]["name"]: item["spec"] for item in items} == before
        assert {entry["manager"] for item in items for entry in item["metadata"]["managedFields"]} == {
            "eks-a-controller",
            "client",
        }
        assert (await conditions(scene))["WorkersReady"]["reason"] == "ScalingDown"


@in_virtual_time
async def test_only_conditions_of_an_adopted_clusters_status_are_written(scene: World) -> None:
    """Upstream skips a generation that is marked as reconciled, and waits for one that it has observed."""
    await scene.set(NS, "prod")
    await put_adopted(scene, {"name": "a", "count": 1})
    own = {"failureReason": "UpgradeFailed", "failureMessage": "told by upstream", "reconciledGeneration": 7}
    own |= {"observedGeneration": 8, "childrenReconciledGeneration": 9, "eksdReleaseRef": {"name": "r"}}
    other = {"type": "Other", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await scene.api.merge_patch(
        EKS, "prod", {"status": {**own, "conditions": [other]}}, "default", subresource="status"
    )
    async with scene.controlled(make):
        await scene.settle(60.0)
    status = (await scene.api.get(EKS, "prod", "default"))["status"]
    assert {name: value for name, value in status.items() if name != "conditions"} == own
    assert other in status["conditions"]


@in_virtual_time
async def test_a_controller_that_judges_otherwise_is_answered_every_10_s_at_most(scene: World) -> None:
    await scene.set(NS, "prod")
    await put_adopted(scene, {"name": "a", "count": 1})
    upstream = scene.client("eks-a-controller")

    async def judge_otherwise() -> None:
        while True:
            held = {"type": "WorkersReady", "status": "False", "reason": "Otherwise"}
            status = {"status": {"conditions": [held]}}
            await upstream.merge_patch(EKS, "prod", status, "default", subresource="status")
            await scene.clock.sleep(0.1)

    async with scene.controlled(make):
        rival = asyncio.ensure_future(judge_otherwise())
        scene.written.writes.clear()
        await scene.settle(100.0)
        rival.cancel()
        assert 9 <= len(scene.written.writes) <= 11
        await scene.settle(15.0)
        assert (await conditions(scene))["WorkersReady"]["reason"] == "ScalingUp"


@pytest.mark.parametrize("windlass_is_first", [True, False])
def test_a_count_that_upstream_applies_to_an_autoscaled_group_takes_no_nodes(windlass_is_first: bool) -> None:
    """One of upstream's providers applies `replicas` whether or not the group is autoscaled."""

    @in_virtual_time
    async def play(scene: World) -> None:
        await scene.set(NS, "prod")
        upstream = scene.client("eks-a-controller")
        await put_adopted(scene, {"name": "a", "count": 3, "autoscalingConfiguration": {"minCount": 1, "maxCount": 10}})
        await upstream.apply(scene.deployments, rendered(MD, 3, limits=(1, 10)), force=True)
        async with scene.controlled(make):
            for size in (8, 5):
                await scene.scale(MD, NS, size)
                await upstream.apply(scene.deployments, rendered(MD, 3, limits=(1, 10)), force=True)
                await scene.settle()
                assert await scene.size(MD, NS) == (size, True)
                assert owners(await scene.deployment(MD, NS), "spec", "replicas") == {"windlass-eks-anywhere-handover"}
            if windlass_is_first:
                await put_adopted(scene, {"name": "a", "count": 2})
            await upstream.apply(scene.deployments, rendered(MD, 2), force=True)
            await scene.settle()
            if not windlass_is_first:
                await put_adopted(scene, {"name": "a", "count": 2})
            assert (await scene.size(MD, NS))[0] == 2
            assert limits_of(await scene.deployment(MD, NS)) == {}

    play()


@in_virtual_time
async def test_versions_of_cluster_api_that_come_and_go_need_no_restart(scene: World) -> None:
    older = World(scene.clock, "v1beta1")
    older.server, older.api = scene.server, scene.api
    await older.set(NS, "prod")
    async with older.controlled(make):
        await put(older, group(count=2))
        assert await older.size(MD, NS) == (2, False)
        for kind in ("Cluster", "MachineDeployment"):  # the embedded server serves one version of a kind
            await scene.api.delete(DEFINITIONS, f"{kind.lower()}s.cluster.x-k8s.io")
            await scene.api.create(DEFINITIONS, definition("cluster.x-k8s.io", kind, "v1beta2"))
        await scene.api.create(scene.clusters, {"metadata": {"name": "prod", "namespace": NS}, "spec": {}})
        await scene.settle(120.0)
        await put(older, group(count=4))
        assert await scene.size(MD, NS) == (4, False)


@in_virtual_time
async def test_what_is_not_served_is_said_until_it_is(scene: World) -> None:
    api = scene.client("windlass")
    registry = prometheus_client.CollectorRegistry()
    context = controller_runtime.ControllerContext(api, controller_runtime.ControllerMetrics(registry))
    made = make(context)
    running = asyncio.ensure_future(made.run())
    await scene.settle(60.0)
    assert made.check_ready() == "API group cluster.x-k8s.io: expected v1beta2 or v1beta1, the server serves none"
    await scene.set(NS, "prod")
    await scene.settle(60.0)
    assert made.check_ready() == ""
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class AdoptedGroup:
    """A group, its maker, an autoscaler, and the size that it should have."""

    def __init__(self, scene: World, *, keeps_replicas: bool) -> None:
        self.scene, self.keeps_replicas = scene, keeps_replicas
        self.upstream = scene.client("eks-a-controller")
        self.count = self.size = 3
        self.limits: tuple[int, int] | None = None
        self.is_rendered = False

    async def change(self, count: int, limits: tuple[int, int] | None) -> None:
        """The user's change, before or after upstream's controller has looked."""
        became_autoscaled = self.limits is None and limits is not None
        self.count, self.limits, self.is_rendered = count, limits, False
        given = {"autoscalingConfiguration": dict(zip(("minCount", "maxCount"), limits, strict=True))} if limits else {}
        await put_adopted(self.scene, {"name": "a", "count": count, **given})
        if became_autoscaled and limits is not None:
            self.size = max(min(self.size, limits[1]), limits[0])

    async def render(self) -> None:
        replicas = self.count if self.limits is None or self.keeps_replicas else None
        await self.upstream.apply(self.scene.deployments, rendered(MD, replicas, limits=self.limits), force=True)
        await self.scene.settle()
        self.is_rendered = True
        if self.limits is None:
            self.size = self.count
        elif self.keeps_replicas:
            self.size = max(self.size, self.count)

    async def check(self) -> None:
        found = await self.scene.deployment(MD, NS) or {}
        if self.limits is not None or self.is_rendered:
            assert found["spec"].get("replicas") == self.size
        if self.is_rendered:
            names = (machine_deployments.MIN_SIZE_ANNOTATION, machine_deployments.MAX_SIZE_ANNOTATION)
            assert limits_of(found) == dict(zip(names, map(str, self.limits or ()), strict=False))
        assert found["spec"]["template"] == rendered(MD, None)["spec"]["template"]


@pytest.mark.parametrize("number", range(40))
def test_whatever_happens_in_whatever_order_no_node_of_an_adopted_group_goes_unasked(number: int) -> None:
    @in_virtual_time
    async def play(scene: World) -> None:
        chance = random.Random(number)
        await scene.set(NS, "prod")
        group = AdoptedGroup(scene, keeps_replicas=bool(number % 2))
        await group.change(3, None)
        await group.render()
        for _ in range(3):
            async with scene.controlled(make):
                for _ in range(8):
                    deed = chance.choice(("toggle", "limits", "render", "render", "scale", "scale", "wait"))
                    if deed == "toggle":
                        limits = None if group.limits else (chance.randint(0, 4), chance.randint(4, 12))
                        await group.change(chance.randint(0, 9), limits)
                        if chance.random() < 0.5:
                            await group.render()
                    elif deed == "limits" and group.limits:
                        await group.change(group.count, (chance.randint(0, 4), chance.randint(4, 12)))
                    elif deed == "render":
                        await group.render()
                    elif deed == "scale" and group.limits:
                        group.size = chance.randint(*group.limits)
                        await scene.scale(MD, NS, group.size)
                    elif deed == "wait":
                        await scene.settle(700.0)
                    await group.check()
                    if group.limits is None and not group.is_rendered:
                        await group.render()  # nobody else sizes a static group
                        await group.check()

    play()
