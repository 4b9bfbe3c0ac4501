"""Deleting: preconditions, finalizers, grace periods, owners and namespaces."""

from typing import Any

import pytest

from tests.contracts import objects
from tests.contracts.api_client import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    Api,
    Json,
    Kind,
    eventually,
)

GADGETS = objects.GADGETS


async def _is_gone(api: Api, kind: Kind, name: str) -> bool:
    return (await api.get(kind, name)).code == 404


async def _wait_until_gone(api: Api, kind: Kind, name: str) -> None:
    async def check() -> bool:
        return await _is_gone(api, kind, name)

    await eventually(check)


async def test_a_deletion_of_most_kinds_is_answered_with_a_status(api: Api) -> None:
    made = await api.create(DEPLOYMENTS, objects.deployment())
    reply = (await api.delete(DEPLOYMENTS, "d", {"propagationPolicy": "Background"})).expect(200)
    assert reply.obj["status"] == "Success"
    uid = made.metadata["uid"]
    assert reply.obj["details"] == {"name": "d", "group": "apps", "kind": "deployments", "uid": uid}


async def test_a_deletion_of_a_pod_is_answered_with_the_pod(api: Api) -> None:
    (await api.create(PODS, objects.pod("p"))).expect(201)
    reply = (await api.delete(PODS, "p")).expect(200)
    assert reply.obj["kind"] == "Pod"
    assert await _is_gone(api, PODS, "p")


async def test_a_deletion_of_what_is_not_there_is_not_found(api: Api) -> None:
    (await api.delete(GADGETS, "x")).expect(404)


async def test_a_wrong_uid_keeps_an_object(api: Api) -> None:
    made = await api.create(GADGETS, objects.gadget("x"))
    reply = (await api.delete(GADGETS, "x", {"preconditions": {"uid": "wrong"}})).expect(409)
    assert reply.reason == "Conflict"
    assert reply.message == (
        f'Operation cannot be fulfilled on Gadget.{objects.GROUP} "x": the UID in the precondition (wrong) does not '
        f"match the UID in record ({made.metadata['uid']}). The object might have been deleted and then recreated"
    )
    (await api.get(GADGETS, "x")).expect(200)


async def test_a_stale_version_keeps_an_object(api: Api) -> None:
    made = await api.create(GADGETS, objects.gadget("x"))
    changed = await api.merge(GADGETS, "x", {"spec": {"size": 3}})
    reply = (await api.delete(GADGETS, "x", {"preconditions": {"resourceVersion": made.version}})).expect(409)
    assert f"the ResourceVersion in the precondition ({made.version}) does not match" in reply.message
    (await api.delete(GADGETS, "x", {"preconditions": {"resourceVersion": changed.version}})).expect(200)


# ── Finalizers ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_finalizer_holds_an_object_that_is_marked(api: Api) -> None:
    obj = objects.gadget("x")
    obj["metadata"]["finalizers"] = ["example.com/hold"]
    (await api.create(GADGETS, obj)).expect(201)
    reply = (await api.delete(GADGETS, "x")).expect(200)
    assert reply.obj["kind"] == "Gadget"
    found = (await api.get(GADGETS, "x")).expect(200)
    assert found.metadata["deletionTimestamp"]
    assert found.metadata["deletionGracePeriodSeconds"] == 0
    assert found.metadata["generation"] == 2
    (await api.merge(GADGETS, "x", {"metadata": {"finalizers": None}})).expect(200)
    assert await _is_gone(api, GADGETS, "x")


async def test_an_object_goes_with_its_last_finalizer_only(api: Api) -> None:
    obj = objects.gadget("x")
    obj["metadata"]["finalizers"] = ["example.com/a", "example.com/b"]
    (await api.create(GADGETS, obj)).expect(201)
    (await api.delete(GADGETS, "x")).expect(200)
    (await api.merge(GADGETS, "x", {"metadata": {"finalizers": ["example.com/b"]}})).expect(200)
    (await api.get(GADGETS, "x")).expect(200)
    patch = {"op": "remove", "path": "/metadata/finalizers/0"}
    (await api.json_patch(GADGETS, "x", patch)).expect(200)
    assert await _is_gone(api, GADGETS, "x")


