"""OpenShift's autoscaler operator on the real control plane: either controller as a process, with its own rights and no
others, under OpenShift's own definitions and the admission policies.
"""

import base64
import contextlib
import copy
import functools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
import yaml

from testbed import api, fixtures, ports, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.controllers.openshift import real_objects
from tests.e2e import autoscaler_process, openshift_cluster
from tests.e2e.gateway import Call, Gateway
from tests.e2e.openshift_cluster import CONFIG, DEPLOY, turn
from tests.e2e.operator_process import operating
from tests.testbed.rbac import audit_log
from windlass.controllers import rbac
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API, MachineApi
from windlass.kube import unstructured

NS = MACHINE_API.namespace
AUTOSCALERS = f"/apis/autoscaling.openshift.io/v1beta1/namespaces/{NS}/machineautoscalers"
CLUSTER_AUTOSCALER = "/apis/autoscaling.openshift.io/v1/clusterautoscalers/default"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NS}/deployments/cluster-autoscaler-default"
READY = ("True", "MachineAutoscalerReady", "MachineAutoscaler ready for autoscaling")
WITHIN_S = 120.0


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A control plane with OpenShift's definitions, its configuration, rights and policies."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.shared(tmp_path_factory.mktemp("openshift-operator"), Choice(capi=True, audited=True)) as found:
        openshift_cluster.install(found, ("machine-autoscaler", "cluster-autoscaler-operator", "cluster-autoscaler"))
        openshift_cluster.enforce(found)
        _say_machine_api_is_well(found)
        yield found


def _say_machine_api_is_well(bed: Bed) -> None:
    machine_api = {
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterOperator",
        "metadata": {"name": "machine-api"},
    }
    bed.api.add({**machine_api, "spec": {}})
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    said = [{"type": "Available", "status": "True", **since}, {"type": "Degraded", "status": "False", **since}]
    bed.api.merge(f"{CONFIG}/clusteroperators/machine-api/status", {"status": {"conditions": said}})


def leading(lease: str) -> list[str]:
    """Of several processes one acts: there is a lease for that, and the right to it."""
    return ["--leader-elect-namespace", NS, "--leader-elect-name", lease]


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return autoscaler_process.free_port()


@pytest.fixture(scope="module")
def autoscalers(bed: Bed, tmp_path_factory: pytest.TempPathFactory, metrics_port: int) -> Iterator[Gateway]:
    directory = tmp_path_factory.mktemp("machine-autoscaler")
    account, address = "machine-autoscaler", f"127.0.0.1:{metrics_port}"
    flags = leading(account)
    with operating(bed, directory, "machine_autoscaler", NS, account, *flags, metrics_address=address) as gateway:
        yield gateway


def place(of: MachineApi, name: str = "") -> str:
    return f"/apis/{of.group}/{of.versions[0]}/namespaces/{of.namespace}/machinesets{f'/{name}' if name else ''}"


def add_set(bed: Bed, of: MachineApi, name: str, authority: str = "", **annotations: str) -> None:
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
        print_line(bed, name, authority)


def print_line(bed: Bed, name: str, authority: str) -> None:
    bed.api.merge(f"{place(MACHINE_API, name)}/status", {"status": {"authoritativeAPI": authority}})


def add_pair(bed: Bed, name: str, authority: str) -> None:
    """A mirror is paused."""
    add_set(bed, MACHINE_API, name, authority)
    add_set(bed, CLUSTER_API, name, **{machine_apis.PAUSED_ANNOTATION: ""})


def autoscale(
    bed: Bed, name: str, target: str, api_version: str, most: int = 12, *, least: int = 1, kind: str = "MachineSet"
) -> None:
    reference = {"apiVersion": api_version, "kind": kind, "name": target}
    spec = {"minReplicas": least, "maxReplicas": most, "scaleTargetRef": reference}
    if bed.api.find(f"{AUTOSCALERS}/{name}") is not None:
        bed.api.merge(f"{AUTOSCALERS}/{name}", {"spec": spec})
        return
    body = {"apiVersion": "autoscaling.openshift.io/v1beta1", "kind": "MachineAutoscaler", "spec": spec}
    bed.api.add({**body, "metadata": {"name": name, "namespace": NS}})


