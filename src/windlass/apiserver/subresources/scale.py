"""/scale: the replicas of anything that has them, as autoscaling/v1 Scale.

Who owns `spec.replicas` of the parent owns it in the Scale, and the other way round; the odd cases of that (nobody
owns it at zero, nobody gets it back afterwards) are the real server's.
"""

from dataclasses import replace
from typing import Any

from windlass.apiserver import meta, rendering, status, storage, writing
from windlass.apiserver.apply import fieldset, manager, managers
from windlass.apiserver.call import Answer, Call
from windlass.apiserver.core import Core
from windlass.apiserver.registry import ScalePaths
from windlass.apiserver.types import builtin, normalise
from windlass.apiserver.types.model import Json
from windlass.apiserver.verbs import patching, updating

API_VERSION = "autoscaling/v1"
_OWN_PATH = ("f:spec", "f:replicas")
_UNSET = -(2**31)
"""What the Scale says while the parent has no replicas at all."""


def _keeper() -> manager.FieldManager:
    return manager.FieldManager(builtin.find("autoscaling", "Scale").type, API_VERSION, "scale")


def get(core: Core, call: Call) -> Answer:
    stored = core.find(call.resource, call.namespace, call.name)
    if stored is None:
        raise status.not_found(call.resource, call.name)
    parent = stored.decode()
    paths = _paths(call)
    if storage.lookup(parent, *paths.replicas) is None and call.resource.is_custom:
        raise status.internal(f'the spec replicas field "{_spell(paths.replicas)}" does not exist')
    return _answer(call, show(parent, paths))


def update(core: Core, call: Call) -> Answer:
    """PUT and PATCH."""
    if call.method == "PATCH":
        patching.check_type(call)
    stored = core.find(call.resource, call.namespace, call.name)
    if stored is None:
        raise status.not_found(call.resource, call.name)
    document = call.read_object() if call.method == "PUT" else _read_patch(call)
    if call.method == "PUT":
        updating.check_uid(call, (document.get("metadata") or {}).get("uid") or "", stored)
    main = replace(call, subresource="")
    written = writing.update(core, main, stored, lambda parent: _change(call, parent, document))
    return _answer(call, show(storage.decode(written.raw), _paths(call)))


def _read_patch(call: Call) -> Any:
    return call.read_object() if call.content_type == patching.APPLY else patching.read_patch(call)


def _change(call: Call, parent: Json, document: Any) -> Json:
    """The parent with the replicas, and the owner of them, that a Scale asks for."""
    paths = _paths(call)
    live = show(parent, paths)
    if storage.lookup(parent, *paths.replicas) is None:
        live["spec"] = {"replicas": _UNSET}
    parent_owners = writing.read_managers({"metadata": {}}, parent)
    owners = _to_scale(call, parent_owners)
    if call.content_type == patching.APPLY and call.method == "PATCH":
        scale, owners = _apply(call, live, document, owners)
    else:
        changed = document if call.method == "PUT" else patching.apply_patch(call, live, document)
        scale = _read(call, changed)
        owners = _keeper().update(live, scale, owners, call.manager, call.now)
    replicas = scale["spec"].get("replicas", 0)
    if replicas == _UNSET:
        raise status.bad_request(f'the spec replicas field "{_spell(paths.replicas)}" cannot be empty')
    if not call.resource.is_custom and replicas < 0:
        errors = [status.wrong("spec.replicas", replicas, "must be greater than or equal to 0")]
        raise status.invalid_kind("Scale", "autoscaling", call.name, errors)
    _set(parent, paths.replicas, replicas)
    if version := scale["metadata"].get("resourceVersion"):
        parent["metadata"]["resourceVersion"] = version
    writing.set_managers(parent, _to_parent(call, parent_owners, owners))
    return parent


def _apply(call: Call, live: Json, applied: Json, owners: managers.Managers) -> tuple[Json, managers.Managers]:
    try:
        is_forced = call.query.get("force") == "true"
        scale, owners = _keeper().apply(live, applied, owners, call.manager, call.now, force=is_forced)
    except manager.Conflict as conflict:
        raise writing.refuse_conflict(conflict) from None
    except ValueError as error:
        raise status.unclassified(f"failed to create typed patch object: {error}") from None
    if scale is not None and call.resource.is_custom:
        # A change cannot be applied to the scale of a custom object; becoming a co-owner can.
        named = f"/{(applied.get('metadata') or {}).get('name', '')}; {API_VERSION}, Kind=Scale"
        why = f"request to convert CR to an invalid group/version: {API_VERSION}"
        raise status.unclassified(f"failed to convert new object ({named}) to proper version: {why}")
    return _read(call, scale if scale is not None else live), owners


