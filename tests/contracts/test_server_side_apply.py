"""Server-side apply: who owns what, conflicts, and what goes when its last owner leaves it out."""

from typing import Any

import pytest

from tests.contracts import objects
from tests.contracts.api_client import APPLY, CONFIG_MAPS, DEPLOYMENTS, NODES, PODS, Api, Json, Reply

GADGETS = objects.GADGETS


def _owners(reply: Reply, *path: str) -> list[str]:
    """Who owns a field: `manager operation[/subresource]`."""
    found = []
    for entry in reply.managed:
        node: Any = entry["fieldsV1"]
        for element in path:
            node = node.get(element) if isinstance(node, dict) else None
        if node is not None:
            sub = f"/{entry['subresource']}" if entry.get("subresource") else ""
            found.append(f"{entry['manager']} {entry['operation']}{sub}")
    return sorted(found)


def _entry(reply: Reply, manager: str, operation: str = "Apply") -> Json:
    return next(e for e in reply.managed if (e["manager"], e["operation"]) == (manager, operation))


async def test_apply_creates_what_is_not_there(api: Api) -> None:
    reply = (await api.apply(GADGETS, objects.gadget("x", size=2), "a")).expect(201)
    entry = _entry(reply, "a")
    assert entry["fieldsV1"] == {"f:spec": {"f:size": {}}}
    assert entry["apiVersion"] == GADGETS.api_version
    assert entry["fieldsType"] == "FieldsV1"
    assert entry["time"]


async def test_apply_needs_a_manager(api: Api) -> None:
    body = {"apiVersion": GADGETS.api_version, "kind": "Gadget", "metadata": {"name": "x"}}
    reply = await api.call("PATCH", api.path(GADGETS, "x"), body, content_type=APPLY)
    said = "fieldManager: Required value: is required for apply patch"
    assert reply.expect(422).message == f'PatchOptions.meta.k8s.io "" is invalid: {said}'


async def test_apply_takes_yaml(api: Api) -> None:
    text = f"apiVersion: {GADGETS.api_version}\nkind: Gadget\nmetadata: {{name: x}}\nspec: {{size: 3}}\n".encode()
    reply = await api.call("PATCH", api.path(GADGETS, "x"), text, content_type=APPLY, query={"fieldManager": "a"})
    assert reply.expect(201).obj["spec"]["size"] == 3


async def test_applying_again_changes_nothing(api: Api) -> None:
    first = await api.apply(GADGETS, objects.gadget("x", size=2), "a")
    again = (await api.apply(GADGETS, objects.gadget("x", size=2), "a")).expect(200)
    assert again.version == first.version
    assert again.managed == first.managed


