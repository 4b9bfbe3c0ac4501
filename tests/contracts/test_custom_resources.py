"""Custom kinds: defaulting, pruning, validation messages, status, and definitions themselves."""

from typing import Any

import pytest

from tests.contracts import objects
from tests.contracts.api_client import DEFINITIONS, Api, Json, eventually

GADGETS = objects.GADGETS
KIND = f"Gadget.{objects.GROUP}"


async def test_defaults_are_filled_in(api: Api) -> None:
    reply = (await api.create(GADGETS, objects.gadget("x", nested={}, ports=[{"port": 80}]))).expect(201)
    assert reply.obj["spec"] == {
        "mode": "auto",
        "nested": {"level": "low"},
        "ports": [{"port": 80, "protocol": "TCP"}],
    }


async def test_a_missing_parent_is_not_defaulted(api: Api) -> None:
    reply = (await api.create(GADGETS, {"metadata": {"name": "x"}})).expect(201)
    assert "spec" not in reply.obj


async def test_defaults_come_back_when_deleted(api: Api) -> None:
    (await api.create(GADGETS, objects.gadget("x", mode="manual"))).expect(201)
    reply = (await api.merge(GADGETS, "x", {"spec": {"mode": None}})).expect(200)
    assert reply.obj["spec"]["mode"] == "auto"


async def test_null_with_a_default_is_defaulted_and_without_one_is_dropped(api: Api) -> None:
    reply = (await api.create(GADGETS, objects.gadget("x", mode=None, color=None, nullable=None))).expect(201)
    assert reply.obj["spec"] == {"mode": "auto", "nullable": None}


async def test_unknown_fields_are_pruned_with_a_warning(api: Api) -> None:
    reply = (await api.create(GADGETS, objects.gadget("x", size=1, nonsense={"a": 1}))).expect(201)
    assert reply.obj["spec"] == {"size": 1, "mode": "auto"}
    assert reply.headers["warning"] == '299 - "unknown field \\"spec.nonsense\\""'


async def test_unknown_fields_of_items_are_pruned_too(api: Api) -> None:
    reply = (await api.create(GADGETS, objects.gadget("x", ports=[{"port": 1, "foo": 2}]))).expect(201)
    assert reply.obj["spec"]["ports"] == [{"port": 1, "protocol": "TCP"}]
    assert reply.headers["warning"] == '299 - "unknown field \\"spec.ports[0].foo\\""'


async def test_unknown_fields_can_be_refused(api: Api) -> None:
    reply = (await api.create(GADGETS, objects.gadget("x", foo=1), fieldValidation="Strict")).expect(400)
    assert reply.message == (
        'Gadget in version "v1" cannot be handled as a Gadget: strict decoding error: unknown field "spec.foo"'
    )


async def test_unknown_fields_can_be_ignored(api: Api) -> None:
    reply = (await api.create(GADGETS, objects.gadget("x", foo=1), fieldValidation="Ignore")).expect(201)
    assert "warning" not in reply.headers
    assert "foo" not in reply.obj["spec"]


async def test_unknown_metadata_is_dropped(api: Api) -> None:
    obj = objects.gadget("x")
    obj["metadata"]["foo"] = 1
    reply = (await api.create(GADGETS, obj)).expect(201)
    assert "foo" not in reply.metadata
    assert 'unknown field \\"metadata.foo\\"' in reply.headers["warning"]


async def test_unknown_fields_are_kept_where_the_schema_says_so(api: Api) -> None:
    free = {"a": [1, {"b": None}], "c": {"d": 1.5}}
    reply = (await api.create(GADGETS, objects.gadget("x", free=free))).expect(201)
    assert reply.obj["spec"]["free"] == free
    name = api.name()
    whole = (await api.create(objects.FREE, {"metadata": {"name": name}, "spec": free, "other": 1})).expect(201)
    assert whole.obj["spec"] == free
    assert "other" not in whole.obj


