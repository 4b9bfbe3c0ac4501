"""Clusters that EKS Anywhere's own controller reconciles: real ones, with the MachineDeployments that it renders.

Objects and definitions are upstream's, from ../shared/upstream. Its controller is played: `render` applies what it
would apply for a Cluster, under its field manager and by force.
"""

import copy
import functools
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controllers.machine_pool.management_cluster import definition
from tests.controllers.worker_pool_cluster import DEFINITIONS, EKS, NOW_S, World, owners, without_rules
from windlass import clock
from windlass.controllers import controller_interface, controller_runtime
from windlass.controllers.eks_anywhere import controller, model
from windlass.kube import resources

Json = dict[str, Any]

UPSTREAM = Path(__file__).parents[4] / "shared" / "upstream" / "eks-anywhere"
NS = "eksa-system"
MIN = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
MAX = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
OURS = {"windlass-eks-anywhere", "windlass-eks-anywhere-handover"}

PAIRS = (
    ("cloudstack/cluster_main", "live"),
    ("cloudstack/cluster_main_autoscaled", "live"),
    ("docker/cluster_two_groups", "expected"),
    ("docker/cluster_two_groups_autoscaled", "expected"),
    ("docker/cluster_upgrade_rollout", "expected"),
    ("nutanix/cluster_autoscaler", "expected"),
    ("nutanix/cluster_external_etcd", "expected"),
    ("nutanix/cluster_gpus", "expected"),
    ("nutanix/cluster_multi_worker_fds", "expected"),
    ("nutanix/cluster_taints_labels", "expected"),
    ("nutanix/cluster_worker_fds", "expected"),
    ("nutanix/cluster_worker_fds_autoscaled", "expected"),
    ("snow/cluster_builder", "expected"),
    ("snow/cluster_builder_autoscaled", "expected"),
    ("tinkerbell/cluster_hook_iso_boot", "expected"),
    ("tinkerbell/cluster_hook_iso_boot_autoscaled", "expected"),
    ("vsphere/cluster_main", "live"),
    ("vsphere/cluster_with_networks", "live"),
    ("vsphere/cluster_with_networks_autoscaled", "live"),
)
"""Clusters and which of their files has the MachineDeployments."""

pytestmark = pytest.mark.skipif(
    not UPSTREAM.is_dir(), reason="NOT JUDGED: EKS Anywhere's real objects are not at ../shared/upstream"
)

KUBEADM = resources.Resource(
    "controlplane.cluster.x-k8s.io/v1beta2", "kubeadmcontrolplanes", "KubeadmControlPlane", True, Json
)
ETCD = resources.Resource("etcdcluster.cluster.x-k8s.io/v1beta1", "etcdadmclusters", "EtcdadmCluster", True, Json)


def documents(name: str) -> Iterator[Json]:
    yield from (body for body in yaml.safe_load_all((UPSTREAM / f"{name}.yaml").read_text()) if body)


