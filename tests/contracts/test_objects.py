"""Creating, reading, replacing and patching objects."""

import re

import pytest

from tests.contracts import objects
from tests.contracts.api_client import CONFIG_MAPS, DEPLOYMENTS, LEASES, NAMESPACES, NODES, PODS, SECRETS, Api


async def test_a_created_object_gets_uid_version_and_time(api: Api) -> None:
    made = (await api.create(CONFIG_MAPS, objects.config_map(a="1"))).expect(201)
    metadata = made.metadata
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["namespace"] == api.namespace
    assert made.obj["data"] == {"a": "1"}


async def test_what_the_client_says_about_the_servers_metadata_is_ignored(api: Api) -> None:
    obj = objects.config_map()
    obj["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3}
    made = (await api.create(CONFIG_MAPS, obj)).expect(201)
    assert made.metadata["uid"] != "mine"
    assert not made.metadata["creationTimestamp"].startswith("2001")
    assert "deletionGracePeriodSeconds" not in made.metadata


async def test_a_version_may_not_be_given_at_creation(api: Api) -> None:
    obj = objects.config_map()
    obj["metadata"]["resourceVersion"] = "5"
    reply = (await api.create(CONFIG_MAPS, obj)).expect(500)
    assert reply.message == "resourceVersion should not be set on objects to be created"


async def test_a_name_is_taken_once(api: Api) -> None:
    (await api.create(CONFIG_MAPS, objects.config_map("x"))).expect(201)
    reply = (await api.create(CONFIG_MAPS, objects.config_map("x"))).expect(409)
    assert reply.reason == "AlreadyExists"
    assert reply.message == 'configmaps "x" already exists'
    assert reply.obj["details"] == {"name": "x", "kind": "configmaps"}


async def test_names_are_generated(api: Api) -> None:
    first = (await api.create(CONFIG_MAPS, {"metadata": {"generateName": "gen-"}})).expect(201)
    second = (await api.create(CONFIG_MAPS, {"metadata": {"generateName": "gen-"}})).expect(201)
    assert re.fullmatch(r"gen-[bcdfghjklmnpqrstvwxz2456789]{5}", first.metadata["name"])
    assert first.metadata["name"] != second.metadata["name"]
    assert first.metadata["generateName"] == "gen-"


async def test_a_name_is_required(api: Api) -> None:
    reply = (await api.create(CONFIG_MAPS, {"metadata": {}})).expect(422)
    assert reply.message == 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'


async def test_a_bad_name_is_refused_in_words(api: Api) -> None:
    reply = (await api.create(CONFIG_MAPS, {"metadata": {"name": "No_Good"}})).expect(422)
    assert reply.reason == "Invalid"
    assert reply.message == (
        'ConfigMap "No_Good" is invalid: metadata.name: Invalid value: "No_Good": a lowercase RFC 1123 subdomain must '
        "consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
        "character (e.g. 'example.com', regex used for validation is "
        r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )
    assert reply.causes[0]["reason"] == "FieldValueInvalid"
    assert reply.causes[0]["field"] == "metadata.name"


async def test_a_bad_label_is_refused(api: Api) -> None:
    obj = objects.config_map()
    obj["metadata"]["labels"] = {"a": "not valid!"}
    reply = (await api.create(CONFIG_MAPS, obj)).expect(422)
    assert 'metadata.labels: Invalid value: "not valid!": a valid label must be an empty string or' in reply.message


async def test_nothing_is_created_in_a_namespace_that_is_not_there(api: Api) -> None:
    path = "/api/v1/namespaces/not-there/configmaps"
    reply = (await api.call("POST", path, {"metadata": {"name": "a"}})).expect(404)
    assert reply.message == 'namespaces "not-there" not found'


async def test_the_objects_namespace_must_be_the_requests(api: Api) -> None:
    obj = objects.config_map()
    obj["metadata"]["namespace"] = "other"
    reply = (await api.create(CONFIG_MAPS, obj)).expect(400)
    said = "the namespace of the provided object does not match the namespace sent on the request"
    assert reply.message == said


async def test_absent_objects_are_not_found(api: Api) -> None:
    reply = (await api.get(PODS, "nobody")).expect(404)
    assert reply.reason == "NotFound"
    assert reply.message == 'pods "nobody" not found'
    assert reply.obj["details"] == {"name": "nobody", "kind": "pods"}


async def test_a_resource_with_a_group_is_named_with_it(api: Api) -> None:
    reply = (await api.get(DEPLOYMENTS, "nobody")).expect(404)
    assert reply.message == 'deployments.apps "nobody" not found'
    assert reply.obj["details"] == {"name": "nobody", "group": "apps", "kind": "deployments"}


async def test_an_unknown_resource_is_not_served(api: Api) -> None:
    reply = (await api.call("GET", "/apis/apps/v1/namespaces/default/nonsense")).expect(404)
    assert reply.message == "the server could not find the requested resource"
    assert reply.reason == "NotFound"


async def test_the_version_in_the_data_must_be_the_paths(api: Api) -> None:
    path = api.path(DEPLOYMENTS)
    body = {"apiVersion": "v1", "kind": "Deployment", "metadata": {"name": "x"}}
    (await api.call("POST", path, body)).expect(400)


async def test_malformed_json_is_a_bad_request(api: Api) -> None:
    (await api.call("POST", api.path(CONFIG_MAPS), b'{"metadata":')).expect(400)


async def test_yaml_is_accepted(api: Api) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: why}\ndata: {on: 'yes'}\n"
    reply = await api.call("POST", api.path(CONFIG_MAPS), text, content_type="application/yaml")
    assert reply.expect(201).obj["data"] == {"true": "yes"}


