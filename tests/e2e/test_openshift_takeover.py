"""windlass in the place of OpenShift's cluster-autoscaler-operator, as docs/run-on-openshift.md says, and back.

OpenShift's own manifests are installed before, on a server with Machine API's kinds alone. The cluster version operator
is played: it puts back what it manages. OpenShift's policies are tried on a server with both APIs' kinds.
"""

import base64
import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
import yaml

from testbed import fixtures, modules, objects, openshift, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.controllers.openshift import real_objects
from tests.e2e import autoscaler_process, openshift_cluster, operator_process
from tests.e2e.machine_set_writers import (
    ADMIN,
    AUTOSCALER,
    CLUSTER_API,
    EXEMPT,
    MACHINE_API,
    MIRRORS,
    SETS,
    USERS,
    cluster_api_definitions,
    put_definitions,
    refusal,
    scale,
    write,
)
from tests.e2e.polling import wait_for
from tests.testbed import pages
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machineset_sync import model as sync

pytestmark = real_objects.needed

OPERATOR = "cluster-autoscaler-operator"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{MACHINE_API}/deployments/{OPERATOR}"
AUTOSCALER_DEPLOYMENT = f"/apis/apps/v1/namespaces/{MACHINE_API}/deployments/cluster-autoscaler-default"
MACHINE_AUTOSCALERS = f"/apis/autoscaling.openshift.io/v1beta1/namespaces/{MACHINE_API}/machineautoscalers"
CONFIG = "/apis/config.openshift.io/v1"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/autoscaling.openshift.io"
RELEASE = "4.22.1"
IMAGE = "registry.example/windlass:0.1.0"
SET = "demo-4k7vx-worker-us-east-1a"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """OpenShift as it is by default, with its own operator installed by the cluster version operator."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.shared(tmp_path_factory.mktemp("takeover"), Choice()) as found:
        try:
            openshift.install(found.api, "Default")
            for body in openshift.config_definitions():
                openshift.define(found.api, body)
        except modules.Missing as missing:
            pytest.skip(f"NOT JUDGED: OpenShift's definitions cannot be had: {missing}")
        openshift_cluster.define_monitoring(found)
        _configure(found)
        manage(found)
        found.api.add(real_objects.read("autoscalers/clusterautoscaler-docs.yaml"))
        found.api.add(real_objects.read("machinesets/aws/worker.yaml"))
        target = real_objects.read("autoscalers/machineautoscaler-docs.yaml")
        target["spec"]["scaleTargetRef"]["name"] = SET
        found.api.add(target)
        yield found


def _configure(bed: Bed) -> None:
    """Gates, platform, version, and a Machine API that is well."""
    head = {"apiVersion": "config.openshift.io/v1"}
    for kind, name, spec in (
        ("ClusterOperator", "machine-api", {}),
        ("FeatureGate", "cluster", {}),
        ("Infrastructure", "cluster", {"platformSpec": {"type": "AWS"}}),
    ):
        bed.api.add({**head, "kind": kind, "metadata": {"name": name}, "spec": spec})
    openshift_cluster.add_version(bed, RELEASE)
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    well = [{"type": "Available", "status": "True", **since}, {"type": "Degraded", "status": "False", **since}]
    bed.api.merge(f"{CONFIG}/clusteroperators/machine-api/status", {"status": {"conditions": well}})
    (gates,) = real_objects.read("featuregates/SelfManagedHA-Default.json")["status"]["featureGates"]
    gates["version"] = RELEASE
    bed.api.merge(f"{CONFIG}/featuregates/cluster/status", {"status": {"featureGates": [gates]}})
    platform = real_objects.read("infrastructures/aws.yaml")["status"]
    bed.api.merge(f"{CONFIG}/infrastructures/cluster/status", {"status": platform})


def manage(bed: Bed) -> None:
    """What the cluster version operator does: everything of OpenShift's manifests is there, but for what it no longer
    manages."""
    version = bed.api.get(f"{CONFIG}/clusterversions/version")
    unmanaged = {(item["kind"], item["name"]) for item in version["spec"].get("overrides", []) if item["unmanaged"]}
    bodies = [
        body
        for path in sorted((real_objects.UPSTREAM / "install").glob("[0-9]*.yaml"))
        for body in real_objects.read_all(f"install/{path.name}")
        if (body["kind"], body["metadata"]["name"]) not in unmanaged
    ]
    for body in bodies:
        if body["kind"] == "ClusterOperator":
            body.pop("status")
            body["spec"] = {}
    forced = ("--server-side", "--force-conflicts", "--field-manager=cluster-version-operator")
    definitions = [body for body in bodies if body["kind"] == "CustomResourceDefinition"]
    if definitions:
        bed.kubectl("apply", *forced, "-f-", stdin=yaml.safe_dump_all(definitions))
    bed.kubectl("apply", *forced, "-f-", stdin=yaml.safe_dump_all(bodies))
    openshift.wait_served(bed.api, MACHINE_AUTOSCALERS)


def containers(bed: Bed, path: str = DEPLOYMENT) -> list[Object]:
    found: list[Object] = bed.api.get(path)["spec"]["template"]["spec"]["containers"]
    return found


def is_clean(deployment: Object, service: Object) -> bool:
    """Whether nothing of two operators is mixed: one container, each port and each name once."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = container["ports"]
    mounts = [item["mountPath"] for item in container["volumeMounts"]]
    volumes = [item["name"] for item in deployment["spec"]["template"]["spec"]["volumes"]]
    names = [item.get("name", "") for item in ports]
    offered = [item["name"] for item in service["spec"]["ports"]]
    return all(
        len(set(items)) == len(items)
        for items in (names, [item["containerPort"] for item in ports], mounts, volumes, offered)
    )


