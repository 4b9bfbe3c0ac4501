"""PATCH handlers: merge patch, strategic merge patch, JSON patch and server-side apply."""

from typing import Any

from windlass.apiserver import (
    field_manager,
    field_sets,
    object_meta,
    patches,
    responses,
    status_errors,
    storage,
    typed_values,
    write_handlers,
)
from windlass.apiserver.api_call import ApiCall, ApiResponse
from windlass.apiserver.registry import ServerState
from windlass.apiserver.value_types import Json

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
        merged: Json = patches.merge_patch(live, document)
        return merged
    if call.content_type == STRATEGIC:
        try:
            return patches.strategic_merge_patch(live, document)
        except patches.MalformedPatch as error:
            raise status_errors.bad_request(str(error)) from None
    try:
        return patches.json_patch(live, document)
    except patches.PatchNotApplicable:
        raise status_errors.unprocessable() from None


def _check_name(call: ApiCall, obj: Json) -> None:
    said = obj["metadata"].get("name", "")
    if said != call.name:
        message = f"the name of the object ({said}) does not match the name on the URL ({call.name})"
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
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise status_errors.conflict(call.resource, call.name, why)
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
