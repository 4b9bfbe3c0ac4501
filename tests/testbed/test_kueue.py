"""Kueue's round trip with ProvisioningRequests on the real control plane, and the page docs/kueue.md.

Kueue is played: it writes what ../shared/upstream/kueue records, under the names and uids that this server gives.
"""

import gzip
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from testbed import api, clusterapi, fixtures, objects, openshift, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.e2e import kubelet
from tests.e2e.autoscaler_process import Live, free_port
from tests.testbed import pages
from tests.testbed.rbac import service_accounts
from tests.testbed.test_worker_pools import LABELS, MAX, MIN, QUICKER, deployment
from tools import source_analysis

RECORDED = source_analysis.ROOT.parent / "shared" / "upstream" / "kueue"
DEFINITION = "autoscaling.x-k8s.io_provisioningrequests.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
PODS = "/api/v1/namespaces/default/pods"
JOB = "sample-job-7m2kx"
"""The recorded job, of the recorded check `sample-prov`."""
GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}

ACCEPTED = ("True", "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler")
CONSUMED = ("True", "CapacityBookingConsumed", "Capacity booking consumed: all pods scheduled")

pytestmark = pytest.mark.skipif(
    not RECORDED.is_dir(), reason="NOT JUDGED: Kueue's recorded objects are not at ../shared/upstream"
)

Conditions = dict[str, tuple[str, str, str]]


def recorded(name: str) -> list[Object]:
    return list(yaml.safe_load_all((RECORDED / f"{name}.yaml").read_text()))


def conditions_of(body: Object) -> Conditions:
    """Status, reason and message of each condition."""
    found = body.get("status", {}).get("conditions", ())
    return {item["type"]: (item["status"], item["reason"], item["message"]) for item in found}


def probe(bed: Bed, name: str) -> Conditions:
    return conditions_of(bed.api.get(f"{REQUESTS}/{name}"))


