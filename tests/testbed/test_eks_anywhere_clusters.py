"""Real Clusters of six providers on one server, beside Cluster API's manager: each is adopted, and none is changed.

The Clusters, and the MachineDeployments that upstream renders for them, are from ../shared/upstream. EKS Anywhere's own
controller is played. Of an object only what a test bed needs to make nodes is replaced: templates and versions.
"""

import copy
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from testbed import api, clusterapi, fixtures, objects, openshift, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.testbed import test_adoption
from tests.testbed.rbac import service_accounts
from tests.testbed.test_adoption import EKS, KUBELET, UPSTREAM, foreign_fields, need, play, wait_size
from tests.testbed.test_worker_pools import LABELS, MAX, MIN, deployment
from windlass.controllers import rbac
from windlass.kube import unstructured
from windlass.kube.rbac import ServiceAccount

pytestmark = test_adoption.pytestmark

UPSTREAMS = "eks-a-controller"
HANDOVER = "windlass-eks-anywhere-handover"
SIZE: Object = {"cpu": "4", "memory": "16Gi", "pods": "110"}
FILES = (
    ("cloudstack/cluster_main", "live"),
    ("docker/cluster_two_groups_autoscaled", "expected"),
    ("docker/cluster_upgrade_rollout", "expected"),
    ("nutanix/cluster_autoscaler", "expected"),
    ("nutanix/cluster_taints_labels", "expected"),
    ("nutanix/cluster_worker_fds_autoscaled", "expected"),
    ("snow/cluster_builder_autoscaled", "expected"),
    ("tinkerbell/cluster_hook_iso_boot", "expected"),
    ("vsphere/cluster_main", "live"),
    ("vsphere/cluster_with_networks", "live"),
)
"""Clusters, and which of their files has the MachineDeployments."""
SCALED = "tinkerbell-cluster-hook-iso-boot"
"""The Cluster that is autoscaled meanwhile."""


@dataclasses.dataclass
class RealCluster:
    """A Cluster of EKS Anywhere, and what its controller makes of it."""

    bed: Bed
    name: str
    body: Object
    deployments: list[Object]
    keeps_replicas: bool
    """One provider's controller applies a count to autoscaled groups as well."""

    @property
    def path(self) -> str:
        namespace = self.body["metadata"]["namespace"]
        return f"/apis/anywhere.eks.amazonaws.com/v1alpha1/namespaces/{namespace}/clusters/{self.name}"

    @property
    def group(self) -> Object:
        """The group that is toggled: the first."""
        found: Object = self.body["spec"]["workerNodeGroupConfigurations"][0]
        return found

    @property
    def of_group(self) -> list[Object]:
        """What upstream renders for that group: one MachineDeployment, or one for each failure domain."""
        base = f"{self.name}-{self.group.get('name') or 'md-0'}"
        domains = [(item, item["spec"]["template"]["spec"].get("failureDomain")) for item in self.deployments]
        return [item for item, domain in domains if item["metadata"]["name"] in (base, f"{base}-{domain}")]

    @property
    def places(self) -> list[str]:
        return [deployment(EKS, body["metadata"]["name"]) for body in self.of_group]

    def add(self) -> None:
        clusterapi.add_cluster(self.bed.api, self.bed.kubeconfig, self.name, EKS)
        for body in self.deployments:
            name = body["metadata"]["name"]
            node: Object = {"capacity": SIZE, "labels": {"pool": name}}
            template = objects.machine_deployment(name, 0, cluster=self.name, namespace=EKS, node=node)[0]
            self.bed.api.add(template)
            play(self.bed, body, UPSTREAMS)
        self.bed.api.add(self.body)

    def limit(self, limits: tuple[int, int] | None, count: int) -> None:
        """The user changes the group; upstream's controller has not looked yet."""
        self.group["count"] = count
        self.group.pop("autoscalingConfiguration", None)
        if limits is not None:
            self.group["autoscalingConfiguration"] = {"minCount": limits[0], "maxCount": limits[1]}
        groups = self.body["spec"]["workerNodeGroupConfigurations"]
        self.bed.api.merge(self.path, {"spec": {"workerNodeGroupConfigurations": groups}})

    def render(self) -> None:
        """What upstream's controller then applies."""
        limits, bodies = self.group.get("autoscalingConfiguration"), self.of_group
        share, rest = divmod(self.group["count"], len(bodies))
        for number, body in enumerate(bodies):
            annotations = body["metadata"].setdefault("annotations", {})
            for annotation in (MIN, MAX):
                annotations.pop(annotation, None)
            body["spec"].pop("replicas", None)
            if limits is not None:
                annotations |= {MIN: str(limits["minCount"]), MAX: str(limits["maxCount"])}
            if limits is None or self.keeps_replicas:
                body["spec"]["replicas"] = share + (rest if number == 0 else 0)
            play(self.bed, body, UPSTREAMS)

    def ready(self) -> dict[str, str]:
        conditions = self.bed.api.get(self.path).get("status", {}).get("conditions", ())
        return {item["type"]: item["status"] for item in conditions}

    def sizes(self) -> list[int]:
        return [self.bed.api.get(place)["spec"].get("replicas", 0) for place in self.places]

    def limits(self) -> set[tuple[str | None, str | None]]:
        found = (self.bed.api.get(place)["metadata"].get("annotations", {}) for place in self.places)
        return {(annotations.get(MIN), annotations.get(MAX)) for annotations in found}

    def handed_over(self) -> bool:
        """Replicas stay when upstream's controller stops applying them."""
        owners = [
            unstructured.find_field_owners(self.bed.api.get(place), ("spec", "replicas")) for place in self.places
        ]
        return all({owner.manager for owner in found} - {UPSTREAMS} for found in owners)


