"""The fake infrastructure under Cluster API: machines come and go with the replicas, and fare as they are told."""

import datetime
from collections.abc import Iterator

import pytest

from testbed import api, clusterapi, objects
from testbed.bed import Bed
from testbed.infrastructure.knobs import PREFIX

_MACHINES = "/apis/cluster.x-k8s.io/v1beta2/namespaces/{}/machines"
_INSTANCES = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/{}/fakemachines"


class Group:
    """A MachineDeployment, or MachinePool, with the name of the test that uses it."""

    def __init__(self, server: api.Api, body: api.Object) -> None:
        self.server = server
        self.name: str = body["metadata"]["name"]
        self.namespace: str = body["metadata"]["namespace"]
        self.path = f"{api.path_of(body)}/{self.name}"

    def scale(self, replicas: int) -> None:
        self.server.merge(f"{self.path}/scale", {"spec": {"replicas": replicas}})

    def tell(self, **knobs: str | None) -> None:
        """Turn the knobs of all its machines: `boot_seconds="2"`."""
        self.server.merge(self.path, {"metadata": {"annotations": _annotations(knobs)}})

    def tell_machine(self, name: str, **knobs: str | None) -> None:
        path = f"{_MACHINES.format(self.namespace)}/{name}"
        self.server.merge(path, {"metadata": {"annotations": _annotations(knobs)}})

    def status(self) -> api.Object:
        found: api.Object = self.server.get(self.path).get("status", {})
        return found

    def machines(self) -> list[api.Object]:
        label = f"cluster.x-k8s.io/deployment-name={self.name}"
        return self.server.items(_MACHINES.format(self.namespace), labelSelector=label)

    def nodes(self) -> list[api.Object]:
        """Those that the fake infrastructure made for this group: its machines' names begin with the group's."""
        return [
            node for node in self.server.items("/api/v1/nodes") if node["metadata"]["name"].startswith(self.name + "-")
        ]

    def wait_available(self, replicas: int) -> None:
        """So many by its status, and so many Nodes that are Ready: Machines that go are counted no more."""

        def counts() -> tuple[int, ...]:
            status = self.status()
            counted = tuple(status.get(name, 0) for name in ("replicas", "readyReplicas", "availableReplicas"))
            return *counted, sum(clusterapi.has_condition(node, "Ready") for node in self.nodes())

        api.wait_for(f"{self.name}: {replicas} available", counts, lambda seen: seen == (replicas,) * 4)


def _annotations(knobs: dict[str, str | None]) -> dict[str, str | None]:
    return {PREFIX + name.replace("_", "-"): value for name, value in knobs.items()}


def _condition(body: api.Object, kind: str) -> api.Object:
    found = [condition for condition in body.get("status", {}).get("conditions", ()) if condition["type"] == kind]
    return found[0] if found else {}


@pytest.fixture(scope="module")
def namespace(control_plane: Bed) -> str:
    """With a Cluster of the same name in it: Nodes are named after Machines, and have no namespace."""
    server = control_plane.api
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "machines-"}}
    name: str = server.add(body)["metadata"]["name"]
    clusterapi.add_cluster(server, control_plane.kubeconfig, name, name)
    return name


@pytest.fixture
def group(control_plane: Bed, namespace: str, request: pytest.FixtureRequest) -> Iterator[Group]:
    """A MachineDeployment of no machines, named after the test."""
    name = "md-" + request.node.name.removeprefix("test_").replace("_", "-")[:40].strip("-")
    template, deployment = objects.machine_deployment(name, 0, cluster=namespace, namespace=namespace)
    control_plane.api.add(template)
    control_plane.api.add(deployment)
    found = Group(control_plane.api, deployment)
    yield found
    control_plane.api.delete(found.path)