async def test_no_finalizer_is_added_to_what_is_being_deleted(api: Api) -> None:
    obj = objects.gadget("x")
    obj["metadata"]["finalizers"] = ["example.com/a"]
    (await api.create(GADGETS, obj)).expect(201)
    (await api.delete(GADGETS, "x")).expect(200)
    both = ["example.com/a", "example.com/b"]
    reply = (await api.merge(GADGETS, "x", {"metadata": {"finalizers": both}})).expect(422)
    assert (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"example.com/b"}'
    ) in reply.message
    (await api.merge(GADGETS, "x", {"metadata": {"finalizers": []}})).expect(200)


async def test_a_second_deletion_of_a_marked_object_changes_nothing(api: Api) -> None:
    obj = objects.gadget("x")
    obj["metadata"]["finalizers"] = ["example.com/a"]
    (await api.create(GADGETS, obj)).expect(201)
    first = await api.delete(GADGETS, "x")
    second = (await api.delete(GADGETS, "x")).expect(200)
    assert second.version == first.version
    (await api.merge(GADGETS, "x", {"metadata": {"finalizers": None}})).expect(200)


async def test_a_name_of_an_object_being_deleted_is_still_taken(api: Api) -> None:
    obj = objects.gadget("x")
    obj["metadata"]["finalizers"] = ["example.com/a"]
    (await api.create(GADGETS, obj)).expect(201)
    (await api.delete(GADGETS, "x")).expect(200)
    reply = (await api.create(GADGETS, objects.gadget("x"))).expect(409)
    assert reply.message == f'object is being deleted: gadgets.{objects.GROUP} "x" already exists'
    (await api.merge(GADGETS, "x", {"metadata": {"finalizers": None}})).expect(200)


async def test_nodes_can_be_held_too(api: Api) -> None:
    name = api.name()
    node = objects.node(name)
    node["metadata"]["finalizers"] = ["example.com/hold"]
    (await api.create(NODES, node)).expect(201)
    (await api.delete(NODES, name)).expect(200)
    assert (await api.get(NODES, name)).metadata["deletionTimestamp"]
    (await api.merge(NODES, name, {"metadata": {"finalizers": None}})).expect(200)
    assert await _is_gone(api, NODES, name)


# ── Grace ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _bound_pod(api: Api, name: str = "p", **spec: Any) -> Json:
    (await api.create(PODS, objects.pod(name, **spec))).expect(201)
    (await api.bind(name, "some-node")).expect(201)
    return (await api.get(PODS, name)).obj


async def test_a_pod_on_a_node_gets_its_grace_period(api: Api) -> None:
    await _bound_pod(api, terminationGracePeriodSeconds=40)
    reply = (await api.delete(PODS, "p")).expect(200)
    assert reply.metadata["deletionGracePeriodSeconds"] == 40
    found = (await api.get(PODS, "p")).expect(200)
    assert found.metadata["deletionTimestamp"] > found.metadata["creationTimestamp"]
    (await api.delete(PODS, "p", {"gracePeriodSeconds": 0})).expect(200)
    assert await _is_gone(api, PODS, "p")


async def test_a_grace_period_can_be_shortened_but_not_lengthened(api: Api) -> None:
    await _bound_pod(api)
    assert (await api.delete(PODS, "p", {"gracePeriodSeconds": 600})).metadata["deletionGracePeriodSeconds"] == 600
    assert (await api.delete(PODS, "p", {"gracePeriodSeconds": 5})).metadata["deletionGracePeriodSeconds"] == 5
    later = (await api.delete(PODS, "p", {"gracePeriodSeconds": 900})).expect(200)
    assert later.metadata["deletionGracePeriodSeconds"] == 5


async def test_a_finished_pod_goes_at_once(api: Api) -> None:
    await _bound_pod(api)
    (await api.merge(PODS, "p", {"status": {"phase": "Succeeded"}}, "status")).expect(200)
    (await api.delete(PODS, "p")).expect(200)
    assert await _is_gone(api, PODS, "p")


