"""OpenShift's autoscaler operator on the real control plane: either controller as a process, with its own rights and no
others, under OpenShift's own definitions and the admission policies.
"""

import base64
import contextlib
import copy
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
import yaml

from testbed import api, fixtures, openshift, parts, ports, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.controllers.machine_pool.world import definition
from tests.e2e.gateway import Call, Gateway
from windlass.controllers.openshift import names
from windlass.controllers.openshift.apis import CLUSTER_API, MACHINE_API, Api
from windlass.kube import conditions, managed_fields

DEPLOY = Path(__file__).parents[2] / "deploy"
NS = MACHINE_API.namespace
GATE = "ClusterAPIMachineManagementAWS"
CONFIG = "/apis/config.openshift.io/v1"
AUTOSCALERS = f"/apis/autoscaling.openshift.io/v1beta1/namespaces/{NS}/machineautoscalers"
CLUSTER_AUTOSCALER = "/apis/autoscaling.openshift.io/v1/clusterautoscalers/default"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NS}/deployments/cluster-autoscaler-default"
READY = ("True", "MachineAutoscalerReady", "MachineAutoscaler ready for autoscaling")
WITHIN_S = 30.0


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A control plane with OpenShift's definitions, its configuration, rights and policies."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.shared(tmp_path_factory.mktemp("openshift-operator"), Choice(capi=True)) as found:
        try:
            openshift.install(found.api)
            for body in openshift.config_definitions():
                openshift.define(found.api, body)
        except openshift.Missing as missing:
            pytest.skip(f"NOT JUDGED: OpenShift's definitions cannot be had: {missing}")
        for kind in ("ServiceMonitor", "PrometheusRule"):
            openshift.define(found.api, definition("monitoring.coreos.com", kind, "v1"))
        for path in sorted((DEPLOY / "crds").glob("autoscaling.openshift.io_*.yaml")):
            openshift.define(found.api, yaml.safe_load(path.read_text()))
        for name in ("machine-autoscaler", "cluster-autoscaler-operator", "cluster-autoscaler"):
            openshift.add_all(found.api, DEPLOY / "rbac" / f"{name}.yaml")
        for path in sorted((DEPLOY / "policies").glob("*.yaml")):
            openshift.add_all(found.api, path)
        _configure(found)
        yield found


def _configure(bed: Bed) -> None:
    infrastructure = {"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"}}
    bed.api.add({**infrastructure, "spec": {"platformSpec": {"type": "AWS"}}})
    platform = {"platform": "AWS", "platformStatus": {"type": "AWS"}, "infrastructureName": "work"}
    topology = {"controlPlaneTopology": "HighlyAvailable", "infrastructureTopology": "HighlyAvailable"}
    addresses = {"apiServerURL": "", "apiServerInternalURI": "", "etcdDiscoveryDomain": ""}
    bed.api.merge(f"{CONFIG}/infrastructures/cluster/status", {"status": {**platform, **topology, **addresses}})
    gates = {"apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"}, "spec": {}}
    bed.api.add(gates)
    turn(bed, on=True)
    machine_api = {
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterOperator",
        "metadata": {"name": "machine-api"},
    }
    bed.api.add({**machine_api, "spec": {}})
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    said = [{"type": "Available", "status": "True", **since}, {"type": "Degraded", "status": "False", **since}]
    bed.api.merge(f"{CONFIG}/clusteroperators/machine-api/status", {"status": {"conditions": said}})


def turn(bed: Bed, *, on: bool) -> None:
    enabled = [{"name": GATE}] if on else []
    listed = [{"version": "4.21.0", "enabled": enabled, "disabled": []}]
    bed.api.merge(f"{CONFIG}/featuregates/cluster/status", {"status": {"featureGates": listed}})


@contextlib.contextmanager
def operating(bed: Bed, directory: Path, name: str, account: str, *flags: str) -> Iterator[Gateway]:
    """A controller as a process, as its ServiceAccount; and what it asks for."""
    with Gateway(bed.site.server, str(bed.site.files.ca)) as gateway:
        token = openshift.token(bed.api, NS, account)
        url = f"http://127.0.0.1:{gateway.port}"
        kubeconfig = openshift.write_kubeconfig(directory / "kubeconfig", bed.kubeconfig, token, url)
        command = [sys.executable, "-m", "windlass.cli", "operator", "--controllers", name, "--metrics-address", ""]
        command += ["--kubeconfig", str(kubeconfig), "--leader-elect-namespace", NS, "--leader-elect-name", account]
        command += flags
        log = directory / "log"
        with log.open("w") as lines:
            process = subprocess.Popen(command, stderr=lines, env={**os.environ, **parts.IMPORTABLE})
        try:
            yield gateway
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(30)
        print(log.read_text()[-4000:])
        assert code == 0
        assert "Traceback" not in log.read_text()
        assert [call for call in gateway.calls if call.status in (401, 403)] == [], "it lacks a right"