def test_replicas_become_nodes_and_the_marked_machine_goes_first(group: Group) -> None:
    group.scale(3)
    group.wait_available(3)
    nodes = {node["spec"]["providerID"]: node["metadata"]["name"] for node in group.nodes()}
    machines = group.machines()
    assert {machine["spec"]["providerID"]: machine["status"]["nodeRef"]["name"] for machine in machines} == nodes
    marked = machines[1]["metadata"]["name"]
    path = f"{_MACHINES.format(group.namespace)}/{marked}"
    group.server.merge(path, {"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": "yes"}}})
    group.scale(2)
    api.wait_for("the marked machine is gone", lambda: group.server.find(path), lambda found: found is None)
    group.wait_available(2)
    assert {node["metadata"]["name"] for node in group.nodes()} == set(nodes.values()) - {marked}


def test_nodes_look_as_the_template_says_and_the_template_says_it_at_zero(control_plane: Bed, namespace: str) -> None:
    server = control_plane.api
    shape = {
        "capacity": {"cpu": "64", "memory": "256Gi", "pods": "250", "nvidia.com/gpu": "8"},
        "labels": {"topology.kubernetes.io/zone": "zone-b"},
        "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
    }
    template, deployment = objects.machine_deployment(
        "md-shaped", 0, cluster=namespace, namespace=namespace, node=shape
    )
    path = f"{api.path_of(server.add(template))}/md-shaped"
    status = api.wait_for("the capacity", lambda: server.get(path).get("status", {}), lambda seen: "capacity" in seen)
    assert status["capacity"] == shape["capacity"]
    group = Group(server, server.add(deployment))
    group.scale(1)
    group.wait_available(1)
    node = group.nodes()[0]
    assert node["status"]["capacity"] == shape["capacity"]
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-b"
    assert node["metadata"]["labels"]["node.cluster.x-k8s.io/group"] == "md-shaped"
    assert shape["taints"][0] in node["spec"]["taints"]  # type: ignore[index]
    server.delete(group.path)


def test_a_slow_cloud_gives_no_instance_until_it_is_told_to_hurry(group: Group) -> None:
    group.tell(provision_seconds="3600")
    group.scale(1)
    # Cluster API writes conditions before the rest of a status.
    (machine,) = api.wait_for(
        "it waits", group.machines, lambda seen: [(_reason(item), _phase(item)) for item in seen] == [_WAITING]
    )
    assert "providerID" not in machine["spec"]
    assert group.nodes() == []
    group.tell(provision_seconds="0")
    group.wait_available(1)


def test_an_instance_that_boots_slowly_has_an_id_and_no_node(group: Group) -> None:
    group.tell(boot_seconds="3600")
    group.scale(1)
    (machine,) = api.wait_for("an instance", group.machines, lambda seen: [*map(_phase, seen)] == ["Provisioned"])
    assert machine["spec"]["providerID"] == f"fake:///{group.namespace}/{machine['metadata']['name']}"
    assert group.nodes() == []
    group.tell(boot_seconds=None)
    group.wait_available(1)


def test_an_instance_that_boots_in_seconds_gets_its_id_with_its_node(group: Group) -> None:
    group.tell(boot_seconds="3")
    group.scale(1)
    named_before_its_node: set[str] = set()

    def probe() -> list[str]:
        """Machines that have an id; those whose Node is not there, though it is looked for later, are noted."""
        named = [machine["metadata"]["name"] for machine in group.machines() if "providerID" in machine["spec"]]
        named_before_its_node.update({*named} - {node["metadata"]["name"] for node in group.nodes()})
        return named

    api.wait_for("it has an id", probe, lambda named: len(named) == 1)
    assert named_before_its_node == set()
    group.wait_available(1)
    (machine,), (node,) = group.machines(), group.nodes()
    instance = group.server.get(f"{_INSTANCES.format(group.namespace)}/{machine['metadata']['name']}")
    assert _created_s(node) - _created_s(instance) >= 2, "it took its time"
    assert instance["status"]["instance"] == "Registered"
    assert instance["spec"]["providerID"] == machine["spec"]["providerID"]


def test_a_node_that_is_slow_to_get_ready_is_registered_before(group: Group) -> None:
    group.tell(ready_seconds="3600")
    group.scale(1)
    api.wait_for(
        "a Node",
        group.machines,
        lambda seen: seen and "nodeRef" in seen[0].get("status", {}) and _phase(seen[0]) == "Running",
    )
    assert not clusterapi.has_condition(group.nodes()[0], "Ready")
    assert group.status().get("availableReplicas", 0) == 0
    group.tell(ready_seconds="0")
    group.wait_available(1)