async def test_a_pod_that_is_being_deleted_counts_a_generation(api: Api) -> None:
    before = await _bound_pod(api)
    after = (await api.delete(PODS, "p")).expect(200)
    assert after.metadata["generation"] == before["metadata"]["generation"] + 1


# ── Owners ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def _family(api: Api, **reference: Any) -> Json:
    parent = (await api.create(GADGETS, objects.gadget("parent"))).expect(201).obj
    child = objects.config_map("child")
    child["metadata"]["ownerReferences"] = [objects.owner(parent, **reference)]
    (await api.create(CONFIG_MAPS, child)).expect(201)
    await _wait_until_observed(api)
    return parent


async def _wait_until_observed(api: Api) -> None:
    """Wait until the garbage collector has observed all ConfigMaps that exist.

    It follows owners and dependents by separate watches. An owner that is orphaned or deleted in the foreground before
    its dependents were observed has none: it goes at once, and they follow it. Events of one kind are handled in order,
    so that an object without an owner is collected after those created before it were observed.
    """
    last = objects.config_map("last")
    last["metadata"]["ownerReferences"] = [_absent_owner()]
    (await api.create(CONFIG_MAPS, last)).expect(201)
    await _wait_until_gone(api, CONFIG_MAPS, "last")


def _absent_owner() -> Json:
    uid = "12345678-1234-4234-8234-123456789012"
    return {"apiVersion": GADGETS.api_version, "kind": "Gadget", "name": "absent", "uid": uid}


async def test_what_belongs_to_a_deleted_object_goes_after_it(api: Api) -> None:
    await _family(api)
    (await api.delete(GADGETS, "parent", {"propagationPolicy": "Background"})).expect(200)
    assert await _is_gone(api, GADGETS, "parent")
    await _wait_until_gone(api, CONFIG_MAPS, "child")


async def test_background_is_what_happens_by_default(api: Api) -> None:
    await _family(api)
    (await api.delete(GADGETS, "parent")).expect(200)
    await _wait_until_gone(api, CONFIG_MAPS, "child")


async def test_orphans_stay_and_forget(api: Api) -> None:
    await _family(api)
    (await api.delete(GADGETS, "parent", {"propagationPolicy": "Orphan"})).expect(200)
    await _wait_until_gone(api, GADGETS, "parent")
    reply = (await api.get(CONFIG_MAPS, "child")).expect(200)
    assert "ownerReferences" not in reply.metadata


async def test_in_foreground_an_owner_waits_for_those_that_block_it(api: Api) -> None:
    parent = (await api.create(GADGETS, objects.gadget("parent"))).expect(201).obj
    child = objects.config_map("child")
    child["metadata"]["ownerReferences"] = [objects.owner(parent, blockOwnerDeletion=True)]
    child["metadata"]["finalizers"] = ["example.com/hold"]
    (await api.create(CONFIG_MAPS, child)).expect(201)
    await _wait_until_observed(api)
    reply = (await api.delete(GADGETS, "parent", {"propagationPolicy": "Foreground"})).expect(200)
    assert reply.metadata["finalizers"] == ["foregroundDeletion"]

    async def is_marked() -> bool:
        return "deletionTimestamp" in (await api.get(CONFIG_MAPS, "child")).metadata

    await eventually(is_marked)
    (await api.get(GADGETS, "parent")).expect(200)
    (await api.merge(CONFIG_MAPS, "child", {"metadata": {"finalizers": None}})).expect(200)
    await _wait_until_gone(api, GADGETS, "parent")


async def test_a_second_owner_keeps_an_object(api: Api) -> None:
    parents = [(await api.create(GADGETS, objects.gadget(name))).expect(201).obj for name in ("one", "two")]
    child = objects.config_map("child")
    child["metadata"]["ownerReferences"] = [objects.owner(parent) for parent in parents]
    (await api.create(CONFIG_MAPS, child)).expect(201)
    (await api.delete(GADGETS, "one")).expect(200)

    async def is_forgotten() -> bool:
        reply = (await api.get(CONFIG_MAPS, "child")).expect(200)
        return [owner["name"] for owner in reply.metadata["ownerReferences"]] == ["two"]

    await eventually(is_forgotten)


