"""POST and PUT handlers, and the steps of every write: decoding, defaulting, validation, managedFields, storage."""

from collections.abc import Callable
from dataclasses import dataclass

from windlass.apiserver import (
    admission,
    builtin_types,
    custom_resources,
    field_manager,
    field_sets,
    object_meta,
    responses,
    status_errors,
    storage,
    typed_values,
)
from windlass.apiserver.registry import Resource, ServerState
from windlass.apiserver.responses import ApiCall, ApiResponse
from windlass.apiserver.strategies import FieldErrors
from windlass.apiserver.value_types import Json
from windlass.kube import time_formats

_CONTROLLER_AGENT = {"user-agent": "kube-controller-manager"}


def decode_object(call: ApiCall, document: Json) -> Json:
    """Decode a request's body as an object of the request's resource, with defaults."""
    _check_kind(call, document)
    try:
        obj, unknown = _normalize(call, document)
    except ValueError as error:
        raise _invalid_document(call, document, str(error)) from None
    if unknown:
        _report_unknown_fields(call, document, unknown)
    call.resource.strategy.default(obj)
    return obj


def _invalid_document(call: ApiCall, document: Json, reason: str) -> status_errors.StatusError:
    """The error for a document that is no object of the kind: 400, or 422 for the result of a patch."""
    if call.method == "PATCH":
        error = status_errors.field_invalid("patch", storage.encode_json(document).decode(), reason)
        return status_errors.invalid_kind("", "", "", [error])
    return status_errors.bad_request(f"{_resource_reference(call)}: {reason}")


def _resource_reference(call: ApiCall) -> str:
    kind = call.resource.kind
    return f'{kind} in version "{call.resource.version}" cannot be handled as a {kind}'


def _check_kind(call: ApiCall, document: Json) -> None:
    resource = call.resource
    api_version = document.get("apiVersion") or resource.api_version
    if api_version != resource.api_version:
        message = f"the API version in the data ({api_version}) does not match the expected API version"
        raise status_errors.bad_request(f"{message} ({resource.api_version})")
    kind = document.get("kind") or resource.kind
    if kind != resource.kind:
        version = resource.version
        raise status_errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {resource.kind}')


def _normalize(call: ApiCall, document: Json) -> tuple[Json, list[str]]:
    resource = call.resource
    strategy = resource.strategy
    named = {"kind": resource.kind, "apiVersion": resource.api_version}
    if isinstance(strategy, custom_resources.CustomResourceStrategy):
        obj = {**document, **named}
        obj.setdefault("metadata", {})
        return obj, strategy.coerce(obj)
    warnings: list[str] = []
    obj = strategy.struct.read(document, warnings) | named
    return obj, builtin_types.find_unknown_fields(document, strategy.struct.type) if warnings else []


def complete_object(call: ApiCall, obj: Json) -> Json:
    """The result of an apply, normalized and with defaults."""
    strategy = call.resource.strategy
    named = {"kind": call.resource.kind, "apiVersion": call.resource.api_version}
    try:
        if isinstance(strategy, custom_resources.CustomResourceStrategy):
            strategy.coerce_metadata(obj)
        else:
            obj = strategy.struct.read(obj, []) | named
    except ValueError as error:
        resource = call.resource
        kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
        reason = f"to proper version: unable to convert unstructured object to {kind}: {error}"
        raise status_errors.unclassified(f"failed to convert new object (/{call.name}; {kind}) {reason}") from None
    strategy.default(obj)
    return obj


def _report_unknown_fields(call: ApiCall, document: Json, unknown: list[str]) -> None:
    """Handle unknown fields by `fieldValidation`: Warn, Strict or Ignore."""
    complaints = [f'unknown field "{path}"' for path in unknown]
    match call.field_validation:
        case "Strict":
            raise _invalid_document(call, document, f"strict decoding error: {', '.join(complaints)}")
        case "Warn":
            for complaint in complaints:
                call.warn(complaint)