def test_time_that_was_asked_for_passes(group: Group) -> None:
    group.tell(provision_seconds="0.5", boot_seconds="0.5", ready_seconds="0.5", terminate_seconds="0.5")
    group.scale(1)
    group.wait_available(1)
    group.scale(0)
    group.wait_available(0)


def test_a_cloud_that_fails_says_why_takes_machines_back_and_can_recover(group: Group) -> None:
    group.tell(fail="quota exceeded")
    group.scale(2)
    machines = api.wait_for(
        "both fail", group.machines, lambda seen: [*map(_reason, seen)] == ["ProvisioningFailed"] * 2
    )
    for machine in machines:
        assert "quota exceeded" in _condition(machine, "InfrastructureReady")["message"]
        assert "nodeRef" not in machine["status"]
    assert group.nodes() == []
    group.scale(1)
    api.wait_for("one is left", group.machines, lambda seen: len(seen) == 1)
    group.tell(fail=None)
    group.wait_available(1)


def test_a_knob_that_makes_no_sense_is_named_as_the_reason(group: Group) -> None:
    group.tell(provision_seconds="soon")
    group.scale(1)
    (machine,) = api.wait_for("it fails", group.machines, lambda seen: [*map(_reason, seen)] == ["ProvisioningFailed"])
    said = _condition(machine, "InfrastructureReady")["message"]
    assert "fake.infrastructure/provision-seconds: found 'soon', accepted is a number of seconds" in said


def test_a_lost_instance_takes_its_node_along_and_its_machine_stays(group: Group) -> None:
    group.scale(2)
    group.wait_available(2)
    lost, kept = (machine["metadata"]["name"] for machine in group.machines())
    group.tell_machine(lost, lose="gone")
    api.wait_for("its Node is gone", lambda: group.server.find(f"/api/v1/nodes/{lost}"), lambda found: found is None)
    api.wait_for("one is available", group.status, lambda seen: seen.get("availableReplicas") == 1)

    def reasons() -> dict[str, str]:
        return {machine["metadata"]["name"]: _reason(machine) for machine in group.machines()}

    told = {lost: "InstanceTerminated", kept: "Provisioned"}
    api.wait_for("the Machine says what became of it", reasons, lambda seen: seen == told)
    group.tell_machine(lost, lose=None)
    group.server.delete(f"{_MACHINES.format(group.namespace)}/{lost}")
    group.wait_available(2)
    assert lost not in [node["metadata"]["name"] for node in group.nodes()]


def test_an_unreachable_node_stays_and_comes_back(group: Group) -> None:
    group.scale(1)
    group.wait_available(1)
    name = group.machines()[0]["metadata"]["name"]

    def node() -> api.Object:
        return group.server.get(f"/api/v1/nodes/{name}")

    def is_tainted(node: api.Object) -> bool:
        return "node.kubernetes.io/unreachable" in [taint["key"] for taint in node["spec"].get("taints", ())]

    group.tell(lose="unreachable")
    # A word of KWOK that it is Ready may come between: that is taken back.
    api.wait_for(
        "it is tainted as unreachable",
        node,
        lambda seen: is_tainted(seen) and clusterapi.has_condition(seen, "Ready", "Unknown"),
    )
    api.wait_for("it is not available", group.status, lambda seen: seen.get("availableReplicas") == 0)
    group.tell(lose=None)
    api.wait_for("the taint goes", node, lambda seen: not is_tainted(seen) and clusterapi.has_condition(seen, "Ready"))
    group.wait_available(1)