async def test_an_object_whose_owner_never_was_goes(api: Api) -> None:
    child = objects.config_map("child")
    child["metadata"]["ownerReferences"] = [_absent_owner()]
    (await api.create(CONFIG_MAPS, child)).expect(201)
    await _wait_until_gone(api, CONFIG_MAPS, "child")


async def test_pods_of_a_deleted_replica_set_go(api: Api) -> None:
    spec = objects.deployment()["spec"]
    made = (await api.create(REPLICA_SETS, {"metadata": {"name": "rs"}, "spec": spec | {"replicas": 0}})).expect(201)
    pod = objects.pod("p", {"other": "label"})
    pod["metadata"]["ownerReferences"] = [objects.owner(made.obj, controller=True, blockOwnerDeletion=True)]
    (await api.create(PODS, pod)).expect(201)
    (await api.delete(REPLICA_SETS, "rs")).expect(200)
    await _wait_until_gone(api, PODS, "p")


async def test_two_controllers_are_refused(api: Api) -> None:
    parents = [(await api.create(GADGETS, objects.gadget(name))).obj for name in ("one", "two")]
    child = objects.config_map("child")
    child["metadata"]["ownerReferences"] = [objects.owner(parent, controller=True) for parent in parents]
    reply = (await api.create(CONFIG_MAPS, child)).expect(422)
    said = (
        'Only one reference can have Controller set to true. Found "true" in references for Gadget/one and Gadget/two'
    )
    assert said in reply.message


@pytest.mark.parametrize("field", ["apiVersion", "kind", "name", "uid"])
async def test_an_owner_reference_is_complete_or_refused(api: Api, field: str) -> None:
    reference = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    child = objects.config_map("child")
    child["metadata"]["ownerReferences"] = [{**reference, field: ""}]
    reply = (await api.create(CONFIG_MAPS, child)).expect(422)
    assert f"metadata.ownerReferences.{field}: Invalid value" in reply.message


# ── Namespaces ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_namespace_goes_with_everything_in_it(api: Api) -> None:
    name = api.name("ns")
    (await api.create(NAMESPACES, {"metadata": {"name": name}})).expect(201)
    path = f"/api/v1/namespaces/{name}/configmaps"
    (await api.call("POST", path, {"metadata": {"name": "a"}})).expect(201)
    reply = (await api.delete(NAMESPACES, name)).expect(200)
    assert reply.obj["status"]["phase"] == "Terminating"
    await _wait_until_gone(api, NAMESPACES, name)
    assert (await api.call("GET", f"{path}/a")).code == 404


async def test_a_namespace_terminates_while_something_in_it_is_held(api: Api) -> None:
    name = api.name("ns")
    (await api.create(NAMESPACES, {"metadata": {"name": name}})).expect(201)
    path = f"/api/v1/namespaces/{name}/configmaps"
    held = {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
    (await api.call("POST", path, held)).expect(201)
    (await api.delete(NAMESPACES, name)).expect(200)
    found = (await api.get(NAMESPACES, name)).expect(200)
    assert found.obj["status"]["phase"] == "Terminating"
    reply = (await api.call("POST", path, {"metadata": {"name": "b"}})).expect(403)
    assert reply.message == (
        f'configmaps "b" is forbidden: unable to create new content in namespace {name} because it is being terminated'
    )
    assert reply.causes[0]["reason"] == "NamespaceTerminating"
    patch = b'{"metadata":{"finalizers":null}}'
    await api.call("PATCH", f"{path}/a", patch, content_type="application/merge-patch+json")
    await _wait_until_gone(api, NAMESPACES, name)


async def test_some_namespaces_stay(api: Api) -> None:
    reply = (await api.delete(NAMESPACES, "default")).expect(403)
    assert reply.message == 'namespaces "default" is forbidden: this namespace may not be deleted'
