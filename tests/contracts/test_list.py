"""Lists: selectors, pages, and which version they show."""

import base64

from tests.contracts import objects
from tests.contracts.api_client import CONFIG_MAPS, EVENTS, NODES, PODS, Api, Json


def _names(obj: Json) -> list[str]:
    return [item["metadata"]["name"] for item in obj["items"]]


async def _make(api: Api, *names: str) -> None:
    for name in names:
        obj = objects.config_map(name)
        obj["metadata"]["labels"] = {"name": name, "parity": "odd" if ord(name[0]) % 2 else "even"}
        (await api.create(CONFIG_MAPS, obj)).expect(201)


def _ours(reply_obj: Json) -> list[str]:
    """Without what the real server's controllers put into every namespace."""
    return [name for name in _names(reply_obj) if name != "kube-root-ca.crt"]


async def test_a_list_says_its_kind_and_version(api: Api) -> None:
    made = await api.create(CONFIG_MAPS, objects.config_map("a"))
    found = (await api.list(CONFIG_MAPS)).expect(200).obj
    assert found["kind"] == "ConfigMapList"
    assert found["apiVersion"] == "v1"
    assert int(found["metadata"]["resourceVersion"]) >= int(made.version)
    assert _ours(found) == ["a"]


async def test_items_of_built_in_kinds_do_not_say_theirs_and_custom_ones_do(api: Api) -> None:
    (await api.create(CONFIG_MAPS, objects.config_map("a"))).expect(201)
    (await api.create(objects.GADGETS, objects.gadget("a"))).expect(201)
    assert "kind" not in (await api.list(CONFIG_MAPS)).obj["items"][0]
    custom = (await api.list(objects.GADGETS)).obj
    assert custom["kind"] == "GadgetList"
    assert custom["items"][0]["kind"] == "Gadget"


async def test_items_come_in_order_of_their_names(api: Api) -> None:
    await _make(api, "c", "a", "b")
    assert _ours((await api.list(CONFIG_MAPS)).obj) == ["a", "b", "c"]


async def test_an_empty_list_is_a_list(api: Api) -> None:
    assert (await api.list(objects.GADGETS)).expect(200).obj["items"] == []


async def test_a_list_over_all_namespaces_holds_ours(api: Api) -> None:
    (await api.create(objects.GADGETS, objects.gadget("a"))).expect(201)
    found = (await api.list(objects.GADGETS, namespace="")).expect(200).obj["items"]
    assert any(item["metadata"]["namespace"] == api.namespace for item in found)


async def test_label_selectors_select(api: Api) -> None:
    await _make(api, "a", "b", "c")
    wanted = {
        "parity=odd": ["a", "c"],
        "parity==even": ["b"],
        "parity!=odd,name": ["b"],
        "name in (a, b)": ["a", "b"],
        "name notin (a,b),name": ["c"],
        "name": ["a", "b", "c"],
        "name,!parity": [],
        "name=a,parity=odd": ["a"],
    }
    for selector, names in wanted.items():
        found = (await api.list(CONFIG_MAPS, labelSelector=selector)).expect(200).obj
        assert _names(found) == names, selector


async def test_a_label_selector_that_cannot_be_parsed_is_refused(api: Api) -> None:
    (await api.list(CONFIG_MAPS, labelSelector="a in (b")).expect(400)


async def test_field_selectors_select_by_name_and_namespace(api: Api) -> None:
    await _make(api, "a", "b")
    assert _names((await api.list(CONFIG_MAPS, fieldSelector="metadata.name=b")).obj) == ["b"]
    assert _ours((await api.list(CONFIG_MAPS, fieldSelector="metadata.name!=b")).obj) == ["a"]
    reply = await api.list(CONFIG_MAPS, namespace="", fieldSelector=f"metadata.namespace={api.namespace}")
    assert _ours(reply.obj) == ["a", "b"]


async def test_pods_are_selected_by_node_and_phase(api: Api) -> None:
    for name in ("a", "b"):
        (await api.create(PODS, objects.pod(name))).expect(201)
    (await api.bind("a", "some-node")).expect(201)
    assert _names((await api.list(PODS, fieldSelector="spec.nodeName=some-node")).obj) == ["a"]
    assert _names((await api.list(PODS, fieldSelector="spec.nodeName=")).obj) == ["b"]
    assert _names((await api.list(PODS, fieldSelector="status.phase=Pending,spec.schedulerName=nobody")).obj) == [
        "a",
        "b",
    ]
    assert _names((await api.list(PODS, fieldSelector="status.phase!=Pending")).obj) == []


async def test_nodes_are_selected_by_being_unschedulable(api: Api) -> None:
    shut, usable = api.name("shut"), api.name("usable")
    (await api.create(NODES, objects.node(shut, unschedulable=True))).expect(201)
    (await api.create(NODES, objects.node(usable))).expect(201)
    assert shut in _names((await api.list(NODES, fieldSelector="spec.unschedulable=true")).obj)
    assert usable in _names((await api.list(NODES, fieldSelector="spec.unschedulable=false")).obj)
    assert shut not in _names((await api.list(NODES, fieldSelector="spec.unschedulable=false")).obj)


async def test_events_are_selected_by_what_they_are_about(api: Api) -> None:
    about = {"kind": "Node", "name": "n1", "namespace": api.namespace}
    event = {"metadata": {"name": "e1"}, "involvedObject": about, "reason": "Because", "type": "Normal"}
    (await api.create(EVENTS, event | {"reportingComponent": "x", "reportingInstance": "y"})).expect(201)
    reply = await api.list(EVENTS, fieldSelector="involvedObject.kind=Node,involvedObject.name=n1,reason=Because")
    assert _names(reply.obj) == ["e1"]
    assert _names((await api.list(EVENTS, fieldSelector="involvedObject.name=n2")).obj) == []