async def test_other_media_types_are_not(api: Api) -> None:
    reply = await api.call("POST", api.path(CONFIG_MAPS), b"<a/>", content_type="text/xml")
    assert reply.expect(415).reason == "UnsupportedMediaType"


# ── Replacing ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_put_with_a_stale_version_conflicts(api: Api) -> None:
    made = (await api.create(CONFIG_MAPS, objects.config_map("x", a="1"))).obj
    (await api.merge(CONFIG_MAPS, "x", {"data": {"a": "2"}})).expect(200)
    reply = (await api.put(CONFIG_MAPS, made | {"data": {"a": "3"}})).expect(409)
    assert reply.reason == "Conflict"
    assert reply.message == (
        'Operation cannot be fulfilled on configmaps "x": the object has been modified; please apply your changes to '
        "the latest version and try again"
    )


async def test_a_put_without_a_version_replaces_built_in_objects(api: Api) -> None:
    (await api.create(CONFIG_MAPS, objects.config_map("x", a="1"))).expect(201)
    reply = (await api.put(CONFIG_MAPS, objects.config_map("x", b="2"))).expect(200)
    assert reply.obj["data"] == {"b": "2"}


async def test_a_put_without_a_version_is_refused_for_custom_objects(api: Api) -> None:
    (await api.create(objects.GADGETS, objects.gadget("x"))).expect(201)
    reply = (await api.put(objects.GADGETS, objects.gadget("x", size=2))).expect(422)
    said = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    assert reply.message == f'gadgets.{objects.GROUP} "x" is invalid: {said}'


async def test_a_put_of_an_absent_object_is_not_found(api: Api) -> None:
    (await api.put(CONFIG_MAPS, objects.config_map("x"))).expect(404)


async def test_a_put_of_an_absent_lease_creates_it(api: Api) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    (await api.put(LEASES, lease)).expect(201)