Managers = field_sets.Managers

_TRIES_FOR_A_NAME = 8

_DUPLICATES = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject "
    "such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
)


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Result of a write."""

    raw: bytes
    """The stored object, or that of a dry run."""
    is_new: bool = False


def take_managers(obj: Json, live: Json | None) -> Managers:
    """Remove managedFields from an object and parse them, or else those of the live object.

    An empty list resets them; an unreadable one counts as absent.
    """
    managed_fields = obj["metadata"].pop("managedFields", None)
    if managed_fields is not None and (not managed_fields or managed_fields == [{}]):
        return {}
    for entries in (managed_fields, live["metadata"].get("managedFields") if live else None):
        try:
            managers = field_sets.read_managers(entries)
        except field_sets.MalformedManagers:
            continue
        if managers:
            return managers
    return {}


def put_managers(obj: Json, managers: Managers) -> None:
    if managers:
        obj["metadata"]["managedFields"] = field_sets.write_managers(managers)
    else:
        obj["metadata"].pop("managedFields", None)


def track_update(call: ApiCall, new: Json, live: Json | None) -> None:
    """Update the object's managedFields. If they cannot be tracked, they are dropped, as in kube-apiserver."""
    keeper = call.resource.field_manager(call.subresource)
    if call.subresource and live is not None:
        new["metadata"].pop("managedFields", None)
        managers = take_managers({"metadata": {}}, live)
    else:
        managers = take_managers(new, live)
    before = live if live is not None else call.resource.zero
    try:
        bare = without_managers(before) if live is not None else before
        if call.resource.is_custom:
            typed_values.check_typed(new, keeper.type, allow_duplicates=True)
        put_managers(new, keeper.update(bare, new, managers, call.manager, call.now))
    except (typed_values.TypeMismatch, ValueError):
        put_managers(new, {})


def without_managers(obj: Json) -> Json:
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


# ── Creating ─────────────────────────────────────────────────────────────────────────────────────────────────────


def store_new_object(core: ServerState, call: ApiCall, obj: Json) -> WriteResult:
    """Store a new object, which has its managedFields already."""
    metadata = obj["metadata"]
    call.name = metadata.get("name", "")
    admission.check_namespace(core, call)
    admission.admit(core, call, obj)
    base = metadata.get("generateName", "")
    if metadata.get("name") or not base:
        return _store_new_object_once(core, call, obj, call.is_dry_run)
    for _ in range(_TRIES_FOR_A_NAME):
        metadata["name"] = object_meta.generate_name(base, core.rng)
        if core.find(call.resource, call.namespace, metadata["name"]) is None:
            return _store_new_object_once(core, call, obj, call.is_dry_run)
    raise status_errors.no_unique_name(call.resource, metadata["name"])


def _store_new_object_once(core: ServerState, call: ApiCall, obj: Json, is_dry_run: bool) -> WriteResult:
    resource, metadata = call.resource, obj["metadata"]
    object_meta.fill_object_meta(metadata, call.now, core.rng)
    resource.strategy.prepare_create(obj)
    errors = object_meta.validate_object_meta(
        metadata, is_namespaced=resource.is_namespaced, check_name=resource.strategy.check_name
    )
    errors = resource.strategy.validate(obj) + errors
    if errors:
        raise status_errors.invalid_object(resource, metadata.get("name", ""), errors)
    key = storage.storage_key(call.namespace, metadata["name"])
    table = core.table(resource)
    there = table.objects.get(key)
    if there is not None:
        raise status_errors.already_exists(resource, metadata["name"], is_being_deleted=there.is_deleting)
    if metadata.get("resourceVersion"):
        raise status_errors.unclassified("resourceVersion should not be set on objects to be created")
    if is_dry_run:
        return WriteResult(resource.prefix + storage.encode_json(_without_managed_fields(obj))[1:], True)
    return WriteResult(core.store.write(table, key, obj).raw, True)


def _without_managed_fields(obj: Json) -> Json:
    return {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}


