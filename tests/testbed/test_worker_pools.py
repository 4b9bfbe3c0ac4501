"""Worker pools on the real control plane: the operator and the autoscaler as processes, Cluster API's own manager."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed import api, cache, clusterapi, components, fixtures, objects, openshift, parts, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.e2e.autoscaler_process import Live, write_kubeconfig
from tests.e2e.gateway import Gateway
from windlass import clock
from windlass.autoscaler import rbac
from windlass.controllers import machine_deployment_applier, machine_deployments
from windlass.controllers.lattice import controller, model, reconcile
from windlass.controllers.machine_deployments import ReplicaLimits
from windlass.kube import client, rest_config, unstructured

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
EKS, LATTICE = "eksa-system", "capi-system"
CLUSTERS = f"/apis/anywhere.eks.amazonaws.com/v1alpha1/namespaces/{EKS}/clusters"
LATTICES = f"/apis/lattice.io/v1alpha1/namespaces/{LATTICE}/latticeclusters"
MIN = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
MAX = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
QUICKER = (
    "--scan-interval=2s",
    "--scale-down-unneeded-time=3s",
    "--scale-down-delay-after-add=1s",
    "--node-delete-delay-after-taint=1s",
    "--max-scale-down-parallelism=20",
)
LABELS = "capacity.cluster-autoscaler.kubernetes.io/labels"
NOBODY = "nobody"
WITHIN_S = 180.0
QUIET_S = 12.0
_CONDITION = '.status.conditions[?(@.type=="WorkersReady")]'
WORKERS_READY = f'{{{_CONDITION}.reason}}{{" "}}{{{_CONDITION}.message}}{{" at "}}{{.status.observedGeneration}}'
SIZES = (
    "{.spec.replicas}{' wanted at '}{.metadata.generation}{'; at '}{.status.observedGeneration}"
    "{' there were '}{.status.replicas}{', ready '}{.status.readyReplicas}"
)
"""What is written down of every state, in kubectl's words."""


def deployment(namespace: str, name: str) -> str:
    return f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machinedeployments/{name}"


def templates(name: str, cluster: str = "work") -> Object:
    """What a pool is made of: references, as Cluster API has them."""
    return {
        "bootstrap": {"dataSecretName": f"{cluster}-bootstrap"},
        "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io",
            "kind": "FakeMachineTemplate",
            "name": name,
        },
    }


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A control plane with a Cluster for either operator, `work` and `lat`, and the definitions of both."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.shared(tmp_path_factory.mktemp("pools"), Choice(scheduler=True, kwok=True, capi=True)) as found:
        for path in sorted(CRDS.glob("*.yaml")):
            openshift.define(found.api, yaml.safe_load(path.read_text()))
        for namespace, cluster in ((EKS, "work"), (LATTICE, "lat")):
            found.api.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            clusterapi.add_cluster(found.api, found.kubeconfig, cluster, namespace)
            shape: Object = {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}}
            for name in ("plain", "scaled"):
                labelled = {**shape, "labels": {"pool": f"{namespace}-{name}"}}
                template = objects.machine_deployment(name, 0, namespace=namespace, node=labelled)[0]
                found.api.add(template)
        yield found


@pytest.fixture(scope="module")
def gateway(bed: Bed) -> Iterator[Gateway]:
    """What the operator asks for goes through here."""
    with Gateway(bed.site.server, str(bed.site.files.ca)) as found:
        yield found