def read(bed: Bed, file: str, suffix: str) -> RealCluster:
    """A real Cluster under a name of its own, with nodes that the bed can make, and without another etcd's kinds."""
    provider = file.partition("/")[0]
    name = file.replace("/", "-").replace("_", "-")

    def documents(path: str) -> list[Object]:
        return [item for item in yaml.safe_load_all((UPSTREAM / "eks-anywhere" / path).read_text()) if item]

    cluster = next(item for item in documents(f"{file}.yaml") if item["kind"] == "Cluster")
    before = cluster["metadata"]["name"]
    cluster["metadata"] = {"name": name, "namespace": cluster["metadata"].get("namespace", "default")}
    cluster["spec"].pop("externalEtcdConfiguration", None)
    rendered = [item for item in documents(f"{file}.{suffix}.yaml") if item["kind"] == "MachineDeployment"]
    for body in rendered:
        metadata, machine = body["metadata"], body["spec"]["template"]["spec"]
        metadata["name"] = name + metadata["name"].removeprefix(before)
        for labels in (
            metadata.get("labels") or {},
            (body["spec"]["template"].get("metadata") or {}).get("labels", {}),
        ):
            labels.update({key: name for key in labels if key == "cluster.x-k8s.io/cluster-name"})
        body["spec"]["clusterName"] = machine["clusterName"] = name
        machine["bootstrap"] = {"dataSecretName": f"{name}-bootstrap"}
        machine["infrastructureRef"] |= {"kind": "FakeMachineTemplate", "name": metadata["name"]}
        machine["version"] = KUBELET
    return RealCluster(bed, name, cluster, rendered, provider == "snow")


@pytest.fixture
def bed() -> Iterator[Bed]:
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.alone(Choice(scheduler=True, kwok=True, capi=True)) as found:
        found.api.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EKS}})
        path = UPSTREAM / "eks-anywhere/crds/anywhere.eks.amazonaws.com_clusters.yaml"
        openshift.define(found.api, yaml.safe_load(path.read_text()))
        yield found