def ready(bed: Bed, name: str) -> tuple[str, str, str]:
    found = (bed.api.get(f"{AUTOSCALERS}/{name}").get("status") or {}).get("conditions")
    said = unstructured.find_condition(found, "Ready") or {}
    return said.get("status", ""), said.get("reason", ""), said.get("message", "")


def wait_ready(bed: Bed, name: str, reason: str) -> tuple[str, str, str]:
    return api.wait_for(f"{name} {reason}", lambda: ready(bed, name), lambda said: said[1] == reason, WITHIN_S)


def bounds(bed: Bed, of: MachineApi, name: str) -> dict[str, str]:
    annotations = bed.api.get(place(of, name))["metadata"].get("annotations") or {}
    keys = (
        machine_apis.OWNER_ANNOTATION,
        *(key for machine_api in (MACHINE_API, CLUSTER_API) for key in (machine_api.min_size, machine_api.max_size)),
    )
    return {key: annotations[key] for key in keys if key in annotations}


def wanted(of: MachineApi, owner: str, most: int = 12) -> dict[str, str]:
    return {machine_apis.OWNER_ANNOTATION: f"{NS}/{owner}", of.min_size: "1", of.max_size: str(most)}


def wait_bounds(bed: Bed, of: MachineApi, name: str, expected: dict[str, str]) -> None:
    api.wait_for(f"bounds of {name}", lambda: bounds(bed, of, name), lambda found: found == expected, WITHIN_S)


def test_bounds_follow_authority_and_the_second_owner_waits_its_turn(bed: Bed, autoscalers: Gateway) -> None:
    add_pair(bed, "moving", "MachineAPI")
    autoscale(bed, "first", "moving", "cluster.x-k8s.io/v1beta1")
    assert wait_ready(bed, "first", "MachineAutoscalerReady") == READY
    assert bounds(bed, MACHINE_API, "moving") == wanted(MACHINE_API, "first")
    owners = unstructured.find_field_owners(
        bed.api.get(place(MACHINE_API, "moving")), ("metadata", "annotations", MACHINE_API.min_size)
    )
    assert {owner.manager for owner in owners} == {machine_apis.OPERATOR_MANAGER}

    autoscale(bed, "second", "moving", "machine.openshift.io/v1beta1", most=5)
    told = "targetScaleRef has multiple MachineAutoscaler owners"
    reason = "MachineAutoscalerDuplicateTargetScaleRef"
    assert wait_ready(bed, "second", reason) == ("False", reason, told)

    print_line(bed, "moving", "Migrating")
    wait_ready(bed, "first", "MachineAutoscalerTargetMigrating")
    print_line(bed, "moving", "ClusterAPI")
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


@real_objects.needed
@pytest.mark.parametrize("platform", ["aws", "azure", "gcp", "openstack", "vsphere", "powervs"])
def test_the_gates_of_a_release_decide_by_platform_which_api_is_scaled(
    bed: Bed, autoscalers: Gateway, platform: str
) -> None:
    """Cluster API is on for all of these in the payload, and migration for two: nobody says who holds on the others."""
    (gates,) = real_objects.read("featuregates/SelfManagedHA-TechPreviewNoUpgrade.json")["status"]["featureGates"]
    before = bed.api.get(f"{CONFIG}/infrastructures/cluster")["status"]
    status = real_objects.read(f"infrastructures/{platform}.yaml")["status"]
    set_, undecided, alone = (f"{platform}-{what}" for what in ("set", "undecided", "alone"))
    for name, wanted_ in ((set_, "MachineAPI"), (undecided, "ClusterAPI")):
        add_set(bed, MACHINE_API, name)
        bed.api.merge(place(MACHINE_API, name), {"spec": {"authoritativeAPI": wanted_}})
    add_set(bed, CLUSTER_API, alone)
    try:
        names = {"platformStatus": {**dict.fromkeys(before["platformStatus"]), **status["platformStatus"]}}
        bed.api.merge(f"{CONFIG}/infrastructures/cluster/status", {"status": {"platform": status["platform"], **names}})
        listed = {"status": {"featureGates": [{**gates, "version": openshift_cluster.RELEASE}]}}
        bed.api.merge(f"{CONFIG}/featuregates/cluster/status", listed)
        for name in (set_, undecided):
            autoscale(bed, name, name, "machine.openshift.io/v1beta1")
        autoscale(bed, alone, alone, "cluster.x-k8s.io/v1beta2")
        is_migrated = platform in ("aws", "openstack")
        wait_ready(bed, set_, "MachineAutoscalerReady")
        wait_bounds(bed, MACHINE_API, set_, wanted(MACHINE_API, set_))
        reason = "MachineAutoscalerTargetMigrating" if is_migrated else "MachineAutoscalerReady"
        wait_ready(bed, undecided, reason)
        wait_ready(bed, alone, "MachineAutoscalerReady" if is_migrated else "MachineAutoscalerTargetInvalid")
        for name in (set_, undecided, alone):
            bed.api.delete(f"{AUTOSCALERS}/{name}")
            gone = functools.partial(bed.api.find, f"{AUTOSCALERS}/{name}")
            api.wait_for(f"{name} is deleted", gone, lambda there: there is None, WITHIN_S)
    finally:
        names = {"platformStatus": {**dict.fromkeys(status["platformStatus"]), **before["platformStatus"]}}
        bed.api.merge(f"{CONFIG}/infrastructures/cluster/status", {"status": {"platform": before["platform"], **names}})
        turn(bed, on=True)


