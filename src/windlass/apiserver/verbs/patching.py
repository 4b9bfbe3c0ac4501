"""PATCH: merge patches, strategic merge patches, JSON patches and server-side apply."""

from typing import Any

from windlass.apiserver import decoding, meta, patch, rendering, status, storage, strategic, writing
from windlass.apiserver.apply import check, manager, managers
from windlass.apiserver.call import Answer, Call
from windlass.apiserver.core import Core
from windlass.apiserver.types.model import Json

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
ACCEPTED = (JSON, MERGE, APPLY)


def patch_object(core: Core, call: Call) -> Answer:
    check_type(call)
    stored = core.find(call.resource, call.namespace, call.name)
    if call.content_type == APPLY:
        return _apply(core, call, stored)
    document = read_patch(call)
    if stored is None:
        raise status.not_found(call.resource, call.name)

    def change(live: Json) -> Json:
        obj = decoding.read(call, apply_patch(call, live, document))
        _check_name(call, obj)
        writing.warn_of_duplicates(call, obj)
        writing.track_update(call, obj, stored.decode())
        return obj

    return rendering.answer_object(call, 200, writing.update(core, call, stored, change).raw)


def check_type(call: Call) -> None:
    """Refuse patches of other kinds, and options that do not belong to the kind of patch."""
    is_accepted = call.content_type in ACCEPTED or (call.content_type == STRATEGIC and not call.resource.is_custom)
    if not is_accepted:
        raise status.unsupported_media_type(ACCEPTED)
    errors = []
    if call.content_type == APPLY and not call.query.get("fieldManager"):
        errors.append(status.required("fieldManager", "is required for apply patch"))
    if call.content_type != APPLY and "force" in call.query:
        errors.append(status.forbidden_field("force", "may not be specified for non-apply patch"))
    if errors:
        raise status.invalid_kind("PatchOptions", "meta.k8s.io", "", errors)


def read_patch(call: Call) -> Any:
    try:
        return storage.decode(call.body)
    except (ValueError, RecursionError) as error:
        raise status.bad_request(f"error decoding patch: {error}") from None


def apply_patch(call: Call, live: Json, document: Any) -> Json:
    """The live object with a merge, strategic or JSON patch carried out."""
    if call.content_type == MERGE:
        merged: Json = patch.merge(live, document)
        return merged
    if call.content_type == STRATEGIC:
        try:
            return strategic.merge(live, document)
        except strategic.Malformed as error:
            raise status.bad_request(str(error)) from None
    try:
        return patch.apply_operations(live, document)
    except patch.CannotApply:
        raise status.unprocessable() from None


def _check_name(call: Call, obj: Json) -> None:
    said = obj["metadata"].get("name", "")
    if said != call.name:
        message = f"the name of the object ({said}) does not match the name on the URL ({call.name})"
        raise status.bad_request(message)


# ── Server-side apply ────────────────────────────────────────────────────────────────────────────────────────────


def _apply(core: Core, call: Call, stored: storage.Stored | None) -> Answer:
    applied = call.read_body()
    if not isinstance(applied, dict):
        raise status.bad_request("error decoding YAML: the body is no object")
    _check_applied(call, applied)
    if stored is not None:
        written = writing.update(core, call, stored, lambda live: _merge(call, live, applied))
        return rendering.answer_object(call, 200, written.raw)
    if call.subresource:
        raise status.not_found(call.resource, call.name)
    obj = _merge(call, dict(call.resource.zero), applied)
    _check_new(call, obj)
    meta.match_namespace(obj["metadata"], call.namespace)
    return rendering.answer_object(call, 201, writing.create(core, call, obj).raw)


def _check_applied(call: Call, applied: Json) -> None:
    resource = call.resource
    said, kind = applied.get("apiVersion", ""), applied.get("kind", "")
    if not kind:
        raise status.bad_request("error decoding YAML: Object 'Kind' is missing in the body")
    if said != resource.api_version or kind != resource.kind:
        group, _, version = said.rpartition("/")
        raise status.bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
    if (applied.get("metadata") or {}).get("managedFields") is not None:
        raise status.bad_request("metadata.managedFields must be nil")
    name = (applied.get("metadata") or {}).get("name", "")
    if name and name != call.name:
        message = f"the name of the object ({name}) does not match the name on the URL ({call.name})"
        raise status.bad_request(message)


def _check_new(call: Call, obj: Json) -> None:
    """A resourceVersion does not keep an apply from creating; a uid does."""
    if uid := obj["metadata"].get("uid"):
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise status.conflict(call.resource, call.name, why)
    obj["metadata"].pop("resourceVersion", None)


def _merge(call: Call, live: Json, applied: Json) -> Json:
    """The object that an apply makes of the live one, with its managers."""
    keeper = call.resource.field_manager(call.subresource)
    try:
        owners = managers.read((live.get("metadata") or {}).get("managedFields"))
    except managers.Malformed as error:
        raise status.unclassified(f"failed to decode managed fields: {error}") from None
    is_forced = call.query.get("force") in ("true", "1", "True")
    bare = writing.without_managers(live)
    try:
        merged, owners = keeper.apply(bare, applied, owners, call.manager, call.now, force=is_forced)
    except check.Untyped as error:
        raise status.unclassified(f"failed to create typed patch object ({_refer(call, applied)}): {error}") from None
    except manager.Conflict as conflict:
        raise writing.refuse_conflict(conflict) from None
    except ValueError as error:
        raise status.unclassified(f"failed to merge config: {error}") from None
    if merged is None:
        merged = bare
    if not isinstance(merged.get("metadata"), dict):
        merged["metadata"] = {}
    merged = decoding.complete(call, merged)
    merged["metadata"].setdefault("name", call.name)
    writing.set_managers(merged, owners)
    return merged


def _refer(call: Call, applied: Json) -> str:
    resource, metadata = call.resource, applied.get("metadata") or {}
    named = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    return f"{named}; {resource.group}/{resource.version}, Kind={resource.kind}"