class RealCluster:
    """A real Cluster in a management cluster, and EKS Anywhere's controller as far as it makes MachineDeployments."""

    def __init__(self, scene: World, name: str, suffix: str) -> None:
        self.scene = scene
        self._upstream = scene.client("eks-a-controller")
        self._body = next(body for body in documents(name) if body["kind"] == "Cluster")
        rendered = list(documents(f"{name}.{suffix}"))
        self.deployments = [body for body in rendered if body["kind"] == "MachineDeployment"]
        self._others = [body for body in rendered if body["kind"] != "MachineDeployment"]
        self.keeps_replicas = name.startswith("snow/")
        metadata = self._body["metadata"]
        self.name, self.namespace = metadata["name"], metadata.setdefault("namespace", "default")

    async def set(self) -> None:
        """Definitions and objects of a healthy Cluster, before windlass comes."""
        api = self.scene.api
        kinds = {(body["apiVersion"], body["kind"]) for body in self._others}
        kinds |= {("cluster.x-k8s.io/v1beta2", "Cluster"), (KUBEADM.api_version, KUBEADM.kind)}
        kinds |= {("cluster.x-k8s.io/v1beta2", "MachineDeployment"), (ETCD.api_version, ETCD.kind)}
        for version, kind in sorted(kinds):
            group, _, number = version.partition("/")
            body = definition(group, kind, number)
            if kind == "MachineDeployment":
                scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
                body["spec"]["versions"][0]["subresources"]["scale"] = scale
            await api.create(DEFINITIONS, body)
        crd = yaml.safe_load((UPSTREAM / "crds" / "anywhere.eks.amazonaws.com_clusters.yaml").read_text())
        await api.create(DEFINITIONS, without_rules(crd))
        for namespace in {NS, self.namespace} - {"default"}:
            await api.create(resources.NAMESPACES.untyped(), {"metadata": {"name": namespace}})
        await self._set_control_plane()
        await api.create(EKS, self._body, self.namespace)
        for body in self._others:
            plural = f"{body['kind'].lower()}s"
            await self._upstream.apply(
                resources.Resource(body["apiVersion"], plural, body["kind"], True, Json), body, force=True
            )
        await self.apply(self.deployments)

    async def _set_control_plane(self) -> None:
        api, spec = self.scene.api, {"controlPlaneRef": {"kind": KUBEADM.kind, "name": self.name}}
        if self._body["spec"].get("externalEtcdConfiguration"):
            spec["managedExternalEtcdRef"] = {"kind": ETCD.kind, "name": f"{self.name}-etcd"}
            await api.create(ETCD, {"metadata": {"name": f"{self.name}-etcd", "namespace": NS}, "spec": {}})
            etcd = {"status": {"ready": True, "observedGeneration": 1}}
            await api.merge_patch(ETCD, f"{self.name}-etcd", etcd, NS, subresource="status")
        await api.create(self.scene.clusters, {"metadata": {"name": self.name, "namespace": NS}, "spec": spec})
        await api.create(KUBEADM, {"metadata": {"name": self.name, "namespace": NS}, "spec": {}})
        count = self._body["spec"]["controlPlaneConfiguration"]["count"]
        status: Json = {"replicas": count, "readyReplicas": count, "upToDateReplicas": count, "observedGeneration": 1}
        status["conditions"] = [{"type": "Available", "status": "True"}]
        await api.merge_patch(KUBEADM, self.name, {"status": status}, NS, subresource="status")

    @property
    def groups(self) -> list[Json]:
        groups: list[Json] = self._body["spec"]["workerNodeGroupConfigurations"]
        return groups

    def of_group(self, place: int) -> list[Json]:
        """What upstream renders for a group."""
        base = f"{self.name}-{self.groups[place].get('name') or f'md-{place}'}"
        return [
            body
            for body in self.deployments
            if body["metadata"]["name"] in (base, f"{base}-{body['spec']['template']['spec'].get('failureDomain')}")
        ]

    def names(self, place: int) -> list[str]:
        return [body["metadata"]["name"] for body in self.of_group(place)]

    async def apply(self, bodies: list[Json]) -> None:
        for body in bodies:
            await self._upstream.apply(self.scene.deployments, copy.deepcopy(body), force=True)

    async def limit(self, place: int, limits: tuple[int, int] | None, count: int) -> None:
        """The user changes a group in the Cluster; upstream's controller has not looked yet."""
        group = self.groups[place]
        group["count"] = count
        group.pop("autoscalingConfiguration", None)
        if limits is not None:
            group["autoscalingConfiguration"] = {"minCount": limits[0], "maxCount": limits[1]}
        spec = {"spec": {"workerNodeGroupConfigurations": self.groups}}
        await self.scene.api.merge_patch(EKS, self.name, spec, self.namespace)

    async def render(self, place: int) -> None:
        """What upstream's controller then applies."""
        group, bodies = self.groups[place], self.of_group(place)
        limits, count = group.get("autoscalingConfiguration"), group["count"]
        share = count // len(bodies)
        for number, body in enumerate(bodies):
            annotations = body["metadata"].setdefault("annotations", {})
            for annotation in (MIN, MAX):
                annotations.pop(annotation, None)
            body["spec"].pop("replicas", None)
            if limits is not None:
                annotations |= {MIN: str(limits["minCount"]), MAX: str(limits["maxCount"])}
            if limits is None or self.keeps_replicas:
                body["spec"]["replicas"] = share + (count - share * len(bodies) if number == 0 else 0)
            if not annotations:
                del body["metadata"]["annotations"]
        await self.apply(bodies)

    async def conditions(self) -> dict[str, Json]:
        found = await self.scene.api.get(EKS, self.name, self.namespace)
        return {item["type"]: item for item in (found.get("status") or {}).get("conditions") or ()}

    async def assert_ready(self) -> None:
        found = await self.conditions()
        assert {kind: item["status"] for kind, item in found.items()} == dict.fromkeys(
            ("Ready", "ControlPlaneInitialized", "ControlPlaneReady", "WorkersReady"), "True"
        ), found

    async def objects(self) -> dict[str, Json]:
        """All objects of the server, without what the server itself writes."""
        found = {}
        kinds = [*(await self.scene.api.list(DEFINITIONS)).items]
        for kind in kinds:
            names, version = kind["spec"]["names"], kind["spec"]["versions"][0]["name"]
            resource = resources.Resource(
                f"{kind['spec']['group']}/{version}", names["plural"], names["kind"], True, Json
            )
            for body in (await self.scene.api.list(resource)).items:
                metadata = body["metadata"]
                kept = {
                    name: value for name, value in metadata.items() if name not in ("resourceVersion", "generation")
                }
                found[f"{names['kind']} {metadata['namespace']}/{metadata['name']}"] = {**body, "metadata": kept}
        return found