# ── Changing ─────────────────────────────────────────────────────────────────────────────────────────────────────

ObjectChange = Callable[[Json], Json]
"""Makes the new object, including managedFields, from a mutable copy of the live one."""


def store_update(core: ServerState, call: ApiCall, stored: storage.StoredObject, change: ObjectChange) -> WriteResult:
    """Update an object by a function."""
    resource, strategy = call.resource, call.resource.strategy
    old = stored.decode()
    new = change(stored.decode())
    _check_version(call, new, stored)
    object_meta.match_namespace(new["metadata"], call.namespace)
    object_meta.carry_over_immutable(new["metadata"], old["metadata"])
    if call.subresource == "status":
        strategy.prepare_status(new, old)
        errors = strategy.validate_status(new, old)
    elif call.subresource == "finalize":
        errors = []
    else:
        strategy.prepare_update(new, old)
        errors = strategy.validate_update(new, old)
    errors = object_meta.validate_object_meta_update(new["metadata"], old["metadata"]) + errors
    if errors:
        raise status_errors.invalid_object(resource, stored.name, errors)
    return _store_changed(core, call, stored, new, old)


def make_controller_call(
    core: ServerState, resource: Resource, stored: storage.StoredObject, subresource: str = ""
) -> ApiCall:
    now_s = core.clock.now_s()
    return ApiCall(
        "PATCH",
        resource,
        stored.namespace,
        stored.name,
        subresource,
        {},
        _CONTROLLER_AGENT,
        b"",
        now_s,
        time_formats.format_time(now_s),
    )


def update_as_controller(
    core: ServerState,
    resource: Resource,
    stored: storage.StoredObject,
    change: ObjectChange,
    subresource: str = "",
) -> None:
    """Update an object, and track its field manager."""
    call = make_controller_call(core, resource, stored, subresource)

    def tracked(live: dict[str, object]) -> dict[str, object]:
        new = change(live)
        track_update(call, new, stored.decode())
        return new

    store_update(core, call, stored, tracked)


def _check_version(call: ApiCall, new: Json, stored: storage.StoredObject) -> None:
    asked = new["metadata"].get("resourceVersion", "")
    if not asked or asked == "0":
        if call.resource.strategy.needs_version_to_update and call.method == "PUT":
            message = "must be specified for an update"
            errors: FieldErrors = [status_errors.field_invalid("metadata.resourceVersion", 0, message)]
            raise status_errors.invalid_kind(call.resource.plural, call.resource.group, stored.name, errors)
    elif asked != str(stored.version):
        raise status_errors.conflict(call.resource, stored.name)
    new["metadata"]["resourceVersion"] = str(stored.version)


def _store_changed(core: ServerState, call: ApiCall, stored: storage.StoredObject, new: Json, old: Json) -> WriteResult:
    if is_unchanged(new, old):
        return WriteResult(stored.raw)
    table = core.table(call.resource)
    if call.is_dry_run:
        return WriteResult(table.encode(new, stored.version))
    if _can_be_removed(call, new, old):
        core.store.delete(table, stored.key)
        return WriteResult(table.encode(new, stored.version))
    return WriteResult(core.store.write(table, stored.key, new).raw)


def _can_be_removed(call: ApiCall, new: Json, old: Json) -> bool:
    """Can a terminating object be removed, now that its last finalizer is gone?"""
    was, now = old["metadata"], new["metadata"]
    if "deletionTimestamp" not in was or now.get("finalizers"):
        return False
    return not was.get("deletionGracePeriodSeconds") and call.resource.strategy.can_be_removed(new)


def is_unchanged(new: Json, old: Json) -> bool:
    """Are the objects equal except for the times of managers?"""
    if new == old:
        return True
    mine, theirs = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not mine or not theirs or len(mine) != len(theirs):
        return False
    if any({**a, "time": ""} != {**b, "time": ""} for a, b in zip(mine, theirs, strict=True)):
        return False
    return without_managers(new) == without_managers(old)