def serve_webhooks(bed: Bed, directory: Path, port: int) -> None:
    """As OpenShift's service CA and the Service do."""
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    (directory / "tls.crt").write_bytes(made.cert_chain_pems[0].bytes())
    (directory / "tls.key").write_bytes(made.private_key_pem.bytes())
    webhooks = bed.api.get(WEBHOOKS)["webhooks"]
    for webhook in webhooks:
        url = f"https://127.0.0.1:{port}{webhook['clientConfig']['service']['path']}"
        webhook["clientConfig"] = {"url": url, "caBundle": base64.b64encode(authority.cert_pem.bytes()).decode()}
    bed.api.merge(WEBHOOKS, {"webhooks": webhooks})


def words(container: Object, directory: Path, port: int) -> list[str]:
    """What the pod's container is run with, where the test bed allows it."""
    tls = "/etc/cluster-autoscaler-operator/tls"
    here = {
        "--webhook-address=:8443": f"--webhook-address=127.0.0.1:{port}",
        f"--webhook-cert-dir={tls}": f"--webhook-cert-dir={directory}",
    }
    assert {*here, "--metrics-address=:9192", f"--metrics-cert-dir={tls}"} <= set(container["args"])
    found = [here.get(word, word) for word in container["args"]]
    return [word for word in found if not word.startswith(("--metrics", "--controllers"))]


def ready(bed: Bed) -> object:
    (found,) = bed.api.items(MACHINE_AUTOSCALERS)
    return [item["status"] for item in found.get("status", {}).get("conditions", [])]


def check_writes(bed: Bed) -> None:
    """Whoever OpenShift lets through is let through; administrators are."""
    for user in USERS:
        assert list(write(bed, user)) == []


def wait_policies(bed: Bed) -> None:
    """Until they count: one of them refuses the autoscaler a size that is there already."""
    sizes = itertools.cycle((1, 2))

    def attempt() -> str:
        size = next(sizes)
        scale(bed, AUTOSCALER, SET, size)
        return scale(bed, AUTOSCALER, SET, size)

    wait_for("policies count", attempt)


