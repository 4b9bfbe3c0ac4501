"""Watches: what comes, from which version, and what happens when that version is forgotten."""

import asyncio

import pytest

from tests.contracts import objects
from tests.contracts.api_client import CONFIG_MAPS, PODS, Api, Json

GADGETS = objects.GADGETS


async def test_a_watch_tells_of_every_write(api: Api) -> None:
    version = (await api.list(GADGETS)).version
    async with api.watch(GADGETS, resourceVersion=version) as events:
        made = await api.create(GADGETS, objects.gadget("a", size=1))
        changed = await api.merge(GADGETS, "a", {"spec": {"size": 2}})
        (await api.delete(GADGETS, "a")).expect(200)
        added, modified, deleted = [await events.next() for _ in range(3)]
    assert (added["type"], added["object"]) == ("ADDED", made.obj)
    assert (modified["type"], modified["object"]) == ("MODIFIED", changed.obj)
    assert deleted["type"] == "DELETED"
    assert deleted["object"]["spec"]["size"] == 2
    assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(changed.version)


async def test_a_watch_resumes_after_a_version(api: Api) -> None:
    first = await api.create(GADGETS, objects.gadget("a"))
    (await api.create(GADGETS, objects.gadget("b"))).expect(201)
    (await api.delete(GADGETS, "a")).expect(200)
    async with api.watch(GADGETS, resourceVersion=first.version) as events:
        seen = [await events.next() for _ in range(2)]
        assert await events.is_silent()
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in seen] == [
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]


@pytest.mark.parametrize("version", [None, "0"])
async def test_without_a_version_a_watch_begins_with_what_is_there(api: Api, version: str | None) -> None:
    (await api.create(GADGETS, objects.gadget("a"))).expect(201)
    query = {} if version is None else {"resourceVersion": version}
    async with api.watch(GADGETS, **query) as events:
        first = await events.next()
        assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "a")
        (await api.create(GADGETS, objects.gadget("b"))).expect(201)
        assert (await events.next())["object"]["metadata"]["name"] == "b"


async def test_initial_events_end_with_a_bookmark(api: Api) -> None:
    (await api.create(GADGETS, objects.gadget("a"))).expect(201)
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(GADGETS, **query) as events:
        assert (await events.next())["type"] == "ADDED"
        bookmark = await events.next()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "Gadget"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) > 0


async def test_initial_events_need_a_match(api: Api) -> None:
    reply = await api.list(GADGETS, watch="true", sendInitialEvents="true")
    said = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    assert said in reply.expect(422).message


async def test_a_bookmark_comes_before_the_end(api: Api) -> None:
    version = (await api.list(GADGETS)).version
    query: Json = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": 4}
    async with api.watch(GADGETS, **query) as events:
        bookmark = await events.next(10)
        while bookmark["object"]["metadata"].get("annotations"):
            bookmark = await events.next(10)
    assert bookmark["type"] == "BOOKMARK"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) >= int(version)


async def test_a_watch_ends_when_its_time_is_over(api: Api) -> None:
    version = (await api.list(GADGETS)).version
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    async with api.watch(GADGETS, resourceVersion=version, timeoutSeconds=1) as events:
        with pytest.raises(StopAsyncIteration):
            await events.next(60)
    assert loop.time() - started_s > 0.9


async def test_a_version_that_is_forgotten_is_expired(api: Api) -> None:
    async with api.watch(GADGETS, resourceVersion="1") as events:
        assert events.code == 200
        event = await events.next()
        assert event["type"] == "ERROR"
        status = event["object"]
        assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
        assert status["message"].startswith("too old resource version: 1 (")
        with pytest.raises(StopAsyncIteration):
            await events.next()


async def test_a_selector_turns_changes_into_comings_and_goings(api: Api) -> None:
    version = (await api.list(GADGETS)).version
    async with api.watch(GADGETS, resourceVersion=version, labelSelector="is=in") as events:
        (await api.create(GADGETS, objects.gadget("a", size=1))).expect(201)
        (await api.merge(GADGETS, "a", {"metadata": {"labels": {"is": "in"}}})).expect(200)
        (await api.merge(GADGETS, "a", {"spec": {"size": 2}})).expect(200)
        left = await api.merge(GADGETS, "a", {"metadata": {"labels": {"is": "out"}}})
        (await api.delete(GADGETS, "a")).expect(200)
        came, changed, went = [await events.next() for _ in range(3)]
        assert await events.is_silent()
    assert [came["type"], changed["type"], went["type"]] == ["ADDED", "MODIFIED", "DELETED"]
    # The object that went is shown as it last was within the selection, at the version of its leaving.
    assert went["object"]["metadata"]["labels"] == {"is": "in"}
    assert went["object"]["metadata"]["resourceVersion"] == left.version


async def test_field_selectors_work_on_watches_too(api: Api) -> None:
    for name in ("a", "b"):
        (await api.create(PODS, objects.pod(name))).expect(201)
    version = (await api.list(PODS)).version
    async with api.watch(PODS, resourceVersion=version, fieldSelector="spec.nodeName=here") as events:
        (await api.bind("b", "elsewhere")).expect(201)
        (await api.bind("a", "here")).expect(201)
        event = await events.next()
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")


async def test_one_object_can_be_watched_by_name(api: Api) -> None:
    for name in ("a", "b"):
        (await api.create(CONFIG_MAPS, objects.config_map(name))).expect(201)
    version = (await api.list(CONFIG_MAPS)).version
    query = {"resourceVersion": version, "fieldSelector": "metadata.name=b"}
    async with api.watch(CONFIG_MAPS, **query) as events:
        (await api.merge(CONFIG_MAPS, "a", {"data": {"x": "1"}})).expect(200)
        (await api.merge(CONFIG_MAPS, "b", {"data": {"x": "2"}})).expect(200)
        assert (await events.next())["object"]["data"] == {"x": "2"}


async def test_a_namespaces_watch_sees_nothing_of_others(api: Api) -> None:
    version = (await api.list(CONFIG_MAPS)).version
    async with api.watch(CONFIG_MAPS, resourceVersion=version) as events:
        path = "/api/v1/namespaces/default/configmaps"
        made = await api.call("POST", path, {"metadata": {"generateName": "other-"}})
        await api.call("DELETE", f"{path}/{made.metadata['name']}")
        (await api.create(CONFIG_MAPS, objects.config_map("ours"))).expect(201)
        assert (await events.next())["object"]["metadata"]["name"] == "ours"


async def test_a_no_op_is_no_event(api: Api) -> None:
    made = await api.create(GADGETS, objects.gadget("a", size=1))
    async with api.watch(GADGETS, resourceVersion=made.version) as events:
        (await api.merge(GADGETS, "a", {"spec": {"size": 1}})).expect(200)
        (await api.merge(GADGETS, "a", {"spec": {"size": 2}})).expect(200)
        assert (await events.next())["object"]["spec"]["size"] == 2


async def test_a_pod_without_a_node_is_marked_and_then_deleted(api: Api) -> None:
    made = await api.create(PODS, objects.pod("a"))
    async with api.watch(PODS, resourceVersion=made.version) as events:
        (await api.delete(PODS, "a")).expect(200)
        marked, gone = await events.next(), await events.next()
    assert marked["type"] == "MODIFIED"
    assert marked["object"]["metadata"]["deletionGracePeriodSeconds"] == 0
    assert gone["type"] == "DELETED"
