"""Strategic merge patches, which kubectl sends for built-in kinds: taint, cordon, edit, and a second apply."""

from typing import Any

from tests.contracts import objects
from tests.contracts.api_client import DEPLOYMENTS, NODES, STRATEGIC, Api, Json, Kind, Reply


async def _patch(api: Api, kind: Kind, name: str, patch: Json) -> Reply:
    return await api.call("PATCH", api.path(kind, name), patch, content_type=STRATEGIC)


async def _deploy(api: Api, **spec: Any) -> None:
    made = objects.deployment("d")
    made["spec"]["template"]["spec"].update(spec)
    (await api.create(DEPLOYMENTS, made)).expect(201)


def _pod(reply: Reply) -> Json:
    spec: Json = reply.expect(200).obj["spec"]["template"]["spec"]
    return spec


async def test_maps_are_merged_and_null_deletes(api: Api) -> None:
    await _deploy(api, nodeSelector={"a": "1", "b": "2"})
    reply = await _patch(
        api, DEPLOYMENTS, "d", {"spec": {"replicas": 3, "template": {"spec": {"nodeSelector": {"a": None, "c": "3"}}}}}
    )
    assert _pod(reply)["nodeSelector"] == {"b": "2", "c": "3"}
    assert reply.obj["spec"]["replicas"] == 3


async def test_containers_are_merged_by_name(api: Api) -> None:
    await _deploy(api, containers=[{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}])
    patch = [{"name": "b", "image": "b:2"}, {"name": "c", "image": "c:1"}]
    found = _pod(await _patch(api, DEPLOYMENTS, "d", {"spec": {"template": {"spec": {"containers": patch}}}}))
    assert {item["name"]: item["image"] for item in found["containers"]} == {"a": "a:1", "b": "b:2", "c": "c:1"}


async def test_an_item_is_deleted_by_its_key(api: Api) -> None:
    await _deploy(api, containers=[{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}])
    patch = [{"name": "a", "$patch": "delete"}]
    found = _pod(await _patch(api, DEPLOYMENTS, "d", {"spec": {"template": {"spec": {"containers": patch}}}}))
    assert [item["name"] for item in found["containers"]] == ["b"]


async def test_a_list_is_replaced_where_the_patch_says_so(api: Api) -> None:
    await _deploy(api, containers=[{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}])
    patch = [{"$patch": "replace"}, {"name": "z", "image": "z:1"}]
    found = _pod(await _patch(api, DEPLOYMENTS, "d", {"spec": {"template": {"spec": {"containers": patch}}}}))
    assert [item["name"] for item in found["containers"]] == ["z"]


async def test_items_are_brought_into_the_order_that_is_asked_for(api: Api) -> None:
    await _deploy(api, containers=[{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}])
    patch = {
        "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
        "containers": [{"name": "c", "image": "c:1"}],
    }
    found = _pod(await _patch(api, DEPLOYMENTS, "d", {"spec": {"template": {"spec": patch}}}))
    assert [item["name"] for item in found["containers"]] == ["c", "b", "a"]


async def test_tolerations_are_replaced_whole(api: Api) -> None:
    await _deploy(api, tolerations=[{"key": "a", "operator": "Exists"}])
    patch = [{"key": "b", "operator": "Exists"}]
    found = _pod(await _patch(api, DEPLOYMENTS, "d", {"spec": {"template": {"spec": {"tolerations": patch}}}}))
    assert found["tolerations"] == patch


async def test_only_the_retained_keys_of_a_volume_stay(api: Api) -> None:
    await _deploy(api, volumes=[{"name": "v", "emptyDir": {}}])
    patch = [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x", "type": ""}}]
    found = _pod(await _patch(api, DEPLOYMENTS, "d", {"spec": {"template": {"spec": {"volumes": patch}}}}))
    assert found["volumes"] == [{"name": "v", "hostPath": {"path": "/x", "type": ""}}]


async def test_finalizers_are_a_set(api: Api) -> None:
    made = objects.deployment("d")
    made["metadata"]["finalizers"] = ["x.io/a"]
    (await api.create(DEPLOYMENTS, made)).expect(201)
    reply = await _patch(api, DEPLOYMENTS, "d", {"metadata": {"finalizers": ["x.io/b"]}})
    assert sorted(reply.expect(200).metadata["finalizers"]) == ["x.io/a", "x.io/b"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a", "x.io/b"]}}
    assert "finalizers" not in (await _patch(api, DEPLOYMENTS, "d", patch)).expect(200).metadata


async def test_an_item_without_its_key_is_refused(api: Api) -> None:
    await _deploy(api)
    patch = {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}
    assert 400 <= (await _patch(api, DEPLOYMENTS, "d", patch)).code <= 500


async def test_taints_and_cordons_as_kubectl_sends_them(api: Api) -> None:
    name = api.name("node")
    (await api.create(NODES, {"metadata": {"name": name}})).expect(201)
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    reply = await _patch(api, NODES, name, {"spec": {"taints": taints, "unschedulable": True}})
    spec = reply.expect(200).obj["spec"]
    assert taints[0] in spec["taints"]
    assert spec["unschedulable"] is True
    await api.delete(NODES, name)