class Kueue:
    """Kueue's controllers for one suspended Job and one AdmissionCheck."""

    def __init__(self, bed: Bed, job: Object, check: str = "sample-prov") -> None:
        self._bed, self._check = bed, check
        self.job: str = job["metadata"]["name"]
        self.workload = self._name(f"job-{JOB}-57864")
        found = bed.api.get(f"{KUEUE}/admissionchecks/{check}")["spec"]["parameters"]["name"]
        self._config = f"{KUEUE}/provisioningrequestconfigs/{found}"

    def _name(self, text: str) -> str:
        return text.replace(JOB, self.job).replace("sample-prov", self._check)

    def _recorded(self, name: str, kind: str, number: int = 0) -> Object:
        """A recorded object for this job: its names, and no uids."""
        body: Object = [body for body in recorded(f"created/{name}") if body["kind"] == kind][number]
        body = yaml.safe_load(self._name(yaml.safe_dump(body)))
        body["metadata"].pop("uid", None)
        return body

    def _add(self, body: Object) -> None:
        """Create an object; its owners are those of this server."""
        for owner in body["metadata"]["ownerReferences"]:
            owning = {**owner, "metadata": {"namespace": "default"}}
            owner["uid"] = self._bed.api.get(f"{api.path_of(owning)}/{owner['name']}")["metadata"]["uid"]
        self._bed.api.add(body)

    def reserve_quota(self) -> None:
        """The Workload of the job has its quota; the check is Pending."""
        body = self._recorded("1-requested", "Workload")
        self._add(body)
        self._write_status(body)

    def _write_status(self, body: Object) -> None:
        path = f"{KUEUE}/namespaces/default/workloads/{self.workload}/status"
        self._bed.api.merge(path, {"status": body["status"]})

    def request(self, attempt: int = 1) -> str:
        """The request of an attempt, and its PodTemplate a moment later; the request's name."""
        source, number = ("1-requested", 0) if attempt == 1 else ("4-failed-and-retried", 1)
        body = self._recorded(source, "ProvisioningRequest", number)
        config = self._bed.api.get(self._config)["spec"]
        body["spec"]["provisioningClassName"] = config["provisioningClassName"]
        body["spec"]["parameters"] |= config.get("parameters", {})
        self._add(body)
        self._add(self._recorded(source, "PodTemplate"))
        name: str = body["metadata"]["name"]
        return name

    def start(self, name: str) -> None:
        """The check is Ready with the condition's message, and the job's pods come.

        They are made here: KWOK ends the pods of a Job as soon as they run.
        """
        body = self._recorded("2-provisioned", "Workload")
        (check,) = body["status"]["admissionChecks"]
        check["message"] = probe(self._bed, name)["Provisioned"][2]
        annotations = self._annotations()
        (update,) = check["podSetUpdates"]
        assert update["annotations"].keys() == annotations.keys()
        update["annotations"] = annotations
        self._write_status(body)
        pod = self._recorded("3-consuming-pod", "Pod")
        pod["metadata"]["annotations"] = annotations
        for _ in range(3):
            self._bed.api.add(pod)

    def _annotations(self) -> dict[str, str]:
        """The recorded ones, of this request and its class."""
        found: dict[str, str] = self._recorded("3-consuming-pod", "Pod")["metadata"]["annotations"]
        class_name = self._bed.api.get(self._config)["spec"]["provisioningClassName"]
        return {**found, "autoscaling.x-k8s.io/provisioning-class-name": class_name}

    def end(self) -> None:
        """The job is deleted, and its pods with it."""
        self._bed.api.delete(f"/apis/batch/v1/namespaces/default/jobs/{self.job}?propagationPolicy=Background")
        self._bed.api.delete(f"{PODS}?labelSelector=batch.kubernetes.io/job-name={self.job}")

    def retry(self, name: str) -> str:
        """A failed attempt is followed by a second one."""
        body = self._recorded("4-failed-and-retried", "Workload")
        (check,) = body["status"]["admissionChecks"]
        check["message"] = f"Retrying after failure: {probe(self._bed, name)['Failed'][2]}"
        self._write_status(body)
        return self.request(2)

    def wait_running(self, count: int) -> set[str]:
        """The nodes on which its pods run."""

        def running() -> list[str]:
            found = self._bed.api.items(PODS, labelSelector=f"batch.kubernetes.io/job-name={self.job}")
            return [pod["spec"]["nodeName"] for pod in found if pod["status"]["phase"] == "Running"]

        found = api.wait_for(f"{count} pods run", running, lambda nodes: len(list(nodes)) == count)
        return set(found)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A cluster with Kueue's definitions, and a node group of each test."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.shared(tmp_path_factory.mktemp("kueue"), Choice(scheduler=True, kwok=True, capi=True)) as found:
        clusterapi.add_cluster(found.api, found.kubeconfig)
        for path in sorted((RECORDED / "crds").glob("kueue.*.yaml.gz")):
            openshift.define(found.api, yaml.safe_load(gzip.decompress(path.read_bytes())))
        yield found


@pytest.fixture(autouse=True)
def cleared(bed: Bed) -> Iterator[None]:
    """No node is left for the next test."""
    yield
    groups = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinedeployments"
    for collection in (PODS, groups):
        bed.api.delete(collection)
    nodes = "/api/v1/nodes"
    api.wait_for("the nodes are gone", lambda: len(bed.api.items(nodes)), lambda count: count == 1)  # a control plane


@pytest.fixture
def autoscaler(bed: Bed, tmp_path: Path) -> Iterator[Live]:
    """The autoscaler with ProvisioningRequests, but quicker."""
    if bed.api.find(f"{DEFINITIONS}/provisioningrequests.autoscaling.x-k8s.io") is None:
        openshift.define(bed.api, yaml.safe_load((RECORDED / "crds" / DEFINITION).read_text()))
    live = Live(bed.kubeconfig, tmp_path / "log", ("--cloud-provider=clusterapi", "--leader-elect=false", *QUICKER))
    live.start("--enable-provisioning-requests", "-v=4")
    yield live
    live.stop()
    print(live.read_log()[-6000:])


def add_group(bed: Bed, name: str, limits: tuple[int, int], **node: object) -> str:
    """A node group at its minimum; where it is."""
    shape: Object = {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}, **node}
    annotations = {MIN: str(limits[0]), MAX: str(limits[1])}
    if "labels" in shape:
        annotations[LABELS] = ",".join(f"{key}={value}" for key, value in shape["labels"].items())
    infrastructure, group = objects.machine_deployment(name, limits[0], node=shape, annotations=annotations)
    bed.api.add(infrastructure)
    path = f"{api.path_of(infrastructure)}/{name}"
    api.wait_for("the template says its capacity", lambda: bed.api.get(path).get("status"))
    bed.api.add(group)
    return deployment("default", name)


