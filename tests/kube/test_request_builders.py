from typing import Any

import msgspec
import pytest

from windlass.kube import request_builders, resources
from windlass.kube.request_builders import DeleteOptions, ListOptions, WriteOptions
from windlass.kube.transport import Request

ME = WriteOptions("me")


def body(request: Request) -> Any:
    return msgspec.json.decode(request.body)


@pytest.mark.parametrize(
    ("resource", "where", "path"),
    [
        (resources.NODES, (), "/api/v1/nodes"),
        (resources.NODES, ("", "n1"), "/api/v1/nodes/n1"),
        (resources.NODES, ("ignored", "n1", "status"), "/api/v1/nodes/n1/status"),
        (resources.PODS, (), "/api/v1/pods"),
        (resources.PODS, ("ns",), "/api/v1/namespaces/ns/pods"),
        (resources.PODS, ("ns", "p", "eviction"), "/api/v1/namespaces/ns/pods/p/eviction"),
        (resources.DEPLOYMENTS, ("ns", "d", "scale"), "/apis/apps/v1/namespaces/ns/deployments/d/scale"),
        (resources.NODES, ("", "system:odd/name %"), "/api/v1/nodes/system:odd%2Fname%20%25"),
        (resources.MACHINES.at("cluster.x-k8s.io/v1beta1"), (), "/apis/cluster.x-k8s.io/v1beta1/machines"),
    ],
)
def test_paths(resource: resources.Resource[Any], where: tuple[str, ...], path: str) -> None:
    assert resource.path(*where) == path


def test_a_list_is_selected_and_paged() -> None:
    request = request_builders.build_list(resources.PODS, ListOptions("ns", "a=b", "spec.nodeName=n"), limit=7)

    assert request.line == "GET /api/v1/namespaces/ns/pods?labelSelector=a=b&fieldSelector=spec.nodeName=n&limit=7"


def test_the_pages_after_the_first_say_nothing_of_versions() -> None:
    request = request_builders.build_list(resources.PODS, continue_token="t", resource_version="5", match="Exact")

    assert dict(request.query) == {"continue": "t"}


def test_a_watch_asks_for_bookmarks_and_has_an_end() -> None:
    request = request_builders.build_watch(resources.PODS, resource_version="5", timeout_s=300, silence_s=60.0)

    assert dict(request.query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "300",
    }
    assert request.timeout_s == 60.0


def test_a_streaming_list_asks_for_the_newest_state() -> None:
    query = dict(request_builders.build_watch(resources.PODS, timeout_s=300, silence_s=60.0, initial_events=True).query)

    assert query["sendInitialEvents"] == "true"
    assert query["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in query


def test_what_is_created_or_replaced_is_sent_whole() -> None:
    pod = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"unknownToUs": [1, None]}}

    created = request_builders.build_create(resources.PODS, pod, writer=ME)
    assert created.line == "POST /api/v1/namespaces/ns/pods?fieldManager=me"
    assert body(created) == pod
    replaced = request_builders.build_update(
        resources.PODS, pod, subresource="status", writer=WriteOptions("me", dry_run=True)
    )
    assert replaced.line == "PUT /api/v1/namespaces/ns/pods/p/status?fieldManager=me&dryRun=All"
    assert body(replaced) == pod


def test_patches_say_which_kind_they_are() -> None:
    merge = request_builders.build_merge_patch(resources.NODES, "n", {"spec": {"taints": None}}, writer=ME)
    steps = request_builders.build_json_patch(resources.NODES, "n", [{"op": "remove", "path": "/spec/taints/0"}])

    assert merge.headers["content-type"] == "application/merge-patch+json"
    assert body(merge) == {"spec": {"taints": None}}
    assert steps.headers["content-type"] == "application/json-patch+json"
    assert body(steps) == [{"op": "remove", "path": "/spec/taints/0"}]


def test_apply_says_what_it_is_and_forces_only_when_told() -> None:
    deployment = {"metadata": {"name": "d", "namespace": "ns"}, "spec": {"replicas": 1}}

    request = request_builders.build_apply(resources.MACHINE_DEPLOYMENTS, deployment, writer=ME)
    assert request.headers["content-type"] == "application/apply-patch+yaml"
    assert body(request) == {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", **deployment}
    assert dict(request.query) == {"fieldManager": "me"}
    forced = request_builders.build_apply(resources.MACHINE_DEPLOYMENTS, deployment, writer=ME, force=True)
    assert dict(forced.query) == {"fieldManager": "me", "force": "true"}


def test_scale_patches_the_subresource_and_can_insist_on_a_version() -> None:
    request = request_builders.build_scale(resources.MACHINE_DEPLOYMENTS, "d", 0, "ns", resource_version="7", writer=ME)

    assert request.path.endswith("/namespaces/ns/machinedeployments/d/scale")
    assert body(request) == {"spec": {"replicas": 0}, "metadata": {"resourceVersion": "7"}}


def test_deletion_carries_its_conditions() -> None:
    how = DeleteOptions(uid="u", resource_version="7", grace_s=0, propagation="Foreground")
    request = request_builders.build_delete(resources.PODS, "p", "ns", how, writer=WriteOptions(dry_run=True))

    assert body(request) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
        "dryRun": ["All"],
    }


def test_an_eviction_is_posted_to_the_pod() -> None:
    request = request_builders.build_evict(resources.PODS, "p", "ns", DeleteOptions(uid="u", grace_s=30))

    assert request.call == "POST /api/v1/namespaces/ns/pods/p/eviction"
    assert body(request) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "ns"},
        "deleteOptions": {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u"},
            "gracePeriodSeconds": 30,
        },
    }
