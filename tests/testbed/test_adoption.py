"""The pages "Run windlass on …" on the real control plane, with a product's real Cluster and Cluster API's manager.

Each command of a page is run as it stands there. The product's own controller is played: what it writes is applied
under its field manager. Its objects and definitions are from ../shared/upstream.
"""

import contextlib
import copy
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from testbed import api, cache, clusterapi, components, fixtures, objects, openshift, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.e2e import kubelet
from tests.e2e.autoscaler_process import Live
from tests.testbed.test_worker_pools import LABELS, MAX, MIN, QUICKER, WITHIN_S, deployment

ROOT = Path(__file__).parents[2]
UPSTREAM = ROOT.parent / "shared" / "upstream"
NAMESPACE = "windlass-system"
EKS = "eksa-system"
CLUSTER = "/apis/anywhere.eks.amazonaws.com/v1alpha1/namespaces/default/clusters/prod"
MD = deployment(EKS, "prod-md-0")
NODE: Object = {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}, "labels": {"pool": "md-0"}}
UPGRADE_S = 300.0

pytestmark = pytest.mark.skipif(
    not UPSTREAM.is_dir(), reason="NOT JUDGED: the products' real objects are not at ../shared/upstream"
)


@pytest.fixture
def bed() -> Iterator[Bed]:
    """One for each page: their Clusters have one name, and so have the nodes of their control planes."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.alone(Choice(scheduler=True, kwok=True, capi=True)) as found:
        found.api.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EKS}})
        yield found


def kubectl(bed: Bed, *words: str, text: str = "") -> str:
    command = [str(cache.binary(components.KUBECTL)), "--kubeconfig", str(bed.kubeconfig), *words]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def play(bed: Bed, body: Object, manager: str) -> None:
    """What a product's controller applies, by force."""
    words = ("apply", "--server-side", "--force-conflicts", f"--field-manager={manager}", "--filename=-")
    kubectl(bed, *words, text=yaml.safe_dump(body))


