"""What kubectl needs beside the objects: discovery, tables, metadata alone, health."""

import pytest

from tests.contracts import objects
from tests.contracts.api_client import CONFIG_MAPS, NODES, PODS, Api, Json

GADGETS = objects.GADGETS
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_health_is_ok(api: Api, path: str) -> None:
    reply = (await api.call("GET", path, accept="*/*")).expect(200)
    assert reply.raw == b"ok"


async def test_the_version_is_told(api: Api) -> None:
    found = (await api.call("GET", "/version")).expect(200).obj
    assert (found["major"], found["minor"]) == ("1", "36")
    assert found["gitVersion"] == "v1.36.3"


async def test_core_is_discovered(api: Api) -> None:
    found = (await api.call("GET", "/api")).expect(200).obj
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])
    resources = {r["name"]: r for r in (await api.call("GET", "/api/v1")).expect(200).obj["resources"]}
    pods = resources["pods"]
    assert (pods["kind"], pods["namespaced"], pods["singularName"]) == ("Pod", True, "pod")
    assert pods["shortNames"] == ["po"]
    assert pods["categories"] == ["all"]
    assert set(pods["verbs"]) == {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    eviction = resources["pods/eviction"]
    assert (eviction["group"], eviction["version"], eviction["kind"]) == ("policy", "v1", "Eviction")
    assert {"pods/binding", "pods/status", "nodes/status", "namespaces/finalize"} <= resources.keys()


async def test_groups_are_discovered(api: Api) -> None:
    found = (await api.call("GET", "/apis")).expect(200).obj
    groups = {group["name"]: group for group in found["groups"]}
    assert {"apps", "policy", "coordination.k8s.io", "apiextensions.k8s.io", objects.GROUP} <= groups.keys()
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    item = (await api.call("GET", f"/apis/{objects.GROUP}")).expect(200).obj
    assert item["kind"] == "APIGroup"


async def test_custom_kinds_are_discovered(api: Api) -> None:
    found = (await api.call("GET", f"/apis/{objects.GROUP}/v1")).expect(200).obj
    resources = {resource["name"]: resource for resource in found["resources"]}
    assert resources["gadgets"]["kind"] == "Gadget"
    assert resources["gadgets"]["shortNames"] == ["gad"]
    scale = resources["gadgets/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert "gadgets/status" in resources
    assert resources["freeforms"]["namespaced"] is False


async def test_everything_is_discovered_at_once(api: Api) -> None:
    reply = (await api.call("GET", "/apis", accept=AGGREGATED)).expect(200)
    assert "as=APIGroupDiscoveryList" in reply.headers["content-type"]
    found = reply.obj
    assert found["kind"] == "APIGroupDiscoveryList"
    [ours] = [item for item in found["items"] if item["metadata"]["name"] == objects.GROUP]
    resources = {resource["resource"]: resource for resource in ours["versions"][0]["resources"]}
    gadgets = resources["gadgets"]
    assert gadgets["responseKind"] == {"group": objects.GROUP, "version": "v1", "kind": "Gadget"}
    assert gadgets["scope"] == "Namespaced"
    assert {sub["subresource"] for sub in gadgets["subresources"]} == {"status", "scale"}


def _columns(table: Json) -> list[str]:
    return [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]


def _cells(table: Json, name: str) -> Json:
    for row in table["rows"]:
        if row["object"]["metadata"]["name"] == name:
            return dict(zip([column["name"] for column in table["columnDefinitions"]], row["cells"], strict=True))
    raise AssertionError(f"no row for {name}")


async def test_nodes_are_tabled(api: Api) -> None:
    name = api.name("node")
    node = objects.node(name, unschedulable=True)
    node["metadata"]["labels"] = {"node-role.kubernetes.io/worker": ""}
    node["status"] = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v9"}}
    (await api.create(NODES, node)).expect(201)
    table = (await api.call("GET", api.path(NODES), accept=TABLE)).expect(200).obj
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert _columns(table) == ["Name", "Status", "Roles", "Age", "Version"]
    cells = _cells(table, name)
    assert (cells["Status"], cells["Roles"], cells["Version"]) == ("Ready,SchedulingDisabled", "worker", "v9")
    assert cells["Age"].endswith("s")


async def test_pods_are_tabled(api: Api) -> None:
    (await api.create(PODS, objects.pod("p"))).expect(201)
    table = (await api.call("GET", api.path(PODS), accept=TABLE)).expect(200).obj
    assert _columns(table) == ["Name", "Ready", "Status", "Restarts", "Age"]
    cells = _cells(table, "p")
    assert (cells["Ready"], cells["Status"], cells["Restarts"]) == ("0/1", "Pending", "0")
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_custom_objects_are_tabled_by_their_columns(api: Api) -> None:
    (await api.create(GADGETS, objects.gadget("g", replicas=3))).expect(201)
    table = (await api.call("GET", api.path(GADGETS), accept=TABLE)).expect(200).obj
    assert _columns(table) == ["Name", "Replicas", "Age"]
    cells = _cells(table, "g")
    assert (cells["Replicas"], cells["Phase"]) == (3, None)


async def test_one_object_is_tabled(api: Api) -> None:
    (await api.create(CONFIG_MAPS, objects.config_map("c", a="1", b="2"))).expect(201)
    table = (await api.call("GET", api.path(CONFIG_MAPS, "c"), accept=TABLE)).expect(200).obj
    assert _cells(table, "c")["Data"] == 2


async def test_a_table_can_carry_whole_objects_or_none(api: Api) -> None:
    (await api.create(CONFIG_MAPS, objects.config_map("c", a="1"))).expect(201)
    path = api.path(CONFIG_MAPS, "c")
    whole = (await api.call("GET", path, accept=TABLE, query={"includeObject": "Object"})).expect(200).obj
    assert whole["rows"][0]["object"]["data"] == {"a": "1"}
    bare = (await api.call("GET", path, accept=TABLE, query={"includeObject": "None"})).expect(200).obj
    assert bare["rows"][0].get("object") is None


async def test_a_watch_can_be_tabled(api: Api) -> None:
    (await api.create(GADGETS, objects.gadget("g", replicas=3))).expect(201)
    response = await api.open("GET", api.path(GADGETS), query={"watch": "true"}, accept=TABLE)
    chunk = await anext(aiter(response.stream))
    await response.stream.aclose()
    assert b'"kind":"Table"' in chunk
    assert b'"type":"ADDED"' in chunk


async def test_metadata_can_be_had_alone(api: Api) -> None:
    (await api.create(CONFIG_MAPS, objects.config_map("c", a="1"))).expect(201)
    item = (await api.call("GET", api.path(CONFIG_MAPS, "c"), accept=PARTIAL)).expect(200).obj
    assert (item["kind"], item["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert item["metadata"]["name"] == "c"
    assert "data" not in item
    many = (await api.call("GET", api.path(CONFIG_MAPS), accept=PARTIAL_LIST)).expect(200).obj
    assert many["kind"] == "PartialObjectMetadataList"
    assert "data" not in many["items"][0]


async def test_a_media_type_that_is_not_spoken_is_not_acceptable(api: Api) -> None:
    (await api.create(CONFIG_MAPS, objects.config_map("c"))).expect(201)
    (await api.call("GET", api.path(CONFIG_MAPS, "c"), accept="text/html")).expect(406)


async def test_openapi_says_that_fields_are_validated(api: Api) -> None:
    root = (await api.call("GET", "/openapi/v3")).expect(200).obj
    place = root["paths"]["apis/apps/v1"]["serverRelativeURL"]
    path, _, query = place.partition("?")
    pairs = dict(pair.split("=", 1) for pair in query.split("&"))
    document = (await api.call("GET", path, query=pairs)).expect(200).obj
    operation = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert {"dryRun", "fieldManager", "fieldValidation"} <= {p["name"] for p in operation["parameters"] if "name" in p}
    assert operation["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