async def test_an_embedded_object_must_say_what_it_is(api: Api) -> None:
    reply = (await api.create(GADGETS, objects.gadget("x", embedded={"metadata": {"name": "e"}}))).expect(422)
    assert "spec.embedded.apiVersion: Required value" in reply.message
    assert "spec.embedded.kind: Required value" in reply.message
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e", "foo": 1}, "spec": {"any": 1}}
    kept = (await api.create(GADGETS, objects.gadget("y", embedded=inner))).expect(201)
    assert kept.obj["spec"]["embedded"]["spec"] == {"any": 1}
    assert kept.obj["spec"]["embedded"]["metadata"] == {"name": "e"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"size": "big"}, 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'),
        ({"size": 1.5}, 'spec.size: Invalid value: "number": spec.size in body must be of type integer: "number"'),
        ({"color": 5}, 'spec.color: Invalid value: "integer": spec.color in body must be of type string: "integer"'),
        ({"tags": {}}, 'spec.tags: Invalid value: "object": spec.tags in body must be of type array: "object"'),
        ({"pair": [1]}, 'spec.pair: Invalid value: "array": spec.pair in body must be of type object: "array"'),
        ({"size": 0}, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        ({"size": 11}, "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"),
        ({"color": "blue"}, 'spec.color: Unsupported value: "blue": supported values: "red", "green"'),
        ({"code": "A1"}, "spec.code: Invalid value: \"A1\": spec.code in body should match '^[a-z]+$'"),
        ({"code": "a"}, 'spec.code: Invalid value: "a": spec.code in body should be at least 2 chars long'),
        ({"code": "abcdef"}, "spec.code: Too long: may not be more than 5 bytes"),
        ({"when": "now"}, 'spec.when: Invalid value: "now": spec.when in body must be of type date-time: "now"'),
        ({"atoms": ["a", "b", "c", "d"]}, "spec.atoms: Too many: 4: must have at most 3 items"),
        ({"settings": dict.fromkeys("abcd", "")}, "spec.settings: Too many: 4: must have at most 3 items"),
        ({"settings": {"a": 1}}, 'spec.settings.a in body must be of type string: "integer"'),
        ({"strict": {}}, "spec.strict.must: Required value"),
        ({"ports": [{"name": "x"}]}, "spec.ports[0].port: Required value"),
        ({"tags": ["a", "a"]}, 'spec.tags[1]: Duplicate value: "a"'),
        ({"ports": [{"port": 1}, {"port": 1}]}, 'spec.ports[1]: Duplicate value: {"port":1,"protocol":"TCP"}'),
        ({"replicas": -1}, ".spec.replicas: Invalid value: -1: should be a non-negative integer"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else None,
)  # fmt: skip
async def test_what_the_schema_forbids_is_refused_in_its_words(api: Api, spec: Json, said: str) -> None:
    reply = (await api.create(GADGETS, objects.gadget("x", **spec))).expect(422)
    assert reply.reason == "Invalid"
    # A second complaint about rules that were not checked may follow the first.
    assert said in reply.message
    assert reply.message.startswith(f'{KIND} "x" is invalid: ')
    assert reply.obj["details"]["kind"] == "Gadget"
    assert reply.obj["details"]["group"] == objects.GROUP


@pytest.mark.parametrize("limit", [5, "50%"])
async def test_int_or_string_takes_both(api: Api, limit: Any) -> None:
    reply = (await api.create(GADGETS, objects.gadget("x", limit=limit))).expect(201)
    assert reply.obj["spec"]["limit"] == limit


async def test_int_or_string_takes_nothing_else(api: Api) -> None:
    (await api.create(GADGETS, objects.gadget("x", limit=[1]))).expect(422)


async def test_a_patch_must_leave_a_valid_object(api: Api) -> None:
    (await api.create(GADGETS, objects.gadget("x", size=2))).expect(201)
    reply = (await api.merge(GADGETS, "x", {"spec": {"size": 99}})).expect(422)
    assert "should be less than or equal to 10" in reply.message
    assert (await api.get(GADGETS, "x")).obj["spec"]["size"] == 2


async def test_a_whole_number_with_a_point_is_an_integer(api: Api) -> None:
    body = b'{"apiVersion":"%s","kind":"Gadget","metadata":{"name":"x"},"spec":{"size":2.0}}'
    reply = await api.call("POST", api.path(GADGETS), body % GADGETS.api_version.encode())
    assert reply.expect(201).obj["spec"]["size"] == 2


# ── Status ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_posted_status_is_dropped(api: Api) -> None:
    reply = (await api.create(GADGETS, objects.gadget("x") | {"status": {"phase": "Good"}})).expect(201)
    assert "status" not in reply.obj


async def test_the_main_resource_does_not_change_the_status(api: Api) -> None:
    (await api.create(GADGETS, objects.gadget("x"))).expect(201)
    (await api.merge(GADGETS, "x", {"status": {"phase": "Good"}}, "status")).expect(200)
    reply = (await api.merge(GADGETS, "x", {"status": {"phase": "Bad"}, "spec": {"size": 2}})).expect(200)
    assert reply.obj["status"] == {"phase": "Good"}
    assert reply.obj["spec"]["size"] == 2


async def test_the_status_changes_nothing_else(api: Api) -> None:
    made = await api.create(GADGETS, objects.gadget("x", size=1))
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 2}, "status": {"phase": "Good"}}
    reply = (await api.merge(GADGETS, "x", patch, "status")).expect(200)
    assert reply.obj["status"] == {"phase": "Good"}
    assert reply.obj["spec"]["size"] == 1
    assert "labels" not in reply.metadata
    assert reply.metadata["generation"] == made.metadata["generation"]