def size_of(bed: Bed, group: str) -> tuple[int, int]:
    """The replicas that are wanted, and those that are ready."""
    found = bed.api.get(group)
    return found["spec"]["replicas"], found.get("status", {}).get("readyReplicas") or 0


def test_the_page_starts_a_job_on_nodes_that_are_added_for_it(bed: Bed, tmp_path: Path) -> None:
    definition = f"{DEFINITIONS}/provisioningrequests.autoscaling.x-k8s.io"
    assert bed.api.find(definition) is None, "the page installs it"
    service_accounts.add_namespace(bed, "kueue-system")
    container = {"name": "manager", "image": "none"}
    labels = {"control-plane": "controller-manager"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    bed.api.add(objects.made("apps/v1", "Deployment", "kueue-controller-manager", "kueue-system", spec))
    gpus = {"cpu": "4", "memory": "16Gi", "pods": "110", GPU: "2"}
    group = add_group(bed, "page", (0, 3), capacity=gpus, taints=[TAINT])
    commands = pages.read("kueue.md")
    with pages.shell(bed, tmp_path) as run:
        run(*commands.take(5))
        path, selector = "/api/v1/namespaces/windlass-system/pods", "app.kubernetes.io/component=autoscaler"
        pod, *_ = api.wait_for("its pod", lambda: bed.api.items(path, labelSelector=selector))
        directory = tmp_path / "autoscaler"
        directory.mkdir()
        pod["spec"]["containers"][0]["args"].append(f"--address=127.0.0.1:{free_port()}")  # others may have its port
        with kubelet.running(bed, pod, directory) as log:
            run(*commands.take(1))
            (created,) = commands.take(1)
            name = run(created).split()[0].partition("/")[2]
            kueue = Kueue(bed, bed.api.get(f"/apis/batch/v1/namespaces/default/jobs/{name}"), "nodes")
            kueue.reserve_quota()
            request = kueue.request()
            assert request in run(*commands.take(1))
            provisioned = ("True", "CapacityIsProvisioned", "Capacity is found in the cluster")
            wanted = {"Accepted": ACCEPTED, "Provisioned": provisioned}
            api.wait_for("it is provisioned", lambda: probe(bed, request), lambda seen: seen == wanted)
            assert f"Provisioned={' '.join(provisioned)}" in run(*commands.take(1))
            api.wait_for("two nodes of two GPUs", lambda: size_of(bed, group), lambda seen: seen == (2, 2))
            kueue.start(request)
            assert len(kueue.wait_running(3)) == 2
            wanted["BookingExpired"] = CONSUMED
            api.wait_for("its booking ends", lambda: probe(bed, request), lambda seen: seen == wanted)
            assert size_of(bed, group) == (2, 2), "pods that use the booking trigger nothing"
            assert "nodes=Ready Capacity is found in the cluster" in run(*commands.take(1))
            assert "--enable-provisioning-requests" in run(*commands.take(1))
        assert "forbidden" not in log.read_text()
        run(*commands.take(1))
    assert commands.left == []
    assert bed.api.find(definition) is not None
    assert probe(bed, request) == wanted


def test_capacity_is_found_booked_used_and_a_failure_is_retried_as_kueue_records_it(bed: Bed, autoscaler: Live) -> None:
    openshift.add_all(bed.api, RECORDED / "provisioning-setup.yaml")
    config = f"{KUEUE}/provisioningrequestconfigs/prov-test-config"
    bed.api.merge(config, {"spec": {"parameters": {"noRetry": "true"}}})
    gpus = {"cpu": "4", "memory": "16Gi", "pods": "110", GPU: "4"}
    group = add_group(bed, "checked", (1, 5), capacity=gpus, taints=[TAINT])
    api.wait_for("its node is ready", lambda: size_of(bed, group), lambda seen: seen == (1, 1))
    first, second = (_add_sample_job(bed) for _ in range(2))
    first.reserve_quota()
    request = first.request()
    wanted = conditions_of(next(body for body in recorded("created/2-provisioned") if body["kind"] != "Workload"))
    api.wait_for("capacity is found", lambda: probe(bed, request), lambda seen: seen == wanted)
    first.start(request)
    assert len(first.wait_running(3)) == 1
    wanted["BookingExpired"] = CONSUMED
    api.wait_for("its booking is consumed", lambda: probe(bed, request), lambda seen: seen == wanted)

    second.reserve_quota()
    failed = second.request()
    api.wait_for("it fails", lambda: probe(bed, failed), lambda seen: "Failed" in seen)
    expected = conditions_of(recorded("created/4-failed-and-retried")[0])
    told = probe(bed, failed)
    assert {kind: seen[:2] for kind, seen in told.items()} == {kind: seen[:2] for kind, seen in expected.items()}
    assert told["Failed"][2].startswith(f"{expected['Failed'][2]} Room for 1 of 3 pods")
    first.end()
    again = second.retry(failed)
    wanted.pop("BookingExpired")
    api.wait_for("the second attempt finds capacity", lambda: probe(bed, again), lambda seen: seen == wanted)
    assert probe(bed, failed) == told, "a request that has failed is not served again"
    assert size_of(bed, group) == (1, 1), "a check adds no node"

    _book_before(bed, again, 660.0)
    expired = conditions_of(next(body for body in recorded("created/5-booking-expired") if body["kind"] != "Workload"))
    api.wait_for("its booking has expired", lambda: probe(bed, again), lambda seen: seen == expired)


def _add_sample_job(bed: Bed) -> Kueue:
    """The documented job, suspended as by Kueue's webhook."""
    (body,) = recorded("sample-job")
    body["spec"]["suspend"] = True
    return Kueue(bed, bed.api.add(body))


def _book_before(bed: Bed, request: str, seconds: float) -> None:
    """As if its capacity was booked so long ago."""
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))
    conditions = bed.api.get(f"{REQUESTS}/{request}")["status"]["conditions"]
    told = [{**condition, "lastTransitionTime": since} for condition in conditions]
    bed.api.merge(f"{REQUESTS}/{request}/status", {"status": {"conditions": told}})


