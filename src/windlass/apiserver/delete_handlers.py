"""DELETE handlers: at once, after a grace period, or once the finalizers are gone."""

from dataclasses import dataclass, replace
from typing import Any

from windlass.apiserver import admission, object_meta, responses, status_errors, storage
from windlass.apiserver.registry import ServerState
from windlass.apiserver.responses import ApiCall, ApiResponse
from windlass.apiserver.value_types import Json
from windlass.kube import time_formats

_POLICIES = ("Foreground", "Background", "Orphan")
_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer that keeps a definition until all objects of its kind are deleted."""


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a deletion."""

    grace_s: int | None = None
    policy: str = ""
    orphans: bool | None = None
    """Deprecated form of the propagation policy: Orphan or Background."""
    uid: str = ""
    version: str = ""
    is_dry_run: bool = False


def read_delete_options(call: ApiCall) -> DeleteOptions:
    """Options from the body, or else from the query."""
    options: Json = call.read_object() if call.body else _from_query(call)
    return parse_delete_options(options or {})


def _from_query(call: ApiCall) -> Json:
    options: Json = {}
    if grace := call.query.get("gracePeriodSeconds"):
        options["gracePeriodSeconds"] = int(grace)
    if policy := call.query.get("propagationPolicy"):
        options["propagationPolicy"] = policy
    if orphans := call.query.get("orphanDependents"):
        options["orphanDependents"] = orphans == "true"
    if asked := call.query.get("dryRun"):
        options["dryRun"] = [asked]
    return options


def parse_delete_options(options: Json) -> DeleteOptions:
    """Parse a DeleteOptions object. StatusError for contradicting options."""
    policy, orphans = options.get("propagationPolicy") or "", options.get("orphanDependents")
    errors = []
    if policy and orphans is not None:
        reason = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(status_errors.field_invalid("propagationPolicy", policy, reason))
    if policy and policy not in _POLICIES:
        errors.append(status_errors.field_not_supported("propagationPolicy", policy, (*_POLICIES, "nil")))
    dry_run = options.get("dryRun") or []
    if any(asked != "All" for asked in dry_run):
        errors.append(status_errors.field_not_supported("dryRun", dry_run, ("All",)))
    if errors:
        raise status_errors.invalid_kind("DeleteOptions", "meta.k8s.io", "", errors)
    preconditions: Json = options.get("preconditions") or {}
    grace_s = options.get("gracePeriodSeconds")
    return DeleteOptions(
        grace_s if grace_s is None or grace_s >= 0 else 1,
        policy,
        orphans,
        preconditions.get("uid") or "",
        preconditions.get("resourceVersion") or "",
        bool(dry_run),
    )


def handle_delete(core: ServerState, call: ApiCall) -> ApiResponse:
    admission.check_deletion(call)
    options = read_delete_options(call)
    stored = core.find(call.resource, call.namespace, call.name)
    if stored is None:
        raise status_errors.not_found(call.resource, call.name)
    raw, is_gone = delete_stored(core, call, stored, options)
    if call.resource.returns_deleted or not is_gone:
        return responses.object_response(call, 200, raw)
    resource = call.resource
    details = {"name": stored.name, "group": resource.group, "kind": resource.plural, "uid": stored.uid}
    return responses.json_response(
        200, status_errors.success_status(**{key: value for key, value in details.items() if value})
    )


def handle_delete_collection(core: ServerState, call: ApiCall) -> ApiResponse:
    """Delete all objects of a list request."""
    options = read_delete_options(call)
    labels = storage.parse_label_query(call.query.get("labelSelector", ""))
    fields = storage.parse_field_query(call.query.get("fieldSelector", ""), call.resource.selectable)
    accepts = storage.make_object_filter("", labels, fields)
    stored_objects = [
        s for s in core.table(call.resource).list_namespace(call.namespace) if accepts is None or accepts(s)
    ]
    for stored in stored_objects:
        api_call = replace(call, namespace=stored.namespace, name=stored.name)
        delete_stored(core, api_call, stored, options)
    table = core.table(call.resource)
    head = responses.make_list_head(call.resource, core.store.version)
    return ApiResponse(200, storage.join_list_body(head, [table.item(stored) for stored in stored_objects]))


def check_preconditions(call: ApiCall, stored: storage.StoredObject, options: DeleteOptions) -> None:
    called = f"{call.resource.kind}.{call.resource.group}" if call.resource.group else call.resource.kind
    if options.uid and options.uid != stored.uid:
        reason = f"the UID in the precondition ({options.uid}) does not match the UID in record ({stored.uid})"
        reason += ". The object might have been deleted and then recreated"
        raise status_errors.conflict(call.resource, stored.name, reason, called)
    if options.version and options.version != str(stored.version):
        reason = f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion "
        reason += f"in record ({stored.version}). The object might have been modified"
        raise status_errors.conflict(call.resource, stored.name, reason, called)