@pytest.fixture(scope="module")
def operator(bed: Bed, gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Both controllers in one process, and its log."""
    directory = tmp_path_factory.mktemp("operator")
    kubeconfig = write_kubeconfig(directory / "kubeconfig", bed.kubeconfig, gateway.port)
    flags = ["--kubeconfig", str(kubeconfig), "--controllers", "eks_anywhere,lattice", "--metrics-address", ""]
    flags += ["--no-leader-elect", "--lattice-autoscaler-image", "windlass:test"]
    log = directory / "log"
    with log.open("w") as lines:
        command = [sys.executable, "-m", "windlass", "operator", *flags]
        process = subprocess.Popen(command, stderr=lines, env={**os.environ, **parts.IMPORTABLE})
    yield log
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, log.read_text()[-4000:]


class Eks:
    """An EKS Anywhere Cluster `work`, of which one group is looked at."""

    def __init__(self, bed: Bed) -> None:
        self.api, self.path = bed.api, f"{CLUSTERS}/work"

    def set(self, *groups: Object) -> None:
        spec = {"workerNodeGroupConfigurations": [{**templates("plain"), **group} for group in groups]}
        _put(self.api, self.path, "anywhere.eks.amazonaws.com/v1alpha1", "Cluster", spec)

    def replicas(self, group: str) -> int | None:
        return _replicas(self.api, deployment(EKS, f"work-{group}"))

    def ready(self) -> tuple[str, str, str]:
        """What is said of the workers: nothing while it is still about what was wanted before."""
        found = self.api.get(self.path)
        status = found.get("status", {})
        if status.get("observedGeneration") != found["metadata"]["generation"]:
            return "", "", ""
        workers: Object = next((item for item in status["conditions"] if item["type"] == "WorkersReady"), {})
        return workers.get("status", ""), workers.get("reason", ""), workers.get("message", "")


class Lattice:
    """A LatticeCluster `lat`."""

    def __init__(self, bed: Bed) -> None:
        self.api, self.path = bed.api, f"{LATTICES}/lat"

    def set(self, **pools: Object) -> None:
        spec = {
            "nodes": {"worker_pools": {name: {**templates("plain", "lat"), **pool} for name, pool in pools.items()}}
        }
        _put(self.api, self.path, "lattice.io/v1alpha1", "LatticeCluster", spec)

    def replicas(self, pool: str) -> int | None:
        return _replicas(self.api, deployment(LATTICE, f"lat-pool-{pool}"))

    def status(self, pool: str) -> Object:
        found: Object = self.api.get(self.path).get("status", {}).get("worker_pools", {}).get(pool, {})
        return found


def _put(server: api.Api, path: str, version: str, kind: str, spec: Object) -> None:
    before = server.find(path)
    namespace, name = path.split("/")[5], path.split("/")[-1]
    metadata = {"name": name, "namespace": namespace}
    body = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    if before is None:
        server.add(body)
        return
    metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
    try:
        server.call("PUT", path, body)
    except api.Refused as refused:
        if refused.code != 409:
            raise
        _put(server, path, version, kind, spec)


def _replicas(server: api.Api, path: str) -> int | None:
    found: int | None = (server.find(path) or {}).get("spec", {}).get("replicas")
    return found


def owners(bed: Bed, path: str, *field: str) -> set[tuple[str, str, str]]:
    field_owners = unstructured.find_field_owners(bed.api.get(path), field)
    return {(owner.manager, owner.operation, owner.subresource) for owner in field_owners}


def bounds(bed: Bed, path: str) -> tuple[str | None, str | None]:
    found = bed.api.get(path)["metadata"].get("annotations", {})
    return found.get(MIN), found.get(MAX)


def wait_settled(bed: Bed, path: str, wanted: int, *, limits: tuple[str, str] | None) -> None:
    """It has this size, these bounds or none, and replicas are whose they should be."""
    ours = {"eks-a-controller", "lattice-operator"}

    def probe() -> tuple[Any, ...]:
        found = bed.api.find(path)
        if found is None:
            return (None,)
        annotations = found["metadata"].get("annotations", {})
        managers = {owner.manager for owner in unstructured.find_field_owners(found, ("spec", "replicas"))}
        at = (annotations[MIN], annotations[MAX]) if MIN in annotations and MAX in annotations else None
        return found["spec"].get("replicas"), at, bool(managers & ours), bool(managers)

    is_static = limits is None
    api.wait_for(path, probe, lambda seen: seen == (wanted, limits, is_static, True), within_s=WITHIN_S)


# What is refused


POOLS = (
    ({"min": 1}, "min and max must both be set or both unset"),
    ({"max": 5}, "min and max must both be set or both unset"),
    ({"min": 5, "max": 2}, "min (5) cannot exceed max (2)"),
    ({"min": 5, "max": 0}, "min (5) cannot exceed max (0)"),
    ({"min": 0, "max": 0}, "scale-from-zero not supported (min must be >= 1)"),
    ({"min": 0, "max": 5}, "scale-from-zero not supported (min must be >= 1)"),
    ({"replicas": -1}, "should be greater than or equal to 0"),
)
AUTOSCALED = "autoscalingConfiguration"
GROUPS = (
    ({"count": 1, AUTOSCALED: {"minCount": -1, "maxCount": 3}}, "min count must be non negative"),
    ({"count": 1, AUTOSCALED: {"minCount": 2, "maxCount": 1}}, "min count must be no greater than max count"),
    ({"count": 1, AUTOSCALED: {"minCount": 2}}, "min count must be no greater than max count"),
    ({"count": -1}, "worker node count must be zero or greater if autoscaling is not enabled"),
)


def test_bad_pools_are_refused_in_the_seeds_words_and_what_was_there_stays(bed: Bed) -> None:
    for number, (pool, message) in enumerate(POOLS):
        with pytest.raises(api.Refused) as refused:
            Lattice(bed).set(general=pool)
        assert (refused.value.code, message in json.loads(refused.value.body)["message"]) == (422, True), (
            pool,
            refused.value.body,
        )
        good = {"metadata": {"name": f"bad-{number}", "namespace": EKS}, "spec": {"nodes": {"worker_pools": {}}}}
        made = bed.api.add({"apiVersion": "lattice.io/v1alpha1", "kind": "LatticeCluster", **good})
        at = f"{LATTICES.replace(LATTICE, EKS)}/{made['metadata']['name']}"
        with pytest.raises(api.Refused, match="422"):
            bed.api.merge(at, {"spec": {"nodes": {"worker_pools": {"general": pool}}}})
        assert bed.api.get(at)["spec"] == good["spec"]
    with pytest.raises(api.Refused, match="is not a valid DNS label"):
        Lattice(bed).set(GPU={"replicas": 1})


def test_bad_groups_are_refused_in_upstreams_words_and_a_count_beside_autoscaling_is_not(bed: Bed) -> None:
    for group, message in GROUPS:
        with pytest.raises(api.Refused) as refused:
            Eks(bed).set({"name": "a", **group})
        assert (refused.value.code, message in json.loads(refused.value.body)["message"]) == (422, True), (
            group,
            refused.value.body,
        )
    with pytest.raises(api.Refused, match="names must be unique"):
        Eks(bed).set({"name": "a"}, {"name": "a"})
    body = {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Cluster"}
    for name, count in (("under", 1), ("over", 9), ("negative", -1)):
        group = {"name": "a", "count": count, AUTOSCALED: {"minCount": 2, "maxCount": 3}}
        metadata = {"name": name, "namespace": LATTICE}
        bed.api.add({**body, "metadata": metadata, "spec": {"workerNodeGroupConfigurations": [group]}})


# A life


def test_an_eks_group_is_toggled_in_both_directions_and_the_autoscalers_size_is_kept(bed: Bed, operator: Path) -> None:
    eks, path = Eks(bed), deployment(EKS, "work-t")
    scaled = {"name": "t", "count": 77, AUTOSCALED: {"minCount": 2, "maxCount": 4}}
    eks.set(scaled)
    wait_settled(bed, path, 2, limits=("2", "4"))
    bed.api.merge(f"{path}/scale?fieldManager=cluster-autoscaler", {"spec": {"replicas": 3}})
    assert owners(bed, path, "spec", "replicas") == {("cluster-autoscaler", "Update", "scale")}
    for count, clamped in ((1, 2), (6, 4), (3, 3)):
        eks.set({"name": "t", "count": count})
        wait_settled(bed, path, count, limits=None)
        eks.set(scaled)
        wait_settled(bed, path, clamped, limits=("2", "4"))
    eks.set({**scaled, AUTOSCALED: {"minCount": 1, "maxCount": 2}})  # narrower: it keeps what it has
    wait_settled(bed, path, 3, limits=("1", "2"))
    wanted = ("False", "AutoscalerConstraintNotMet", "Worker nodes count for work-t not between 1 and 2 yet (3 actual)")
    api.wait_for("the truth about it", eks.ready, lambda seen: seen == wanted, within_s=WITHIN_S)
    bed.api.merge(f"{path}/scale?fieldManager=cluster-autoscaler", {"spec": {"replicas": 1}})
    api.wait_for("in bounds again", eks.ready, lambda seen: seen[0] == "True", within_s=WITHIN_S)
    eks.set()
    api.wait_for("no group, no MachineDeployment", lambda: bed.api.find(path), lambda found: found is None)


def test_a_lattice_pool_is_toggled_in_both_directions_and_its_status_says_what_is_there(
    bed: Bed, operator: Path
) -> None:
    lattice, path = Lattice(bed), deployment(LATTICE, "lat-pool-t")
    lattice.set(t={"replicas": 2, "min": 1, "max": 4})
    wait_settled(bed, path, 2, limits=("1", "4"))
    bed.api.merge(f"{path}/scale?fieldManager=cluster-autoscaler", {"spec": {"replicas": 3}})
    lattice.set(t={"replicas": 9, "min": 1, "max": 4})
    told = "pool 't': replicas (9) ignored, autoscaler will manage within [1, 4]"
    api.wait_for("it says so", lambda: lattice.status("t").get("message"), lambda seen: seen == told, within_s=WITHIN_S)
    wait_settled(bed, path, 3, limits=("1", "4"))
    lattice.set(t={"replicas": 1})
    wait_settled(bed, path, 1, limits=None)
    lattice.set(t={"replicas": 1, "min": 2, "max": 4})
    wait_settled(bed, path, 2, limits=("2", "4"))
    wanted: Object = {"desired_replicas": 2, "current_replicas": 2, "ready_replicas": 2, "autoscaling_enabled": True}
    wanted |= {
        "autoscaling_min": 2,
        "autoscaling_max": 4,
        "message": "pool 't': replicas (1) ignored, autoscaler will manage within [2, 4]",
    }
    api.wait_for("all of it is told", lambda: lattice.status("t"), lambda seen: seen == wanted, within_s=WITHIN_S)
    messages = {told, wanted["message"]}
    # Events are written beside what they are about.
    found = api.wait_for(
        "both are told", lambda: _ignored(bed), lambda seen: {event["message"] for event in seen} >= messages
    )
    assert sorted(event["message"] for event in found) == sorted(messages), "each is told once"
    assert {(event["type"], event["action"]) for event in found} == {("Warning", "Reconciling")}
    lattice.set(t={"replicas": 0})
    wait_settled(bed, path, 0, limits=None)


def test_pools_in_a_namespace_that_the_autoscaler_does_not_look_at_say_so(bed: Bed, operator: Path) -> None:
    pool = {**templates("plain", "lat"), "replicas": 0, "min": 1, "max": 2}
    spec = {"nodes": {"worker_pools": {"general": pool}}}
    made = bed.api.add(objects.made("lattice.io/v1alpha1", "LatticeCluster", "away", "default", spec))
    path = f"{api.path_of(made)}/away"

    def told() -> tuple[set[str], str]:
        found = bed.api.items("/api/v1/namespaces/default/events", fieldSelector="reason=PoolsNotDiscovered")
        status = bed.api.get(path).get("status", {}).get("worker_pools", {}).get("general", {})
        return {event["message"] for event in found}, status.get("message", "")

    _, message = api.wait_for("it says so", told, lambda seen: seen[0] == {seen[1]}, within_s=WITHIN_S)
    assert "namespace default" in message
    assert "discovers pools in capi-system" in message
    bed.api.delete(path)


def _ignored(bed: Bed) -> list[Object]:
    """Events about replicas of the LatticeCluster that do not count."""
    found = bed.api.items(f"/api/v1/namespaces/{LATTICE}/events", fieldSelector="reason=ReplicasIgnored")
    return [event for event in found if event["involvedObject"]["name"] == "lat"]


def test_the_autoscaler_moves_pools_from_1_to_10_to_2_and_no_operator_is_in_its_way(
    bed: Bed, gateway: Gateway, operator: Path, tmp_path: Path
) -> None:
    eks, lattice = Eks(bed), Lattice(bed)
    paths = deployment(EKS, "work-a"), deployment(LATTICE, "lat-pool-a")
    scaled = templates("scaled")
    eks.set({"name": "a", "count": 1, AUTOSCALED: {"minCount": 1, "maxCount": 10}, **scaled})
    lattice.set(t={"replicas": 0}, a={"min": 1, "max": 10, **templates("scaled", "lat")})
    wait_settled(bed, deployment(LATTICE, "lat-pool-t"), 0, limits=None)
    for namespace, path in zip((EKS, LATTICE), paths, strict=True):
        wait_settled(bed, path, 1, limits=("1", "10"))
        # A node is no pattern for others in its first minute; what is written here is known at once.
        bed.api.merge(path, {"metadata": {"annotations": {LABELS: f"pool={namespace}-scaled"}}})
    api.wait_for("workers are ready", eks.ready, lambda seen: seen[0] == "True", within_s=WITHIN_S)
    # The first word of a line is looked at. The rest is for whoever reads why one should not be there.
    watched = (
        ("clusters.anywhere.eks.amazonaws.com", EKS, "work", WORKERS_READY),
        *(
            ("machinedeployments", namespace, path.rpartition("/")[2], SIZES)
            for namespace, path in zip((EKS, LATTICE), paths, strict=True)
        ),
    )
    reasons, *sizes = (tmp_path / f"{kind}-{namespace}" for kind, namespace, _, _ in watched)
    began_s = time.monotonic()
    with contextlib.ExitStack() as stack:
        for (*of, what), to in zip(watched, (reasons, *sizes), strict=True):
            stack.enter_context(_watching(bed, of, what, to))
        stack.enter_context(_poked(bed, eks.path, lattice.path))
        stack.enter_context(_autoscaling(bed, tmp_path))
        _need(bed, 10, *paths)
        for path, operator_name in zip(paths, ("eks-a-controller", "lattice-operator"), strict=True):
            assert owners(bed, path, "spec", "replicas") == {("cluster-autoscaler", "Update", "scale")}
            for field in (
                ("metadata", "annotations", MIN),
                ("metadata", "annotations", MAX),
                ("spec", "template", "spec", "clusterName"),
            ):
                assert (operator_name, "Apply", "") in owners(bed, path, *field)
        status = unstructured.find_field_owners(bed.api.get(paths[1]), ("status", "readyReplicas"))
        assert {owner.subresource for owner in status} == {"status"}
        assert not {owner.manager for owner in status} & {"lattice-operator", "cluster-autoscaler"}
        _need(bed, 2, *paths)
        time.sleep(2.0)  # they go on looking, and change nothing
        assert [_ready(bed, path) for path in paths] == [(2, 2), (2, 2)]
        for to in sizes:  # what is watched may be some way behind
            api.wait_for(f"the last size is in {to}", lambda to=to: _first(_lines(to)[-1]), lambda seen: seen == "2")  # type: ignore[misc]
    assert len(_lines(reasons)) > 20, "they were kept busy"
    assert {_first(line) for line in _lines(reasons)} <= {"-", "OutdatedInformation"}, "\n".join(
        dict.fromkeys([*_lines(reasons), *_lines(sizes[0])])
    )
    assert _written(gateway, began_s, "/machinedeployments/") == [], "no operator wrote a pool"
    for to in sizes:
        seen = [int(_first(line)) for line in _lines(to)]
        top = seen.index(10)
        assert seen[:top] == sorted(seen[:top]), seen
        assert seen[top:] == sorted(seen[top:], reverse=True), seen
        assert (seen[0], seen[-1]) == (1, 2)
    api.wait_for("all is told", eks.ready, lambda seen: seen[0] == "True", within_s=WITHIN_S)
    api.wait_for(
        "and all", lambda: lattice.status("a").get("ready_replicas"), lambda seen: seen == 2, within_s=WITHIN_S
    )
    _wait_quiet(gateway)
    _wait_unchanged(bed, paths[0])
    asyncio.run(_apply_again(bed, paths[0]))


def _wait_quiet(gateway: Gateway) -> None:
    """A quiet system writes nothing: until no operator has for a while."""
    began_s = time.monotonic()

    def probe() -> tuple[float, list[str]]:
        written = [call.at_s for call in gateway.since(0.0) if call.method not in ("GET", "HEAD")]
        return time.monotonic() - max(began_s, *written), _written(gateway, began_s)

    api.wait_for("nothing is written", probe, lambda seen: seen[0] > QUIET_S, WITHIN_S, 0.5)


def _wait_unchanged(bed: Bed, path: str) -> None:
    """Until Cluster API has said all that it has to say of a MachineDeployment."""

    def probe() -> tuple[str, str]:
        before = bed.api.get(path)["metadata"]["resourceVersion"]
        time.sleep(3.0)
        return before, bed.api.get(path)["metadata"]["resourceVersion"]

    api.wait_for(f"{path} stays as it is", probe, lambda seen: seen[0] == seen[1], WITHIN_S)


def _lines(of: Path) -> list[str]:
    """The whole ones: another may be half written."""
    return of.read_text().rpartition("\n")[0].splitlines()


def _first(line: str) -> str:
    """Its first word; `-` if it has none."""
    return line.partition(" ")[0] or "-"


def _written(gateway: Gateway, since_s: float, where: str = "") -> list[str]:
    calls = [call for call in gateway.since(since_s) if call.method not in ("GET", "HEAD") and where in call.path]
    return [f"{call.method} {call.path}" for call in calls]


async def _apply_again(bed: Bed, path: str) -> None:
    """The operator's own apply, once more, although there is nothing to write: the server changes nothing."""
    before = bed.api.get(path)
    wanted = machine_deployments.DesiredMachineDeployment(
        "cluster.x-k8s.io/v1beta2",
        EKS,
        before["metadata"]["name"],
        "work",
        machine_deployments.parse_machine_template(templates("scaled")),
        ReplicaLimits(1, 10),
    )
    async with rest_config.load_rest_config(clock.RealClock(), str(bed.kubeconfig)).connect() as carrier:
        found = client.Client(carrier, clock.RealClock(), client.ClientSettings(qps=0))
        hands = machine_deployment_applier.MachineDeploymentApplier(found, wanted.api_version, "eks-a-controller")
        again = machine_deployments.ApplyMachineDeployment(
            wanted.name, machine_deployments.build_manifest(wanted, None), uid=before["metadata"]["uid"]
        )
        outcome = await hands.apply([again], EKS)
    assert outcome == machine_deployment_applier.ApplyResult()
    after = bed.api.get(path)
    assert after["metadata"]["managedFields"] == before["metadata"]["managedFields"]
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


@contextlib.contextmanager
def _watching(bed: Bed, of: Sequence[str], what: str, to: Path) -> Iterator[None]:
    """Every state that an object goes through, one line each."""
    kind, namespace, name = of
    command = [str(cache.binary(components.KUBECTL)), "--kubeconfig", str(bed.kubeconfig), "get", kind, name]
    command += ["-n", namespace, "--watch", "-o", f'jsonpath={what}{{"\\n"}}']
    with to.open("wb") as lines:
        process = subprocess.Popen(command, stdout=lines)
    try:
        api.wait_for(f"{name} is watched", lambda: _lines(to), within_s=WITHIN_S)
        yield
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def _poked(bed: Bed, *paths: str) -> Iterator[None]:
    """Operators that always have something to look at."""
    ended = threading.Event()

    def poke() -> None:
        number = 0
        while not ended.wait(0.5):
            number += 1
            for path in paths:
                with contextlib.suppress(api.Refused):  # somebody else may write at the same moment, all the time
                    bed.api.merge(path, {"metadata": {"annotations": {"poked": str(number)}}})

    thread = threading.Thread(target=poke)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def _autoscaling(bed: Bed, directory: Path) -> Iterator[None]:
    """`windlass autoscaler` as Lattice runs it, with the rights that Lattice gives it, but quicker."""
    handed = model.AutoscalerRules(*rbac.base_rules(model.SYSTEM_NAMESPACE))
    lattice_settings = model.LatticeSettings(autoscaler_image="windlass:test", autoscaler_rights=handed)
    asyncio.run(_deploy(bed, lattice_settings))
    group = "rbac.authorization.k8s.io"
    for kind, namespace in (("ClusterRole", ""), ("Role", model.SYSTEM_NAMESPACE)):
        metadata = {"name": "as-nobody", **({"namespace": namespace} if namespace else {})}
        body = {"apiVersion": f"{group}/v1", "kind": f"{kind}Binding", "metadata": metadata}
        subject = {"apiGroup": group, "kind": "User", "name": NOBODY}
        role = {"apiGroup": group, "kind": kind, "name": model.AUTOSCALER}
        bed.api.add({**body, "roleRef": role, "subjects": [subject]})
    with Gateway(bed.site.server, str(bed.site.files.ca)) as gateway:
        kubeconfig = write_kubeconfig(directory / "kubeconfig", bed.site.kubeconfig(NOBODY), gateway.port)
        flags = [
            *reconcile.autoscaler_flags(lattice_settings),
            f"--node-group-auto-discovery=clusterapi:namespace={EKS}",
            "-v=4",
        ]
        live = Live(kubeconfig, directory / "autoscaler.log", flags)
        live.start(*QUICKER)
        try:
            yield
        except BaseException:
            print(live.log.read_text()[-6000:])
            raise
        finally:
            live.stop()
        assert [call for call in gateway.calls if call.status in (401, 403)] == [], "it lacks a right"


async def _deploy(bed: Bed, lattice_settings: model.LatticeSettings) -> None:
    """The operator has done so already; what someone changes is put right."""
    path = f"/apis/apps/v1/namespaces/{model.SYSTEM_NAMESPACE}/deployments/{model.AUTOSCALER}"
    before = api.wait_for("the operator runs an autoscaler", lambda: bed.api.find(path))
    assert before is not None
    async with rest_config.load_rest_config(clock.RealClock(), str(bed.kubeconfig)).connect() as carrier:
        deploying = controller.AutoscalerDeployer(
            client.Client(carrier, clock.RealClock(), client.ClientSettings(qps=0)), lattice_settings
        )
        assert await deploying.apply() == []
        assert bed.api.get(path)["metadata"]["generation"] == before["metadata"]["generation"], (
            "nothing is written twice"
        )
        bed.api.merge(path, {"spec": {"replicas": 0}})
        assert await deploying.apply() == []
        assert bed.api.get(path)["spec"]["replicas"] == 1, "what someone changed is put right"
    _check_privileges(bed, bed.api.get(path)["spec"]["template"])


def _check_privileges(bed: Bed, template: Any) -> None:
    """The pod runs what every image of a cluster-autoscaler has, is probed, and needs no privilege."""
    (container,) = template["spec"]["containers"]
    assert container["command"][0] == "/cluster-autoscaler"
    assert container["livenessProbe"]["httpGet"]["path"] == "/health-check"
    namespace = f"/api/v1/namespaces/{model.SYSTEM_NAMESPACE}"
    bed.api.merge(namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
    metadata = {**template["metadata"], "name": "autoscaler-as-deployed", "namespace": model.SYSTEM_NAMESPACE}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    with pytest.raises(api.Refused, match="violates PodSecurity"):
        bed.api.add({**pod, "spec": {**pod["spec"], "hostNetwork": True}})
    bed.api.add(pod)
    bed.api.delete(f"{namespace}/pods/{metadata['name']}")


def _pods(bed: Bed, namespace: str, count: int) -> None:
    """As many nodes of a pool are needed."""
    name = f"on-{namespace}"
    path = f"/apis/apps/v1/namespaces/default/replicasets/{name}"
    if bed.api.find(path) is not None:
        bed.api.merge(path, {"spec": {"replicas": count}})
        return
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    pod = {"containers": [container], "nodeSelector": {"pool": f"{namespace}-scaled"}}
    spec = {"replicas": count, "selector": {"matchLabels": {"app": name}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    bed.api.add(objects.made("apps/v1", "ReplicaSet", name, "default", {**spec, "template": template}))


def _need(bed: Bed, count: int, *paths: str) -> None:
    """Have pods for so many nodes of each pool, and wait until the pools have them."""
    for namespace in (EKS, LATTICE):
        _pods(bed, namespace, count)
    wanted = [(count, count)] * len(paths)
    api.wait_for(
        f"{count} nodes each", lambda: [_ready(bed, path) for path in paths], lambda seen: seen == wanted, 300.0
    )


def _ready(bed: Bed, path: str) -> tuple[int, int]:
    found = bed.api.get(path)
    return found["spec"]["replicas"], found["status"].get("readyReplicas") or 0