async def test_a_put_with_another_uid_conflicts(api: Api) -> None:
    made = (await api.create(CONFIG_MAPS, objects.config_map("x"))).obj
    made["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
    reply = (await api.put(CONFIG_MAPS, made)).expect(409)
    assert "Precondition failed: UID in precondition: 00000000-0000-4000-8000-000000000000" in reply.message


async def test_the_name_in_the_body_must_be_the_paths(api: Api) -> None:
    (await api.create(CONFIG_MAPS, objects.config_map("x"))).expect(201)
    reply = (await api.call("PUT", api.path(CONFIG_MAPS, "x"), objects.config_map("y"))).expect(400)
    assert reply.message == "the name of the object (y) does not match the name on the URL (x)"


async def test_a_put_that_changes_nothing_writes_nothing(api: Api) -> None:
    made = await api.create(CONFIG_MAPS, objects.config_map("x", a="1"))
    again = (await api.put(CONFIG_MAPS, made.obj)).expect(200)
    assert again.version == made.version


# ── Patching ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_merge_patch_deletes_by_null_and_replaces_lists(api: Api) -> None:
    (await api.create(objects.GADGETS, objects.gadget("x", size=2, atoms=["a", "b"]))).expect(201)
    reply = (await api.merge(objects.GADGETS, "x", {"spec": {"size": None, "atoms": ["c"]}})).expect(200)
    assert reply.obj["spec"] == {"mode": "auto", "atoms": ["c"]}


async def test_a_merge_patch_that_changes_nothing_writes_nothing(api: Api) -> None:
    made = await api.create(objects.GADGETS, objects.gadget("x", size=2))
    again = (await api.acting_as("other").merge(objects.GADGETS, "x", {"spec": {"size": 2}})).expect(200)
    assert again.version == made.version
    assert again.managed == made.managed


async def test_a_merge_patch_with_a_stale_version_conflicts_even_if_it_changes_nothing(api: Api) -> None:
    made = await api.create(objects.GADGETS, objects.gadget("x", size=2))
    (await api.merge(objects.GADGETS, "x", {"spec": {"size": 3}})).expect(200)
    patch = {"metadata": {"resourceVersion": made.version}, "spec": {"size": 3}}
    (await api.merge(objects.GADGETS, "x", patch)).expect(409)


async def test_a_json_patch_adds_replaces_and_removes(api: Api) -> None:
    (await api.create(objects.GADGETS, objects.gadget("x", size=2, atoms=["a"]))).expect(201)
    reply = await api.json_patch(
        objects.GADGETS,
        "x",
        {"op": "add", "path": "/spec/atoms/-", "value": "z"},
        {"op": "replace", "path": "/spec/size", "value": 4},
        {"op": "remove", "path": "/spec/mode"},
    )
    assert reply.expect(200).obj["spec"] == {"size": 4, "atoms": ["a", "z"], "mode": "auto"}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/spec/size", "value": 99},
        {"op": "replace", "path": "/spec/atoms/7", "value": 1},
        {"op": "remove", "path": "/spec/nothing"},
        {"op": "add", "path": "/spec/nothing/-", "value": 1},
    ],
    ids=lambda operation: operation["op"],
)
async def test_a_json_patch_that_cannot_be_carried_out_is_unprocessable(api: Api, operation: dict[str, object]) -> None:
    (await api.create(objects.GADGETS, objects.gadget("x", size=2))).expect(201)
    reply = (await api.json_patch(objects.GADGETS, "x", operation)).expect(422)
    assert reply.reason == "Invalid"
    assert reply.message == "the server rejected our request due to an error in our request"


async def test_a_json_patch_may_replace_what_is_not_there(api: Api) -> None:
    (await api.create(objects.GADGETS, objects.gadget("x"))).expect(201)
    reply = await api.json_patch(objects.GADGETS, "x", {"op": "replace", "path": "/spec/size", "value": 3})
    assert reply.expect(200).obj["spec"]["size"] == 3


async def test_a_json_patch_that_passes_its_test_is_carried_out(api: Api) -> None:
    (await api.create(objects.GADGETS, objects.gadget("x", size=2))).expect(201)
    test = {"op": "test", "path": "/spec/size", "value": 2}
    reply = await api.json_patch(objects.GADGETS, "x", test, {"op": "add", "path": "/spec/color", "value": "red"})
    assert reply.expect(200).obj["spec"]["color"] == "red"


async def test_a_patch_of_an_absent_object_is_not_found(api: Api) -> None:
    (await api.merge(CONFIG_MAPS, "x", {"data": {"a": "1"}})).expect(404)


async def test_a_patch_cannot_rename(api: Api) -> None:
    (await api.create(CONFIG_MAPS, objects.config_map("x"))).expect(201)
    reply = (await api.merge(CONFIG_MAPS, "x", {"metadata": {"name": "y"}})).expect(400)
    assert reply.message == "the name of the object (y) does not match the name on the URL (x)"


async def test_force_belongs_to_apply_alone(api: Api) -> None:
    (await api.create(CONFIG_MAPS, objects.config_map("x"))).expect(201)
    reply = (await api.merge(CONFIG_MAPS, "x", {"data": {"a": "1"}}, force="true")).expect(422)
    assert "force: Forbidden: may not be specified for non-apply patch" in reply.message


# ── Generations and normal form ──────────────────────────────────────────────────────────────────────────────────


