"""Subresources that are objects of their own: pods/binding, pods/eviction and scale.

Binding and eviction write past managedFields, as kube-apiserver does. An eviction is a deletion that a
PodDisruptionBudget can refuse. The owner of `spec.replicas` in the parent owns it in the Scale, and the reverse.
"""

from dataclasses import replace
from typing import Any

from windlass import selectors
from windlass.apiserver import (
    builtin_types,
    delete_handlers,
    disruption_controller,
    field_manager,
    field_sets,
    object_meta,
    patch_handlers,
    responses,
    status_errors,
    storage,
    workload_strategies,
    write_handlers,
)
from windlass.apiserver.registry import ScalePaths, ServerState
from windlass.apiserver.responses import ApiCall, ApiResponse
from windlass.apiserver.value_types import Json

_SCHEDULED: Json = {"type": "PodScheduled", "status": "True"}


def handle_binding(core: ServerState, call: ApiCall) -> ApiResponse:
    binding = call.read_object()
    metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
    if metadata.get("name", call.name) != call.name:
        raise status_errors.bad_request("name in URL does not match name in Binding object")
    _check_target(target)
    stored = core.find(call.resource, call.namespace, call.name)
    if stored is None:
        raise status_errors.not_found(call.resource, call.name)
    pod = stored.decode()
    if reason := _explain_unbindable(pod, metadata):
        raise status_errors.conflict(call.resource, call.name, reason, "pods/binding")
    pod["spec"]["nodeName"] = target["name"]
    pod["status"].pop("nominatedNodeName", None)
    for kind in ("annotations", "labels"):
        if metadata.get(kind):
            pod["metadata"].setdefault(kind, {}).update(metadata[kind])
    workload_strategies.set_pod_condition(pod, _SCHEDULED, call.now)
    if not call.is_dry_run:
        core.store.write(core.table(call.resource), stored.key, pod)
    return responses.json_response(201, status_errors.success_status() | {"code": 201})