def warn_of_duplicates(call: ApiCall, obj: Json) -> None:
    if doubled := object_meta.dedupe_owners(obj["metadata"]):
        call.warn(_DUPLICATES + ", ".join(doubled))


def apply_conflict_error(apply_conflict: field_manager.ApplyConflict) -> status_errors.StatusError:
    """The Status of an apply with conflicts."""
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_format_manager(who)}",
            "field": field_sets.format_field_path(path),
        }
        for who, path in apply_conflict.found
    ]
    if len(causes) == 1:
        who, path = apply_conflict.found[0]
        message = (
            f"Apply failed with 1 conflict: conflict with {_format_manager(who)}: {field_sets.format_field_path(path)}"
        )
        return status_errors.apply_conflict(message, causes)
    lines = []
    for who in sorted({who for who, _ in apply_conflict.found}):
        lines.append(f"conflicts with {_format_manager(who)}:")
        lines += [f"- {field_sets.format_field_path(path)}" for other, path in apply_conflict.found if other == who]
    message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return status_errors.apply_conflict(message, causes)


def _format_manager(who: field_sets.ManagerIdentity) -> str:
    said = status_errors.format_value(who.manager)
    if who.subresource:
        said += f' with subresource "{who.subresource}"'
    return f"{said} using {who.api_version}" if who.operation == field_sets.UPDATE else said


def handle_create(core: ServerState, call: ApiCall) -> ApiResponse:
    obj = decode_object(call, call.read_object())
    object_meta.wipe_server_fields(obj["metadata"])
    object_meta.match_namespace(obj["metadata"], call.namespace)
    warn_of_duplicates(call, obj)
    track_update(call, obj, None)
    written = store_new_object(core, call, obj)
    return responses.object_response(call, 201, written.raw)


def handle_update(core: ServerState, call: ApiCall) -> ApiResponse:
    obj = decode_object(call, call.read_object())
    _check_name(call, obj)
    object_meta.match_namespace(obj["metadata"], call.namespace)
    warn_of_duplicates(call, obj)
    stored = core.find(call.resource, call.namespace, call.name)
    if stored is None:
        return _create_on_update(core, call, obj)
    check_uid_precondition(call, obj["metadata"].get("uid", ""), stored)

    def change(live: Json) -> Json:
        track_update(call, obj, live)
        return obj

    return responses.object_response(call, 200, store_update(core, call, stored, change).raw)


def _create_on_update(core: ServerState, call: ApiCall, obj: Json) -> ApiResponse:
    if not call.resource.strategy.creates_on_update or call.subresource:
        raise status_errors.not_found(call.resource, call.name)
    check_uid_precondition(call, obj["metadata"].get("uid", ""), None)
    object_meta.wipe_server_fields(obj["metadata"])
    obj["metadata"].pop("resourceVersion", None)
    track_update(call, obj, None)
    return responses.object_response(call, 201, store_new_object(core, call, obj).raw)


def _check_name(call: ApiCall, obj: Json) -> None:
    name_in_body = obj["metadata"].get("name", "")
    if not name_in_body:
        message = f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        raise status_errors.bad_request(message)
    if name_in_body != call.name:
        message = f"the name of the object ({name_in_body}) does not match the name on the URL ({call.name})"
        raise status_errors.bad_request(message)


def check_uid_precondition(call: ApiCall, asked: str, stored: storage.StoredObject | None) -> None:
    """A uid in the object is a precondition, which a missing object does not meet."""
    found, key = ("", f"{call.namespace}/{call.name}") if stored is None else (stored.uid, stored.key)
    if asked and asked != found:
        path = "/".join(part for part in (call.resource.group, call.resource.plural, key) if part)
        reason = (
            f"StorageError: invalid object, Code: 4, Key: /registry/{path}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {asked}, UID in object meta: {found}"
        )
        raise status_errors.conflict(call.resource, call.name, reason)
