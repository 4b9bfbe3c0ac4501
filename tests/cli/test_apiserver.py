"""`windlass apiserver`: a process that serves what it was given, until it is asked to end."""

import json
import signal
import stat
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apiserver.server_process import serve
from tests.cli.run import ROOT, windlass

EXAMPLE = ROOT / "examples" / "cluster-api.yaml"
MACHINES = "/apis/cluster.x-k8s.io/v1beta2/machines"


def get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_objects_are_served_with_their_status_and_uid_and_sigterm_ends_it(tmp_path: Path) -> None:
    with serve(tmp_path, "--objects", EXAMPLE) as served:
        [node] = get(f"{served.url}/api/v1/nodes")["items"]
        assert node["status"]["allocatable"]["cpu"] == "4"
        assert "taints" not in node["spec"]
        [machine] = get(served.url + MACHINES)["items"]
        assert machine["status"]["nodeRef"] == {"name": "workers-1-a"}
        assert machine["metadata"]["ownerReferences"][0]["uid"] == "ms-workers-1"
        [owner] = get(f"{served.url}/apis/cluster.x-k8s.io/v1beta2/machinesets")["items"]
        assert owner["metadata"]["uid"] == "ms-workers-1"
        assert stat.S_IMODE(served.kubeconfig.stat().st_mode) == 0o600
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 0


def test_an_open_watch_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    with serve(tmp_path) as served, urllib.request.urlopen(f"{served.url}/api/v1/nodes?watch=true", timeout=60):
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(60) == 0


def test_definitions_of_a_folder_are_served_in_their_stored_version(tmp_path: Path) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == "v2", "schema": schema} for name in ("v1", "v2")]
    names = {"kind": "Machine", "plural": "machines"}
    spec = {"group": "cluster.x-k8s.io", "scope": "Namespaced", "names": names, "versions": versions}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    crds = tmp_path / "crds"
    crds.mkdir()
    (crds / "machines.yaml").write_text(
        yaml.safe_dump({**kind, "metadata": {"name": "machines.cluster.x-k8s.io"}, "spec": spec})
    )
    with serve(tmp_path, "--crds", crds) as served:
        assert get(f"{served.url}/apis/cluster.x-k8s.io/v2/machines")["items"] == []
        assert get(f"{served.url}/apis/cluster.x-k8s.io/v1beta2/machinesets")["items"] == []
    assert "machines.cluster.x-k8s.io: serving v2 only, not v1" in (tmp_path / "apiserver.log").read_text()


def test_a_kubeconfig_of_someone_else_is_not_replaced(tmp_path: Path) -> None:
    theirs = tmp_path / "config"
    theirs.write_text("apiVersion: v1\nkind: Config\ncurrent-context: production\n")
    outcome = windlass("apiserver", "--kubeconfig", theirs)
    assert outcome.code == 2
    assert "was not written by this command" in outcome.err
    assert "production" in theirs.read_text()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: Pod\nmetadata: {name: p}\n", "expected an object with apiVersion and kind"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", 'Pod p: Pod "p" is invalid: spec.containers'),
        ("apiVersion: x/v1\nkind: Nothing\nmetadata: {name: p}\n", 'Nothing p: no matches for kind "Nothing"'),
        ("apiVersion: v1\nkind: Pod\nmetadata: 5\n", "Pod: found metadata 5, expected a name"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: [1]}\n", "found namespace [1], expected a string"),
    ],
)
def test_an_object_that_cannot_be_created_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(text)
    outcome = windlass("apiserver", "--objects", file)
    assert outcome.code == 2
    assert complaint in outcome.err


def test_pods_of_an_owner_that_is_not_given_are_kept(tmp_path: Path) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "gone", "controller": True}
    spec = {"containers": [{"name": "c", "image": "i"}], "priority": 7, "priorityClassName": "unknown"}
    pod = {"metadata": {"name": "p", "namespace": "far", "uid": "u-1", "ownerReferences": [owner]}, "spec": spec}
    file = tmp_path / "pods.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [pod]}))
    with serve(tmp_path, "--objects", file) as served:
        [found] = get(f"{served.url}/api/v1/namespaces/far/pods")["items"]
    assert (found["metadata"]["uid"], found["spec"]["priority"]) == ("u-1", 7)
    assert found["metadata"]["ownerReferences"] == [owner]
