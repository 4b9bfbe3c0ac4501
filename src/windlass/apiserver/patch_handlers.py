"""PATCH: JSON merge patch (RFC 7396), JSON patch (RFC 6902), strategic merge patch and server-side apply.

A strategic merge patch merges the items of some lists by a key, or as a set. Which lists those are follows the tags of
the Go types (`patchStrategy`, `patchMergeKey`), not server-side apply.
"""

import copy
from typing import Any

from windlass.apiserver import (
    field_manager,
    field_sets,
    object_meta,
    responses,
    status_errors,
    storage,
    typed_values,
    write_handlers,
)
from windlass.apiserver.registry import ServerState
from windlass.apiserver.responses import ApiCall, ApiResponse
from windlass.apiserver.value_types import Json

_MOST_OPERATIONS = 10000


class PatchNotApplicable(Exception):
    """An operation that cannot be applied to the document."""


def merge_patch(target: Any, patch: Any) -> Any:
    """The target with the patch merged in: null deletes, lists are replaced whole. The target may be shared."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = merge_patch(merged.get(name), value)
        else:
            merged[name] = value
    return merged


def json_patch(document: Json, operations: Any) -> Json:
    """The document after all operations, or `PatchNotApplicable`."""
    if not isinstance(operations, list):
        raise status_errors.bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch"
        )
    if len(operations) > _MOST_OPERATIONS:
        allowed = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        raise status_errors.too_large(allowed)
    root: Any = copy.deepcopy(document)
    for operation in operations:
        root = _apply_operation(root, operation)
    if not isinstance(root, dict):
        raise PatchNotApplicable("the document is no object any more")
    return root


def _apply_operation(root: Any, operation: Json) -> Any:
    path = _split_pointer(operation.get("path", ""))
    match operation.get("op"):
        case "add":
            return _add_value(root, path, _operation_value(operation))
        case "remove":
            return _remove_value(root, path)
        case "replace":
            # The real server also replaces missing keys of maps.
            return _replace_value(root, path, _operation_value(operation))
        case "move":
            source = _split_pointer(operation.get("from", ""))
            value = _get_step(root, source)
            return _add_value(_remove_value(root, source), path, value)
        case "copy":
            return _add_value(root, path, copy.deepcopy(_get_step(root, _split_pointer(operation.get("from", "")))))
        case "test":
            if _find_path(root, path) != operation.get("value"):
                raise PatchNotApplicable(f"testing value {operation.get('path')} failed")
            return root
        case other:
            raise PatchNotApplicable(f"Unexpected kind: {other}")


def _operation_value(operation: Json) -> Any:
    if "value" not in operation:
        raise PatchNotApplicable(f"{operation.get('op')} operation without a value")
    return operation["value"]


def _split_pointer(pointer: str) -> list[str]:
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise PatchNotApplicable(f"{pointer!r} is no JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]


def _find_path(root: Any, path: list[str]) -> Any:
    """The value at a path; None if absent, which a test for null accepts."""
    try:
        return _get_step(root, path)
    except PatchNotApplicable:
        return None


def _get_step(root: Any, path: list[str]) -> Any:
    for step in path:
        if isinstance(root, list):
            root = root[_list_index(root, step, len(root) - 1)]
        elif isinstance(root, dict) and step in root:
            root = root[step]
        else:
            raise PatchNotApplicable(f"missing key {step!r}")
    return root


def _list_index(items: list[Any], step: str, most: int) -> int:
    digits = step.removeprefix("-")
    if not digits.isdigit() or (len(step) > 1 and step.startswith("0")):
        raise PatchNotApplicable(f"{step!r} is no index")
    number = int(step)
    number = number + len(items) if number < 0 else number
    if not 0 <= number <= most:
        raise PatchNotApplicable(f"index {step} is out of bounds")
    return number


def _add_value(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, step = _get_step(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent.insert(len(parent) if step == "-" else _list_index(parent, step, len(parent)), value)
    elif isinstance(parent, dict):
        parent[step] = value
    else:
        raise PatchNotApplicable(f"nothing can be added to {'/'.join(path[:-1])}")
    return root


def _replace_value(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, step = _get_step(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent[_list_index(parent, step, len(parent) - 1)] = value
    elif isinstance(parent, dict):
        parent[step] = value
    else:
        raise PatchNotApplicable(f"nothing can be replaced in {'/'.join(path[:-1])}")
    return root


def _remove_value(root: Any, path: list[str]) -> Any:
    if not path:
        raise PatchNotApplicable("the document itself cannot be removed")
    parent, step = _get_step(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        del parent[_list_index(parent, step, len(parent) - 1)]
    elif isinstance(parent, dict) and step in parent:
        del parent[step]
    else:
        raise PatchNotApplicable(f"Unable to remove nonexistent key: {step}")
    return root


_MERGE_KEYS = {
    "conditions": "type", "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "env": "name",
    "volumes": "name", "volumeMounts": "mountPath", "volumeDevices": "devicePath", "imagePullSecrets": "name",
    "hostAliases": "ip", "topologySpreadConstraints": "topologyKey", "resourceClaims": "name",
    "schedulingGates": "name", "podIPs": "ip", "hostIPs": "ip", "resourceClaimStatuses": "name", "addresses": "type",
    "secrets": "name", "ownerReferences": "uid", "drivers": "name",
}  # fmt: skip
"""Lists of objects that are merged, with their merge keys."""

_SET_LISTS = ("finalizers", "podCIDRs")
"""Lists of scalars that are merged."""

_DIRECTIVE, _RETAIN, _ORDER, _DROP = "$patch", "$retainKeys", "$setElementOrder/", "$deleteFromPrimitiveList/"


class MalformedPatch(ValueError):
    """An invalid patch."""


def strategic_merge_patch(live: Json, patch: Any) -> Json:
    """The live object with a patch merged in."""
    if not isinstance(patch, dict):
        raise MalformedPatch("the patch is no object")
    merged = _merge_maps(copy.deepcopy(live), patch)
    return merged if merged is not None else {}


def _merge_maps(target: Json, patch: Json) -> Json | None:
    """None: the patch deletes it."""
    match patch.get(_DIRECTIVE):
        case "replace":
            return {name: value for name, value in patch.items() if name != _DIRECTIVE}
        case "delete":
            return None
        case None | "merge":
            pass
        case other:
            raise MalformedPatch(f"unknown patch type {other!r}")
    if isinstance(kept := patch.get(_RETAIN), list):
        target = {name: value for name, value in target.items() if name in kept}
    for name, value in patch.items():
        if name.startswith(_DROP):
            _drop_items(target, name.removeprefix(_DROP), value)
        elif name in (_DIRECTIVE, _RETAIN) or name.startswith(_ORDER):
            continue
        elif value is None:
            target.pop(name, None)
        else:
            _merge_field(target, name, value)
    for name, order in patch.items():
        if name.startswith(_ORDER):
            _sort_items(target, name.removeprefix(_ORDER), order)
    return target


def _merge_field(target: Json, name: str, value: Any) -> None:
    """Merge one field in."""
    old = target.get(name)
    if isinstance(value, dict):
        merged = _merge_maps(old if isinstance(old, dict) else {}, value)
        if merged is None:
            target.pop(name, None)
        else:
            target[name] = merged
    elif isinstance(value, list) and (key := _find_merge_key(name, value, old)):
        target[name] = _merge_items(old if isinstance(old, list) else [], value, key)
    elif isinstance(value, list) and name in _SET_LISTS and isinstance(old, list):
        target[name] = [*old, *(item for item in value if item not in old)]
    else:
        target[name] = value


def _find_merge_key(name: str, value: Any, old: Any) -> str:
    """The merge key of a list; empty: the list is replaced."""
    items = [*(value or ()), *(old if isinstance(old, list) else ())]
    if not items or not all(isinstance(item, dict) for item in items):
        return ""
    if name == "ports":  # of containers and of Services
        return "containerPort" if any("containerPort" in item for item in items) else "port"
    return _MERGE_KEYS.get(name, "")


def _merge_items(old: list[Json], patches: list[Json], key: str) -> list[Json]:
    if any(item.get(_DIRECTIVE) == "replace" for item in patches):
        return [item for item in patches if item.get(_DIRECTIVE) != "replace"]
    merged = list(old)
    for patch in patches:
        if key not in patch:
            raise MalformedPatch(f"map does not contain declared merge key: {key}")
        place = next((i for i, item in enumerate(merged) if item.get(key) == patch[key]), None)
        made = _merge_maps(merged[place] if place is not None else {}, patch)
        if place is None:
            merged += [made] if made is not None else []
        elif made is None:
            del merged[place]
        else:
            merged[place] = made
    return merged


def _drop_items(target: Json, name: str, dropped: Any) -> None:
    if isinstance(target.get(name), list) and isinstance(dropped, list):
        target[name] = [item for item in target[name] if item not in dropped]


def _sort_items(target: Json, name: str, order: Any) -> None:
    """Order items as in `$setElementOrder`; other items keep their position relative to their predecessor."""
    items = target.get(name)
    if not isinstance(items, list) or not isinstance(order, list):
        return
    key = _find_merge_key(name, items, None)
    desired = [item.get(key) if isinstance(item, dict) else item for item in order]
    rank = -1
    ranks = []
    for item in items:
        identity = item.get(key) if key else item
        rank = desired.index(identity) if identity in desired else rank
        ranks.append(rank)
    target[name] = [item for _, item in sorted(zip(ranks, items, strict=True), key=lambda pair: pair[0])]


MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
ACCEPTED = (JSON, MERGE, APPLY)


def handle_patch(core: ServerState, call: ApiCall) -> ApiResponse:
    check_patch_type(call)
    stored = core.find(call.resource, call.namespace, call.name)
    if call.content_type == APPLY:
        return _apply(core, call, stored)
    document = read_patch(call)
    if stored is None:
        raise status_errors.not_found(call.resource, call.name)

    def change(live: Json) -> Json:
        obj = write_handlers.decode_object(call, apply_patch(call, live, document))
        _check_name(call, obj)
        write_handlers.warn_of_duplicates(call, obj)
        write_handlers.track_update(call, obj, stored.decode())
        return obj

    return responses.object_response(call, 200, write_handlers.store_update(core, call, stored, change).raw)


def check_patch_type(call: ApiCall) -> None:
    """Refuse unknown types of patches, and options that the type does not support."""
    is_accepted = call.content_type in ACCEPTED or (call.content_type == STRATEGIC and not call.resource.is_custom)
    if not is_accepted:
        raise status_errors.unsupported_media_type(ACCEPTED)
    errors = []
    if call.content_type == APPLY and not call.query.get("fieldManager"):
        errors.append(status_errors.field_required("fieldManager", "is required for apply patch"))
    if call.content_type != APPLY and "force" in call.query:
        errors.append(status_errors.field_forbidden("force", "may not be specified for non-apply patch"))
    if errors:
        raise status_errors.invalid_kind("PatchOptions", "meta.k8s.io", "", errors)


def read_patch(call: ApiCall) -> Any:
    try:
        return storage.decode_json(call.body)
    except (ValueError, RecursionError) as error:
        raise status_errors.bad_request(f"error decoding patch: {error}") from None


def apply_patch(call: ApiCall, live: Json, document: Any) -> Json:
    """The live object after a merge, strategic or JSON patch."""
    if call.content_type == MERGE:
        merged: Json = merge_patch(live, document)
        return merged
    if call.content_type == STRATEGIC:
        try:
            return strategic_merge_patch(live, document)
        except MalformedPatch as error:
            raise status_errors.bad_request(str(error)) from None
    try:
        return json_patch(live, document)
    except PatchNotApplicable:
        raise status_errors.unprocessable() from None


def _check_name(call: ApiCall, obj: Json) -> None:
    name_in_body = obj["metadata"].get("name", "")
    if name_in_body != call.name:
        message = f"the name of the object ({name_in_body}) does not match the name on the URL ({call.name})"
        raise status_errors.bad_request(message)


# ── Server-side apply ────────────────────────────────────────────────────────────────────────────────────────────


def _apply(core: ServerState, call: ApiCall, stored: storage.StoredObject | None) -> ApiResponse:
    applied = call.read_body()
    if not isinstance(applied, dict):
        raise status_errors.bad_request("error decoding YAML: the body is no object")
    _check_applied(call, applied)
    if stored is not None:
        written = write_handlers.store_update(core, call, stored, lambda live: _merge(call, live, applied))
        return responses.object_response(call, 200, written.raw)
    if call.subresource:
        raise status_errors.not_found(call.resource, call.name)
    obj = _merge(call, dict(call.resource.zero), applied)
    _check_new(call, obj)
    object_meta.match_namespace(obj["metadata"], call.namespace)
    return responses.object_response(call, 201, write_handlers.store_new_object(core, call, obj).raw)


def _check_applied(call: ApiCall, applied: Json) -> None:
    resource = call.resource
    said, kind = applied.get("apiVersion", ""), applied.get("kind", "")
    if not kind:
        raise status_errors.bad_request("error decoding YAML: Object 'Kind' is missing in the body")
    if said != resource.api_version or kind != resource.kind:
        group, _, version = said.rpartition("/")
        raise status_errors.bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
    if (applied.get("metadata") or {}).get("managedFields") is not None:
        raise status_errors.bad_request("metadata.managedFields must be nil")
    name = (applied.get("metadata") or {}).get("name", "")
    if name and name != call.name:
        message = f"the name of the object ({name}) does not match the name on the URL ({call.name})"
        raise status_errors.bad_request(message)


def _check_new(call: ApiCall, obj: Json) -> None:
    """An apply with a resourceVersion may create the object; one with a uid may not."""
    if uid := obj["metadata"].get("uid"):
        reason = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise status_errors.conflict(call.resource, call.name, reason)
    obj["metadata"].pop("resourceVersion", None)


def _merge(call: ApiCall, live: Json, applied: Json) -> Json:
    """The object after an apply, with its managers."""
    keeper = call.resource.field_manager(call.subresource)
    try:
        owners = field_sets.read_managers((live.get("metadata") or {}).get("managedFields"))
    except field_sets.MalformedManagers as error:
        raise status_errors.unclassified(f"failed to decode managed fields: {error}") from None
    is_forced = call.query.get("force") in ("true", "1", "True")
    bare = write_handlers.without_managers(live)
    try:
        merged, owners = keeper.apply(bare, applied, owners, call.manager, call.now, force=is_forced)
    except typed_values.TypeMismatch as error:
        raise status_errors.unclassified(
            f"failed to create typed patch object ({_resource_reference(call, applied)}): {error}"
        ) from None
    except field_manager.ApplyConflict as conflict:
        raise write_handlers.apply_conflict_error(conflict) from None
    except ValueError as error:
        raise status_errors.unclassified(f"failed to merge config: {error}") from None
    if merged is None:
        merged = bare
    if not isinstance(merged.get("metadata"), dict):
        merged["metadata"] = {}
    merged = write_handlers.complete_object(call, merged)
    merged["metadata"].setdefault("name", call.name)
    write_handlers.put_managers(merged, owners)
    return merged


def _resource_reference(call: ApiCall, applied: Json) -> str:
    resource, metadata = call.resource, applied.get("metadata") or {}
    named = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    return f"{named}; {resource.group}/{resource.version}, Kind={resource.kind}"