async def test_what_is_no_longer_applied_goes(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", size=2, color="red"), "a")).expect(201)
    reply = (await api.apply(GADGETS, objects.gadget("x", size=2), "a")).expect(200)
    assert "color" not in reply.obj["spec"]
    assert _owners(reply, "f:spec", "f:color") == []


async def test_what_another_manager_owns_too_stays(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", size=2, color="red"), "a")).expect(201)
    (await api.apply(GADGETS, objects.gadget("x", color="red"), "b")).expect(200)
    reply = (await api.apply(GADGETS, objects.gadget("x", size=2), "a")).expect(200)
    assert reply.obj["spec"]["color"] == "red"
    assert _owners(reply, "f:spec", "f:color") == ["b Apply"]


async def test_what_was_posted_is_not_removed_by_an_apply_of_the_same_name(api: Api) -> None:
    (await api.acting_as("me").create(GADGETS, objects.gadget("x", size=2, color="red"))).expect(201)
    (await api.apply(GADGETS, objects.gadget("x", size=2, color="red"), "me")).expect(200)
    reply = (await api.apply(GADGETS, objects.gadget("x", size=2), "me")).expect(200)
    assert reply.obj["spec"]["color"] == "red"
    assert _owners(reply, "f:spec", "f:color") == ["me Update"]


async def test_the_same_value_makes_co_owners_without_a_time(api: Api) -> None:
    first = await api.apply(GADGETS, objects.gadget("x", size=2), "a")
    reply = (await api.apply(GADGETS, objects.gadget("x", size=2), "b")).expect(200)
    assert _owners(reply, "f:spec", "f:size") == ["a Apply", "b Apply"]
    assert "time" not in _entry(reply, "b")
    assert reply.version != first.version


async def test_another_value_is_a_conflict(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", size=2), "a")).expect(201)
    reply = (await api.apply(GADGETS, objects.gadget("x", size=3), "b")).expect(409)
    assert reply.reason == "Conflict"
    assert reply.message == 'Apply failed with 1 conflict: conflict with "a": .spec.size'
    assert reply.causes == [{"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".spec.size"}]


async def test_a_conflict_with_an_updater_names_its_version(api: Api) -> None:
    (await api.acting_as("me").create(GADGETS, objects.gadget("x", size=2))).expect(201)
    reply = (await api.apply(GADGETS, objects.gadget("x", size=3), "b")).expect(409)
    said = f'conflict with "me" using {GADGETS.api_version}: .spec.size'
    assert reply.message == f"Apply failed with 1 conflict: {said}"


async def test_several_conflicts_are_listed_by_manager(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", size=2, color="red"), "a")).expect(201)
    reply = (await api.apply(GADGETS, objects.gadget("x", size=3, color="green"), "b")).expect(409)
    assert reply.message == 'Apply failed with 2 conflicts: conflicts with "a":\n- .spec.color\n- .spec.size'


async def test_force_takes_fields(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", size=2, color="red"), "a")).expect(201)
    reply = (await api.apply(GADGETS, objects.gadget("x", size=3), "b", force=True)).expect(200)
    assert reply.obj["spec"]["size"] == 3
    assert _owners(reply, "f:spec", "f:size") == ["b Apply"]
    assert _owners(reply, "f:spec", "f:color") == ["a Apply"]


async def test_an_update_takes_fields_without_asking(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", size=2), "a")).expect(201)
    reply = (await api.acting_as("me").merge(GADGETS, "x", {"spec": {"size": 3}})).expect(200)
    assert _owners(reply, "f:spec", "f:size") == ["me Update"]


async def test_a_field_manager_in_the_query_is_who_writes(api: Api) -> None:
    (await api.create(GADGETS, objects.gadget("x", size=2), fieldManager="named")).expect(201)
    reply = await api.get(GADGETS, "x")
    assert _owners(reply, "f:spec", "f:size") == ["named Update"]


async def test_the_user_agent_up_to_its_slash_is_who_writes_otherwise(api: Api) -> None:
    reply = (await api.acting_as("some tool").create(GADGETS, objects.gadget("x", size=2))).expect(201)
    assert _owners(reply, "f:spec", "f:size") == ["some tool Update"]


async def test_a_removed_field_loses_its_owners(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", size=2), "a")).expect(201)
    reply = (await api.merge(GADGETS, "x", {"spec": {"size": None}})).expect(200)
    assert _owners(reply, "f:spec", "f:size") == []


async def test_status_and_spec_have_owners_of_their_own(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", size=2), "a")).expect(201)
    status = {"metadata": {"name": "x"}, "status": {"phase": "Good"}}
    reply = (await api.apply(GADGETS, status, "a", sub="status")).expect(200)
    assert _owners(reply, "f:status", "f:phase") == ["a Apply/status"]
    assert _owners(reply, "f:spec", "f:size") == ["a Apply"]


async def test_metadata_that_the_server_sets_is_nobodys(api: Api) -> None:
    obj = objects.gadget("x")
    obj["metadata"]["labels"] = {"a": "b"}
    obj["metadata"]["annotations"] = {"c": "d"}
    reply = (await api.acting_as("me").create(GADGETS, obj)).expect(201)
    fields = _entry(reply, "me", "Update")["fieldsV1"]["f:metadata"]
    assert fields == {"f:labels": {".": {}, "f:a": {}}, "f:annotations": {".": {}, "f:c": {}}}


async def test_the_ownership_of_a_posted_pod_is_that_of_the_real_server(api: Api) -> None:
    pod = objects.pod("p")
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80}]
    reply = (await api.acting_as("me").create(PODS, pod)).expect(201)
    spec = _entry(reply, "me", "Update")["fieldsV1"]["f:spec"]
    container: Json = {
        ".": {},
        "f:image": {},
        "f:imagePullPolicy": {},
        "f:name": {},
        "f:ports": {
            ".": {},
            'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}, "f:protocol": {}},
        },
        "f:resources": {".": {}, "f:requests": {".": {}, "f:cpu": {}}},
        "f:terminationMessagePath": {},
        "f:terminationMessagePolicy": {},
    }
    assert spec["f:containers"] == {'k:{"name":"main"}': container}
    assert "f:tolerations" not in spec
    assert "f:nodeName" not in spec
    # priority and tolerations are set by admission, and so are nobody's
    assert {"f:restartPolicy", "f:schedulerName", "f:terminationGracePeriodSeconds"} <= spec.keys()


# ── Lists and maps ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_lists_by_keys_are_merged_item_by_item(api: Api) -> None:
    item = {"port": 80, "name": "web"}
    two = {"port": 443, "protocol": "TCP", "name": "tls"}
    (await api.apply(GADGETS, objects.gadget("x", ports=[item]), "a")).expect(201)
    reply = (await api.apply(GADGETS, objects.gadget("x", ports=[two]), "b")).expect(200)
    assert [port["port"] for port in reply.obj["spec"]["ports"]] == [80, 443]
    key = 'k:{"port":80,"protocol":"TCP"}'
    assert _owners(reply, "f:spec", "f:ports", key) == ["a Apply"]
    gone = (await api.apply(GADGETS, objects.gadget("x"), "a")).expect(200)
    assert [port["port"] for port in gone.obj["spec"]["ports"]] == [443]


async def test_fields_of_one_item_can_have_several_owners(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", ports=[{"port": 80, "name": "web"}]), "a")).expect(201)
    reply = (await api.apply(GADGETS, objects.gadget("x", ports=[{"port": 80, "weight": 5}]), "b")).expect(200)
    [port] = reply.obj["spec"]["ports"]
    assert (port["name"], port["weight"]) == ("web", 5)
    left = (await api.apply(GADGETS, objects.gadget("x"), "b")).expect(200)
    assert "weight" not in left.obj["spec"]["ports"][0]


async def test_an_item_twice_is_refused(api: Api) -> None:
    obj = objects.gadget("x", ports=[{"port": 80}, {"port": 80}])
    reply = (await api.apply(GADGETS, obj, "a")).expect(500)
    assert 'duplicate entries for key [port=80,protocol="TCP"]' in reply.message


async def test_sets_are_united(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", tags=["a", "b"]), "a")).expect(201)
    reply = (await api.apply(GADGETS, objects.gadget("x", tags=["b", "c"]), "b")).expect(200)
    assert sorted(reply.obj["spec"]["tags"]) == ["a", "b", "c"]
    assert _owners(reply, "f:spec", "f:tags", 'v:"b"') == ["a Apply", "b Apply"]
    left = (await api.apply(GADGETS, objects.gadget("x"), "a")).expect(200)
    assert sorted(left.obj["spec"]["tags"]) == ["b", "c"]


async def test_atomic_lists_have_one_owner(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", atoms=["a"]), "a")).expect(201)
    reply = (await api.apply(GADGETS, objects.gadget("x", atoms=["b"]), "b")).expect(409)
    assert reply.message == 'Apply failed with 1 conflict: conflict with "a": .spec.atoms'
    taken = (await api.apply(GADGETS, objects.gadget("x", atoms=["b"]), "b", force=True)).expect(200)
    assert taken.obj["spec"]["atoms"] == ["b"]


async def test_atomic_maps_have_one_owner(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", block={"x": 1}), "a")).expect(201)
    reply = (await api.apply(GADGETS, objects.gadget("x", block={"y": 2}), "b")).expect(409)
    assert reply.message == 'Apply failed with 1 conflict: conflict with "a": .spec.block'


async def test_maps_are_merged_key_by_key(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", settings={"a": "1"}), "a")).expect(201)
    reply = (await api.apply(GADGETS, objects.gadget("x", settings={"b": "2"}), "b")).expect(200)
    assert reply.obj["spec"]["settings"] == {"a": "1", "b": "2"}


async def test_taints_of_a_node_have_one_owner(api: Api) -> None:
    name = api.name()
    (await api.create(NODES, objects.node(name))).expect(201)
    mine = objects.node(name, taints=[{"key": "a", "effect": "NoSchedule"}])
    (await api.apply(NODES, mine, "a", force=True)).expect(200)
    other = objects.node(name, taints=[{"key": "b", "effect": "NoSchedule"}])
    reply = (await api.apply(NODES, other, "b")).expect(409)
    assert reply.message == 'Apply failed with 1 conflict: conflict with "a": .spec.taints'


async def test_containers_of_a_template_are_merged_by_name(api: Api) -> None:
    (await api.apply(DEPLOYMENTS, objects.deployment("x"), "a")).expect(201)
    container = {"name": "main", "env": [{"name": "A", "value": "1"}]}
    partial = {"metadata": {"name": "x"}, "spec": {"template": {"spec": {"containers": [container]}}}}
    reply = (await api.apply(DEPLOYMENTS, partial, "b")).expect(200)
    [found] = reply.obj["spec"]["template"]["spec"]["containers"]
    assert found["image"] == "registry.example/app:1"
    assert found["env"] == [{"name": "A", "value": "1"}]


# ── What goes with what ──────────────────────────────────────────────────────────────────────────────────────────


async def test_defaults_are_the_creators_after_a_post_and_nobodys_after_an_apply(api: Api) -> None:
    posted = (await api.acting_as("me").create(GADGETS, objects.gadget("posted", size=1))).expect(201)
    assert _owners(posted, "f:spec", "f:mode") == ["me Update"]
    applied = (await api.apply(GADGETS, objects.gadget("applied", size=1), "a")).expect(201)
    assert applied.obj["spec"]["mode"] == "auto"
    assert _owners(applied, "f:spec", "f:mode") == []


async def test_a_result_that_lacks_what_is_required_fails_whole(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", strict={"must": "a", "may": "b"}), "a")).expect(201)
    (await api.apply(GADGETS, objects.gadget("x", strict={"may": "b"}), "b")).expect(200)
    reply = (await api.apply(GADGETS, objects.gadget("x"), "a")).expect(422)
    assert "spec.strict.must: Required value" in reply.message
    assert (await api.get(GADGETS, "x")).obj["spec"]["strict"] == {"must": "a", "may": "b"}


async def test_with_its_last_owned_child_a_struct_goes_and_takes_what_nobody_owns(api: Api) -> None:
    # `nested.level` is filled in by a default, and so is nobody's
    (await api.apply(GADGETS, objects.gadget("x", size=1, nested={"other": "o"}), "a")).expect(201)
    assert (await api.get(GADGETS, "x")).obj["spec"]["nested"] == {"other": "o", "level": "low"}
    reply = (await api.apply(GADGETS, objects.gadget("x", size=1), "a")).expect(200)
    assert "nested" not in reply.obj["spec"]


async def test_an_empty_struct_keeps_what_nobody_owns(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", nested={"other": "o"}), "a")).expect(201)
    reply = (await api.apply(GADGETS, objects.gadget("x", nested={}), "a")).expect(200)
    assert reply.obj["spec"]["nested"] == {"level": "low"}


async def test_null_for_an_annotation_stores_nothing_but_keeps_the_key(api: Api) -> None:
    obj = objects.gadget("x")
    obj["metadata"]["annotations"] = {"a": None}
    reply = (await api.apply(GADGETS, obj, "a")).expect(201)
    assert (await api.get(GADGETS, "x")).metadata["annotations"] == {"a": ""}
    assert _owners(reply, "f:metadata", "f:annotations", "f:a") == ["a Apply"]


async def test_null_in_a_merge_patch_does_delete(api: Api) -> None:
    obj = objects.gadget("x")
    obj["metadata"]["annotations"] = {"a": "b"}
    (await api.create(GADGETS, obj)).expect(201)
    reply = (await api.merge(GADGETS, "x", {"metadata": {"annotations": {"a": None}}})).expect(200)
    assert "annotations" not in reply.metadata


async def test_a_version_in_the_configuration_is_a_precondition(api: Api) -> None:
    made = await api.apply(GADGETS, objects.gadget("x", size=1), "a")
    (await api.merge(GADGETS, "x", {"spec": {"color": "red"}})).expect(200)
    obj = objects.gadget("x", size=1)
    obj["metadata"]["resourceVersion"] = made.version
    (await api.apply(GADGETS, obj, "a")).expect(409)


async def test_a_version_does_not_keep_apply_from_creating(api: Api) -> None:
    obj = objects.gadget("x", size=1)
    obj["metadata"]["resourceVersion"] = "5"
    (await api.apply(GADGETS, obj, "a")).expect(201)


async def test_a_uid_keeps_apply_from_creating(api: Api) -> None:
    obj = objects.gadget("x", size=1)
    uid = "12345678-1234-4234-8234-123456789012"
    obj["metadata"]["uid"] = uid
    reply = (await api.apply(GADGETS, obj, "a")).expect(409)
    said = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    assert reply.message == f'Operation cannot be fulfilled on gadgets.{objects.GROUP} "x": {said}'


async def test_managed_fields_may_not_be_applied(api: Api) -> None:
    obj = objects.gadget("x")
    obj["metadata"]["managedFields"] = []
    reply = (await api.apply(GADGETS, obj, "a")).expect(400)
    assert reply.message == "metadata.managedFields must be nil"


async def test_an_unknown_field_fails_an_apply(api: Api) -> None:
    reply = (await api.apply(GADGETS, objects.gadget("x", nonsense=1), "a")).expect(500)
    assert reply.message == (
        f"failed to create typed patch object (/x; {GADGETS.api_version}, Kind=Gadget): "
        ".spec.nonsense: field not declared in schema"
    )


async def test_an_unknown_field_of_a_built_in_kind_fails_an_apply(api: Api) -> None:
    obj = objects.deployment("x", nonsense=1)
    reply = (await api.apply(DEPLOYMENTS, obj, "a")).expect(500)
    assert reply.message == (
        "failed to create typed patch object (/x; apps/v1, Kind=Deployment): "
        ".spec.nonsense: field not declared in schema"
    )


async def test_the_kind_applied_must_be_the_paths(api: Api) -> None:
    body = {"apiVersion": GADGETS.api_version, "kind": "Other", "metadata": {"name": "x"}}
    path = api.path(GADGETS, "x")
    reply = await api.call("PATCH", path, body, content_type=APPLY, query={"fieldManager": "a"})
    assert reply.expect(400).message == f"invalid object type: {GADGETS.api_version}, Kind=Other"


async def test_managers_can_be_reset(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", size=1), "a")).expect(201)
    reply = (await api.merge(GADGETS, "x", {"metadata": {"managedFields": [{}]}})).expect(200)
    assert reply.managed == []
    again = (await api.apply(GADGETS, objects.gadget("x", size=1), "b")).expect(200)
    assert _owners(again, "f:spec", "f:size") == ["b Apply", "before-first-apply Update"]


async def test_entries_come_in_the_servers_order(api: Api) -> None:
    (await api.acting_as("zed").create(CONFIG_MAPS, objects.config_map("x", a="1"))).expect(201)
    (await api.apply(CONFIG_MAPS, objects.config_map("x", b="2"), "b")).expect(200)
    reply = (await api.apply(CONFIG_MAPS, objects.config_map("x", c="3"), "a")).expect(200)
    assert [entry["operation"] for entry in reply.managed] == ["Apply", "Apply", "Update"]


@pytest.mark.parametrize("manager", ["a" * 129])
async def test_a_managers_name_has_a_limit(api: Api, manager: str) -> None:
    reply = (await api.apply(GADGETS, objects.gadget("x"), manager)).expect(422)
    assert "fieldManager: Too long: may not be more than 128 bytes" in reply.message


async def test_a_dry_run_applies_nothing(api: Api) -> None:
    (await api.apply(GADGETS, objects.gadget("x", size=1), "a", dryRun="All")).expect(201)
    (await api.get(GADGETS, "x")).expect(404)