async def test_custom_kinds_choose_their_selectable_fields(api: Api) -> None:
    (await api.create(objects.GADGETS, objects.gadget("a", color="red"))).expect(201)
    (await api.create(objects.GADGETS, objects.gadget("b", color="green"))).expect(201)
    assert _names((await api.list(objects.GADGETS, fieldSelector="spec.color=red")).obj) == ["a"]


async def test_fields_that_are_not_selectable_are_refused(api: Api) -> None:
    reply = (await api.list(PODS, fieldSelector="spec.foo=1")).expect(400)
    assert reply.message == "field label not supported: spec.foo"


# ── Pages ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_pages_are_cut_and_go_on(api: Api) -> None:
    for name in "abcde":
        (await api.create(objects.GADGETS, objects.gadget(name))).expect(201)
    first = (await api.list(objects.GADGETS, limit=2)).expect(200).obj
    assert _names(first) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    token = first["metadata"]["continue"]
    second = (await api.list(objects.GADGETS, limit=2, **{"continue": token})).expect(200).obj
    assert _names(second) == ["c", "d"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    third = await api.list(objects.GADGETS, limit=2, **{"continue": second["metadata"]["continue"]})
    assert _names(third.obj) == ["e"]
    assert not third.metadata.get("continue")


async def test_all_pages_show_the_version_of_the_first(api: Api) -> None:
    for name in "abcd":
        (await api.create(objects.GADGETS, objects.gadget(name, size=1))).expect(201)
    first = (await api.list(objects.GADGETS, limit=2)).obj
    (await api.delete(objects.GADGETS, "c")).expect(200)
    (await api.create(objects.GADGETS, objects.gadget("cc"))).expect(201)
    (await api.merge(objects.GADGETS, "d", {"spec": {"size": 9}})).expect(200)
    rest = (await api.list(objects.GADGETS, **{"continue": first["metadata"]["continue"]})).expect(200).obj
    assert _names(rest) == ["c", "d"]
    assert rest["items"][1]["spec"]["size"] == 1


async def test_a_page_with_a_selector_tells_no_remainder(api: Api) -> None:
    for name in "abc":
        obj = objects.gadget(name)
        obj["metadata"]["labels"] = {"a": "b"}
        (await api.create(objects.GADGETS, obj)).expect(201)
    page = (await api.list(objects.GADGETS, limit=1, labelSelector="a=b")).expect(200).obj
    assert page["metadata"]["continue"]
    assert "remainingItemCount" not in page["metadata"]


async def test_a_token_is_the_version_and_the_next_key(api: Api) -> None:
    for name in "ab":
        (await api.create(objects.GADGETS, objects.gadget(name))).expect(201)
    metadata = (await api.list(objects.GADGETS, limit=1)).metadata
    decoded = base64.urlsafe_b64decode(metadata["continue"] + "==").decode()
    assert '"v":"meta.k8s.io/v1"' in decoded
    assert f'"rv":{metadata["resourceVersion"]}' in decoded


async def test_a_nonsensical_token_is_refused(api: Api) -> None:
    reply = (await api.list(objects.GADGETS, **{"continue": "nonsense"})).expect(400)
    assert "continue key is not valid" in reply.message


async def test_a_list_from_any_version_is_not_cut(api: Api) -> None:
    for name in "abc":
        (await api.create(objects.GADGETS, objects.gadget(name))).expect(201)

    found = (await api.list(objects.GADGETS, limit=1, resourceVersion="0")).expect(200).obj
    assert not found["metadata"].get("continue")


# ── Versions ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_list_not_older_than_a_version_is_current(api: Api) -> None:
    (await api.create(objects.GADGETS, objects.gadget("a"))).expect(201)
    made = await api.create(objects.GADGETS, objects.gadget("b"))
    query = {"resourceVersion": made.version, "resourceVersionMatch": "NotOlderThan"}
    assert _names((await api.list(objects.GADGETS, **query)).expect(200).obj) == ["a", "b"]


async def test_a_list_at_exactly_a_version_shows_that_version(api: Api) -> None:
    made = await api.create(objects.GADGETS, objects.gadget("a"))
    (await api.create(objects.GADGETS, objects.gadget("b"))).expect(201)
    query = {"resourceVersion": made.version, "resourceVersionMatch": "Exact"}
    found = (await api.list(objects.GADGETS, **query)).expect(200).obj
    assert _names(found) == ["a"]
    assert found["metadata"]["resourceVersion"] == made.version


async def test_a_version_of_the_future_times_out(api: Api) -> None:
    current = (await api.list(objects.GADGETS)).version
    reply = (await api.list(objects.GADGETS, resourceVersion=int(current) + 100_000)).expect(504)
    assert reply.reason == "Timeout"
    assert reply.message.startswith(f"Timeout: Too large resource version: {int(current) + 100_000}, current: ")
    assert reply.causes == [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]


async def test_a_match_needs_a_version(api: Api) -> None:
    reply = (await api.list(objects.GADGETS, resourceVersionMatch="Exact")).expect(422)
    assert "resourceVersionMatch is forbidden unless resourceVersion is provided" in reply.message


async def test_deleting_a_collection_deletes_what_is_selected(api: Api) -> None:
    await _make(api, "a", "b", "c")
    reply = await api.call("DELETE", api.path(CONFIG_MAPS), query={"labelSelector": "parity=odd"})
    assert reply.expect(200).obj["kind"] == "ConfigMapList"
    assert _ours((await api.list(CONFIG_MAPS)).obj) == ["b"]