@pytest.mark.parametrize(
    ("least", "most", "told"),
    [
        (5, 2, "max replicas must be greater than or equal to min"),
        (-1, 2, "spec.minReplicas in body should be greater than or equal to 0"),
        (0, 0, "spec.maxReplicas in body should be greater than or equal to 1"),
    ],
)
def test_the_definition_refuses_bounds_that_cannot_be(bed: Bed, least: int, most: int, told: str) -> None:
    with pytest.raises(api.Refused, match=told):
        autoscale(bed, "bad", "any", "machine.openshift.io/v1beta1", most, least=least)


def list_not_ready(port: int) -> dict[str, str]:
    """The reasons that the metric gives, by MachineAutoscaler."""
    series = re.compile(r'windlass_controller_object_not_ready{.*name="([^"]*)",.*reason="([^"]*)"}')
    matches = (series.fullmatch(line) for line, value in autoscaler_process.scrape(port).items() if value)
    return {match[1]: match[2] for match in matches if match}


def test_what_cannot_be_is_said_as_a_condition_an_event_and_a_metric_and_disturbs_no_others(
    bed: Bed, autoscalers: Gateway, metrics_port: int
) -> None:
    add_set(bed, MACHINE_API, "fine", "MachineAPI")
    autoscale(bed, "fine", "fine", "machine.openshift.io/v1beta1")
    wait_ready(bed, "fine", "MachineAutoscalerReady")
    before = bed.api.get(place(MACHINE_API, "fine"))["metadata"]["resourceVersion"]
    add_set(bed, MACHINE_API, "gpus", "MachineAPI", **{machine_apis.GPU_ANNOTATION: "many"})
    add_set(bed, CLUSTER_API, "memory", **{machine_apis.MEMORY_MB_ANNOTATION: "8Gi"})
    autoscale(bed, "gpus", "gpus", "machine.openshift.io/v1beta1")
    autoscale(bed, "memory", "memory", "cluster.x-k8s.io/v1beta2")
    autoscale(bed, "kind", "fine", "cluster.x-k8s.io/v1beta2", kind="MachineDeployment")
    for name, event, told in (
        ("gpus", "FailedUpdateTarget", "found 'many', expected a number of GPUs"),
        ("memory", "FailedUpdateTarget", "found '8Gi', expected MiB as a whole number"),
        ("kind", "FailedGetTarget", "found cluster.x-k8s.io/v1beta2 MachineDeployment, expected a MachineSet of"),
    ):
        assert told in wait_ready(bed, name, "MachineAutoscalerTargetInvalid")[2]
        assert told in wait_event(bed, NS, name, event)
    assert bounds(bed, MACHINE_API, "gpus") == bounds(bed, CLUSTER_API, "memory") == {}
    assert bed.api.get(place(MACHINE_API, "fine"))["metadata"]["resourceVersion"] == before
    assert ready(bed, "fine") == READY
    listed = list_not_ready(metrics_port)
    assert {name: listed.get(name) for name in ("fine", "gpus", "memory", "kind")} == {
        "fine": None, **dict.fromkeys(("gpus", "memory", "kind"), "MachineAutoscalerTargetInvalid")
    }  # fmt: skip
    bed.api.merge(place(MACHINE_API, "gpus"), {"metadata": {"annotations": {machine_apis.GPU_ANNOTATION: "1"}}})
    api.wait_for("it is ready", lambda: list_not_ready(metrics_port), lambda now: now and "gpus" not in now, WITHIN_S)


