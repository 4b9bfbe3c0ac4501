"""The control plane is the real one: it serves, knows its users, schedules, and survives the loss of its parts."""

import json
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import api, fixtures, objects, processes, sharing
from testbed.bed import Bed


def _pod(name: str, namespace: str = "default", **spec: object) -> api.Object:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    return objects.made("v1", "Pod", name, namespace, {"containers": [container], **spec})


def _node(name: str, **labels: str) -> api.Object:
    node = objects.made("v1", "Node", name, "", {}, labels, {"kwok.x-k8s.io/node": "fake"})
    size = {"cpu": "2", "memory": "8Gi", "pods": "110"}
    return {**node, "status": {"capacity": size, "allocatable": size}}


def _wait_for_service_account(server: api.Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    api.wait_for(f"the service account of {namespace}", lambda: server.find(path))


def test_the_api_server_answers_with_its_version(real_api_server: Path) -> None:
    assert api.Api(real_api_server).get("/version")["gitVersion"] == "v1.36.3"


def test_nobody_touches_the_nodes_and_pods_of_the_bare_server(real_api_server: Path) -> None:
    server = api.Api(real_api_server)
    _wait_for_service_account(server, "default")
    server.add(_node("untouched"))
    server.add(_pod("untouched", nodeName="untouched"))
    server.add(_pod("later"))
    # By the time that controllers have seen to what is made later, they would have seen to these.
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "later-"}}
    _wait_for_service_account(server, server.add(space)["metadata"]["name"])
    pod = server.get("/api/v1/namespaces/default/pods/untouched")
    assert pod["status"]["phase"] == "Pending"
    assert "conditions" not in server.get("/api/v1/nodes/untouched")["status"]
    assert "nodeName" not in server.get("/api/v1/namespaces/default/pods/later")["spec"]


def test_users_are_known_by_token_and_by_certificate(control_plane: Bed) -> None:
    asked = ("auth", "whoami", "-o", "json")
    assert json.loads(control_plane.kubectl(*asked))["status"]["userInfo"]["username"] == "admin"
    certificate = str(control_plane.site.kubeconfig("admin-by-certificate"))
    found = json.loads(control_plane.kubectl("--kubeconfig", certificate, *asked))["status"]["userInfo"]
    assert found["username"] == "admin-by-certificate"
    assert "system:masters" in found["groups"]


def test_those_without_rights_are_refused(control_plane: Bed) -> None:
    nobody = api.Api(control_plane.site.kubeconfig("nobody"))
    assert nobody.get("/version")["major"] == "1"
    with pytest.raises(api.Refused) as refused:
        nobody.get("/api/v1/nodes")
    assert refused.value.code == 403


def test_a_pod_is_scheduled_on_to_a_node_with_room_and_runs(control_plane: Bed) -> None:
    server = control_plane.api
    server.add(_node("roomy", role="roomy"))
    for number in range(3):
        server.add(_pod(f"wants-room-{number}", nodeSelector={"role": "roomy"}))
    path = "/api/v1/namespaces/default/pods"

    def phases() -> list[str]:
        pods = server.items(path)
        mine = [pod for pod in pods if pod["metadata"]["name"].startswith("wants-room-")]
        return sorted(pod["status"]["phase"] for pod in mine)

    api.wait_for("two of three pods run", phases, lambda seen: seen == ["Pending", "Running", "Running"])
    running = server.items(path, fieldSelector="spec.nodeName=roomy")
    assert len(running) == 2
    server.add(_node("roomier", role="roomy"))
    api.wait_for("all three run", phases, lambda seen: seen == ["Running"] * 3)


@pytest.fixture(scope="module")
def own() -> Iterator[Bed]:
    """A bed of one's own; that it is gone afterwards is asserted here, once the last test is done with it."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.running() as bed:
        yield bed
        started = processes.recorded(bed.site.directory)
    assert {process.name for process in started} == {"etcd", "kube-apiserver", "kube-controller-manager"}
    assert not any(process.is_alive() for process in started)
    assert not bed.site.directory.exists()


def test_a_killed_api_server_comes_back_with_all_it_knew(own: Bed) -> None:
    own.api.add(_node("remembered"))
    own.kill("kube-apiserver")
    with pytest.raises(urllib.error.URLError):
        own.api.get("/api/v1/nodes/remembered")
    own.start("kube-apiserver")
    assert own.api.get("/api/v1/nodes/remembered")["metadata"]["name"] == "remembered"


def test_after_a_compaction_and_a_restart_an_old_version_is_gone(own: Bed) -> None:
    server = own.api
    old = server.add(_node("old"))["metadata"]["resourceVersion"]
    for number in range(3):
        server.add(_node(f"younger-{number}"))
    kept = own.compact()
    assert kept > int(old)
    own.kill("kube-apiserver")
    own.start("kube-apiserver")
    with pytest.raises(api.Refused) as refused:
        server.get(f"/api/v1/nodes?resourceVersion={old}&resourceVersionMatch=Exact")
    assert refused.value.code == 410