async def test_a_status_write_is_told_apart_in_managed_fields(api: Api) -> None:
    (await api.create(GADGETS, objects.gadget("x"))).expect(201)
    reply = await api.acting_as("keeper").merge(GADGETS, "x", {"status": {"phase": "Good"}}, "status")
    [entry] = [entry for entry in reply.expect(200).managed if entry["manager"] == "keeper"]
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {"f:status": {".": {}, "f:phase": {}}}


async def test_a_status_must_be_valid_too(api: Api) -> None:
    (await api.create(GADGETS, objects.gadget("x"))).expect(201)
    reply = (await api.merge(GADGETS, "x", {"status": {"replicas": "many"}}, "status")).expect(422)
    said = 'status.replicas: Invalid value: "string": replicas in body must be of type integer: "string"'
    assert said in reply.message


async def test_a_status_can_be_put(api: Api) -> None:
    made = (await api.create(GADGETS, objects.gadget("x"))).obj
    reply = (await api.put(GADGETS, made | {"status": {"phase": "Good"}}, "status")).expect(200)
    assert reply.obj["status"] == {"phase": "Good"}


async def test_without_a_status_subresource_the_status_is_just_a_field(api: Api) -> None:
    name = api.name()
    (await api.create(objects.FREE, {"metadata": {"name": name}, "status": {"a": 1}})).expect(201)
    reply = (await api.merge(objects.FREE, name, {"status": {"a": 2}})).expect(200)
    assert reply.obj["status"] == {"a": 2}
    assert reply.metadata["generation"] == 2
    (await api.merge(objects.FREE, name, {"status": {"a": 3}}, "status")).expect(404)


# ── Definitions ──────────────────────────────────────────────────────────────────────────────────────────────────


def _definition(api: Api, plural: str, **version: Any) -> Json:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"{plural}.{objects.GROUP}"},
        "spec": {
            "group": objects.GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [{**served, **version}],
        },
    }


async def test_a_definition_is_established(api: Api) -> None:
    plural = f"t{api.namespace.split('-')[0]}"
    made = (await api.create(DEFINITIONS, _definition(api, plural))).expect(201)
    assert made.obj["spec"]["names"]["singular"] == plural
    assert made.obj["spec"]["names"]["listKind"] == f"{plural.capitalize()}List"

    async def is_established() -> bool:
        found = (await api.get(DEFINITIONS, made.metadata["name"])).obj
        conditions = {c["type"]: c["status"] for c in found["status"].get("conditions") or ()}
        return conditions.get("Established") == "True" and conditions.get("NamesAccepted") == "True"

    await eventually(is_established)


async def test_a_definitions_name_must_fit(api: Api) -> None:
    definition = _definition(api, "somethings")
    definition["metadata"]["name"] = "other.example.com"
    reply = (await api.create(DEFINITIONS, definition)).expect(422)
    assert (
        'metadata.name: Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group' in reply.message
    )


async def test_a_definition_needs_a_schema(api: Api) -> None:
    reply = (await api.create(DEFINITIONS, _definition(api, "somethings", schema=None))).expect(422)
    assert "spec.versions[0].schema.openAPIV3Schema: Required value" in reply.message


async def test_objects_go_with_their_definition(api: Api) -> None:
    plural = f"u{api.namespace.split('-')[0]}"
    made = (await api.create(DEFINITIONS, _definition(api, plural))).expect(201)
    path = f"/apis/{objects.GROUP}/v1/namespaces/{api.namespace}/{plural}"

    async def is_served() -> bool:
        return (await api.call("GET", path)).code == 200

    await eventually(is_served)
    body = {"apiVersion": f"{objects.GROUP}/v1", "kind": plural.capitalize(), "metadata": {"name": "x"}}
    (await api.call("POST", path, body)).expect(201)
    (await api.delete(DEFINITIONS, made.metadata["name"])).expect(200)

    async def is_gone() -> bool:
        return (await api.get(DEFINITIONS, made.metadata["name"])).code == 404

    await eventually(is_gone)

    # The API server hears of a definition's end by its own watch: for a moment the path is still served.
    async def is_unserved() -> bool:
        return (await api.call("GET", path)).code == 404

    await eventually(is_unserved)
