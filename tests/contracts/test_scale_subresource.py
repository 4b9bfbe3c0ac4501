"""/scale: replicas of anything, and who owns them in managedFields."""

from typing import Any

import pytest

from tests.contracts import objects
from tests.contracts.api_client import APPLY, DEPLOYMENTS, JSON_PATCH, MERGE, Api, Json, Kind, Reply

GADGETS = objects.GADGETS
REPLICAS: Json = {"f:spec": {"f:replicas": {}}}


def _owners(reply: Reply) -> list[Json]:
    """Entries that own `spec.replicas`."""
    return [entry for entry in reply.managed if "f:replicas" in entry["fieldsV1"].get("f:spec", {})]


def _who(reply: Reply) -> list[str]:
    return sorted(f"{e['manager']} {e['operation']} {e.get('subresource', '-')}" for e in _owners(reply))


async def _applied(api: Api, **spec: Any) -> Reply:
    return (await api.apply(GADGETS, objects.gadget("x", **spec), "a")).expect(201)


async def test_a_scale_shows_replicas_and_selector(api: Api) -> None:
    made = await _applied(api, replicas=3)
    status = {"replicas": 2, "selector": "app=x"}
    (await api.merge(GADGETS, "x", {"status": status}, "status")).expect(200)
    found = (await api.get(GADGETS, "x", "scale")).expect(200).obj
    assert (found["kind"], found["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert found["spec"] == {"replicas": 3}
    assert found["status"] == status
    assert found["metadata"]["uid"] == made.metadata["uid"]
    assert "managedFields" not in found["metadata"]


async def test_a_deployments_scale_has_its_selector(api: Api) -> None:
    (await api.create(DEPLOYMENTS, objects.deployment("x", replicas=2))).expect(201)
    found = (await api.get(DEPLOYMENTS, "x", "scale")).expect(200).obj
    assert found["spec"] == {"replicas": 2}
    assert found["status"] == {"replicas": 0, "selector": "app=contracts"}


@pytest.mark.parametrize("kind", [GADGETS, DEPLOYMENTS], ids=lambda kind: kind.plural)
async def test_scaling_changes_the_parent(api: Api, kind: Kind) -> None:
    obj = objects.gadget("x", replicas=1) if kind is GADGETS else objects.deployment("x", replicas=1)
    made = (await api.create(kind, obj)).expect(201)
    reply = (await api.scale(kind, "x", 4)).expect(200)
    assert reply.obj["spec"] == {"replicas": 4}
    found = await api.get(kind, "x")
    assert found.obj["spec"]["replicas"] == 4
    assert found.metadata["generation"] == made.metadata["generation"] + 1
    assert found.version == reply.version


async def test_a_scale_can_be_put(api: Api) -> None:
    await _applied(api, replicas=1)
    scale = (await api.get(GADGETS, "x", "scale")).obj
    reply = await api.call("PUT", api.path(GADGETS, "x", "scale"), scale | {"spec": {"replicas": 6}})
    assert reply.expect(200).obj["spec"] == {"replicas": 6}


async def test_a_json_patch_scales_too(api: Api) -> None:
    await _applied(api, replicas=1)
    operation = {"op": "replace", "path": "/spec/replicas", "value": 7}
    reply = await api.call("PATCH", api.path(GADGETS, "x", "scale"), [operation], content_type=JSON_PATCH)
    assert reply.expect(200).obj["spec"] == {"replicas": 7}


# ── Ownership ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_scaling_takes_replicas_from_every_other_manager(api: Api) -> None:
    await _applied(api, replicas=3, size=2)
    (await api.apply(GADGETS, objects.gadget("x", replicas=3), "b")).expect(200)
    (await api.acting_as("scaler").scale(GADGETS, "x", 4)).expect(200)
    reply = await api.get(GADGETS, "x")
    [entry] = _owners(reply)
    # without a time: the real server looks for it where it is not
    assert entry == {
        "manager": "scaler",
        "operation": "Update",
        "subresource": "scale",
        "apiVersion": GADGETS.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": REPLICAS,
    }
    left = next(e for e in reply.managed if e["manager"] == "a")
    assert left["fieldsV1"] == {"f:spec": {"f:size": {}}}
    assert not any(e["manager"] == "b" for e in reply.managed)


async def test_the_field_manager_of_the_query_is_the_scaler(api: Api) -> None:
    await _applied(api, replicas=3)
    (await api.scale(GADGETS, "x", 4, fieldManager="cluster-autoscaler")).expect(200)
    assert _who(await api.get(GADGETS, "x")) == ["cluster-autoscaler Update scale"]


async def test_one_manager_has_one_scale_entry(api: Api) -> None:
    await _applied(api, replicas=3)
    for replicas in (4, 5, 6):
        (await api.acting_as("scaler").scale(GADGETS, "x", replicas)).expect(200)
    assert _who(await api.get(GADGETS, "x")) == ["scaler Update scale"]
    (await api.acting_as("other").scale(GADGETS, "x", 7)).expect(200)
    assert _who(await api.get(GADGETS, "x")) == ["other Update scale"]


async def test_an_updater_that_scales_has_two_entries(api: Api) -> None:
    me = api.acting_as("me")
    (await me.create(GADGETS, objects.gadget("x", replicas=3, size=2))).expect(201)
    (await me.scale(GADGETS, "x", 4)).expect(200)
    reply = await api.get(GADGETS, "x")
    assert _who(reply) == ["me Update scale"]
    assert len([entry for entry in reply.managed if entry["manager"] == "me"]) == 2


@pytest.mark.parametrize("scaler", ["a", "someone"])
async def test_a_scale_that_changes_nothing_changes_nothing_over_an_applier(api: Api, scaler: str) -> None:
    made = await _applied(api, replicas=3)
    reply = (await api.acting_as(scaler).scale(GADGETS, "x", 3)).expect(200)
    found = await api.get(GADGETS, "x")
    assert reply.version == found.version == made.version
    assert found.managed == made.managed


async def test_a_scale_that_changes_nothing_changes_nothing_over_a_scaler(api: Api) -> None:
    await _applied(api, replicas=3)
    (await api.acting_as("scaler").scale(GADGETS, "x", 4)).expect(200)
    before = await api.get(GADGETS, "x")
    (await api.acting_as("other").scale(GADGETS, "x", 4)).expect(200)
    after = await api.get(GADGETS, "x")
    assert (after.version, after.managed) == (before.version, before.managed)


async def test_a_scale_that_changes_nothing_splits_the_entry_of_an_updater(api: Api) -> None:
    # The real server does not find a main-resource updater again among the Scale's owners: it writes its entry in two.
    made = (await api.acting_as("me").create(GADGETS, objects.gadget("x", replicas=3, size=2))).expect(201)
    (await api.acting_as("other").scale(GADGETS, "x", 3)).expect(200)
    reply = await api.get(GADGETS, "x")
    assert reply.version != made.version
    mine = [entry["fieldsV1"]["f:spec"] for entry in reply.managed if entry["manager"] == "me"]
    assert sorted(mine, key=len) == [{"f:replicas": {}}, {".": {}, "f:mode": {}, "f:size": {}}]


async def test_a_second_empty_scale_over_an_updater_loses_the_owner(api: Api) -> None:
    me = api.acting_as("me")
    (await me.create(DEPLOYMENTS, objects.deployment("x", replicas=1))).expect(201)
    for _ in range(2):
        (await me.scale(DEPLOYMENTS, "x", 1)).expect(200)
    reply = await api.get(DEPLOYMENTS, "x")
    assert not any("f:replicas" in entry["fieldsV1"].get("f:spec", {}) for entry in reply.managed)


async def test_scaling_to_zero_leaves_no_owner(api: Api) -> None:
    await _applied(api, replicas=3)
    reply = (await api.scale(GADGETS, "x", 0)).expect(200)
    assert reply.obj["spec"] == {}
    found = await api.get(GADGETS, "x")
    assert found.obj["spec"]["replicas"] == 0
    assert _owners(found) == []


async def test_patching_the_parent_to_zero_keeps_the_owner(api: Api) -> None:
    await _applied(api, replicas=3)
    reply = (await api.acting_as("me").merge(GADGETS, "x", {"spec": {"replicas": 0}})).expect(200)
    assert _who(reply) == ["me Update -"]


async def test_while_nobody_owns_replicas_scaling_records_nobody(api: Api) -> None:
    await _applied(api, replicas=3, size=1)
    (await api.scale(GADGETS, "x", 0)).expect(200)
    (await api.scale(GADGETS, "x", 5)).expect(200)
    assert _owners(await api.get(GADGETS, "x")) == []
    # and an apply of another value meets no conflict
    (await api.apply(GADGETS, objects.gadget("x", replicas=2), "b")).expect(200)
    assert (await api.get(GADGETS, "x")).obj["spec"]["replicas"] == 2
    (await api.acting_as("scaler").scale(GADGETS, "x", 6)).expect(200)
    assert _who(await api.get(GADGETS, "x")) == ["scaler Update scale"]


async def test_from_zero_by_the_owner_of_zero(api: Api) -> None:
    (await api.acting_as("me").create(GADGETS, objects.gadget("x", replicas=0))).expect(201)
    (await api.acting_as("scaler").scale(GADGETS, "x", 2)).expect(200)
    assert _who(await api.get(GADGETS, "x")) == ["scaler Update scale"]


async def test_an_apply_conflicts_with_a_scale(api: Api) -> None:
    await _applied(api, replicas=3)
    (await api.acting_as("cluster-autoscaler").scale(GADGETS, "x", 4)).expect(200)
    reply = (await api.apply(GADGETS, objects.gadget("x", replicas=3), "a")).expect(409)
    assert reply.message == (
        'Apply failed with 1 conflict: conflict with "cluster-autoscaler" with subresource "scale" using '
        f"{GADGETS.api_version}: .spec.replicas"
    )
    same = (await api.apply(GADGETS, objects.gadget("x", replicas=4), "a")).expect(200)
    assert _who(same) == ["a Apply -", "cluster-autoscaler Update scale"]


async def test_a_sole_applier_that_omits_replicas_removes_them(api: Api) -> None:
    await _applied(api, replicas=3, size=1)
    reply = (await api.apply(GADGETS, objects.gadget("x", size=1), "a")).expect(200)
    assert "replicas" not in reply.obj["spec"]
    (await api.get(GADGETS, "x", "scale")).expect(500)


async def test_an_applier_that_omits_replicas_keeps_a_scalers(api: Api) -> None:
    await _applied(api, replicas=3, size=1)
    (await api.acting_as("scaler").scale(GADGETS, "x", 5)).expect(200)
    reply = (await api.apply(GADGETS, objects.gadget("x", size=1), "a")).expect(200)
    assert reply.obj["spec"]["replicas"] == 5


# ── Odd cases ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_without_replicas_a_scale_cannot_be_read_but_patched(api: Api) -> None:
    await _applied(api, size=1)
    reply = (await api.get(GADGETS, "x", "scale")).expect(500)
    said = 'the spec replicas field ".spec.replicas" does not exist'
    assert reply.message == f"Internal error occurred: {said}"
    assert (await api.scale(GADGETS, "x", 2)).expect(200).obj["spec"] == {"replicas": 2}


async def test_without_replicas_a_patch_must_set_them(api: Api) -> None:
    await _applied(api, size=1)
    reply = (await api.merge(GADGETS, "x", {"metadata": {}}, "scale")).expect(400)
    assert reply.message == 'the spec replicas field ".spec.replicas" cannot be empty'


async def test_null_scales_to_zero(api: Api) -> None:
    await _applied(api, replicas=3)
    assert (await api.scale(GADGETS, "x", None)).expect(200).obj["spec"] == {}
    assert (await api.get(GADGETS, "x")).obj["spec"]["replicas"] == 0


@pytest.mark.parametrize("replicas", [3, 4])
async def test_a_stale_version_conflicts_even_for_a_no_op(api: Api, replicas: int) -> None:
    made = await _applied(api, replicas=3)
    (await api.merge(GADGETS, "x", {"spec": {"size": 2}})).expect(200)
    patch = {"metadata": {"resourceVersion": made.version}, "spec": {"replicas": replicas}}
    (await api.merge(GADGETS, "x", patch, "scale")).expect(409)


async def test_negative_replicas_are_refused(api: Api) -> None:
    await _applied(api, replicas=3)
    reply = (await api.scale(GADGETS, "x", -1)).expect(422)
    assert ".spec.replicas: Invalid value: -1: should be a non-negative integer" in reply.message


async def test_negative_replicas_of_a_deployment_are_refused(api: Api) -> None:
    (await api.create(DEPLOYMENTS, objects.deployment("x"))).expect(201)
    reply = (await api.scale(DEPLOYMENTS, "x", -1)).expect(422)
    said = "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    assert reply.message == f'Scale.autoscaling "x" is invalid: {said}'


async def test_applying_a_change_to_the_scale_of_a_custom_object_fails(api: Api) -> None:
    await _applied(api, replicas=3)
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x"}, "spec": {"replicas": 4}}
    path = api.path(GADGETS, "x", "scale")
    query = {"fieldManager": "b", "force": "true"}
    reply = (await api.call("PATCH", path, body, content_type=APPLY, query=query)).expect(500)
    assert reply.message == (
        "failed to convert new object (/x; autoscaling/v1, Kind=Scale) to proper version: request to convert CR to an "
        "invalid group/version: autoscaling/v1"
    )
    assert (await api.get(GADGETS, "x")).obj["spec"]["replicas"] == 3
    same = await api.call("PATCH", path, body | {"spec": {"replicas": 3}}, content_type=APPLY, query=query)
    same.expect(200)
    assert _who(await api.get(GADGETS, "x")) == ["a Apply -", "b Apply scale"]


async def test_applying_to_the_scale_of_a_deployment_works(api: Api) -> None:
    (await api.apply(DEPLOYMENTS, objects.deployment("x", replicas=2), "a")).expect(201)
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x"}, "spec": {"replicas": 4}}
    path = api.path(DEPLOYMENTS, "x", "scale")
    refused = await api.call("PATCH", path, body, content_type=APPLY, query={"fieldManager": "b"})
    assert 'conflict with "a"' in refused.expect(409).message
    query = {"fieldManager": "b", "force": "true"}
    (await api.call("PATCH", path, body, content_type=APPLY, query=query)).expect(200)
    assert _who(await api.get(DEPLOYMENTS, "x")) == ["b Apply scale"]


async def test_a_kind_without_scale_has_none(api: Api) -> None:
    name = api.name()
    (await api.create(objects.FREE, {"metadata": {"name": name}})).expect(201)
    (await api.get(objects.FREE, name, "scale")).expect(404)


async def test_the_scale_of_what_is_not_there_is_not_found(api: Api) -> None:
    reply = (await api.scale(GADGETS, "nobody", 1)).expect(404)
    assert reply.message == f'gadgets.{objects.GROUP} "nobody" not found'


async def test_a_dry_run_of_a_scale_changes_nothing(api: Api) -> None:
    made = await _applied(api, replicas=3)
    reply = (await api.scale(GADGETS, "x", 9, dryRun="All")).expect(200)
    assert reply.obj["spec"] == {"replicas": 9}
    assert (await api.get(GADGETS, "x")).version == made.version


async def test_the_content_type_of_a_scales_patch_is_kept_to(api: Api) -> None:
    await _applied(api, replicas=3)
    path = api.path(GADGETS, "x", "scale")
    (await api.call("PATCH", path, {"spec": {"replicas": 4}}, content_type="application/json")).expect(415)
    (await api.call("PATCH", path, {"spec": {"replicas": 4}}, content_type=MERGE)).expect(200)