@pytest.mark.parametrize("machines", [False, True])
def test_a_machine_pool_has_as_many_nodes_as_replicas(control_plane: Bed, namespace: str, machines: bool) -> None:
    server = control_plane.api
    name = "mp-shown" if machines else "mp-plain"
    infrastructure, pool = objects.machine_pool(name, 2, cluster=namespace, namespace=namespace, machines=machines)
    server.add(infrastructure)
    group = Group(server, server.add(pool))

    def nodes() -> int:
        return len(group.status().get("nodeRefs", ()))

    for replicas in (2, 4, 1):
        group.scale(replicas)
        api.wait_for(f"{replicas} nodeRefs", nodes, lambda seen, wanted=replicas: seen == wanted)  # type: ignore[misc]
        api.wait_for("as many Nodes", lambda: len(group.nodes()), lambda seen, wanted=replicas: seen == wanted)  # type: ignore[misc]
    label = f"cluster.x-k8s.io/pool-name={name}"
    api.wait_for(
        "as many Machines",
        lambda: len(server.items(_MACHINES.format(namespace), labelSelector=label)),
        lambda seen: seen == (1 if machines else 0),
    )
    server.delete(group.path)
    api.wait_for("all is gone", lambda: group.nodes() or server.find(group.path), lambda seen: not seen)


def test_a_node_name_that_is_taken_is_said_and_waited_for(control_plane: Bed, namespace: str) -> None:
    other = "taken-name"
    server = control_plane.api
    server.add(objects.made("v1", "Node", other, "", {"providerID": "other:///instance"}))
    for body in objects.machine(other, cluster=namespace, namespace=namespace):
        server.add(body)
    path = f"{_MACHINES.format(namespace)}/{other}"
    api.wait_for("it says so", lambda: _reason(server.get(path)), lambda seen: seen == "NodeNameTaken")
    server.delete(f"/api/v1/nodes/{other}")
    api.wait_for("it has its Node", lambda: server.get(path)["status"].get("nodeRef"))
    server.delete(path)


def test_a_node_that_cluster_api_leaves_behind_goes_after_its_instance(control_plane: Bed, namespace: str) -> None:
    """Cluster API deletes the Node of a Machine only where it knew of it."""
    server, name = control_plane.api, "unknown-node"
    for body in objects.machine(name, cluster=namespace, namespace=namespace):
        body["metadata"]["annotations"] = _annotations({"fail": "quota exceeded"})
        server.add(body)
    path = f"{_MACHINES.format(namespace)}/{name}"
    api.wait_for("it has failed", lambda: _reason(server.get(path)), lambda seen: seen == "ProvisioningFailed")
    server.add(objects.made("v1", "Node", name, "", {"providerID": f"fake:///{namespace}/{name}"}))
    server.delete(path)
    api.wait_for("the Machine is gone", lambda: server.find(path), lambda seen: seen is None)
    assert server.find(f"/api/v1/nodes/{name}"), "Cluster API leaves it"
    api.wait_for("the Node is gone", lambda: server.find(f"/api/v1/nodes/{name}"), lambda seen: seen is None)


def test_pods_that_wait_for_room_run_once_the_group_has_grown(group: Group) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pods = {"containers": [container], "nodeSelector": {"node.cluster.x-k8s.io/group": group.name}}
    labels = {"app": "wants-room"}
    spec = {
        "replicas": 6,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pods},
    }
    deployment = objects.made("apps/v1", "Deployment", "wants-room", group.namespace, spec)
    path = f"{api.path_of(deployment)}/wants-room"
    group.scale(1)
    group.server.add(deployment)

    def running() -> int:
        found: int = group.server.get(path).get("status", {}).get("readyReplicas", 0)
        return found

    api.wait_for("four of six run on four cores", running, lambda seen: seen == 4)
    group.scale(2)
    api.wait_for("all six run on two nodes", running, lambda seen: seen == 6)
    group.server.delete(path)


def _reason(machine: api.Object) -> str:
    """Why the infrastructure of a Machine is, or is not, ready."""
    reason: str = _condition(machine, "InfrastructureReady").get("reason", "")
    return reason


def _phase(machine: api.Object) -> str:
    phase: str = machine.get("status", {}).get("phase", "")
    return phase


_WAITING = ("Provisioning", "Pending")


def _created_s(body: api.Object) -> float:
    return datetime.datetime.fromisoformat(body["metadata"]["creationTimestamp"]).timestamp()
