"""OpenShift end to end: someone names a MachineSet, pods wait, and the real autoscaler has machines made for them.

The real autoscaler, operator, scheduler and Cluster API, each as its own ServiceAccount, under the admission policies.
The autoscaler is what a ClusterAutoscaler becomes: it has the words and the environment of that Deployment's container.
Machine API's controllers are played (`machine_api`).
"""

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from testbed import clusterapi, fixtures, objects, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.e2e import openshift_cluster
from tests.e2e.autoscaler_process import Live
from tests.e2e.gateway import Gateway
from tests.e2e.machine_api import MachineApi
from tests.e2e.openshift_cluster import CLUSTER, DEPLOY, RELEASE
from tests.e2e.operator_process import entitled, operating
from tests.e2e.polling import wait_for
from tests.testbed.rbac import audit_log
from tools import rbac
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import model
from windlass.kube import unstructured

SIZE = {"cpu": "4", "memory": "16Gi", "pods": "110"}
ROLES = (
    "machineset-sync",
    "machine-autoscaler",
    "cluster-autoscaler-operator",
    "cluster-autoscaler",
    "cluster-autoscaler-machine-api",
    "cluster-autoscaler-provisioning-requests",
    "cluster-autoscaler-priority-expander",
)
DEPLOYMENT = f"/apis/apps/v1/namespaces/{MACHINE_API.namespace}/deployments/cluster-autoscaler-default"
MASTER = "node-role.kubernetes.io/master"