@pytest.fixture(scope="module")
def autoscalers(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    directory = tmp_path_factory.mktemp("machine-autoscaler")
    with operating(bed, directory, "machine_autoscaler", "machine-autoscaler") as gateway:
        yield gateway


def place(of: Api, name: str = "") -> str:
    return f"/apis/{of.group}/{of.versions[0]}/namespaces/{of.namespace}/machinesets{f'/{name}' if name else ''}"


def add_set(bed: Bed, of: Api, name: str, authority: str = "", **annotations: str) -> None:
    labels = {"set": name}
    metadata: Object = {"name": name, "namespace": of.namespace, "annotations": annotations}
    spec: Object = {"replicas": 0, "selector": {"matchLabels": labels}}
    if of is MACHINE_API:
        spec["authoritativeAPI"] = authority or "MachineAPI"
        spec["template"] = {"metadata": {"labels": labels}, "spec": {}}
    else:
        reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "FakeMachineTemplate", "name": "t"}
        machine = {"clusterName": "work", "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": reference}
        spec |= {"clusterName": "work", "template": {"metadata": {"labels": labels}, "spec": machine}}
    body = {"apiVersion": f"{of.group}/{of.versions[0]}", "kind": "MachineSet", "metadata": metadata, "spec": spec}
    bed.api.add(body)
    if authority:
        say(bed, name, authority)


def say(bed: Bed, name: str, authority: str) -> None:
    bed.api.merge(f"{place(MACHINE_API, name)}/status", {"status": {"authoritativeAPI": authority}})


def add_pair(bed: Bed, name: str, authority: str) -> None:
    """A mirror is paused."""
    add_set(bed, MACHINE_API, name, authority)
    add_set(bed, CLUSTER_API, name, **{names.PAUSED_ANNOTATION: ""})


def autoscale(bed: Bed, name: str, target: str, api_version: str, most: int = 12) -> None:
    reference = {"apiVersion": api_version, "kind": "MachineSet", "name": target}
    spec = {"minReplicas": 1, "maxReplicas": most, "scaleTargetRef": reference}
    if bed.api.find(f"{AUTOSCALERS}/{name}") is not None:
        bed.api.merge(f"{AUTOSCALERS}/{name}", {"spec": spec})
        return
    body = {"apiVersion": "autoscaling.openshift.io/v1beta1", "kind": "MachineAutoscaler", "spec": spec}
    bed.api.add({**body, "metadata": {"name": name, "namespace": NS}})


def ready(bed: Bed, name: str) -> tuple[str, str, str]:
    found = (bed.api.get(f"{AUTOSCALERS}/{name}").get("status") or {}).get("conditions")
    said = conditions.find(found, "Ready") or {}
    return said.get("status", ""), said.get("reason", ""), said.get("message", "")


def wait_ready(bed: Bed, name: str, reason: str) -> tuple[str, str, str]:
    return api.wait_for(f"{name} {reason}", lambda: ready(bed, name), lambda said: said[1] == reason, WITHIN_S)


def bounds(bed: Bed, of: Api, name: str) -> dict[str, str]:
    annotations = bed.api.get(place(of, name))["metadata"].get("annotations") or {}
    keys = (
        names.OWNER_ANNOTATION,
        *(key for each in (MACHINE_API, CLUSTER_API) for key in (each.min_size, each.max_size)),
    )
    return {key: annotations[key] for key in keys if key in annotations}


def wanted(of: Api, owner: str, most: int = 12) -> dict[str, str]:
    return {names.OWNER_ANNOTATION: f"{NS}/{owner}", of.min_size: "1", of.max_size: str(most)}


def wait_bounds(bed: Bed, of: Api, name: str, expected: dict[str, str]) -> None:
    api.wait_for(f"bounds of {name}", lambda: bounds(bed, of, name), lambda found: found == expected, WITHIN_S)


