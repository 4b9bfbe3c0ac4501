"""Nodes and their taints; pods, their binding and their priority; events."""

from typing import Any

import pytest

from tests.contracts import objects
from tests.contracts.api_client import EVENTS, JSON_PATCH, NODES, PODS, PRIORITY_CLASSES, STRATEGIC, Api, Json

TAINT: Json = {"key": "example.com/a", "effect": "NoSchedule"}
OTHER: Json = {"key": "example.com/b", "value": "1", "effect": "NoExecute"}


async def _node(api: Api, **spec: Any) -> str:
    name = api.name("node")
    (await api.create(NODES, objects.node(name, **spec))).expect(201)
    return name


async def _taints(api: Api, name: str) -> list[Json]:
    return list((await api.get(NODES, name)).obj["spec"].get("taints") or ())


# ── Taints ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_merge_patch_replaces_all_taints(api: Api) -> None:
    name = await _node(api, taints=[TAINT])
    (await api.merge(NODES, name, {"spec": {"taints": [OTHER]}})).expect(200)
    assert await _taints(api, name) == [OTHER]


async def test_a_stale_version_protects_others_taints(api: Api) -> None:
    name = await _node(api)
    reply = await api.get(NODES, name)
    (await api.merge(NODES, name, {"metadata": {"labels": {"a": "b"}}})).expect(200)
    patch = {"metadata": {"resourceVersion": reply.version}, "spec": {"taints": [TAINT]}}
    (await api.merge(NODES, name, patch)).expect(409)


async def test_a_heartbeat_moves_the_version(api: Api) -> None:
    name = await _node(api)
    before = await api.get(NODES, name)
    beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2024-01-01T00:00:00Z"}
    (await api.merge(NODES, name, {"status": {"conditions": [beat]}}, "status")).expect(200)
    patch = {"metadata": {"resourceVersion": before.version}, "spec": {"taints": [TAINT]}}
    (await api.merge(NODES, name, patch)).expect(409)


async def test_a_json_patch_adds_a_taint_to_a_list_that_is_there(api: Api) -> None:
    name = await _node(api, taints=[TAINT])
    before = await _taints(api, name)
    (await api.json_patch(NODES, name, {"op": "add", "path": "/spec/taints/-", "value": OTHER})).expect(200)
    assert await _taints(api, name) == [*before, OTHER]


async def test_a_json_patch_adds_no_taint_where_there_is_no_list(api: Api) -> None:
    name = await _node(api)
    (await api.merge(NODES, name, {"spec": {"taints": None}})).expect(200)
    reply = await api.json_patch(NODES, name, {"op": "add", "path": "/spec/taints/-", "value": OTHER})
    reply.expect(422)


async def test_a_json_patch_can_guard_the_list(api: Api) -> None:
    name = await _node(api, taints=[TAINT])
    add = {"op": "add", "path": "/spec/taints/-", "value": OTHER}
    wrong = {"op": "test", "path": "/spec/taints", "value": [OTHER]}
    (await api.json_patch(NODES, name, wrong, add)).expect(422)
    right = {"op": "test", "path": "/spec/taints", "value": await _taints(api, name)}
    (await api.json_patch(NODES, name, right, add)).expect(200)


async def test_taints_are_unique_by_key_and_effect(api: Api) -> None:
    name = await _node(api)
    twice = [TAINT | {"value": "1"}, TAINT | {"value": "2"}]
    reply = (await api.merge(NODES, name, {"spec": {"taints": twice}})).expect(422)
    assert "Duplicate value: " in reply.message
    assert "taints must be unique by key and effect pair" in reply.message
    both = [TAINT, TAINT | {"effect": "NoExecute"}]
    (await api.merge(NODES, name, {"spec": {"taints": both}})).expect(200)


async def test_an_unknown_effect_is_refused(api: Api) -> None:
    name = await _node(api)
    reply = (await api.merge(NODES, name, {"spec": {"taints": [TAINT | {"effect": "Never"}]}})).expect(422)
    said = 'Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
    assert said in reply.message


async def test_a_provider_id_is_set_once(api: Api) -> None:
    name = await _node(api)
    (await api.merge(NODES, name, {"spec": {"providerID": "fake://1"}})).expect(200)
    reply = (await api.merge(NODES, name, {"spec": {"providerID": "fake://2"}})).expect(422)
    assert 'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid' in reply.message


async def test_the_status_of_a_node_is_not_changed_by_the_way(api: Api) -> None:
    name = await _node(api)
    reply = (await api.merge(NODES, name, {"status": {"capacity": {"cpu": "1"}}})).expect(200)
    assert "capacity" not in reply.obj["status"]
    (await api.merge(NODES, name, {"status": {"capacity": {"cpu": "1"}}}, "status")).expect(200)
    assert (await api.get(NODES, name)).obj["status"]["capacity"] == {"cpu": "1"}


async def test_a_strategic_patch_replaces_taints_whole(api: Api) -> None:
    name = await _node(api, taints=[TAINT])
    patch = {"spec": {"taints": [OTHER]}}
    reply = await api.call("PATCH", api.path(NODES, name), patch, content_type=STRATEGIC)
    assert reply.expect(200).obj["spec"]["taints"] == [OTHER]


# ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_binding_sets_the_node_and_a_condition(api: Api) -> None:
    made = await api.create(PODS, objects.pod("p"))
    reply = (await api.bind("p", "n1")).expect(201)
    assert reply.obj["status"] == "Success"
    found = await api.get(PODS, "p")
    assert found.obj["spec"]["nodeName"] == "n1"
    [condition] = found.obj["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert found.obj["status"]["phase"] == "Pending"
    # nobody owns what the binding set
    assert found.managed == made.managed


async def test_a_pod_is_bound_once(api: Api) -> None:
    (await api.create(PODS, objects.pod("p"))).expect(201)
    (await api.bind("p", "n1")).expect(201)
    reply = (await api.bind("p", "n2")).expect(409)
    said = 'pod p is already assigned to node "n1"'
    assert reply.message == f'Operation cannot be fulfilled on pods/binding "p": {said}'


async def test_a_gated_pod_is_not_bound(api: Api) -> None:
    made = (await api.create(PODS, objects.pod("p", schedulingGates=[{"name": "example.com/g"}]))).expect(201)
    [condition] = made.obj["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")
    reply = (await api.bind("p", "n1")).expect(409)
    assert "has non-empty .spec.schedulingGates" in reply.message
    (await api.merge(PODS, "p", {"spec": {"schedulingGates": None}})).expect(200)
    (await api.bind("p", "n1")).expect(201)


async def test_an_absent_pod_is_not_bound(api: Api) -> None:
    (await api.bind("p", "n1")).expect(404)


async def test_a_pods_spec_hardly_changes(api: Api) -> None:
    (await api.create(PODS, objects.pod("p"))).expect(201)
    reply = (await api.merge(PODS, "p", {"spec": {"nodeSelector": {"a": "b"}}})).expect(422)
    assert "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`" in reply.message
    operation = {"op": "replace", "path": "/spec/containers/0/image", "value": "other:2"}
    changed = (await api.json_patch(PODS, "p", operation)).expect(200)
    assert changed.metadata["generation"] == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        ({"containers": [{"name": "Bad", "image": "i"}]}, 'spec.containers[0].name: Invalid value: "Bad"'),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image: Required value"),
        ({"restartPolicy": "Never ever"}, 'spec.restartPolicy: Unsupported value: "Never ever"'),
        (
            {"containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]},
            'spec.containers[1].name: Duplicate value: "a"',
        ),
        (
            {
                "containers": [
                    {"name": "a", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
                ]
            },
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
    ],
)
async def test_a_pod_that_cannot_run_is_refused(api: Api, change: Json, said: str) -> None:
    reply = (await api.create(PODS, objects.pod("p", **change))).expect(422)
    assert said in reply.message


async def test_a_priority_class_gives_a_pod_its_number(api: Api) -> None:
    name = api.name("high")
    (await api.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 1000})).expect(201)
    made = (await api.create(PODS, objects.pod("p", priorityClassName=name))).expect(201)
    assert made.obj["spec"]["priority"] == 1000
    critical = (await api.create(PODS, objects.pod("q", priorityClassName="system-node-critical"))).expect(201)
    assert critical.obj["spec"]["priority"] == 2000001000


async def test_an_unknown_priority_class_is_forbidden(api: Api) -> None:
    reply = (await api.create(PODS, objects.pod("p", priorityClassName="nope"))).expect(403)
    assert reply.message == 'pods "p" is forbidden: no PriorityClass with name nope was found'


async def test_a_pods_status_is_written_apart(api: Api) -> None:
    (await api.create(PODS, objects.pod("p"))).expect(201)
    reply = (await api.merge(PODS, "p", {"status": {"phase": "Running"}})).expect(200)
    assert reply.obj["status"]["phase"] == "Pending"
    written = await api.acting_as("kubelet").merge(PODS, "p", {"status": {"phase": "Running"}}, "status")
    assert written.expect(200).obj["status"]["phase"] == "Running"
    [entry] = [entry for entry in written.managed if entry["manager"] == "kubelet"]
    assert entry["subresource"] == "status"
    assert written.metadata["generation"] == 1


# ── Events ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_events_are_the_same_in_both_groups(api: Api) -> None:
    about = {"kind": "Pod", "namespace": api.namespace, "name": "p"}
    event = {
        "metadata": {"name": "e"},
        "involvedObject": about,
        "reason": "Because",
        "message": "why",
        "type": "Normal",
        "count": 2,
        "firstTimestamp": "2024-01-01T00:00:00Z",
        "lastTimestamp": "2024-01-01T00:01:00Z",
        "source": {"component": "me"},
    }
    made = (await api.create(EVENTS, event)).expect(201)
    path = f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events/e"
    found = (await api.call("GET", path)).expect(200).obj
    assert found["apiVersion"] == "events.k8s.io/v1"
    assert found["note"] == "why"
    assert found["regarding"] == about
    assert found["deprecatedCount"] == 2
    assert found["deprecatedSource"] == {"component": "me"}
    assert found["metadata"]["uid"] == made.metadata["uid"]


async def test_an_event_is_counted_up_by_a_patch(api: Api) -> None:
    about = {"kind": "Pod", "namespace": api.namespace, "name": "p"}
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "R", "type": "Normal", "count": 1}
    (await api.create(EVENTS, event)).expect(201)
    reply = (await api.merge(EVENTS, "e", {"count": 2})).expect(200)
    assert reply.obj["count"] == 2
    path = api.path(EVENTS, "e")
    operation = [{"op": "replace", "path": "/count", "value": 3}]
    (await api.call("PATCH", path, operation, content_type=JSON_PATCH)).expect(200)