def make(site: controller_runtime.ControllerContext) -> controller_interface.Controller:
    return controller.new_controller(site, model.EksAnywhereSettings())


def of_each_cluster(
    play: Callable[[RealCluster], Awaitable[None]], pairs: tuple[tuple[str, str], ...] = PAIRS
) -> Callable[[str, str], None]:
    @pytest.mark.parametrize(("name", "suffix"), pairs, ids=[name for name, _ in pairs])
    @functools.wraps(play)
    def run(name: str, suffix: str) -> None:
        time = clock.VirtualClock(NOW_S)

        async def within() -> None:
            real = RealCluster(World(time), name, suffix)
            await real.set()
            await play(real)

        time.run(within())

    del run.__wrapped__  # pytest would ask for the arguments
    return run


def changed_fields(before: Any, after: Any, path: str = "") -> set[str]:
    """The paths of the fields that differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = [changed_fields(before.get(name), after.get(name), f"{path}.{name}") for name in {*before, *after}]
        return set().union(*found)
    return set() if before == after else {path}


def fields_of(body: Json, manager: str) -> list[Json]:
    return [entry["fieldsV1"] for entry in body["metadata"]["managedFields"] if entry["manager"] == manager]


@of_each_cluster
async def test_a_healthy_cluster_is_ready_and_only_what_windlass_owns_changes(real: RealCluster) -> None:
    await real.scene.catch_up()
    before = await real.objects()
    async with real.scene.controlled(make):
        await real.scene.settle(60.0)
        await real.scene.catch_up()
        await real.scene.settle(60.0)
        await real.assert_ready()
        after = await real.objects()
        assert after.keys() == before.keys()
        limited = {
            name
            for place, group in enumerate(real.groups)
            if "autoscalingConfiguration" in group
            for name in real.names(place)
        }
        for name, body in before.items():
            kind, _, key = name.partition(" ")
            allowed = {".metadata.managedFields", ".status"}
            if kind == "MachineDeployment" and key.removeprefix(f"{NS}/") in limited:
                allowed |= {".spec.replicas"}
            found = changed_fields({**body, "status": 0}, {**after[name], "status": 0})
            assert found <= allowed, (name, found)
            if kind == "MachineDeployment":
                assert fields_of(after[name], "eks-a-controller") == fields_of(body, "eks-a-controller")
            if (kind, body["apiVersion"]) == ("Cluster", model.API_VERSION):
                assert changed_fields(body.get("status"), after[name]["status"]) == {""}
                assert after[name]["status"].keys() == {"conditions"}
            elif kind != "MachineDeployment":
                assert body == after[name], name
        real.scene.written.writes.clear()
        await real.scene.settle(7200.0)
        assert real.scene.written.writes == []


@of_each_cluster
async def test_autoscaling_is_toggled_both_ways_and_the_autoscaler_keeps_what_it_decides(real: RealCluster) -> None:
    scene, names = real.scene, real.names(0)
    template = [copy.deepcopy(body["spec"]["template"]) for body in real.of_group(0)]
    async with scene.controlled(make):
        for windlass_is_first in (True, False):
            await real.limit(0, None, len(names))
            await real.render(0)
            await scene.settle()
            for name in names:
                assert await scene.size(name, NS) == (1, False)
            await real.limit(0, (1, 10), 7)
            if windlass_is_first:
                await scene.settle()
                for name in names:
                    assert (await scene.size(name, NS))[1]
            await real.render(0)
            await scene.settle()
            for replicas in (10, 2):
                for name in names:
                    await scene.scale(name, NS, replicas)
                await scene.catch_up()
                await scene.settle(30.0)
                await real.assert_ready()
                await real.render(0)  # as for a new generation
                await scene.settle(30.0)
                await scene.catch_up()
                # Snow's count is applied again and again. It never takes nodes from the autoscaler.
                kept = max(replicas, 7) if real.keeps_replicas else replicas
                assert {await scene.size(name, NS) for name in names} == {(kept, True)}
                await real.assert_ready()
            await real.limit(0, None, 3 * len(names))
            if windlass_is_first:
                await scene.settle()
            await real.render(0)
            await scene.settle()
            for name in names:
                assert await scene.size(name, NS) == (3, False)
                found = await scene.deployment(name, NS)
                assert owners(found, "spec", "replicas") >= {"eks-a-controller"}
            await scene.catch_up()
            await real.assert_ready()
    for name, rendered in zip(names, template, strict=True):
        assert (await scene.deployment(name, NS) or {})["spec"]["template"] == rendered