def delete_stored(
    core: ServerState, call: ApiCall, stored: storage.StoredObject, options: DeleteOptions
) -> tuple[bytes, bool]:
    """Delete an object, or mark it as terminating; returns its bytes, and whether it was removed."""
    check_preconditions(call, stored, options)
    if call.resource.key == ("", "namespaces"):
        return _delete_namespace(core, call, stored, options)
    obj = stored.decode()
    strategy = call.resource.strategy
    grace_s = strategy.grace_s(obj, options.grace_s)
    is_graceful, is_pending, left_s = _begin_graceful_deletion(obj, grace_s, options, call)
    if is_pending:
        return stored.raw, False
    _set_finalizers(obj["metadata"], options, call)
    has_finalizers = bool(obj["metadata"].get("finalizers"))
    if not is_graceful and not has_finalizers:
        return _remove(core, call, stored, options)
    if not is_graceful:
        _mark_deleted(obj["metadata"], call)
    table = core.table(call.resource)
    if options.is_dry_run:
        return table.encode(obj, stored.version), not (has_finalizers or left_s)
    is_marked = stored.is_deleting and obj == stored.decode()
    marked = stored if is_marked else core.store.write(table, stored.key, obj)
    if has_finalizers or left_s:
        return marked.raw, False
    return _remove(core, call, marked, options)


def _remove(
    core: ServerState, call: ApiCall, stored: storage.StoredObject, options: DeleteOptions
) -> tuple[bytes, bool]:
    if not options.is_dry_run:
        core.store.delete(core.table(call.resource), stored.key)
    return stored.raw, True


def _begin_graceful_deletion(
    obj: Json, grace_s: int | None, options: DeleteOptions, call: ApiCall
) -> tuple[bool, bool, int]:
    """Begin or shorten a graceful deletion: (graceful, unchanged, seconds left)."""
    metadata = obj["metadata"]
    if grace_s is None:
        return False, False, 0
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = time_formats.format_time(call.now_s + grace_s)
        metadata["deletionGracePeriodSeconds"] = grace_s
        _count_generation(metadata)
        return True, False, grace_s
    before_s = metadata.get("deletionGracePeriodSeconds") or 0
    if not before_s:
        return False, False, 0
    if options.grace_s is None or options.grace_s >= before_s:
        return False, True, before_s
    end_s = time_formats.parse_server_time(metadata["deletionTimestamp"]) - before_s + options.grace_s
    left_s = options.grace_s
    if end_s < call.now_s:
        end_s, left_s = call.now_s, min(left_s, 1)
    metadata["deletionTimestamp"] = time_formats.format_time(end_s)
    metadata["deletionGracePeriodSeconds"] = left_s
    return True, False, left_s


def _mark_deleted(metadata: Json, call: ApiCall) -> None:
    """Mark an object as deleted that only finalizers keep."""
    if "deletionTimestamp" not in metadata:
        _count_generation(metadata)
        metadata["deletionTimestamp"] = call.now
    elif time_formats.parse_server_time(metadata["deletionTimestamp"]) > call.now_s:
        metadata["deletionTimestamp"] = call.now
    metadata["deletionGracePeriodSeconds"] = 0


def _count_generation(metadata: Json) -> None:
    if metadata.get("generation"):
        metadata["generation"] += 1


def _set_finalizers(metadata: Json, options: DeleteOptions, call: ApiCall) -> None:
    """Set the finalizers that the propagation policy requires of the garbage collector."""
    if call.resource.key == ("", "events"):
        return
    before = metadata.get("finalizers") or []
    desired = _wanted_finalizer(before, options)
    after = [name for name in before if name not in (object_meta.ORPHAN, object_meta.FOREGROUND)]
    after += [desired] if desired else []
    if call.resource.key == ("apiextensions.k8s.io", "customresourcedefinitions") and _CLEANUP not in after:
        after.append(_CLEANUP)
    if set(after) != set(before):
        if after:
            metadata["finalizers"] = after
        else:
            metadata.pop("finalizers", None)


def _wanted_finalizer(before: list[str], options: DeleteOptions) -> str:
    if options.orphans is not None:
        return object_meta.ORPHAN if options.orphans else ""
    if options.policy:
        return {"Orphan": object_meta.ORPHAN, "Foreground": object_meta.FOREGROUND}.get(options.policy, "")
    return next((name for name in before if name in (object_meta.ORPHAN, object_meta.FOREGROUND)), "")


def _delete_namespace(
    core: ServerState, call: ApiCall, stored: storage.StoredObject, options: DeleteOptions
) -> tuple[bytes, bool]:
    """A namespace terminates first; it is removed when its spec.finalizers are empty."""
    obj: Any = stored.decode()
    if "deletionTimestamp" not in obj["metadata"]:
        obj["metadata"]["deletionTimestamp"] = call.now
        obj["status"]["phase"] = "Terminating"
        _set_finalizers(obj["metadata"], options, call)
        table = core.table(call.resource)
        if options.is_dry_run:
            return table.encode(obj, stored.version), False
        return core.store.write(table, stored.key, obj).raw, False
    if obj["spec"].get("finalizers") or obj["metadata"].get("finalizers"):
        return stored.raw, False
    return _remove(core, call, stored, options)