def test_bounds_follow_authority_and_the_second_owner_waits_its_turn(bed: Bed, autoscalers: Gateway) -> None:
    add_pair(bed, "moving", "MachineAPI")
    autoscale(bed, "first", "moving", "cluster.x-k8s.io/v1beta1")
    assert wait_ready(bed, "first", "MachineAutoscalerReady") == READY
    assert bounds(bed, MACHINE_API, "moving") == wanted(MACHINE_API, "first")
    owners = managed_fields.owners(
        bed.api.get(place(MACHINE_API, "moving")), ("metadata", "annotations", MACHINE_API.min_size)
    )
    assert {owner.manager for owner in owners} == {names.OPERATOR_MANAGER}

    autoscale(bed, "second", "moving", "machine.openshift.io/v1beta1", most=5)
    told = "targetScaleRef has multiple MachineAutoscaler owners"
    reason = "MachineAutoscalerDuplicateTargetScaleRef"
    assert wait_ready(bed, "second", reason) == ("False", reason, told)

    say(bed, "moving", "Migrating")
    wait_ready(bed, "first", "MachineAutoscalerTargetMigrating")
    say(bed, "moving", "ClusterAPI")
    wait_bounds(bed, CLUSTER_API, "moving", wanted(CLUSTER_API, "first"))

    bed.api.delete(f"{AUTOSCALERS}/first")
    wait_bounds(bed, CLUSTER_API, "moving", wanted(CLUSTER_API, "second", 5))
    assert wait_ready(bed, "second", "MachineAutoscalerReady") == READY
    bed.api.delete(f"{AUTOSCALERS}/second")
    wait_bounds(bed, CLUSTER_API, "moving", {})


def test_gates_turn_cluster_api_targets_on_and_off_and_disturb_no_others(bed: Bed, autoscalers: Gateway) -> None:
    add_set(bed, MACHINE_API, "stays", "MachineAPI")
    add_set(bed, CLUSTER_API, "comes")
    autoscale(bed, "stays", "stays", "machine.openshift.io/v1beta1")
    autoscale(bed, "comes", "comes", "cluster.x-k8s.io/v1beta2")
    wait_ready(bed, "comes", "MachineAutoscalerReady")
    wait_ready(bed, "stays", "MachineAutoscalerReady")
    before = bed.api.get(place(MACHINE_API, "stays"))["metadata"]["resourceVersion"]
    turn(bed, on=False)
    try:
        message = wait_ready(bed, "comes", "MachineAutoscalerTargetInvalid")[2]
        assert message.startswith("unsupported MachineAutoscaler target: found cluster.x-k8s.io/v1beta2 MachineSet")
        calls = len(autoscalers.calls)
        bed.api.delete(f"{AUTOSCALERS}/comes")
        api.wait_for("it can be deleted", lambda: bed.api.find(f"{AUTOSCALERS}/comes") is None, within_s=WITHIN_S)
        later = autoscalers.calls[calls:]
        assert [call.path for call in later if "cluster.x-k8s.io" in call.path] == []
    finally:
        turn(bed, on=True)
    assert bed.api.get(place(MACHINE_API, "stays"))["metadata"]["resourceVersion"] == before
    assert ready(bed, "stays") == READY


def test_the_definition_refuses_bounds_that_cannot_be(bed: Bed) -> None:
    with pytest.raises(api.Refused, match="max replicas must be greater than or equal to min"):
        autoscale(bed, "bad", "any", "machine.openshift.io/v1beta1", most=0)