def test_gpus_that_are_not_counted_are_told_of_the_set_in_the_api_that_holds_it(bed: Bed, autoscalers: Gateway) -> None:
    add_set(bed, CLUSTER_API, "uncounted", **{machine_apis.GPU_ANNOTATION: "1"})
    for most in (10, 11):  # told with each write, and counted: one event is created, and patched
        autoscale(bed, "uncounted", "uncounted", "cluster.x-k8s.io/v1beta2", most=most)
        wait_bounds(bed, CLUSTER_API, "uncounted", wanted(CLUSTER_API, "uncounted", most))
    told = wait_event(bed, CLUSTER_API.namespace, "uncounted", "InvalidOrMissingGPUAcceleratorLabel")
    assert told.startswith("GPU accelerator label not found on MachineSet uncounted.")


def wait_event(bed: Bed, namespace: str, name: str, reason: str) -> str:
    """What is told of an object."""
    selector = f"involvedObject.name={name},reason={reason}"

    def probe() -> list[str]:
        found = bed.api.items(f"/api/v1/namespaces/{namespace}/events", fieldSelector=selector)
        return [event["message"] for event in found]

    return api.wait_for(f"{reason} of {name}", probe, within_s=WITHIN_S)[-1]


def operating_as_pod(
    bed: Bed, directory: Path, environment: pytest.MonkeyPatch, account: str, *flags: str
) -> contextlib.AbstractContextManager[Gateway]:
    """The controller in the pod that it reads its image from."""
    environment.setenv("POD_NAME", "operator-1")
    environment.setenv("POD_NAMESPACE", NS)
    return operating(bed, directory, "cluster_autoscaler", NS, account, *flags)