def everything(bed: Bed) -> dict[str, Object]:
    """Every object of a defined kind, without its status and without what windlass owns."""
    found = {}
    for definition in bed.api.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions"):
        spec = definition["spec"]
        version = next(item["name"] for item in spec["versions"] if item["storage"])
        for body in bed.api.items(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"):
            metadata = body["metadata"]
            found[f"{spec['names']['kind']} {metadata.get('namespace', '')}/{metadata['name']}"] = foreign_fields(body)
    return found


def wait_still(bed: Bed) -> dict[str, Object]:
    """Every object, once nobody has changed one for a while: Cluster API's manager goes on after nodes are ready."""
    seen: list[dict[str, Object]] = []

    def look() -> bool:
        seen.append(everything(bed))
        return len(seen) > STILL_LOOKS and all(item == seen[-1] for item in seen[-STILL_LOOKS:])

    api.wait_for("nothing changes", look, within_s=300.0, poll_s=2.0)
    return seen[-1]


STILL_LOOKS = 4


def wait_all(what: str, clusters: list[RealCluster], is_done: Callable[[RealCluster], bool]) -> None:
    """Until it is so of every Cluster; those of which it is not are named."""
    api.wait_for(what, lambda: [each.name for each in clusters if not is_done(each)], lambda left: left == [], 300.0)


def is_ready(cluster: RealCluster) -> bool:
    found = cluster.ready()
    return found.get("Ready") == found.get("WorkersReady") == "True"


def is_healthy(cluster: RealCluster) -> bool:
    """As many nodes as there should be, as Cluster API counts them."""
    for body in cluster.deployments:
        found = cluster.bed.api.get(deployment(EKS, body["metadata"]["name"]))
        status, wanted = found.get("status", {}), found["spec"].get("replicas")
        if status.get("observedGeneration") != found["metadata"]["generation"]:
            return False
        if not wanted == status.get("replicas") == status.get("readyReplicas"):
            return False
    return True


def test_clusters_of_six_providers_are_ready_toggled_and_autoscaled_and_nothing_else_changes(
    bed: Bed, tmp_path: Path
) -> None:
    clusters = [read(bed, *names) for names in FILES]
    for cluster in clusters:
        service_accounts.add_namespace(bed, cluster.body["metadata"]["namespace"])
        cluster.add()
    wait_all("its nodes are ready", clusters, is_healthy)
    user = ServiceAccount("windlass-operator", "windlass-alone")
    service_accounts.give(bed, *(service_accounts.move(one, user) for one in (rbac.OPERATOR, *rbac.EKS_ANYWHERE)))
    before = wait_still(bed)
    assert len([name for name in before if name.startswith("MachineDeployment ")]) >= len(FILES)
    with service_accounts.operating(bed, tmp_path, "eks_anywhere", user):
        wait_all("it is ready", clusters, is_ready)
        after = everything(bed)
        assert after.keys() == before.keys()
        assert {name for name, body in before.items() if after[name] != body} == set()
        for cluster in clusters:
            assert bed.api.get(cluster.path)["status"].keys() == {"conditions"}
        _scale_one_and_toggle_the_others(bed, tmp_path, clusters)
        wait_all("it is ready in the end", clusters, is_ready)
    log = (tmp_path / "eks_anywhere.log").read_text()
    assert "forbidden" not in log


def _scale_one_and_toggle_the_others(bed: Bed, tmp_path: Path, clusters: list[RealCluster]) -> None:
    (scaled,) = [cluster for cluster in clusters if cluster.name == SCALED]
    others = [cluster for cluster in clusters if cluster is not scaled]
    (place,) = scaled.places
    pool = place.rpartition("/")[2]
    scaled.limit((1, 10), 1)
    scaled.of_group[0]["metadata"]["annotations"] = {LABELS: f"pool={pool}"}
    scaled.render()
    discovery = f"--node-group-auto-discovery=clusterapi:namespace={EKS},clusterName={SCALED}"
    with test_adoption.autoscaling(bed, tmp_path, discovery):
        need(bed, pool, 10)
        for cluster in others:
            _toggle(cluster)
        wait_size(bed, place, 10)
        need(bed, pool, 2)
        wait_size(bed, place, 2)
    assert scaled.limits() == {("1", "10")}


def _toggle(cluster: RealCluster) -> None:
    """Static, autoscaled and static again; windlass looks before upstream's controller does, and after."""
    machines = [copy.deepcopy(body["spec"]["template"]) for body in cluster.of_group]
    count = len(cluster.places)

    def wait(what: str, is_done: Callable[[RealCluster], bool]) -> None:
        wait_all(what, [cluster], is_done)

    cluster.limit(None, count)
    cluster.render()
    wait("it has its count", lambda each: each.sizes() == [1] * count and each.limits() == {(None, None)})
    cluster.limit((1, 3), count)
    wait("it has limits, and keeps its size", lambda each: each.limits() == {("1", "3")} and each.handed_over())
    cluster.render()
    assert cluster.sizes() == [1] * count
    for path in cluster.places:  # as an autoscaler does
        cluster.bed.api.merge(f"{path}/scale?fieldManager=cluster-autoscaler", {"spec": {"replicas": 2}})
    wait("it is ready at the autoscaler's size", lambda each: is_healthy(each) and is_ready(each))
    cluster.limit(None, count)
    cluster.render()
    wait("it has its count again", lambda each: each.sizes() == [1] * count and each.limits() == {(None, None)})
    assert [body["spec"]["template"] for body in cluster.of_group] == machines
