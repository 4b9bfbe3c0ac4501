"""What the embedded server leaves to the real one: each case says what the real one does, and how the other refuses."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.contracts import objects
from tests.contracts.api_client import CONFIG_MAPS, DEFINITIONS, POLICIES, STRATEGIC, Api, Json, Kind, Reply

GADGETS = objects.GADGETS
LEFT = "left to a real kube-apiserver"
BINDINGS = Kind(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False
)


def _policy(api: Api, name: str, resource: str = "gadgets", **spec: Any) -> Json:
    rule = {"apiGroups": [objects.GROUP], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"]}
    # Of this namespace alone: other tests use the same server at the same time.
    ours = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
    return {
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule | {"resources": [resource]}], "namespaceSelector": ours},
            "validations": [{"expression": "false", "message": "never"}],
            **spec,
        },
    }


async def _enforce(api: Api, policy: Json) -> str:
    """Make a policy and bind it; its name."""
    name = str(policy["metadata"]["name"])
    (await api.create(POLICIES, policy)).expect(201)
    binding = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
    (await api.create(BINDINGS, binding)).expect(201)
    return name


async def _refused(api: Api, ask: Any) -> Reply:
    """A new policy is enforced about a second after it was made."""
    return await _wait_reply(ask, lambda reply: reply.code >= 400)


async def _taken(ask: Any) -> Reply:
    """A new policy refuses everything until the server has read its parameters."""
    return await _wait_reply(ask, lambda reply: reply.code < 300)


async def _wait_reply(ask: Any, until: Callable[[Reply], bool]) -> Reply:
    ends_s = asyncio.get_running_loop().time() + 120.0
    while True:
        reply: Reply = await ask()
        if until(reply):
            return reply
        assert asyncio.get_running_loop().time() < ends_s, f"never so: {reply.raw[:2000]!r}"
        await asyncio.sleep(0.1)


async def _refuses_policies(api: Api, policy: Json) -> bool:
    """On the embedded server: policies are refused, and say where to go instead."""
    if api.is_real:
        return False
    reply = (await api.create(POLICIES, policy)).expect(404)
    assert reply.message == (
        f"the server could not find the requested resource (admission policies and webhooks: {LEFT})"
    )
    return True


async def test_a_policy_denies_with_422(api: Api) -> None:
    policy = _policy(api, api.name("policy"))
    if await _refuses_policies(api, policy):
        return
    name = await _enforce(api, policy)
    reply = await _refused(api, lambda: api.create(GADGETS, objects.gadget("x"), dryRun="All"))
    assert (reply.code, reply.reason) == (422, "Invalid")
    said = f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: never"
    assert reply.message == f'gadgets.{objects.GROUP} "x" is forbidden: {said}'


async def test_a_policy_may_deny_with_403(api: Api) -> None:
    validation = {"expression": "false", "message": "never", "reason": "Forbidden"}
    policy = _policy(api, api.name("policy"), validations=[validation])
    if await _refuses_policies(api, policy):
        return
    await _enforce(api, policy)
    reply = await _refused(api, lambda: api.create(GADGETS, objects.gadget("x"), dryRun="All"))
    assert (reply.code, reply.reason) == (403, "Forbidden")


async def test_a_policy_on_the_parent_does_not_see_its_scale(api: Api) -> None:
    (await api.create(GADGETS, objects.gadget("x", replicas=1))).expect(201)
    policy = _policy(api, api.name("policy"))
    if await _refuses_policies(api, policy):
        return
    await _enforce(api, policy)
    await _refused(api, lambda: api.merge(GADGETS, "x", {"spec": {"size": 2}}, dryRun="All"))
    (await api.scale(GADGETS, "x", 5)).expect(200)


async def test_a_policy_on_the_scale_sees_it(api: Api) -> None:
    (await api.create(GADGETS, objects.gadget("x", replicas=1))).expect(201)
    validation = {"expression": "object.spec.replicas <= 3", "messageExpression": "'at most ' + string(3)"}
    policy = _policy(api, api.name("policy"), "gadgets/scale", validations=[validation])
    if await _refuses_policies(api, policy):
        return
    await _enforce(api, policy)
    reply = await _refused(api, lambda: api.scale(GADGETS, "x", 5, dryRun="All"))
    assert "denied request: at most 3" in reply.message
    (await api.scale(GADGETS, "x", 2)).expect(200)


async def test_a_message_expression_is_cel(api: Api) -> None:
    validation = {"expression": "true", "messageExpression": "just some prose"}
    policy = _policy(api, api.name("policy"), validations=[validation])
    if await _refuses_policies(api, policy):
        return
    reply = (await api.create(POLICIES, policy)).expect(422)
    assert "compilation failed" in reply.message


async def test_a_subresource_is_absent_on_main_requests(api: Api) -> None:
    # An error in a match condition denies under failurePolicy Fail.
    wrong = {"name": "wrong", "expression": "request.subResource == 'scale'"}
    policy = _policy(api, api.name("policy"), matchConditions=[wrong])
    if await _refuses_policies(api, policy):
        return
    await _enforce(api, policy)
    reply = await _refused(api, lambda: api.create(GADGETS, objects.gadget("x"), dryRun="All"))
    assert "no such key: subResource" in reply.message
    condition = {"name": "right", "expression": 'request.?subResource.orValue("") == "scale"'}
    right = _policy(api, api.name("policy"), matchConditions=[condition])
    (await api.create(POLICIES, right)).expect(201)


def _with_rules(name: str, *rules: Json, **more: Any) -> Json:
    """A definition with CEL rules on its spec."""
    limits: Json = {"type": "object", "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": {**limits, "x-kubernetes-validations": list(rules), **more}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": name, "kind": name.capitalize()}
    spec = {"group": objects.GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{name}.{objects.GROUP}"}, "spec": spec}


async def _served(api: Api, plural: str) -> Kind:
    kind = Kind(objects.GROUP, "v1", plural, plural.capitalize())
    while (await api.list(kind)).code != 200:
        await asyncio.sleep(0.05)
    return kind


async def _refuses_rules(api: Api, definition: Json) -> bool:
    if api.is_real:
        return False
    reply = (await api.create(DEFINITIONS, definition)).expect(422)
    at = "spec.versions[0].schema.openAPIV3Schema.properties.spec.x-kubernetes-validations"
    assert f"{at}: Forbidden: evaluating CEL rules is {LEFT}" in reply.message
    return True


async def test_a_rule_refuses_with_its_message(api: Api) -> None:
    plural = f"r{api.namespace.split('-')[0]}"
    rule = {"rule": "self.min <= self.max", "message": "min is larger than max"}
    definition = _with_rules(plural, rule, required=["min", "max"])
    if await _refuses_rules(api, definition):
        return
    (await api.create(DEFINITIONS, definition)).expect(201)
    kind = await _served(api, plural)
    reply = (await api.create(kind, objects.gadget("x", min=2, max=1))).expect(422)
    assert "spec: Invalid value: min is larger than max" in reply.message
    # With a missing required field the rules are not run.
    missing = (await api.create(kind, objects.gadget("x", min=2))).expect(422)
    assert "spec.max: Required value" in missing.message
    assert "min is larger than max" not in missing.message


async def test_a_rule_may_compute_its_message(api: Api) -> None:
    plural = f"s{api.namespace.split('-')[0]}"
    expression = '"min (%d) cannot exceed max (%d)".format([self.min, self.max])'
    rule = {"rule": "self.min <= self.max", "messageExpression": expression}
    definition = _with_rules(plural, rule, required=["min", "max"])
    if await _refuses_rules(api, definition):
        return
    (await api.create(DEFINITIONS, definition)).expect(201)
    kind = await _served(api, plural)
    reply = (await api.create(kind, objects.gadget("x", min=2, max=1))).expect(422)
    assert "min (2) cannot exceed max (1)" in reply.message


async def test_strategic_patches_of_custom_kinds_are_refused_by_both(api: Api) -> None:
    (await api.create(GADGETS, objects.gadget("x"))).expect(201)
    reply = await api.call("PATCH", api.path(GADGETS, "x"), {"spec": {"size": 2}}, content_type=STRATEGIC)
    assert reply.expect(415).message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


async def test_roles(api: Api) -> None:
    kind = Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
    reply = await api.create(kind, {"metadata": {"name": api.name("role")}, "rules": []})
    if api.is_real:
        reply.expect(201)
    else:
        assert reply.expect(404).message == f"the server could not find the requested resource (RBAC: {LEFT})"


def _two_versions(api: Api, letter: str) -> tuple[Json, Kind, Kind]:
    """A definition of a kind with a scale in two versions that are alike."""
    plural = letter + api.namespace.split("-")[0]
    replicas = {"type": "object", "properties": {"replicas": {"type": "integer"}, "size": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": replicas, "status": replicas}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {"served": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"scale": scale}}
    definition = _with_rules(plural)
    definition["spec"]["versions"] = [
        version | {"name": "v1", "storage": True},
        version | {"name": "v2", "storage": False},
    ]
    kind, two = (Kind(objects.GROUP, name, plural, plural.capitalize()) for name in ("v1", "v2"))
    return definition, kind, two


async def _refuses_versions(api: Api, definition: Json) -> bool:
    if api.is_real:
        (await api.create(DEFINITIONS, definition)).expect(201)
        return False
    said = f"spec.versions: Forbidden: this server serves one version of a kind, not v1, v2: conversion is {LEFT}"
    assert said in (await api.create(DEFINITIONS, definition)).expect(422).message
    return True


async def test_a_scale_through_two_versions_leaves_the_entry_of_the_last(api: Api) -> None:
    definition, one, two = _two_versions(api, "v")
    if await _refuses_versions(api, definition):
        return
    await _served(api, one.plural)
    (await api.apply(one, objects.gadget("x", replicas=1, size=1), "a")).expect(201)
    for kind, replicas in ((one, 2), (two, 3)):
        (await api.acting_as("scaler").scale(kind, "x", replicas)).expect(200)
    reply = await api.get(one, "x")
    [entry] = [entry for entry in reply.managed if entry["manager"] == "scaler"]
    assert entry["apiVersion"] == two.api_version


async def test_a_policy_of_one_version_catches_the_other(api: Api) -> None:
    definition, kind, two = _two_versions(api, "e")
    if await _refuses_versions(api, definition):
        return
    await _served(api, kind.plural)
    (await api.create(kind, objects.gadget("x", replicas=1))).expect(201)
    policy = _policy(api, api.name("policy"), kind.plural)
    policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"].append(f"{kind.plural}/scale")
    await _enforce(api, policy)
    await _refused(api, lambda: api.create(two, objects.gadget("y"), dryRun="All"))
    (await api.scale(two, "x", 3)).expect(422)


async def test_a_kinds_name_in_a_policy_never_matches(api: Api) -> None:
    policy = _policy(api, api.name("policy"), "Gadget")
    if await _refuses_policies(api, policy):
        return
    await _enforce(api, policy)
    other = _policy(api, api.name("policy"))
    other["spec"]["matchConstraints"]["resourceRules"][0]["operations"] = ["UPDATE"]
    await _enforce(api, other)
    (await api.create(GADGETS, objects.gadget("x"))).expect(201)
    # By the time that the later policy is enforced, the earlier one would be.
    await _refused(api, lambda: api.merge(GADGETS, "x", {"spec": {"size": 2}}, dryRun="All"))
    (await api.create(GADGETS, objects.gadget("y"))).expect(201)


async def test_a_request_is_judged_once_for_each_parameter(api: Api) -> None:
    validation = {"expression": "object.spec.size <= int(params.data.most)", "message": "too large"}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    policy = _policy(api, api.name("policy"), paramKind=kind, validations=[validation])
    if await _refuses_policies(api, policy):
        return
    name = policy["metadata"]["name"]
    (await api.create(POLICIES, policy)).expect(201)
    chosen = {"matchLabels": {"limits": api.namespace}}
    for action in ("Allow", "Deny"):
        reference = {"selector": chosen, "parameterNotFoundAction": action, "namespace": api.namespace}
        spec = {"policyName": name, "validationActions": ["Deny"], "paramRef": reference}
        made = (await api.create(BINDINGS, {"metadata": {"name": f"{name}-{action.lower()}"}, "spec": spec})).expect(
            201
        )
        if action == "Allow":
            # none at all lets everything pass
            await asyncio.sleep(2)
            (await _taken(lambda: api.create(GADGETS, objects.gadget("free", size=9)))).expect(201)
            for i, most in enumerate((5, 7)):
                limits = objects.config_map(f"limits-{i}", most=str(most))
                limits["metadata"]["labels"] = {"limits": api.namespace}
                (await api.create(CONFIG_MAPS, limits)).expect(201)
            await _refused(api, lambda: api.create(GADGETS, objects.gadget("x", size=6), dryRun="All"))
            (await api.create(GADGETS, objects.gadget("small", size=4))).expect(201)
            (await api.delete(BINDINGS, made.metadata["name"])).expect(200)
            await api.call("DELETE", api.path(CONFIG_MAPS), query={"labelSelector": f"limits={api.namespace}"})
        else:
            # none at all refuses everything
            await _refused(api, lambda: api.create(GADGETS, objects.gadget("y", size=1), dryRun="All"))


async def test_conversion_by_webhook(api: Api) -> None:
    plural = f"w{api.namespace.split('-')[0]}"
    definition = _with_rules(plural)
    del definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"]
    client = {"url": "https://127.0.0.1:1/convert", "caBundle": ""}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
    definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    reply = await api.create(DEFINITIONS, definition)
    if api.is_real:
        reply.expect(201)
        return
    said = f"spec.conversion.strategy: Forbidden: conversion by webhook is {LEFT}"
    assert said in reply.expect(422).message