class Page:
    """The commands of a page, in their order."""

    def __init__(self, bed: Bed, name: str, tmp_path: Path) -> None:
        text = (ROOT / "docs" / name).read_text()
        self._blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        self._bed, self._next = bed, 0
        programs = tmp_path / "programs"
        programs.mkdir()
        (programs / "kubectl").symlink_to(cache.binary(components.KUBECTL))
        self._environment = {**os.environ, "KUBECONFIG": str(bed.kubeconfig)}
        self._environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"

    def run(self, about: str) -> str:
        """Run the next block, which has to mention this; what it prints."""
        block, self._next = self._blocks[self._next], self._next + 1
        assert about in block, block
        command = ["bash", "-e", "-o", "pipefail", "-c", block]
        done = subprocess.run(command, cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (block, done.stdout, done.stderr)
        return done.stdout

    @property
    def is_done(self) -> bool:
        return self._next == len(self._blocks)


@contextlib.contextmanager
def operating(bed: Bed, tmp_path: Path) -> Iterator[Path]:
    """The pod of the operator that a page has installed, run as a kubelet would, with its rights; its log."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    selector = "app.kubernetes.io/component=operator"
    found = api.wait_for("the operator's pod", lambda: bed.api.items(path, labelSelector=selector), within_s=WITHIN_S)
    directory = tmp_path / "operator"
    directory.mkdir()
    with kubelet.running(bed, found[0], directory) as log:
        yield log
    assert "forbidden" not in log.read_text()
    assert "Traceback" not in log.read_text()


@contextlib.contextmanager
def autoscaling(bed: Bed, tmp_path: Path, discovery: str) -> Iterator[None]:
    """The autoscaler with the flag of discovery that the page has installed, but quicker."""
    flags = ("--cloud-provider=clusterapi", discovery, "--skip-nodes-with-local-storage=false", "-v=4")
    live = Live(bed.kubeconfig, tmp_path / "autoscaler.log", flags)
    live.start("--leader-elect=false", *QUICKER)
    try:
        yield
    except BaseException:
        print(live.log.read_text()[-6000:])
        raise
    finally:
        live.stop()


@contextlib.contextmanager
def watching(bed: Bed, of: Sequence[str], what: str, to: Path) -> Iterator[None]:
    """Every state that an object goes through, one line each."""
    command = [str(cache.binary(components.KUBECTL)), "--kubeconfig", str(bed.kubeconfig), "get", *of]
    command += ["--watch", "-o", f'jsonpath={what}{{"\\n"}}']
    with to.open("wb") as lines:
        process = subprocess.Popen(command, stdout=lines)
    try:
        api.wait_for("it is watched", to.read_text, within_s=WITHIN_S)
        yield
    finally:
        process.terminate()
        process.wait(60)


def need(bed: Bed, pool: str, count: int) -> None:
    """Pods for as many nodes."""
    path = f"/apis/apps/v1/namespaces/default/replicasets/on-{pool}"
    if bed.api.find(path) is not None:
        bed.api.merge(path, {"spec": {"replicas": count}})
        return
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    pod = {"containers": [container], "nodeSelector": {"pool": pool}}
    template = {"metadata": {"labels": {"app": pool}}, "spec": pod}
    spec = {"replicas": count, "selector": {"matchLabels": {"app": pool}}, "template": template}
    bed.api.add(objects.made("apps/v1", "ReplicaSet", f"on-{pool}", "default", spec))


def wait_size(bed: Bed, path: str, size: int, within_s: float = UPGRADE_S) -> None:
    """Until there are so many nodes, all of the newest template."""

    def probe() -> tuple[bool, list[int | None]]:
        found = bed.api.get(path)
        status = found.get("status", {})
        counts = [status.get(name) or 0 for name in ("replicas", "readyReplicas", "upToDateReplicas")]
        is_current = status.get("observedGeneration") == found["metadata"]["generation"]
        return is_current, [found["spec"].get("replicas"), *counts]

    api.wait_for(f"{size} nodes of {path}", probe, lambda seen: seen == (True, [size] * 4), within_s)


def rendered(limits: tuple[int, int] | None, replicas: int | None, template: str) -> Object:
    """What upstream's controller applies for the group, on the bed's infrastructure; its kubelets have one version."""
    documents = yaml.safe_load_all(
        (UPSTREAM / "eks-anywhere/tinkerbell/cluster_hook_iso_boot.expected.yaml").read_text()
    )
    body: Object = next(item for item in documents if item and item["kind"] == "MachineDeployment")
    text = yaml.safe_dump(body).replace("test-md-0", "prod-md-0").replace("clusterName: test", "clusterName: prod")
    body = yaml.safe_load(text.replace("cluster-name: test", "cluster-name: prod"))
    machine: Object = body["spec"]["template"]["spec"]
    machine["bootstrap"] = {"dataSecretName": "prod-bootstrap"}
    machine["infrastructureRef"] |= {"kind": "FakeMachineTemplate", "name": template}
    machine["version"] = KUBELET
    body["spec"].pop("replicas", None)
    if limits is not None:
        body["metadata"]["annotations"] = {MIN: str(limits[0]), MAX: str(limits[1])}
    if replicas is not None:
        body["spec"]["replicas"] = replicas
    return body


KUBELET = "v1.36.3"
V1, V2 = "prod-md-0-1", "prod-md-0-2"
"""Templates: upstream makes another for every change of the machines."""


def workers_ready(bed: Bed) -> Object:
    conditions = bed.api.get(CLUSTER).get("status", {}).get("conditions", ())
    return next((item for item in conditions if item["type"] == "WorkersReady"), {})


def foreign_fields(found: Object) -> Object:
    """What others than windlass and Cluster API have written of an object, and who owns it."""
    kept = copy.deepcopy(found)
    kept.pop("status", None)
    metadata = kept["metadata"]
    metadata.pop("resourceVersion", None)
    metadata["managedFields"] = [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in metadata["managedFields"]
        if not entry["manager"].startswith("windlass") and entry.get("subresource") != "status"
    ]
    return kept


def test_eks_anywheres_clusters_are_adopted_scaled_and_upgraded(bed: Bed, tmp_path: Path) -> None:
    page = Page(bed, "eks-anywhere.md", tmp_path)
    openshift.define(bed.api, _definition("eks-anywhere/crds/anywhere.eks.amazonaws.com_clusters.yaml"))
    clusterapi.add_cluster(bed.api, bed.kubeconfig, "prod", EKS)
    for template in (V1, V2):
        bed.api.add(objects.machine_deployment(template, 0, cluster="prod", namespace=EKS, node=NODE)[0])
    documents = yaml.safe_load_all((UPSTREAM / "eks-anywhere/tinkerbell/cluster_hook_iso_boot.yaml").read_text())
    cluster: Object = next(item for item in documents if item and item["kind"] == "Cluster")
    cluster["metadata"] = {"name": "prod", "namespace": "default"}
    kubectl(bed, "create", "--filename=-", text=yaml.safe_dump(cluster))
    play(bed, rendered(None, 1, V1), "eks-a-controller")
    wait_size(bed, MD, 1)
    assert "prod-md-0" in page.run("get crd")
    definition = bed.api.get(DEFINITION)["spec"]
    page.run("kubectl kustomize")
    assert bed.api.get(DEFINITION)["spec"] == definition, "the product's definition is not replaced"
    before = bed.api.get(MD)
    with operating(bed, tmp_path):
        api.wait_for("workers are ready", lambda: workers_ready(bed).get("status"), lambda seen: seen == "True")
        assert foreign_fields(bed.api.get(MD)) == foreign_fields(before)
        assert bed.api.get(MD)["metadata"]["generation"] == before["metadata"]["generation"]
        assert bed.api.get(CLUSTER)["status"].keys() == {"conditions"}
        page.run("kubectl patch")  # upstream's controller has not looked yet: windlass applies the limits
        api.wait_for(
            "limits", lambda: bed.api.get(MD)["metadata"].get("annotations", {}).get(MAX), lambda at: at == "10"
        )
        play(bed, rendered((1, 10), None, V1), "eks-a-controller")
        page.run("conditions")
        bed.api.merge(MD, {"metadata": {"annotations": {LABELS: "pool=md-0"}}})
        _scale_and_upgrade(bed, tmp_path)
        kubectl(
            bed,
            "patch",
            "clusters.anywhere.eks.amazonaws.com",
            "prod",
            "--type=json",
            '--patch=[{"op": "remove", "path": "/spec/workerNodeGroupConfigurations/0/autoscalingConfiguration"}]',
        )
        play(bed, rendered(None, 1, V2), "eks-a-controller")
        wait_size(bed, MD, 1)
        left = bed.api.get(MD)["metadata"]["annotations"]
        assert not {MIN, MAX} & left.keys(), left
        api.wait_for("workers are ready", lambda: workers_ready(bed).get("status"), lambda seen: seen == "True")
    page.run("kubectl delete")
    assert page.is_done
    assert bed.api.get(DEFINITION)["spec"] == definition
    assert bed.api.get(CLUSTER)
    assert bed.api.get(MD)


DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusters.anywhere.eks.amazonaws.com"


def _definition(path: str) -> Object:
    found: Object = yaml.safe_load((UPSTREAM / path).read_text())
    return found


def _scale_and_upgrade(bed: Bed, tmp_path: Path) -> None:
    """From 1 to 10, an upgrade of the full group, and to 2; what is said of the workers meanwhile is true."""
    reasons, sizes = tmp_path / "reasons", tmp_path / "sizes"
    condition = '.status.conditions[?(@.type=="WorkersReady")]'
    (container,) = bed.api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/windlass-autoscaler")["spec"][
        "template"
    ]["spec"]["containers"]
    (discovery,) = [word for word in container["args"] if "discovery" in word]
    with contextlib.ExitStack() as stack:
        what = f'{{{condition}.reason}}{{" "}}{{{condition}.message}}'
        stack.enter_context(
            watching(bed, ("clusters.anywhere.eks.amazonaws.com", "prod"), what, reasons),
        )
        stack.enter_context(watching(bed, ("machinedeployments", "prod-md-0", "-n", EKS), "{.spec.replicas}", sizes))
        stack.enter_context(autoscaling(bed, tmp_path, discovery))
        need(bed, "md-0", 10)
        wait_size(bed, MD, 10)
        play(bed, rendered((1, 10), None, V2), "eks-a-controller")
        wait_size(bed, MD, 10)
        need(bed, "md-0", 2)
        wait_size(bed, MD, 2)
        api.wait_for("all is told", lambda: workers_ready(bed).get("status"), lambda seen: seen == "True")
    told = {line.partition(" ")[0] for line in reasons.read_text().splitlines()[:-1]}
    assert "RollingUpgradeInProgress" in told, told
    assert told <= {"", "OutdatedInformation", "RollingUpgradeInProgress"}, reasons.read_text()
    seen = [int(line) for line in sizes.read_text().splitlines() if line]
    top = seen.index(10)
    assert seen[:top] == sorted(seen[:top]), seen
    assert seen[top:] == sorted(seen[top:], reverse=True), seen


# Lattice

LATTICE = "/apis/lattice.dev/v1alpha1/latticeclusters/prod"
POOL = deployment("capi-prod", "prod-pool-general")


def rendered_pool(limits: tuple[int, int] | None, cluster: str = "prod") -> Object:
    """What Lattice's operator applies for the pool, upon the bed's infrastructure."""
    documents = yaml.safe_load_all((UPSTREAM / "lattice/machinedeployments/autoscaled-aws.yaml").read_text())
    body: Object = next(item for item in documents if item["metadata"]["name"].endswith("-general"))
    body = yaml.safe_load(yaml.safe_dump(body).replace("autoscaled-aws", cluster))
    annotations = body["metadata"]["annotations"] = {LABELS: "pool=general"}
    if limits is not None:
        annotations |= {MIN: str(limits[0]), MAX: str(limits[1])}
    machine: Object = body["spec"]["template"]["spec"]
    machine["bootstrap"] = {"dataSecretName": f"{cluster}-bootstrap"}
    machine["infrastructureRef"] |= {"kind": "FakeMachineTemplate", "name": f"{cluster}-pool-general"}
    machine["version"] = KUBELET
    return body


def _undiscovered(bed: Bed) -> str:
    """What is told of pools that no autoscaler looks at."""
    found = bed.api.items("/api/v1/events", fieldSelector="reason=PoolsNotDiscovered")
    return "; ".join(f"{event['involvedObject']['name']}: {event['message']}" for event in found)


def _image(bed: Bed) -> str:
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/windlass-operator"
    (container,) = bed.api.get(path)["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


def test_lattices_clusters_are_adopted_and_scaled(bed: Bed, tmp_path: Path) -> None:
    page = Page(bed, "lattice.md", tmp_path)
    for name in ("capi-prod", "capi-child", "lattice-system"):
        bed.api.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    openshift.define(bed.api, _definition("lattice/lattice.dev_latticeclusters.described.yaml"))
    clusterapi.add_cluster(bed.api, bed.kubeconfig, "prod", "capi-prod")
    node: Object = {**NODE, "labels": {"pool": "general"}}
    bed.api.add(objects.machine_deployment("prod-pool-general", 0, cluster="prod", namespace="capi-prod", node=node)[0])
    cluster = _definition("lattice/valid/autoscaled-aws.yaml")
    cluster["metadata"]["name"] = "prod"
    pools = cluster["spec"]["nodes"]["workerPools"]
    pools.pop("static")
    limits = {name: pools["general"].pop(name) for name in ("min", "max")}
    kubectl(bed, "create", "--filename=-", text=yaml.safe_dump(cluster))
    bed.api.merge(f"{LATTICE}/status", {"status": {"pivotComplete": True, "phase": "Ready"}})
    play(bed, rendered_pool(None), "lattice-capi-client")
    bed.api.merge(POOL, {"spec": {"replicas": 1}})
    wait_size(bed, POOL, 1)
    page.run("pivotComplete")
    page.run("delete deployment")
    page.run("kubectl apply")
    before, about = bed.api.get(POOL), bed.api.get(LATTICE)
    child = _definition("lattice/valid/autoscaled-aws.yaml")
    child["metadata"]["name"] = "child"
    kubectl(bed, "create", "--filename=-", text=yaml.safe_dump(child))
    play(bed, rendered_pool((1, 10), "child"), "lattice-capi-client")
    with operating(bed, tmp_path):
        words = api.wait_for("a cluster that is not its own says so", lambda: _undiscovered(bed), within_s=WITHIN_S)
        assert "before the cluster manages itself (status.pivotComplete)" in words
        page.run("kubectl patch")
        api.wait_for(
            "limits", lambda: bed.api.get(POOL)["metadata"]["annotations"].get(MAX), lambda at: at == str(limits["max"])
        )
        path = "/apis/apps/v1/namespaces/lattice-system/deployments/cluster-autoscaler"
        assert _undiscovered(bed) == words, "it is told of once, and of the other cluster nothing"
        made = api.wait_for("the autoscaler is deployed", lambda: bed.api.find(path), within_s=WITHIN_S)
        assert made is not None
        play(bed, rendered_pool((limits["min"], limits["max"])), "lattice-capi-client")
        (container,) = made["spec"]["template"]["spec"]["containers"]
        (discovery,) = [word for word in container["command"] if "discovery" in word]
        assert discovery.endswith("namespace=capi-prod")
        assert container["image"] == _image(bed), "what kustomize says of the operator's image"
        with autoscaling(bed, tmp_path, discovery):
            for size in (10, 2):
                need(bed, "general", size)
                wait_size(bed, POOL, size)
                play(bed, rendered_pool((limits["min"], limits["max"])), "lattice-capi-client")
        wait_size(bed, POOL, 2)
        after = foreign_fields(bed.api.get(POOL))
        assert after["spec"]["template"] == before["spec"]["template"]
        assert bed.api.get(LATTICE)["status"] == about["status"]
    page.run("kubectl delete")
    assert page.is_done
    assert bed.api.get(LATTICE)
    assert bed.api.get("/api/v1/namespaces/lattice-system")["status"]["phase"] == "Active"