def test_the_page_takes_over_and_gives_back_and_nothing_is_locked(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = pages.read("run-on-openshift.md")
    with pages.shell(bed, tmp_path, helm=False) as run:
        # 1. Overrides
        assert RELEASE in run(*page.take(1))
        run(*page.take(2))
        # 2. OpenShift's operator ends
        run(*page.take(1))
        manage(bed)
        assert bed.api.find(DEPLOYMENT) is None, "the cluster version operator does not put it back"
        # 3. windlass is installed
        run(*page.take(4))
        manage(bed)
        (container,) = containers(bed)
        assert container["image"] == IMAGE
        wait_policies(bed)
        check_writes(bed)
        # 4. OpenShift's policies are not there: nor are the kinds that they are about
        run(*page.take(1))
        # 5. What is to be seen
        image, events, version, autoscalers = page.take(4)
        operate(bed, tmp_path, container, monkeypatch, lambda: run(events))
        assert run(image) == f"{IMAGE}\n"
        assert RELEASE in run(version)
        assert "worker-us-east-1a" in run(autoscalers)
        # Back; the sync has been at work meanwhile
        bed.api.merge(f"{SETS}/{SET}", {"metadata": {"finalizers": ["example.test/other", sync.FINALIZER]}})
        run(*page.take(9))
        manage(bed)
    assert page.left == []
    (container,) = containers(bed)
    assert container["command"] == [OPERATOR]
    assert container["image"] != IMAGE
    assert_nothing_is_left(bed)
    found = bed.api.get(f"{SETS}/{SET}")["metadata"]
    assert found["annotations"][machine_apis.MACHINE_API.max_size] == "12"
    assert found["finalizers"] == ["example.test/other"], "nobody would take ours off"
    check_writes(bed)


def operate(
    bed: Bed, directory: Path, container: Object, monkeypatch: pytest.MonkeyPatch, events: Callable[[], str]
) -> None:
    """Run what the container runs, as its ServiceAccount.

    It takes over the ClusterAutoscaler and its MachineAutoscaler; the autoscaler has the image of its own pod.
    """
    port = autoscaler_process.free_port()
    serve_webhooks(bed, directory, port)
    # Its pod, as Deployment and ReplicaSet controllers make it.
    template = bed.api.get(DEPLOYMENT)["spec"]["template"]
    metadata = {**template["metadata"], "name": f"{OPERATOR}-76d8fccc8-wh9q5", "namespace": MACHINE_API}
    bed.api.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    monkeypatch.setenv("POD_NAME", metadata["name"])
    monkeypatch.setenv("POD_NAMESPACE", MACHINE_API)
    controllers = next(word.partition("=")[2] for word in container["args"] if word.startswith("--controllers"))
    flags = words(container, directory, port)
    with operator_process.operating(bed, directory, controllers, MACHINE_API, OPERATOR, *flags):
        wait_for("the MachineAutoscaler is ready", functools.partial(ready, bed), lambda said: said == ["True"])
        made = wait_for("the autoscaler", lambda: bed.api.find(AUTOSCALER_DEPLOYMENT))
        assert made is not None
        assert [item["image"] for item in made["spec"]["template"]["spec"]["containers"]] == [IMAGE]
        generation = made["metadata"]["generation"]
        counts = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
        bed.api.merge(f"{AUTOSCALER_DEPLOYMENT}/status", {"status": {**counts, "observedGeneration": generation}})
        bounds = {"spec": {"minReplicas": 5, "maxReplicas": 2}}
        told = refusal(bed.api, "PATCH", f"{MACHINE_AUTOSCALERS}/worker-us-east-1a", bounds)
        assert "greater than or equal to min" in told
        wait_for(
            "the version is reported",
            lambda: bed.api.get(f"{CONFIG}/clusteroperators/cluster-autoscaler").get("status", {}).get("versions"),
            lambda versions: versions == [{"name": "operator", "version": RELEASE}],
        )
        for controller in ("cluster_autoscaler", "machine_autoscaler"):
            wait_for("an event says so", events, lambda text: f"{controller} is ready" in text)  # noqa: B023
        related = bed.api.get(f"{CONFIG}/clusteroperators/cluster-autoscaler")["status"]["relatedObjects"]
        roles = {item["name"] for item in related if item["resource"] == "clusterroles"}
        there = {item["metadata"]["name"] for item in bed.api.items("/apis/rbac.authorization.k8s.io/v1/clusterroles")}
        assert roles <= there, "must-gather finds each of them"


def assert_nothing_is_left(bed: Bed) -> None:
    """Of windlass' own objects; what OpenShift has as well is there."""
    kinds = (
        "deployments,services,roles,rolebindings,networkpolicies,poddisruptionbudgets,servicemonitors,prometheusrules"
    )
    whole = "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
    names = bed.kubectl("get", f"{kinds},{whole}", "-A", "-l", "app.kubernetes.io/part-of=windlass", "-o", "name")
    kept = {"service/cluster-autoscaler-operator", "servicemonitor.monitoring.coreos.com/cluster-autoscaler-operator"}
    assert set(names.split()) <= kept
    service = bed.api.get(f"/api/v1/namespaces/{MACHINE_API}/services/{OPERATOR}")
    assert is_clean(bed.api.get(DEPLOYMENT), service)
    assert bed.api.find(f"{MACHINE_AUTOSCALERS}/worker-us-east-1a") is not None


def test_applied_over_openshifts_own_there_is_one_container(bed: Bed, tmp_path: Path) -> None:
    """Nobody stopped OpenShift's operator before: no second container runs beside it, and no port is there twice."""
    manage(bed)
    if bed.api.find(WEBHOOKS) is not None:  # another test has let it point to this machine
        bed.api.delete(WEBHOOKS)
    page = pages.read("run-on-openshift.md")
    with pages.shell(bed, tmp_path, helm=False) as run:
        run(*(command for command in page.left if "mkdir" in command or "kustomization.yaml" in command))
        run(*(command for command in page.left if command.startswith("kubectl apply --server-side")))
    service = bed.api.get(f"/api/v1/namespaces/{MACHINE_API}/services/{OPERATOR}")
    assert is_clean(bed.api.get(DEPLOYMENT), service)
    (container,) = containers(bed)
    assert (container["name"], container["image"]) == (OPERATOR, IMAGE)


# OpenShift's policies


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """OpenShift with its gates for Cluster API on: both APIs' kinds, OpenShift's policies, windlass' beside them."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.shared(tmp_path_factory.mktemp("gated"), Choice()) as found:
        try:
            openshift.install(found.api)
        except modules.Missing as missing:
            pytest.skip(f"NOT JUDGED: OpenShift's definitions cannot be had: {missing}")
        put_definitions(found, cluster_api_definitions("v1beta2", "v1beta1"))
        for body in openshift.config_definitions():
            openshift.define(found.api, body)
        for path in sorted((real_objects.UPSTREAM / "policies" / "default").glob("*.yaml")):
            bodies = [body for body in real_objects.read_all(f"policies/default/{path.name}") if "metadata" in body]
            if bodies:
                found.kubectl("apply", "-f-", stdin=yaml.safe_dump_all(bodies))
        found.kubectl("apply", "-f", str(openshift_cluster.DEPLOY / "policies"))
        yield found


def test_what_stands_in_the_way_of_scaling_is_removed_and_only_that(gated: Bed, tmp_path: Path) -> None:
    gated.api.add(objects.made("machine.openshift.io/v1beta1", "Machine", "twin", MACHINE_API, {}))
    twin = f"{SETS.removesuffix('machinesets')}machines/twin"
    gated.api.merge(f"{twin}/status", {"status": {"authoritativeAPI": "MachineAPI"}})
    _, mirror = objects.machine("twin", cluster="work", namespace=CLUSTER_API)
    del mirror["spec"]["version"]
    gated.api.acting_as(EXEMPT[1]).add(mirror)
    path = f"{MIRRORS.removesuffix('machinesets')}machines/twin"
    values = map(str, itertools.count())  # each another one: what changes nothing is never refused

    def mark(user: str) -> str:
        body = {"metadata": {"annotations": {machine_apis.CLUSTER_API.delete_machine: next(values)}}}
        return refusal(gated.api.acting_as(user), "PATCH", path, body)

    wait_for("OpenShift's denies the mark", lambda: mark(AUTOSCALER), lambda text: "'cluster-api-machine-vap'" in text)
    page = pages.read("run-on-openshift.md")
    with pages.shell(gated, tmp_path, helm=False) as run:
        run(*(command for command in page.left if "cluster-api-machine-vap" in command))
    wait_for("the mark is let through", lambda: mark(AUTOSCALER), lambda text: text == "")
    wait_for("others are denied by windlass'", lambda: mark(ADMIN), lambda text: "'cluster-api-machine-lock'" in text)
