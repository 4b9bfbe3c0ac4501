"""What is left once a pair has settled: the controller, on the embedded server, in virtual time.

Instance types are what a template has inside; counts of Cluster API's controllers are put where they would write them.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from tests.conformance.outcome import Json, Outcome
from tests.controllers.openshift.machineset_sync import machine_set_pairs
from tests.controllers.openshift.machineset_sync.machine_set_pairs import NAME, TEMPLATES, World
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import model
from windlass.kube import list_watch, request_builders, unstructured

_OWN = f"{NAME}-own"
"""A template that somebody else made."""
_OWNER = ("kind", "name", "controller", "blockOwnerDeletion")


def evaluate(name: str, case: Json) -> Outcome:
    """A case; where the seed wants something else if the autoscaler wrote, both are played."""
    differences = tuple(machine_set_pairs.play(lambda scene: _play(scene, case, case["expect"], "")))
    if wanted := case.get("seed_expect"):
        author = wanted["when_written_by"]
        expected = {key: value for key, value in wanted.items() if key != "when_written_by"}
        differences += tuple(machine_set_pairs.play(lambda scene: _play(scene, case, expected, author)))
    return Outcome(name, 0 if differences else 1, 1, differences)


async def _play(scene: World, case: Json, expected: Json, author: str) -> list[str]:
    await _set(scene, case, author)
    before = scene.server.version
    seen: list[Json] = []
    following = asyncio.ensure_future(_follow(scene, seen))
    async with scene.controlled():
        if author:
            await scene.as_manager(author).scale(CLUSTER_API.machine_sets(), NAME, 4, CLUSTER_API.namespace)
        if (case["machine_api_set"] or {}).get("instanceType"):
            await scene.edit(MACHINE_API, {"spec": {"template": {"spec": {"providerSpec": _made_of(case)}}}})
        if _is_deleted(case, "machine_api_set") and (case["cluster_api_set"] or {}).get("made_by_sync"):
            await scene.api.delete(MACHINE_API.machine_sets(), NAME, MACHINE_API.namespace)
        await scene.settle(30.0)
        is_quiet = await scene.is_quiet()
        found = await _probe(scene, case, seen, before)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    differences = list(_compare(expected, found))
    return differences if is_quiet else [*differences, "it goes on writing"]


# What is there before


async def _set(scene: World, case: Json, author: str) -> None:
    """As the case has it; what the sync made itself, or what was deleted meanwhile, comes about later."""
    ours, theirs = case["machine_api_set"], case["cluster_api_set"]
    labels = (case.get("user_template") or {}).get("labels", {})
    instance_type = ((theirs or {}).get("template") or {}).get("instanceType", "m6i.xlarge")
    if not (theirs is not None and "template" in theirs and theirs["template"] is None):
        await _add_template(scene, _OWN, instance_type, labels)
    if (theirs or {}).get("deleted") and case["authority"] == "ClusterAPI":
        await _add_template(scene, f"{NAME}-made", instance_type, {model.SET_LABEL: NAME})
    if theirs is not None and not theirs.get("made_by_sync"):
        await _add_cluster_api_set(scene, theirs, author)
    if ours is not None:
        await _add_machine_api_set(scene, ours, case["authority"])
    for side, api in (("machine_api_set", MACHINE_API), ("cluster_api_set", CLUSTER_API)):
        if _is_deleted(case, side) and not (theirs or {}).get("made_by_sync"):
            await scene.api.delete(api.machine_sets(), NAME, api.namespace)


def _is_deleted(case: Json, side: str) -> bool:
    return bool((case[side] or {}).get("deleted"))


def _made_of(case: Json) -> Json:
    return machine_set_pairs.provider_spec((case["machine_api_set"] or {}).get("instanceType", "m6i.xlarge"))


async def _add_template(scene: World, name: str, instance_type: str, labels: dict[str, str]) -> None:
    spec = {"template": {"spec": {"instanceType": instance_type}}}
    body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    await scene.api.create(TEMPLATES, body, CLUSTER_API.namespace)


async def _add_cluster_api_set(scene: World, given: Json, author: str) -> None:
    metadata = {key: given[key] for key in ("finalizers", "labels", "ownerReferences") if key in given}
    body = machine_set_pairs.cluster_api_set(NAME, 1 if author else given.get("replicas", 1), _OWN, **metadata)
    found = await scene.add(CLUSTER_API, body)
    status = {"observedGeneration": found["metadata"]["generation"], **_spell_status(given.get("status") or {})}
    await scene.say(CLUSTER_API, status)


async def _add_machine_api_set(scene: World, given: Json, authority: str | None) -> None:
    metadata = {key: given[key] for key in ("finalizers", "labels") if key in given}
    body = machine_set_pairs.machine_api_set(NAME, given.get("replicas", 1), **metadata)
    found = await scene.add(MACHINE_API, body)
    status = {"observedGeneration": found["metadata"]["generation"], **_spell_status(given.get("status") or {})}
    await scene.say(MACHINE_API, status | ({"authoritativeAPI": authority} if authority else {}))


def _spell_status(given: Json) -> Json:
    return {key: value for key, value in given.items() if value is not None}


# What is there afterwards


async def _follow(scene: World, seen: list[Json]) -> None:
    """Everything that the condition ever said."""
    resource = MACHINE_API.machine_sets()
    listed = await scene.api.list(resource, request_builders.ListOptions(MACHINE_API.namespace))
    seen += [_condition(body) for body in listed.items]
    async for event in scene.api.watch(resource, resource_version=listed.resource_version, timeout_s=100_000):
        if isinstance(event, list_watch.WatchEvent) and event.type in ("ADDED", "MODIFIED"):
            seen += [_condition(event.object)]


def _condition(body: Json) -> Json:
    return dict(unstructured.find_condition((body.get("status") or {}).get("conditions"), model.SYNCHRONIZED) or {})


async def _probe(scene: World, case: Json, seen: list[Json], before: int) -> Json:
    ours, theirs = [await scene.find(api) for api in machine_apis.MACHINE_APIS]
    templates = await scene.templates()
    made = {name: body for name, body in templates.items() if body["metadata"].get("labels", {}).get(model.SET_LABEL)}
    found: Json = {
        "cluster_api_set": None if theirs is None else "created" if case["cluster_api_set"] is None else "kept",
        "gone": [
            *(["machine_api_set"] if ours is None else []),
            *(["cluster_api_set"] if theirs is None else []),
            *(["template", "labelled templates"] if not made else []),
        ],
        "conditions": seen,
        "user_template": "kept" if _OWN in templates else "gone",
        "unlabelled_template": "kept" if _OWN in templates else "gone",
        "labelled_template": "there" if made else "deleted",
        "not_recreated": ours is None and theirs is None,
        "writes": [] if scene.server.version == before else ["some"],
        "old_template": "deleted" if len(made) == 1 else "there",
    }
    if theirs is not None:
        found |= await _look_at_cluster_api(theirs, templates, made)
    if ours is not None:
        found |= _look_at_machine_api(ours)
        recorded = (ours.get("status") or {}).get("synchronizedGeneration")
        by_side = {"machine_api_set": ours, "cluster_api_set": theirs or {}}
        found["synchronized_generation"] = [
            f"generation of {side}"
            for side, body in by_side.items()
            if body and body["metadata"]["generation"] == recorded
        ]
    sides = {"machine_api": ours, "cluster_api": theirs}
    found["finalizers"] = {side: body["metadata"].get("finalizers", []) for side, body in sides.items() if body}
    return found


async def _look_at_cluster_api(theirs: Json, templates: Json, made: Json) -> Json:
    reference = theirs["spec"]["template"]["spec"]["infrastructureRef"]["name"]
    template: Json = templates.get(reference, {})
    content = template.get("spec", {}).get("template", {}).get("spec", {})
    kinds = []
    if reference in made:
        kinds = ["created", "created with the label of the set", f"new one with {content.get('instanceType')}"]
    return {
        "owner": _owner(theirs),
        "template": kinds,
        "template_name": "<set>-<hash of its spec>" if reference.startswith(f"{NAME}-") else reference,
        "template_owner": _owner(template) if template else None,
        "cluster_api_replicas": theirs["spec"]["replicas"],
        "cluster_api_status": theirs.get("status") or {},
        "cluster_api_finalizers": theirs["metadata"].get("finalizers", []),
    }


def _owner(body: Json) -> Json:
    (owner,) = body["metadata"].get("ownerReferences") or [{}]
    return {name: owner.get(name) for name in _OWNER}


def _look_at_machine_api(ours: Json) -> Json:
    value = ours["spec"]["template"]["spec"]["providerSpec"]["value"]
    content = value.get("spec", {}).get("template", {}).get("spec", {})
    return {
        "machine_api_replicas": ours["spec"]["replicas"],
        "machine_api_labels": ours["metadata"].get("labels", {}),
        "machine_api_finalizers": ours["metadata"].get("finalizers", []),
        "machine_api_status": ours.get("status") or {},
        "machine_api_instance_type": content.get("instanceType"),
    }


# Comparing


def _compare(expected: Json, found: Json) -> Iterator[str]:
    for name, wanted in expected.items():
        if not _holds(name, wanted, found):
            shown = found.get(name, found.get(name.removesuffix("_lack"), found["conditions"][-1:]))
            yield f"{name}: expected {wanted!r}, found {shown!r}"


def _holds(name: str, wanted: Any, found: Json) -> bool:
    if name.startswith("condition"):
        seen = found["conditions"] if name == "condition_soon" else found["conditions"][-1:]
        return any(all((item.get(key) or "") == value for key, value in wanted.items()) for item in seen)
    if name.endswith("_lack"):
        return not set(found[name.removesuffix("_lack")]) & set(wanted)
    if name.endswith("_status"):
        return all((_look_up(found[name], key) or 0) == value for key, value in wanted.items())
    if name == "machine_api_labels":
        return bool(wanted.items() <= found[name].items())
    if name == "finalizers":
        return all(set(value) <= set(found[name].get(side, ())) for side, value in wanted.items())
    if name == "gone":
        return set(wanted) <= set(found[name])
    if name in ("template", "synchronized_generation"):
        return wanted in found[name]
    return bool(found.get(name) == wanted)


def _look_up(body: Any, path: str) -> Any:
    for step in path.split("."):
        body = body.get(step) if isinstance(body, dict) else None
    return body