@pytest.fixture(scope="module")
def runner(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The controller of the ClusterAutoscaler, with its webhooks, which the server asks."""
    directory = tmp_path_factory.mktemp("cluster-autoscaler")
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    (directory / "tls.crt").write_bytes(made.cert_chain_pems[0].bytes())
    (directory / "tls.key").write_bytes(made.private_key_pem.bytes())
    port = ports.choose().capi_webhooks
    account = "cluster-autoscaler-operator"
    flags = [*leading(rbac.OPENSHIFT_OPERATOR_LEASE), "--webhook-address", f"127.0.0.1:{port}"]
    flags += ["--webhook-cert-dir", str(directory)]
    pod = {"containers": [{"name": "operator", "image": "windlass:test"}], "serviceAccountName": account}
    bed.api.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator-1", "namespace": NS}, "spec": pod})
    with (
        pytest.MonkeyPatch.context() as environment,
        operating_as_pod(bed, directory, environment, account, *flags) as gateway,
    ):
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
    return dict(unstructured.find_condition((found.get("status") or {}).get("conditions"), kind) or {})


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
    assert container["image"] == "windlass:test", "that of the operator's own pod"
    assert made["metadata"]["ownerReferences"][0]["kind"] == "ClusterAutoscaler"
    api.wait_for(
        "it is told",
        lambda: operator_says(bed, "Progressing").get("message"),
        lambda said: said == "updating to 4.21.0",
        WITHIN_S,
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
        lambda calls: any(_is_written(call, DEPLOYMENT) for call in calls),
    )
    kinds = {call.path.split("/")[-2] for call in writes if "/events" not in call.path}
    assert kinds <= {"deployments", "cluster-autoscaler"}, "what did not change is not written"
    # A write of what somebody changed meanwhile is refused, and comes again.
    assert sum(_is_written(call, DEPLOYMENT) for call in writes) == 1
    assert before != bed.api.get(DEPLOYMENT)["metadata"]["resourceVersion"]


def _writes(runner: Gateway) -> list[Call]:
    return [call for call in list(runner.calls) if call.method != "GET" and "/leases/" not in call.path]


def _is_written(call: Call, path: str) -> bool:
    return call.path == path and call.status < 300


def _settle(runner: Gateway) -> int:
    """Wait until nothing has been written for two seconds; how much was until then."""

    def probe() -> tuple[int, int]:
        before = len(_writes(runner))
        time.sleep(2.0)
        return before, len(_writes(runner))

    return api.wait_for("quiet", probe, lambda counts: counts[0] == counts[1], WITHIN_S)[1]


def _arguments(found: Object) -> list[str]:
    arguments: list[str] = found["spec"]["template"]["spec"]["containers"][0]["args"]
    return arguments


def test_the_server_asks_the_webhook_and_hands_on_what_it_says(bed: Bed, runner: Gateway) -> None:
    put(bed, {})
    bad = {"resourceLimits": {"cores": {"min": 8, "max": 2}}}
    told = "ResourceLimits.Cores: Max must be greater than or equal to Min"
    api.wait_for("the webhook is asked", lambda: refusal(lambda: put(bed, bad)), lambda text: told in text, WITHIN_S)
    put(bed, {"resourceLimits": None})  # it may have been taken before the webhook was
    other = copy.deepcopy(bed.api.get(CLUSTER_AUTOSCALER))
    other = {**{key: other[key] for key in ("apiVersion", "kind", "spec")}, "metadata": {"name": "mine"}}
    assert 'only \\"default\\" is allowed' in refusal(lambda: bed.api.add(other))


# Rights: each controller is asked for all that its role is for, in one test, which needs none of those above


def test_a_machine_autoscaler_is_refused_nothing_and_uses_all_that_it_may(bed: Bed, autoscalers: Gateway) -> None:
    for of, name in ((MACHINE_API, "mine"), (CLUSTER_API, "theirs")):
        add_set(bed, of, name, "MachineAPI" if of is MACHINE_API else "", **{machine_apis.GPU_ANNOTATION: "1"})
        for most in (10, 11):  # told with each write: an event is created, and counted
            autoscale(bed, name, name, f"{of.group}/{of.versions[0]}", most=most)
            wait_bounds(bed, of, name, wanted(of, name, most))
    audit_log.evaluate(bed, *rbac.MACHINE_AUTOSCALER)


CHANGES: dict[str, Object] = {
    "/api/v1/namespaces/{}/services": {"ports": [{"name": "metrics", "port": 9, "targetPort": 9}]},
    "/apis/monitoring.coreos.com/v1/namespaces/{}/servicemonitors": {"endpoints": []},
    "/apis/monitoring.coreos.com/v1/namespaces/{}/prometheusrules": {"groups": []},
    "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies": {"podSelector": {"matchLabels": None}},
}
"""What somebody might do to what is made of a ClusterAutoscaler."""


def test_a_cluster_autoscaler_is_refused_nothing_and_uses_all_that_it_may(bed: Bed, runner: Gateway) -> None:
    for delay in ("20s", "30s", "40s"):  # told with each write, of which the first may make the Deployment
        put(bed, {"scaleUp": {"newPodScaleUpDelay": delay}})
        _wait_argument(bed, f"--new-pod-scale-up-delay={delay}")
    for collection, change in CHANGES.items():
        _change_and_wait(bed, collection.format(NS), change)
    bed.api.merge(CLUSTER_AUTOSCALER, {"metadata": {"finalizers": ["test/hold"]}})
    bed.api.delete(CLUSTER_AUTOSCALER)
    api.wait_for("the Deployment goes with it", lambda: bed.api.find(DEPLOYMENT) is None, within_s=WITHIN_S)
    bed.api.merge(CLUSTER_AUTOSCALER, {"metadata": {"finalizers": None}})
    audit_log.evaluate(bed, *rbac.CLUSTER_AUTOSCALER)


def _wait_argument(bed: Bed, argument: str) -> None:
    def probe() -> list[str]:
        found = bed.api.find(DEPLOYMENT)
        return [] if found is None else _arguments(found)

    api.wait_for(argument, probe, lambda now: argument in now, WITHIN_S)


def _change_and_wait(bed: Bed, collection: str, change: Object) -> None:
    """Change a field of one that is made of the ClusterAutoscaler; it is put right."""
    (field,) = change

    def probe() -> list[Object]:
        owned = [item for item in bed.api.items(collection) if item["metadata"].get("ownerReferences")]
        return [entry for entry in owned if entry["spec"].get(field)]

    before = api.wait_for(collection, probe, within_s=WITHIN_S)[0]
    path = f"{collection}/{before['metadata']['name']}"
    bed.api.merge(path, {"spec": change})

    def is_as_before() -> bool:
        return bool(bed.api.get(path)["spec"].get(field) == before["spec"][field])

    api.wait_for(f"{path} is as before", is_as_before, within_s=WITHIN_S)
