"""Installing end to end: a real API server accepts what the chart and the overlays say, and what they run scales.

No kubelet runs containers here, so one is played (`kubelet`): it runs exactly what the pod of the chart's Deployment
says.
"""

import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from testbed import cache, clusterapi, components, fixtures, modules, objects, openshift, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.e2e import kubelet
from tests.e2e.node_groups import add_deployment
from tests.e2e.polling import wait_for
from tests.install import rendered_manifests
from tests.install.rendered_manifests import NAMESPACE, OPENSHIFT, OVERLAYS, VALUES

PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
DEFINITIONS = "example/prometheus-operator-crd"
SIZE = {"cpu": "4", "memory": "16Gi", "pods": "110"}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A cluster that nobody has installed anything in, and that knows the Prometheus operator's kinds."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.shared(tmp_path_factory.mktemp("install"), Choice(scheduler=True, kwok=True, capi=True)) as found:
        try:
            for kind in ("servicemonitors", "prometheusrules"):
                path = modules.download(PROMETHEUS_OPERATOR) / DEFINITIONS / f"monitoring.coreos.com_{kind}.yaml"
                openshift.define(found.api, yaml.safe_load(path.read_text()))
        except modules.Missing as missing:
            pytest.skip(f"NOT JUDGED: the Prometheus operator's definitions cannot be had: {missing}")
        restricted = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
        for name in (NAMESPACE, "eksa-system", "lattice-system", *OPENSHIFT):
            metadata = {"name": name, "labels": restricted}
            found.api.add({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        clusterapi.add_cluster(found.api, found.kubeconfig)
        yield found


def apply(bed: Bed, text: str, *options: str) -> str:
    """What kubectl says; a field that nobody knows fails it, and so does a warning."""
    command = [cache.binary(components.KUBECTL), "--kubeconfig", str(bed.kubeconfig), "apply", "--server-side"]
    words = [*command, "--validate=strict", "--warnings-as-errors", "--filename=-", *options]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


CHOSEN = ("everything for the autoscaler", "what users of other charts set", "EKS Anywhere", "Lattice", "OpenShift")


@pytest.mark.parametrize("choice", CHOSEN)
def test_the_server_accepts_what_the_chart_says(bed: Bed, choice: str) -> None:
    accepted = apply(bed, rendered_manifests.render(VALUES[choice]), "--dry-run=server")
    assert "deployment.apps/" in accepted


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_server_accepts_what_an_overlay_says(bed: Bed, name: str) -> None:
    accepted = apply(bed, rendered_manifests.overlay(f"overlays/{name}"), "--dry-run=server", "--force-conflicts")
    assert "deployment.apps/" in accepted


FLAGS = {
    "address": "127.0.0.1:0",
    "dashboard-address": "",
    "scan-interval": "2s",
    "scale-down-unneeded-time": "4s",
    "scale-down-delay-after-add": "0s",
    "node-delete-delay-after-taint": "1s",
    "v": "4",
}
"""Without these times, which are minutes if nobody says, the test would wait for long; ports are the machine's here."""
BOUNDS = {
    f"cluster.x-k8s.io/cluster-api-autoscaler-node-group-{end}-size": size for end, size in (("min", "1"), ("max", "5"))
}


@pytest.fixture
def pod(bed: Bed) -> Object:
    """`helm template | kubectl apply`, and the pod that comes of it."""
    apply(bed, rendered_manifests.render(tuple(f"autoscaler.flags.{name}={value}" for name, value in FLAGS.items())))
    pods = functools.partial(bed.api.items, f"/api/v1/namespaces/{NAMESPACE}/pods")
    found = wait_for("its pod runs", pods, lambda now: [item["status"]["phase"] for item in now] == ["Running"])
    return found[0]


def add_group(bed: Bed, name: str) -> str:
    """A group of one node, which may have five."""
    for body in objects.machine_deployment(name, 1, node={"capacity": SIZE}, annotations=BOUNDS):
        bed.api.add(body)
    return f"/apis/{objects.CLUSTER_API}/namespaces/default/machinedeployments/{name}"


@pytest.mark.parametrize(
    ("run", "name"),
    [
        pytest.param(kubelet.running, "tree", id="the working tree"),
        pytest.param(kubelet.running_image, "image", id="the image"),
    ],
)
def test_what_the_chart_runs_scales_a_deployment_up_and_down(
    bed: Bed, pod: Object, tmp_path: Path, run: kubelet.Running, name: str
) -> None:
    group, web = add_group(bed, name), add_deployment(bed, name)

    def available() -> int:
        return int(bed.api.get(web).get("status", {}).get("availableReplicas", 0))

    def size() -> int:
        return int(bed.api.get(group)["spec"]["replicas"])

    def nodes() -> int:
        return len(bed.api.items("/api/v1/nodes", labelSelector=f"node.cluster.x-k8s.io/group={name}"))

    with run(bed, pod, tmp_path) as log:
        wait_for("three replicas, each on a node of its own", available, lambda now: now == 3)
        assert size() == 3
        wait_for("Cluster API labels all three nodes", nodes, lambda now: now == 3)
        bed.api.merge(web, {"spec": {"replicas": 1}})
        wait_for("one node is left", nodes, lambda now: now == 1)
        assert size() == 1
        wait_for("the replica that is left runs", available, lambda now: now == 1)
        lease = bed.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/cluster-autoscaler")
        assert lease["spec"]["holderIdentity"]
        status = f"/api/v1/namespaces/{NAMESPACE}/configmaps/cluster-autoscaler-status"
        wait_for("it says how it is", lambda: bed.api.find(status), lambda now: "Healthy" in str(now))
    assert "forbidden" not in log.read_text()
    assert "Traceback" not in log.read_text()


NAMESPACED = {
    "rbac": {"clusterScoped": False},
    "fullnameOverride": "scoped",
    "autoscaler": {
        "flags": FLAGS,
        "discovery": ["clusterapi:namespace=default"],
        "kubeconfigs": {"workload": {"secret": "work-kubeconfig"}},
    },
}


def test_rights_in_the_namespace_of_the_groups_suffice(bed: Bed, tmp_path: Path) -> None:
    """Management and workload cluster are one here, read as two: as the pod's account, and with a kubeconfig."""
    made = rendered_manifests.render_values(NAMESPACED, "--skip-tests")
    apply(bed, made.stdout)
    roles = [body for body in rendered_manifests.read(made.stdout) if "Role" in body["kind"]]
    assert {(body["kind"], body["metadata"]["namespace"]) for body in roles} == {
        ("Role", "default"),
        ("RoleBinding", "default"),
    }
    (deployment,) = rendered_manifests.of_kind(rendered_manifests.read(made.stdout), "Deployment")
    pod = deployment["spec"]["template"] | {"metadata": {"namespace": NAMESPACE, "name": "scoped"}}
    (container,) = pod["spec"]["containers"]
    mounted = "--kubeconfig=/etc/windlass/workload/value"
    assert mounted in container["args"]
    container["args"] = [word.replace(mounted, f"--kubeconfig={bed.kubeconfig}") for word in container["args"]]
    for body in objects.machine_deployment("scoped", 1, node={"capacity": SIZE}, annotations=BOUNDS):
        bed.api.add(body)
    main = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    spec = {"containers": [main], "nodeSelector": {"node.cluster.x-k8s.io/group": "scoped"}}
    template = {"metadata": {"labels": {"app": "scoped"}}, "spec": spec}
    body = {"replicas": 2, "selector": {"matchLabels": {"app": "scoped"}}, "template": template}
    bed.api.add(objects.made("apps/v1", "Deployment", "scoped", "default", body))
    group = f"/apis/{objects.CLUSTER_API}/namespaces/default/machinedeployments/scoped"

    def size() -> int:
        return int(bed.api.get(group)["spec"]["replicas"])

    with kubelet.running(bed, pod, tmp_path) as log:
        wait_for("a node for each replica", size, lambda now: now == 2)
    assert "forbidden" not in log.read_text()
    assert "Traceback" not in log.read_text()


def test_a_release_is_installed_upgraded_rolled_back_and_removed(bed: Bed) -> None:
    """As docs/upgrade.md and docs/uninstall.md say, on a real API server."""

    def run(*words: str) -> None:
        done = rendered_manifests.helm(*words, "--namespace", NAMESPACE, "--kubeconfig", str(bed.kubeconfig))
        assert done.returncode == 0, done.stderr

    def replicas() -> int:
        deployments = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
        return int(bed.api.get(f"{deployments}/release-windlass-autoscaler")["spec"]["replicas"])

    def owned() -> list[str]:
        kinds = (
            "deployments,services,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,networkpolicies"
        )
        labelled = ("-l", "app.kubernetes.io/instance=release", "-o", "name")
        return bed.kubectl("get", kinds, "-n", NAMESPACE, *labelled).split()

    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capacityquotas.autoscaling.x-k8s.io"
    chart = str(rendered_manifests.CHART)
    run("install", "release", chart, "--set", "autoscaler.capacityQuotas=true")
    assert replicas() == 1
    assert bed.api.find(definition) is not None
    run("upgrade", "release", chart, "--reuse-values", "--set", "autoscaler.replicas=2")
    assert replicas() == 2
    run("rollback", "release")
    assert replicas() == 1
    assert len(owned()) > 6
    run("uninstall", "release")
    assert owned() == []
    assert bed.api.find(definition) is not None, "with all objects of its kind"