def _check_target(target: Json) -> None:
    errors = []
    if target.get("kind") not in (None, "", "Node"):
        errors.append(status_errors.field_not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(status_errors.field_required("target.name"))
    if errors:
        raise status_errors.unclassified("; ".join(str(error) for error in errors))


def _explain_unbindable(pod: Json, metadata: Json) -> str:
    """The reason why the pod cannot be bound; empty if it can."""
    stored, name = pod["metadata"], pod["metadata"]["name"]
    if metadata.get("uid") and metadata["uid"] != stored["uid"]:
        message = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {stored['uid']}"
        return message
    if "deletionTimestamp" in stored:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if node := pod["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{node}"'
    return f"pod {name} has non-empty .spec.schedulingGates" if pod["spec"].get("schedulingGates") else ""


_WOULD_VIOLATE = "Cannot evict pod as it would violate the pod's disruption budget."

_TOO_MANY_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."

_MOST_DISRUPTED = 2000

_DISRUPTION_CONDITION: Json = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


def handle_eviction(core: ServerState, call: ApiCall) -> ApiResponse:
    eviction = call.read_object()
    if eviction.get("apiVersion", "policy/v1") not in ("policy/v1", "policy/v1beta1"):
        message = f"the API version in the data ({eviction['apiVersion']}) does not match the expected API version (v1)"
        raise status_errors.bad_request(message)
    if (eviction.get("metadata") or {}).get("name", "") != call.name:
        raise status_errors.bad_request("name in URL does not match name in Eviction object")
    options = delete_handlers.parse_delete_options(eviction.get("deleteOptions") or {})
    options = replace(options, is_dry_run=options.is_dry_run or call.is_dry_run)
    stored = core.find(call.resource, call.namespace, call.name)
    if stored is None:
        raise status_errors.not_found(call.resource, call.name)
    pod = stored.decode()
    if not _may_ignore_budgets(pod):
        stored_objects = _find_budgets(core, pod)
        if len(stored_objects) > 1:
            return responses.json_response(500, _too_many_budgets())
        if stored_objects and not _may_skip_budget(pod, stored_objects[0].decode()):
            _charge_budget(core, call, stored_objects[0], options)
    _evict_pod(core, call, stored, options)
    return responses.json_response(201, status_errors.success_status() | {"code": 201})


def _too_many_budgets() -> Json:
    status = {"status": "Failure", "message": _TOO_MANY_BUDGETS, "code": 500}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **status}


def _may_ignore_budgets(pod: Json) -> bool:
    is_idle = pod["status"].get("phase") in (*workload_strategies.FINISHED_PHASES, "Pending")
    return is_idle or "deletionTimestamp" in pod["metadata"]


def _find_budgets(core: ServerState, pod: Json) -> list[storage.StoredObject]:
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
    table = core.table(core.resource("policy", "poddisruptionbudgets"))
    return [stored for stored in table.list_namespace(namespace) if _selects(stored.decode(), labels)]


def _selects(budget: Json, labels: Any) -> bool:
    selector: selectors.LabelSelector | None = disruption_controller.read_budget_selector(budget)
    return selector is not None and selector.matches(labels)


def _may_skip_budget(pod: Json, budget: Json) -> bool:
    """May an unhealthy pod be evicted without charging the budget?"""
    if workload_strategies.is_pod_ready(pod):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = budget["status"].get("desiredHealthy", 0)
    return bool(desired > 0 and budget["status"].get("currentHealthy", 0) >= desired)


def _charge_budget(
    core: ServerState, call: ApiCall, stored: storage.StoredObject, options: delete_handlers.DeleteOptions
) -> None:
    """Charge one disruption to the budget, or refuse the eviction."""
    budget = stored.decode()
    name, known = budget["metadata"]["name"], budget["status"]
    if known.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise _eviction_refused(message, retry_after_s=10)
    if len(known.get("disruptedPods") or ()) > _MOST_DISRUPTED:
        resource = core.resource("policy", "poddisruptionbudgets")
        reason = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise status_errors.forbidden(resource, name, reason)
    if known.get("disruptionsAllowed", 0) == 0:
        raise _eviction_refused(_explain_refusal(name, known))
    if options.is_dry_run:
        return
    known["disruptionsAllowed"] -= 1
    known.setdefault("disruptedPods", {})[call.name] = call.now
    if known["disruptionsAllowed"] == 0:
        disruption_controller.set_disruption_condition(budget["status"], call.now)
    core.store.write(core.table(core.resource("policy", "poddisruptionbudgets")), stored.key, budget)


def _eviction_refused(cause: str, retry_after_s: int = 0) -> status_errors.StatusError:
    return status_errors.too_many_requests(
        _WOULD_VIOLATE, retry_after_s, {"reason": "DisruptionBudget", "message": cause}
    )


def _explain_refusal(name: str, known: Json) -> str:
    conditions = [condition for condition in known.get("conditions") or () if condition["type"] == "DisruptionAllowed"]
    condition = conditions[0] if conditions else {}
    is_explained = condition.get("status") == "False" and condition.get("message")
    current, desired = known.get("currentHealthy", 0), known.get("desiredHealthy", 0)
    at_present = f"The disruption budget {name} does not allow evicting pods currently"
    if is_explained and condition.get("reason") == "SyncFailed":
        return f"{at_present} because it failed sync: {condition['message']}"
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    return f"{at_present} ({condition['reason']}): {condition['message']}" if is_explained else at_present


def _evict_pod(
    core: ServerState, call: ApiCall, stored: storage.StoredObject, options: delete_handlers.DeleteOptions
) -> None:
    """Set the DisruptionTarget condition, then delete the pod."""
    delete_handlers.check_preconditions(call, stored, options)
    if not options.is_dry_run:
        pod = stored.decode()
        workload_strategies.set_pod_condition(pod, _DISRUPTION_CONDITION, call.now)
        stored = core.store.write(core.table(call.resource), stored.key, pod)
    delete_handlers.delete_stored(core, call, stored, replace(options, version=""))


SCALE_API_VERSION = "autoscaling/v1"

_OWN_PATH = ("f:spec", "f:replicas")

_UNSET_REPLICAS = -(2**31)
"""Value in the Scale if the parent has no replicas field."""


def _scale_field_manager() -> field_manager.FieldManager:
    return field_manager.FieldManager(
        builtin_types.find_struct("autoscaling", "Scale").type, SCALE_API_VERSION, "scale"
    )


def handle_scale_get(core: ServerState, call: ApiCall) -> ApiResponse:
    stored = core.find(call.resource, call.namespace, call.name)
    if stored is None:
        raise status_errors.not_found(call.resource, call.name)
    parent = stored.decode()
    paths = _scale_paths(call)
    if storage.lookup_path(parent, *paths.replicas) is None and call.resource.is_custom:
        raise status_errors.internal(f'the spec replicas field "{_format_path(paths.replicas)}" does not exist')
    return _scale_response(call, make_scale(parent, paths))


def handle_scale_update(core: ServerState, call: ApiCall) -> ApiResponse:
    """PUT and PATCH."""
    if call.method == "PATCH":
        patch_handlers.check_patch_type(call)
    stored = core.find(call.resource, call.namespace, call.name)
    if stored is None:
        raise status_errors.not_found(call.resource, call.name)
    document = call.read_object() if call.method == "PUT" else _read_patch(call)
    if call.method == "PUT":
        write_handlers.check_uid_precondition(call, (document.get("metadata") or {}).get("uid") or "", stored)
    main = replace(call, subresource="")
    written = write_handlers.store_update(core, main, stored, lambda parent: _change_replicas(call, parent, document))
    return _scale_response(call, make_scale(storage.decode_json(written.raw), _scale_paths(call)))


def _read_patch(call: ApiCall) -> Any:
    return call.read_object() if call.content_type == patch_handlers.APPLY else patch_handlers.read_patch(call)


def _change_replicas(call: ApiCall, parent: Json, document: Any) -> Json:
    """The parent with the replicas of a Scale, and their field manager."""
    paths = _scale_paths(call)
    live = make_scale(parent, paths)
    if storage.lookup_path(parent, *paths.replicas) is None:
        live["spec"] = {"replicas": _UNSET_REPLICAS}
    parent_owners = write_handlers.take_managers({"metadata": {}}, parent)
    owners = _to_scale(call, parent_owners)
    if call.content_type == patch_handlers.APPLY and call.method == "PATCH":
        scale, owners = _apply_scale(call, live, document, owners)
    else:
        changed = document if call.method == "PUT" else patch_handlers.apply_patch(call, live, document)
        scale = _read_scale(call, changed)
        owners = _scale_field_manager().update(live, scale, owners, call.manager, call.now)
    replicas = scale["spec"].get("replicas", 0)
    if replicas == _UNSET_REPLICAS:
        raise status_errors.bad_request(f'the spec replicas field "{_format_path(paths.replicas)}" cannot be empty')
    if not call.resource.is_custom and replicas < 0:
        errors = [status_errors.field_invalid("spec.replicas", replicas, "must be greater than or equal to 0")]
        raise status_errors.invalid_kind("Scale", "autoscaling", call.name, errors)
    _set_path(parent, paths.replicas, replicas)
    if version := scale["metadata"].get("resourceVersion"):
        parent["metadata"]["resourceVersion"] = version
    write_handlers.put_managers(parent, _to_parent(call, parent_owners, owners))
    return parent


def _apply_scale(
    call: ApiCall, live: Json, applied: Json, owners: field_sets.Managers
) -> tuple[Json, field_sets.Managers]:
    try:
        is_forced = call.query.get("force") == "true"
        scale, owners = _scale_field_manager().apply(live, applied, owners, call.manager, call.now, force=is_forced)
    except field_manager.ApplyConflict as conflict:
        raise write_handlers.apply_conflict_error(conflict) from None
    except ValueError as error:
        raise status_errors.unclassified(f"failed to create typed patch object: {error}") from None
    if scale is not None and call.resource.is_custom:
        # Applying a changed value to a custom object's scale fails upstream; applying the same value succeeds.
        named = f"/{(applied.get('metadata') or {}).get('name', '')}; {SCALE_API_VERSION}, Kind=Scale"
        reason = f"request to convert CR to an invalid group/version: {SCALE_API_VERSION}"
        raise status_errors.unclassified(f"failed to convert new object ({named}) to proper version: {reason}")
    return _read_scale(call, scale if scale is not None else live), owners


def _read_scale(call: ApiCall, document: Json) -> Json:
    struct = builtin_types.find_struct("autoscaling", "Scale")
    try:
        scale: Json = struct.read(document, [])
    except builtin_types.Mismatch as mismatch:
        message = f'Scale in version "v1" cannot be handled as a Scale: {mismatch}'
        raise status_errors.bad_request(message) from None
    object_meta.match_namespace(scale["metadata"], call.namespace)
    scale["metadata"].pop("managedFields", None)
    if scale["metadata"].get("name", call.name) != call.name:
        message = (
            f"the name of the object ({scale['metadata']['name']}) does not match the name on the URL ({call.name})"
        )
        raise status_errors.bad_request(message)
    return scale


def _scale_paths(call: ApiCall) -> ScalePaths:
    assert call.resource.scale is not None
    return call.resource.scale


def _format_path(path: tuple[str, ...]) -> str:
    return "." + ".".join(path)


def _set_path(parent: Json, path: tuple[str, ...], value: int) -> None:
    for name in path[:-1]:
        parent = parent.setdefault(name, {})
    parent[path[-1]] = value


def make_scale(parent: Json, paths: ScalePaths) -> Json:
    """The Scale of an object. Zero replicas are not written."""
    metadata = parent["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = storage.lookup_path(parent, *paths.replicas) or 0
    scale: Json = {
        "kind": "Scale",
        "apiVersion": SCALE_API_VERSION,
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": storage.lookup_path(parent, *paths.status_replicas) or 0},
    }
    selector = _format_selector(parent["spec"].get("selector")) if paths.derives_selector else ""
    if paths.selector:
        selector = storage.lookup_path(parent, *paths.selector) or ""
    if selector:
        scale["status"]["selector"] = selector
    return scale


def _format_selector(selector: Json | None) -> str:
    """A label selector in its string form."""
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


def _scale_response(call: ApiCall, scale: Json) -> ApiResponse:
    return responses.json_response(200, scale)


# ── Ownership ────────────────────────────────────────────────────────────────────────────────────────────────────


def _parent_path(call: ApiCall) -> tuple[str, ...]:
    return tuple(f"f:{name}" for name in _scale_paths(call).replicas)


def _to_scale(call: ApiCall, owners: field_sets.Managers) -> field_sets.Managers:
    """The managers of the parent's replicas, as managers of the Scale's."""
    path = _parent_path(call)
    return {
        field_sets.ManagerIdentity.of(
            who.manager, who.operation, who.subresource, SCALE_API_VERSION
        ): field_sets.ManagerEntry(field_sets.field_set_of_path(*_OWN_PATH), SCALE_API_VERSION, entry.time)
        for who, entry in owners.items()
        if entry.api_version == call.resource.api_version and field_sets.has_path(entry.fields, *path)
    }


def _to_parent(call: ApiCall, parent: field_sets.Managers, scale: field_sets.Managers) -> field_sets.Managers:
    """The parent's managers after a change of the Scale: managers that lost the Scale's replicas lose the parent's."""
    path, version = _parent_path(call), call.resource.api_version
    merged: field_sets.Managers = {}
    remaining = dict(scale)
    for who, entry in parent.items():
        if entry.api_version != version:
            continue
        if not field_sets.has_path(entry.fields, *path) or who in remaining:
            remaining.pop(who, None)
            merged[who] = entry
            continue
        rest = field_sets.difference_of(entry.fields, field_sets.field_set_of_path(*path))
        if rest:
            merged[who] = entry.holding(rest)
    for who, entry in remaining.items():
        if field_sets.has_path(entry.fields, *_OWN_PATH):
            # Without a time: kube-apiserver searches it among the parent's entries, which do not have it.
            merged[who] = field_sets.ManagerEntry(field_sets.field_set_of_path(*path), version)
    return merged