@pytest.fixture(scope="module")
def runner(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The controller of the ClusterAutoscaler, with its webhooks, which the server asks."""
    directory = tmp_path_factory.mktemp("cluster-autoscaler")
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    (directory / "tls.crt").write_bytes(made.cert_chain_pems[0].bytes())
    (directory / "tls.key").write_bytes(made.private_key_pem.bytes())
    port = ports.choose().capi_webhooks
    flags = ["--webhook-address", f"127.0.0.1:{port}", "--webhook-cert-dir", str(directory)]
    flags += ["--openshift-release-version", "4.21.0", "--openshift-autoscaler-image", "windlass:test"]
    with operating(bed, directory, "cluster_autoscaler", "cluster-autoscaler-operator", *flags) as gateway:
        body = yaml.safe_load((DEPLOY / "webhooks" / "autoscaling.openshift.io.yaml").read_text())
        bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        for hook in body["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
        bed.api.add(body)
        yield gateway


def put(bed: Bed, spec: Object) -> None:
    if bed.api.find(CLUSTER_AUTOSCALER) is not None:
        bed.api.merge(CLUSTER_AUTOSCALER, {"spec": spec})
        return
    metadata = {"name": "default"}
    body = {"apiVersion": "autoscaling.openshift.io/v1", "kind": "ClusterAutoscaler", "metadata": metadata}
    bed.api.add({**body, "spec": spec})


def operator_says(bed: Bed, kind: str) -> Object:
    found = bed.api.find(f"{CONFIG}/clusteroperators/cluster-autoscaler") or {}
    return dict(conditions.find((found.get("status") or {}).get("conditions"), kind) or {})


def refusal(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except api.Refused as refused:
        return str(refused)
    return ""


def test_a_cluster_autoscaler_is_run_and_a_quiet_system_writes_nothing(bed: Bed, runner: Gateway) -> None:
    api.wait_for(
        "all is well",
        lambda: operator_says(bed, "Available").get("message"),
        lambda said: said == "at version 4.21.0",
        WITHIN_S,
    )
    put(bed, {"resourceLimits": {"maxNodesTotal": 24}, "scaleDown": {"enabled": True, "unneededTime": "5m"}})
    made = api.wait_for("a Deployment", lambda: bed.api.find(DEPLOYMENT), within_s=WITHIN_S)
    assert made is not None
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert "--max-nodes-total=24" in container["args"]
    assert made["metadata"]["ownerReferences"][0]["kind"] == "ClusterAutoscaler"
    api.wait_for(
        "it is told",
        lambda: operator_says(bed, "Progressing").get("message"),
        lambda said: said == "updating to 4.21.0",
    )
    policies = f"/apis/networking.k8s.io/v1/namespaces/{NS}/networkpolicies"
    api.wait_for("policies", lambda: bed.api.items(policies), lambda found: len(found) == 5, WITHIN_S)

    settled = _settle(runner)
    before = bed.api.get(DEPLOYMENT)["metadata"]["resourceVersion"]
    bed.api.merge(DEPLOYMENT, {"metadata": {"labels": {"poked": "once"}}})
    bed.api.merge(f"{CONFIG}/clusteroperators/machine-api", {"metadata": {"labels": {"poked": "once"}}})
    put(bed, {"scaleUp": {"newPodScaleUpDelay": "10s"}})
    api.wait_for(
        "a change", lambda: bed.api.get(DEPLOYMENT), lambda now: "--new-pod-scale-up-delay=10s" in _arguments(now)
    )
    # The gateway writes a call down when it is answered, which is later than what it did can be seen.
    writes = api.wait_for(
        "the call that made it",
        lambda: _writes(runner)[settled:],
        lambda found: any(call.path == DEPLOYMENT for call in found),
    )
    kinds = {call.path.split("/")[-2] for call in writes if "/events" not in call.path}
    assert kinds <= {"deployments", "cluster-autoscaler"}, "what did not change is not written"
    assert sum(call.path == DEPLOYMENT for call in writes) == 1
    assert before != bed.api.get(DEPLOYMENT)["metadata"]["resourceVersion"]


def _writes(runner: Gateway) -> list[Call]:
    return [call for call in list(runner.calls) if call.method != "GET" and "/leases/" not in call.path]


def _settle(runner: Gateway) -> int:
    """Wait until nothing has been written for two seconds; how much was until then."""

    def look() -> tuple[int, int]:
        before = len(_writes(runner))
        time.sleep(2.0)
        return before, len(_writes(runner))

    return api.wait_for("quiet", look, lambda counts: counts[0] == counts[1], WITHIN_S)[1]


def _arguments(found: Object) -> list[str]:
    arguments: list[str] = found["spec"]["template"]["spec"]["containers"][0]["args"]
    return arguments


def test_the_server_asks_the_webhook_and_hands_on_what_it_says(bed: Bed, runner: Gateway) -> None:
    put(bed, {})
    bad = {"resourceLimits": {"cores": {"min": 8, "max": 2}}}
    told = "ResourceLimits.Cores: Max must be greater than or equal to Min"
    api.wait_for("the webhook is asked", lambda: refusal(lambda: put(bed, bad)), lambda text: told in text, WITHIN_S)
    other = copy.deepcopy(bed.api.get(CLUSTER_AUTOSCALER))
    other = {**{key: other[key] for key in ("apiVersion", "kind", "spec")}, "metadata": {"name": "mine"}}
    assert 'only \\"default\\" is allowed' in refusal(lambda: bed.api.add(other))