def _read(call: Call, document: Json) -> Json:
    struct = builtin.find("autoscaling", "Scale")
    try:
        scale: Json = struct.read(document, [])
    except normalise.Mismatch as mismatch:
        said = f'Scale in version "v1" cannot be handled as a Scale: {mismatch}'
        raise status.bad_request(said) from None
    meta.match_namespace(scale["metadata"], call.namespace)
    scale["metadata"].pop("managedFields", None)
    if scale["metadata"].get("name", call.name) != call.name:
        said = f"the name of the object ({scale['metadata']['name']}) does not match the name on the URL ({call.name})"
        raise status.bad_request(said)
    return scale


def _paths(call: Call) -> ScalePaths:
    assert call.resource.scale is not None
    return call.resource.scale


def _spell(path: tuple[str, ...]) -> str:
    return "." + ".".join(path)


def _set(parent: Json, path: tuple[str, ...], value: int) -> None:
    for name in path[:-1]:
        parent = parent.setdefault(name, {})
    parent[path[-1]] = value


def show(parent: Json, paths: ScalePaths) -> Json:
    """The Scale of an object. Zero replicas are not written."""
    metadata = parent["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = storage.lookup(parent, *paths.replicas) or 0
    scale: Json = {
        "kind": "Scale",
        "apiVersion": API_VERSION,
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": storage.lookup(parent, *paths.status_replicas) or 0},
    }
    selector = _spell_selector(parent["spec"].get("selector")) if paths.derives_selector else ""
    if paths.selector:
        selector = storage.lookup(parent, *paths.selector) or ""
    if selector:
        scale["status"]["selector"] = selector
    return scale


def _spell_selector(selector: Json | None) -> str:
    """A label selector as requests spell it."""
    if not selector:
        return ""
    if not {"matchLabels", "matchExpressions"} & selector.keys():
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
        match expression["operator"]:
            case "Exists":
                terms.append(key)
            case "DoesNotExist":
                terms.append(f"!{key}")
            case operator:
                terms.append(f"{key} {operator.lower()} ({values})")
    return ",".join(terms)


def _answer(call: Call, scale: Json) -> Answer:
    return rendering.answer_json(200, scale)


# ── Ownership ────────────────────────────────────────────────────────────────────────────────────────────────────


def _parent_path(call: Call) -> tuple[str, ...]:
    return tuple(f"f:{name}" for name in _paths(call).replicas)


def _to_scale(call: Call, owners: managers.Managers) -> managers.Managers:
    """Those who own the parent's replicas, as owners of the Scale's."""
    path = _parent_path(call)
    return {
        managers.Identity.of(who.manager, who.operation, who.subresource, API_VERSION): managers.Entry(
            fieldset.of_path(*_OWN_PATH), API_VERSION, entry.time
        )
        for who, entry in owners.items()
        if entry.api_version == call.resource.api_version and fieldset.has(entry.fields, *path)
    }


def _to_parent(call: Call, parent: managers.Managers, scale: managers.Managers) -> managers.Managers:
    """The parent's owners after a change of the Scale: whoever no longer owns the Scale's replicas loses them."""
    path, version = _parent_path(call), call.resource.api_version
    merged: managers.Managers = {}
    left = dict(scale)
    for who, entry in parent.items():
        if entry.api_version != version:
            continue
        if not fieldset.has(entry.fields, *path) or who in left:
            left.pop(who, None)
            merged[who] = entry
            continue
        rest = fieldset.difference(entry.fields, fieldset.of_path(*path))
        if rest:
            merged[who] = entry.holding(rest)
    for who, entry in left.items():
        if fieldset.has(entry.fields, *_OWN_PATH):
            # No time: the real server looks for it among the parent's entries, where it is not.
            merged[who] = managers.Entry(fieldset.of_path(*path), version)
    return merged