def test_pod_sets_get_nodes_together_and_a_lost_node_revokes_nothing(bed: Bed, autoscaler: Live) -> None:
    first = add_group(
        bed, "first", (0, 5), labels={"f1l1": "v1"}, taints=[{"key": "f1t1k", "value": "f1t1v", "effect": "NoSchedule"}]
    )
    alone = _request_two_pod_sets(bed, 1)
    api.wait_for("no capacity", lambda: probe(bed, alone), lambda seen: seen.get("Provisioned", ("",))[0] == "False")
    assert probe(bed, alone)["Provisioned"][1] == "CapacityIsNotFound"
    assert size_of(bed, first) == (0, 0), "all pod sets get nodes, or none does"
    second = add_group(bed, "second", (0, 5), labels={"f2l1": "v1"})
    both = _request_two_pod_sets(bed, 2)
    api.wait_for("capacity", lambda: probe(bed, both), lambda seen: seen.get("Provisioned", ("",))[0] == "True")
    api.wait_for(
        "nodes: an empty one has less than four cores",
        lambda: [size_of(bed, each) for each in (first, second)],
        lambda seen: seen == [(2, 2), (1, 1)],
    )
    told = probe(bed, both)
    assert told.keys() == {"Accepted", "Provisioned"}
    bed.api.merge(second, {"spec": {"replicas": 0}})
    api.wait_for("its node is gone", lambda: size_of(bed, second), lambda seen: seen[1] == 0)
    autoscaler.wait_looped(3)
    assert probe(bed, both) == told


def _request_two_pod_sets(bed: Bed, attempt: int) -> str:
    """The recorded request of two pod sets, of the class that adds nodes, without the Workload that owns it."""
    bodies = [
        body for body in recorded("created/two-pod-sets") if body["kind"] in ("ProvisioningRequest", "PodTemplate")
    ]
    name = f"wl-check1-{attempt}"
    for body in sorted(bodies, key=lambda body: body["kind"] != "ProvisioningRequest"):
        body = yaml.safe_load(yaml.safe_dump(body).replace("wl-check1-1", name))
        for field in ("uid", "ownerReferences"):
            body["metadata"].pop(field, None)
        if body["kind"] == "ProvisioningRequest":
            body["spec"]["provisioningClassName"] = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
        bed.api.add(body)
    return name