CLUSTER_AUTOSCALER: Object = {
    "logVerbosity": 4,
    "resourceLimits": {"maxNodesTotal": 24},
    "scaleDown": {"enabled": True, "delayAfterAdd": "0s", "delayAfterFailure": "1s", "unneededTime": "4s"},
    "expanders": ["Priority"],
}
"""Without these times, which are minutes if nobody says, no test below that waits for a smaller set would end."""
OPERATOR_FLAGS = (
    "--no-leader-elect",
    f"--openshift-release-version={RELEASE}",
    "--openshift-autoscaler-extra-args=--scan-interval=2s",  # no field of a ClusterAutoscaler says so
)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """OpenShift, as far as autoscaling can tell."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    choice = Choice(scheduler=True, kwok=True, capi=True, audited=True)
    with sharing.shared(tmp_path_factory.mktemp("openshift"), choice) as found:
        openshift_cluster.install(found, ROLES, "autoscaling.x-k8s.io_provisioningrequests.yaml")
        turn(found, on=True)
        clusterapi.add_cluster(found.api, found.kubeconfig, CLUSTER, CLUSTER_API.namespace)
        openshift_cluster.enforce(found)
        _bind_both(found)
        _add_master(found)
        yield found


def _bind_both(bed: Bed) -> None:
    """Both controllers are to run in one process: one ServiceAccount has the roles of either."""
    account = {"kind": "ServiceAccount", "name": "cluster-autoscaler-operator", "namespace": MACHINE_API.namespace}
    for body in yaml.safe_load_all((DEPLOY / "rbac" / "machine-autoscaler.yaml").read_text()):
        if body["kind"].endswith("Binding"):
            metadata = {**body["metadata"], "name": "machine-autoscaler-operator"}
            bed.api.add({**body, "metadata": metadata, "subjects": [account]})


def _add_master(bed: Bed) -> None:
    """A node that belongs to no MachineSet, for the autoscaler's own pod."""
    labels = {MASTER: "", "kubernetes.io/hostname": "master", "kubernetes.io/os": "linux"}
    metadata = {"name": "master", "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    spec = {"providerID": "played:///master", "taints": [{"key": MASTER, "effect": "NoSchedule"}]}
    status = {"capacity": SIZE, "allocatable": SIZE}
    bed.api.add({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status})


def turn(bed: Bed, *, on: bool) -> None:
    """The gate of Cluster API; that of ProvisioningRequests is on."""
    openshift_cluster.turn(bed, on=on, others=["ProvisioningRequestAvailable"])


@contextlib.contextmanager
def autoscaling(bed: Bed, directory: Path, container: Object) -> Iterator[Gateway]:
    """The autoscaler as a container has it. What comes on top, its cluster gives a pod: credentials, and a port."""
    assert container["command"] == ["windlass", "autoscaler"]
    with entitled(bed, directory, MACHINE_API.namespace, "cluster-autoscaler") as (kubeconfig, gateway):
        autoscaler = Live(kubeconfig, directory / "autoscaler.log", container["args"])
        with pytest.MonkeyPatch.context() as patch:
            for variable in container["env"]:
                patch.setenv(variable["name"], variable["value"])
            autoscaler.start()
        try:
            yield gateway
        finally:
            code = autoscaler.stop()
            print(autoscaler.log.read_text()[-6000:])
    assert code == 0


def add_cluster_autoscaler(bed: Bed) -> None:
    """As an administrator does."""
    body = {"apiVersion": "autoscaling.openshift.io/v1", "kind": "ClusterAutoscaler", "metadata": {"name": "default"}}
    bed.api.add({**body, "spec": CLUSTER_AUTOSCALER})


def wait_container(bed: Bed, group: str) -> Object:
    """The container that is run for it, once it is to speak the API of that group and all of it is rolled out."""

    def is_rolled_out(found: Object | None) -> bool:
        status = (found or {}).get("status", {})
        if found is None or status.get("observedGeneration") != found["metadata"]["generation"]:
            return False
        (container,) = found["spec"]["template"]["spec"]["containers"]
        spoken = {item["name"]: item["value"] for item in container["env"]}.get("CAPI_GROUP", CLUSTER_API.group)
        counts = (status.get("availableReplicas"), status.get("updatedReplicas"))
        return spoken == group and counts == (1, 1)

    found = wait_for("the autoscaler's Deployment", lambda: bed.api.find(DEPLOYMENT), is_rolled_out)
    assert found is not None
    pod = found["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "cluster-autoscaler"
    (container,) = pod["containers"]
    return dict(container)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("at-work")


@pytest.fixture(scope="module")
def operator(bed: Bed, directory: Path) -> Iterator[Gateway]:
    """The operator at work, whatever the gate says."""
    both, account = "cluster_autoscaler,machine_autoscaler", "cluster-autoscaler-operator"
    with operating(bed, directory, both, MACHINE_API.namespace, account, *OPERATOR_FLAGS) as gateway:
        add_cluster_autoscaler(bed)
        yield gateway


@pytest.fixture(scope="module")
def gated(bed: Bed, operator: Gateway) -> Iterator[contextlib.ExitStack]:
    """What the gate decides on: whether MachineSets are mirrored, and which autoscaler runs."""
    with contextlib.ExitStack() as found:
        yield found


def work_with_cluster_api(bed: Bed, directory: Path, gated: contextlib.ExitStack) -> None:
    gated.close()
    sync = ("machineset_sync", CLUSTER_API.namespace, "capi-controllers")
    gated.enter_context(operating(bed, directory, *sync, "--no-leader-elect"))
    gated.enter_context(autoscaling(bed, directory, wait_container(bed, CLUSTER_API.group)))


@pytest.fixture(scope="module")
def machine_api(bed: Bed, directory: Path, gated: contextlib.ExitStack) -> Iterator[MachineApi]:
    """Everyone at work: the controllers, Machine API, and the autoscaler that a ClusterAutoscaler asks for."""
    with MachineApi(bed, CLUSTER, SIZE) as played:
        work_with_cluster_api(bed, directory, gated)
        yield played


def place(which: machine_apis.MachineApi, name: str) -> str:
    resource = which.machine_sets()
    return f"/apis/{resource.api_version}/namespaces/{which.namespace}/machinesets/{name}"


def advertise(name: str) -> dict[str, str]:
    """What nobody could know of a new node before the first has been ready for a minute."""
    return {"capacity.cluster-autoscaler.kubernetes.io/labels": f"pool={name}"}


def add_template(bed: Bed, name: str) -> None:
    node = {"capacity": SIZE, "labels": {"pool": name}}
    bed.api.add(objects.machine_deployment(name, 0, namespace=CLUSTER_API.namespace, node=node)[0])


def add_machine_api_set(bed: Bed, name: str, wanted: str) -> None:
    add_template(bed, name)
    labels = {model.SET_LABEL: name}
    value = {
        "apiVersion": objects.INFRASTRUCTURE,
        "kind": "FakeMachineTemplate",
        "metadata": {"name": name},
        "userDataSecret": {"name": f"{CLUSTER}-bootstrap"},
    }
    template = {"metadata": {"labels": labels}, "spec": {"providerSpec": {"value": value}}}
    selector = {"matchLabels": labels}
    spec = {"replicas": 1, "authoritativeAPI": wanted, "selector": selector, "template": template}
    version, told = "machine.openshift.io/v1beta1", advertise(name)
    bed.api.add(objects.made(version, "MachineSet", name, MACHINE_API.namespace, spec, annotations=told))


def add_cluster_api_set(bed: Bed, name: str) -> None:
    add_template(bed, name)
    labels = {model.SET_LABEL: name}
    reference = {"apiGroup": objects.INFRASTRUCTURE.partition("/")[0], "kind": "FakeMachineTemplate", "name": name}
    machine = {
        "clusterName": CLUSTER,
        "bootstrap": {"dataSecretName": f"{CLUSTER}-bootstrap"},
        "infrastructureRef": reference,
    }
    spec = {"clusterName": CLUSTER, "replicas": 1, "selector": {"matchLabels": labels}}
    spec["template"] = {"metadata": {"labels": labels}, "spec": machine}
    told = advertise(name)
    bed.api.add(objects.made(objects.CLUSTER_API, "MachineSet", name, CLUSTER_API.namespace, spec, annotations=told))


def autoscale(bed: Bed, name: str, version: str) -> None:
    target = {"apiVersion": version, "kind": "MachineSet", "name": name}
    spec = {"minReplicas": 1, "maxReplicas": 4, "scaleTargetRef": target}
    version = "autoscaling.openshift.io/v1beta1"
    bed.api.add(objects.made(version, "MachineAutoscaler", name, MACHINE_API.namespace, spec))
    wait_said(bed, name, "MachineAutoscalerReady")


def wait_said(bed: Bed, name: str, reason: str) -> str:
    """What is said of a MachineAutoscaler, once it is for that reason."""
    path = f"/apis/autoscaling.openshift.io/v1beta1/namespaces/{MACHINE_API.namespace}/machineautoscalers/{name}"

    def probe() -> Object:
        return dict(unstructured.find_condition(bed.api.get(path).get("status", {}).get("conditions"), "Ready") or {})

    return str(wait_for(f"{name}: {reason}", probe, lambda said: said.get("reason") == reason)["message"])


def put_pods(bed: Bed, name: str, count: int, pool: str = "", cpu: str = "3") -> None:
    """Of three cores each, unless told otherwise, so that each needs a node of its own, in the pool of that name."""
    path = f"/apis/apps/v1/namespaces/default/replicasets/{name}"
    if bed.api.find(path) is not None:
        bed.api.merge(path, {"spec": {"replicas": count}})
        return
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    pod: Object = {"containers": [container], "nodeSelector": {"pool": pool or name}}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec = {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": template}
    bed.api.add(objects.made("apps/v1", "ReplicaSet", name, "default", spec))


def wait_running(bed: Bed, name: str, count: int) -> None:
    def probe() -> int:
        pods = bed.api.items("/api/v1/namespaces/default/pods", labelSelector=f"app={name}")
        return sum(pod["status"]["phase"] == "Running" for pod in pods)

    wait_for(f"{count} pods of {name} run", probe, lambda now: now == count)


def wait_sizes(bed: Bed, name: str, size: int, *which: machine_apis.MachineApi) -> None:
    def probe() -> list[int]:
        return [bed.api.get(place(each, name))["spec"]["replicas"] for each in which]

    wait_for(f"{name} has {size}", probe, lambda now: set(now) == {size})


ALONE, HELD, MIRRORED = "scaling-set-1", "held", "mirrored"
"""In Cluster API alone; held by Machine API; held by Cluster API, with a mirror in Machine API."""
SMALL, HUGE = "small", "huge"
"""Pods that have to move when nodes of the first go: on two of its three, of which one stays. And one that no node has
room for, which is told again and again."""


@pytest.fixture(scope="module")
def crowd(bed: Bed, machine_api: MachineApi) -> MachineApi:
    """An administrator's MachineSets and MachineAutoscalers, all at once, and pods that wait for nodes of each."""
    add_cluster_api_set(bed, ALONE)
    add_machine_api_set(bed, HELD, "MachineAPI")
    add_machine_api_set(bed, MIRRORED, "ClusterAPI")
    autoscale(bed, ALONE, "cluster.x-k8s.io/v1beta2")
    autoscale(bed, HELD, "machine.openshift.io/v1beta1")
    autoscale(bed, MIRRORED, "machine.openshift.io/v1beta1")
    for name in (ALONE, HELD, MIRRORED):
        put_pods(bed, name, 3)
    put_pods(bed, HUGE, 1, ALONE, "100")
    return machine_api


def test_a_machine_set_of_cluster_api_alone_grows(bed: Bed, crowd: MachineApi) -> None:
    wait_running(bed, ALONE, 3)
    wait_sizes(bed, ALONE, 3, CLUSTER_API)


def test_where_machine_api_holds_it_follows_the_mirror_that_the_autoscaler_scales(bed: Bed, crowd: MachineApi) -> None:
    wait_running(bed, HELD, 3)
    wait_sizes(bed, HELD, 3, *machine_apis.MACHINE_APIS)
    assert machine_apis.PAUSED_ANNOTATION in bed.api.get(place(CLUSTER_API, HELD))["metadata"]["annotations"]
    wait_for("each node has its Machine", lambda: machines(bed, HELD), lambda now: len(now) == 3)


def test_where_cluster_api_holds_machine_api_follows(bed: Bed, crowd: MachineApi) -> None:
    wait_running(bed, MIRRORED, 3)
    wait_sizes(bed, MIRRORED, 3, *machine_apis.MACHINE_APIS)
    assert machine_apis.PAUSED_ANNOTATION not in bed.api.get(place(CLUSTER_API, MIRRORED))["metadata"].get(
        "annotations", {}
    )


@pytest.fixture(scope="module")
def few(bed: Bed, crowd: MachineApi) -> MachineApi:
    """One pod of each is left, and two small ones."""
    for name in (ALONE, HELD, MIRRORED):
        wait_running(bed, name, 3)
    put_pods(bed, SMALL, 2, ALONE, "100m")
    wait_running(bed, SMALL, 2)
    for name in (ALONE, HELD, MIRRORED):
        put_pods(bed, name, 1)
    return crowd


def test_a_machine_set_of_cluster_api_alone_shrinks(bed: Bed, few: MachineApi) -> None:
    wait_sizes(bed, ALONE, 1, CLUSTER_API)
    wait_running(bed, ALONE, 1)
    wait_running(bed, SMALL, 2)


def test_where_machine_api_holds_the_marked_machines_go_and_the_busy_one_stays(bed: Bed, few: MachineApi) -> None:
    wait_sizes(bed, HELD, 1, *machine_apis.MACHINE_APIS)
    left = wait_for("one machine is left", lambda: machines(bed, HELD), lambda now: len(now) == 1)
    assert left == nodes_of_pods(bed, HELD), few.removed
    assert len([name for name in few.removed if name.startswith(f"{HELD}-")]) == 2


def test_where_cluster_api_holds_both_shrink_and_the_busy_machine_stays(bed: Bed, few: MachineApi) -> None:
    wait_sizes(bed, MIRRORED, 1, *machine_apis.MACHINE_APIS)
    pool = functools.partial(bed.api.items, "/api/v1/nodes", labelSelector=f"pool={MIRRORED}")
    (node,) = wait_for("one node is left", pool, lambda now: len(now) == 1)
    assert [node["metadata"]["name"]] == nodes_of_pods(bed, MIRRORED)


@pytest.fixture(scope="module")
def requested(bed: Bed, machine_api: MachineApi) -> str:
    """Two requests for capacity, of which one was answered long ago; where the other is."""
    metadata = {"name": "much", "namespace": "default"}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    template = {"spec": {"containers": [container], "nodeSelector": {"pool": "nowhere"}}}
    bed.api.add({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template})
    pods = [{"podTemplateRef": {"name": "much"}, "count": 2}]
    spec = {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io", "podSets": pods}
    version = "autoscaling.x-k8s.io/v1"
    place = f"/apis/{version}/namespaces/default/provisioningrequests"
    for name in ("old", "much"):
        bed.api.add(objects.made(version, "ProvisioningRequest", name, "default", spec))
    answer = list(unstructured.set_condition((), "Failed", True, "Long", "", 0.0))
    bed.api.merge(f"{place}/old/status", {"status": {"conditions": answer}})
    wait_for("the old one is gone", lambda: bed.api.find(f"{place}/old") is None)
    return f"{place}/much"


def test_a_request_for_capacity_is_answered_with_the_rights_that_the_autoscaler_has(bed: Bed, requested: str) -> None:
    def probe() -> str:
        told = (
            unstructured.find_condition(bed.api.get(requested).get("status", {}).get("conditions"), "Provisioned") or {}
        )
        return str(told.get("status", ""))

    wait_for("it is answered", probe, lambda said: said == "False")


PLAIN = "plain"
"""In Machine API alone."""


@pytest.fixture(scope="module")
def downgraded(bed: Bed, few: MachineApi, operator: Gateway, gated: contextlib.ExitStack, directory: Path) -> Gateway:
    """The gate is off again, with MachineAutoscalers of Cluster API left behind. What the autoscaler asks for then."""
    wait_sizes(bed, ALONE, 1, CLUSTER_API)
    for name in (HELD, MIRRORED):  # nobody makes them equal from now on
        wait_sizes(bed, name, 1, *machine_apis.MACHINE_APIS)
    wait_for("one machine is left", lambda: machines(bed, HELD), lambda now: len(now) == 1)
    gated.close()
    turn(bed, on=False)
    autoscaler = gated.enter_context(autoscaling(bed, directory, wait_container(bed, MACHINE_API.group)))
    for name in (ALONE, MIRRORED):
        wait_said(bed, name, "MachineAutoscalerTargetInvalid")
    return autoscaler


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """What went on while a set of Machine API was scaled."""

    asked: tuple[str, ...]
    """Paths, by the autoscaler and the operator."""
    changed: tuple[str, ...]
    """Of what is not for them to touch."""


@pytest.fixture(scope="module")
def meanwhile(bed: Bed, downgraded: Gateway, operator: Gateway) -> Meanwhile:
    """With the gate off, sets that Machine API holds grow, and one of them shrinks again."""
    left_behind = [place(CLUSTER_API, name) for name in (ALONE, HELD, MIRRORED)] + [place(MACHINE_API, MIRRORED)]
    before = {path: find_intent(bed, path) for path in left_behind}
    calls, asked = len(operator.calls), len(downgraded.calls)
    add_machine_api_set(bed, PLAIN, "MachineAPI")
    autoscale(bed, PLAIN, "machine.openshift.io/v1beta1")
    for name in (PLAIN, HELD):
        put_pods(bed, name, 2)
    for name in (PLAIN, HELD):
        wait_running(bed, name, 2)
        wait_sizes(bed, name, 2, MACHINE_API)
    put_pods(bed, PLAIN, 1)
    wait_sizes(bed, PLAIN, 1, MACHINE_API)
    wait_for("one machine is left", lambda: machines(bed, PLAIN), lambda now: len(now) == 1)
    changed = [path for path, was in before.items() if find_intent(bed, path) != was]
    made = (*downgraded.calls[asked:], *operator.calls[calls:])
    written = [call.path for call in made if call.method != "GET" and call.path.startswith(tuple(left_behind))]
    paths = tuple(call.path for call in (*downgraded.calls[:asked], *made))
    return Meanwhile(paths, (*changed, *written))


def find_intent(bed: Bed, path: str) -> Object:
    """All of an object but its status, which Cluster API goes on writing while machines come and go."""
    found = bed.api.get(path)
    passing = ("resourceVersion", "managedFields")
    return {"spec": found["spec"]} | {name: item for name, item in found["metadata"].items() if name not in passing}


def test_with_the_gate_off_the_autoscaler_works_on_machine_api_and_touches_nothing_else(
    bed: Bed, meanwhile: Meanwhile
) -> None:
    named = wait_said(bed, ALONE, "MachineAutoscalerTargetInvalid")
    assert named.startswith("unsupported MachineAutoscaler target: found cluster.x-k8s.io/v1beta2 MachineSet")
    assert "authoritative in ClusterAPI" in wait_said(bed, MIRRORED, "MachineAutoscalerTargetInvalid")
    assert machines(bed, PLAIN) == nodes_of_pods(bed, PLAIN), "the marked one went"
    assert wait_said(bed, HELD, "MachineAutoscalerReady")
    assert meanwhile.changed == ()
    assert [path for path in meanwhile.asked if "/apis/cluster.x-k8s.io" in path] == []


def test_the_autoscaler_is_refused_nothing_and_uses_all_that_it_may(
    bed: Bed, requested: str, meanwhile: Meanwhile
) -> None:
    """What these stand for is all that it has rights for: with the gate on and off."""
    audit_log.evaluate(bed, *rbac.OPENSHIFT)


def test_with_the_gate_on_again_what_was_left_behind_goes_on(
    bed: Bed, meanwhile: Meanwhile, gated: contextlib.ExitStack, directory: Path
) -> None:
    gated.close()
    turn(bed, on=True)
    work_with_cluster_api(bed, directory, gated)
    for name in (ALONE, HELD, MIRRORED, PLAIN):
        wait_said(bed, name, "MachineAutoscalerReady")
    wait_sizes(bed, HELD, 2, *machine_apis.MACHINE_APIS)
    wait_sizes(bed, PLAIN, 1, *machine_apis.MACHINE_APIS)
    put_pods(bed, ALONE, 2)
    wait_running(bed, ALONE, 2)


def machines(bed: Bed, name: str) -> list[str]:
    found = bed.api.items(MachineApi.machines(), labelSelector=f"{model.SET_LABEL}={name}")
    return [item["metadata"]["name"] for item in found]


def nodes_of_pods(bed: Bed, name: str) -> list[str]:
    pods = bed.api.items("/api/v1/namespaces/default/pods", labelSelector=f"app={name}")
    return [pod["spec"].get("nodeName", "") for pod in pods if not pod["metadata"].get("deletionTimestamp")]