async def test_the_generation_counts_changes_of_the_spec_alone(api: Api) -> None:
    made = await api.create(objects.GADGETS, objects.gadget("x", size=2))
    assert made.metadata["generation"] == 1
    labelled = await api.merge(objects.GADGETS, "x", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.metadata["generation"] == 1
    changed = await api.merge(objects.GADGETS, "x", {"spec": {"size": 3}})
    assert changed.metadata["generation"] == 2


async def test_deployments_count_generations_too(api: Api) -> None:
    made = await api.create(DEPLOYMENTS, objects.deployment())
    assert made.expect(201).metadata["generation"] == 1
    assert (await api.merge(DEPLOYMENTS, "d", {"spec": {"replicas": 5}})).metadata["generation"] == 2


async def test_nodes_do_not_count_generations(api: Api) -> None:
    made = await api.create(NODES, objects.node(api.name()))
    assert "generation" not in made.expect(201).metadata


async def test_false_and_empty_values_of_built_in_kinds_are_left_out(api: Api) -> None:
    name = api.name()
    (await api.create(NODES, objects.node(name, unschedulable=True))).expect(201)
    reply = (await api.merge(NODES, name, {"spec": {"unschedulable": False}})).expect(200)
    assert "unschedulable" not in reply.obj["spec"]


async def test_quantities_take_their_canonical_form(api: Api) -> None:
    name = api.name()
    obj = objects.node(name)
    obj["status"] = {"capacity": {"cpu": "4000m", "memory": "1024Mi", "example.com/x": 3}}
    made = (await api.create(NODES, obj)).expect(201)
    assert made.obj["status"]["capacity"] == {"cpu": "4", "memory": "1Gi", "example.com/x": "3"}
    assert made.obj["status"]["allocatable"] == made.obj["status"]["capacity"]


async def test_a_new_node_is_tainted_as_not_ready(api: Api) -> None:
    made = (await api.create(NODES, objects.node(api.name()))).expect(201)
    assert made.obj["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


async def test_pods_get_their_defaults(api: Api) -> None:
    made = (await api.create(PODS, objects.pod())).expect(201)
    spec = made.obj["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["priority"] == 0
    assert spec["preemptionPolicy"] == "PreemptLowerPriority"
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert {t["key"] for t in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
    assert made.obj["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert made.metadata["generation"] == 1


async def test_limits_become_requests(api: Api) -> None:
    pod = objects.pod()
    pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "memory": "1Gi"}}
    made = (await api.create(PODS, pod)).expect(201)
    assert made.obj["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert made.obj["status"]["qosClass"] == "Guaranteed"


async def test_secrets_keep_text_encoded(api: Api) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": {"a": "hello"}}
    made = (await api.create(SECRETS, secret)).expect(201)
    assert made.obj["data"] == {"a": "aGVsbG8="}
    assert made.obj["type"] == "Opaque"
    assert "stringData" not in made.obj


async def test_unknown_fields_are_dropped_with_a_warning(api: Api) -> None:
    pod = objects.pod()
    pod["spec"]["containers"][0]["imge"] = "x"
    made = (await api.create(PODS, pod)).expect(201)
    assert made.headers["warning"] == '299 - "unknown field \\"spec.containers[0].imge\\""'
    assert "imge" not in made.obj["spec"]["containers"][0]


async def test_unknown_fields_are_refused_if_the_client_wants_that(api: Api) -> None:
    pod = objects.pod()
    pod["spec"]["foo"] = 1
    reply = (await api.create(PODS, pod, fieldValidation="Strict")).expect(400)
    said = 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo"'
    assert reply.message == said


async def test_a_value_of_the_wrong_type_is_a_bad_request(api: Api) -> None:
    pod = objects.pod(terminationGracePeriodSeconds="soon")
    reply = (await api.create(PODS, pod)).expect(400)
    assert reply.message == (
        'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field '
        "PodSpec.spec.terminationGracePeriodSeconds of type int64"
    )


async def test_a_dry_run_changes_nothing(api: Api) -> None:
    (await api.create(CONFIG_MAPS, objects.config_map("x"), dryRun="All")).expect(201)
    (await api.get(CONFIG_MAPS, "x")).expect(404)
    made = await api.create(CONFIG_MAPS, objects.config_map("x", a="1"))
    tried = (await api.merge(CONFIG_MAPS, "x", {"data": {"a": "2"}}, dryRun="All")).expect(200)
    assert tried.obj["data"] == {"a": "2"}
    assert tried.version == made.version
    (await api.delete(CONFIG_MAPS, "x", dryRun="All")).expect(200)
    assert (await api.get(CONFIG_MAPS, "x")).obj["data"] == {"a": "1"}


async def test_a_new_namespace_is_active_and_labelled_with_its_name(api: Api) -> None:
    reply = (await api.get(NAMESPACES, api.namespace)).expect(200)
    assert reply.obj["status"] == {"phase": "Active"}
    assert reply.obj["spec"] == {"finalizers": ["kubernetes"]}
    assert reply.metadata["labels"] == {"kubernetes.io/metadata.name": api.namespace}


@pytest.mark.parametrize("time", ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.5Z", "2024-01-01T00:00:00.1234567Z"])
async def test_a_leases_times_have_six_digits_behind_the_point(api: Api, time: str) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {"renewTime": time}}
    reply = (await api.create(LEASES, lease)).expect(400)
    assert f'parsing time "{time}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse' in reply.message
    lease["spec"] = {"renewTime": "2024-01-01T01:00:00.500000+01:00"}
    made = (await api.create(LEASES, lease)).expect(201)
    assert made.obj["spec"]["renewTime"] == "2024-01-01T00:00:00.500000Z"
