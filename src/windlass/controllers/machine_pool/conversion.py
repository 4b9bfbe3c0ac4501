"""MachinePool conversion: API objects of either version to the model, and the model to merge patches. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from windlass import errors
from windlass.controllers.machine_pool import api_types, model
from windlass.controllers.machine_pool.model import OwnerReference
from windlass.kube import time_formats, unstructured

Json = Mapping[str, Any]

_DATA_SECRET_NAME_PATH = ("spec", "template", "spec", "bootstrap", "dataSecretName")

_CLUSTER_API_MANAGERS = frozenset({"manager", "capi-manager"})
"""Field managers of Cluster API's own controller, from which a pool may have been taken over.

Other operators are called so as well: its entry also owns the finalizer that it adds first."""


def parse_machine_pool(body: Json) -> model.MachinePool:
    """Parse a MachinePool. InvalidObject if a required field is missing or invalid."""
    metadata, spec, status = body["metadata"], _mapping(body, "spec"), _mapping(body, "status")
    template = _mapping(spec, "template")
    machine = _mapping(template, "spec")
    template_meta = _mapping(template, "metadata")
    bootstrap = _mapping(machine, "bootstrap")
    is_old = body.get("apiVersion") == model.V1BETA1
    if not spec.get("clusterName"):
        where = f"{metadata.get('namespace')}/{metadata.get('name')}"
        raise errors.InvalidObject("MachinePool", where, "spec.clusterName", spec.get("clusterName"), "a name")
    return model.MachinePool(
        metadata["namespace"],
        metadata["name"],
        metadata.get("uid", ""),
        body.get("apiVersion") or model.V1BETA2,
        metadata.get("resourceVersion", ""),
        metadata.get("generation", 0),
        _parse_time(metadata.get("creationTimestamp")) or 0.0,
        _parse_time(metadata.get("deletionTimestamp")),
        metadata.get("labels") or {},
        metadata.get("annotations") or {},
        tuple(metadata.get("finalizers") or ()),
        parse_owners(metadata),
        spec["clusterName"],
        spec.get("replicas"),
        tuple(spec.get("providerIDList") or ()),
        _parse_reference(bootstrap.get("configRef")),
        bootstrap.get("dataSecretName"),
        _is_secret_copied(body),
        _parse_reference(machine.get("infrastructureRef")),
        (spec if is_old else machine).get("minReadySeconds") or 0,
        _parse_node_deletion_timeout(machine, is_old=is_old),
        template_meta.get("labels") or {},
        template_meta.get("annotations") or {},
        _parse_v1beta1_status(status) if is_old else _parse_v1beta2_status(status),
    )


def _is_secret_copied(body: Json) -> bool:
    """True if the secret name was copied from a bootstrap config: by this controller, or by Cluster API's own."""
    finalizing = unstructured.find_field_owners(body, ("metadata", "finalizers", model.FINALIZER))
    return any(
        owner.operation == "Update"
        and (owner.manager == "windlass" or (owner.manager in _CLUSTER_API_MANAGERS and owner in finalizing))
        for owner in unstructured.find_field_owners(body, _DATA_SECRET_NAME_PATH)
    )


def _parse_v1beta2_status(status: Json) -> model.MachinePoolStatus:
    begun = _mapping(status, "initialization")
    old = _mapping(_mapping(status, "deprecated"), "v1beta1")
    return model.MachinePoolStatus(
        begun.get("bootstrapDataSecretCreated"),
        begun.get("infrastructureProvisioned"),
        status.get("replicas"),
        status.get("readyReplicas"),
        status.get("availableReplicas"),
        status.get("upToDateReplicas"),
        *_parse_common(status),
        _parse_counts(old),
        old.get("failureReason") or "",
        old.get("failureMessage") or "",
        status.get("phase") or "",
        status.get("observedGeneration"),
        parse_conditions(status),
        parse_conditions(old),
    )


def _parse_v1beta1_status(status: Json) -> model.MachinePoolStatus:
    new = _mapping(status, "v1beta2")
    return model.MachinePoolStatus(
        status.get("bootstrapReady"),
        status.get("infrastructureReady"),
        status.get("replicas"),
        new.get("readyReplicas"),
        new.get("availableReplicas"),
        new.get("upToDateReplicas"),
        *_parse_common(status),
        _parse_counts(status),
        status.get("failureReason") or "",
        status.get("failureMessage") or "",
        status.get("phase") or "",
        status.get("observedGeneration"),
        parse_conditions(new),
        parse_conditions(status),
    )


def _parse_common(status: Json) -> tuple[tuple[tuple[str, int], ...], tuple[model.NodeRef, ...]]:
    versions = tuple((item["version"], item.get("replicas") or 0) for item in status.get("versions") or ())
    refs = tuple(
        model.NodeRef(entry.get("name") or "", entry.get("uid") or "") for entry in status.get("nodeRefs") or ()
    )
    return versions, refs


def _parse_counts(status: Json) -> model.NodeCounts:
    found = (status.get(f"{word}Replicas") or 0 for word in ("ready", "available", "unavailable"))
    return model.NodeCounts(*found)


def _parse_node_deletion_timeout(machine: Json, *, is_old: bool) -> float | None:
    if not is_old:
        found = _mapping(machine, "deletion").get("nodeDeletionTimeoutSeconds")
        return None if found is None else float(found)
    spelled = machine.get("nodeDeletionTimeout")
    try:
        return None if spelled is None else time_formats.parse_duration(str(spelled))
    except ValueError:
        return None


def parse_conditions(status: Json) -> tuple[model.Condition, ...]:
    return tuple(
        model.Condition(
            item.get("type") or "",
            item.get("status") or "",
            item.get("reason") or "",
            item.get("message") or "",
            item.get("severity") or "",
            item.get("observedGeneration"),
            item.get("lastTransitionTime") or "",
        )
        for item in status.get("conditions") or ()
    )


def parse_owners(metadata: Json) -> tuple[model.OwnerReference, ...]:
    return tuple(
        model.OwnerReference(
            item.get("apiVersion") or "",
            item.get("kind") or "",
            item.get("name") or "",
            item.get("uid") or "",
            bool(item.get("controller")),
            bool(item.get("blockOwnerDeletion")),
        )
        for item in metadata.get("ownerReferences") or ()
    )


def _parse_reference(found: Json | None) -> model.ObjectReference | None:
    if not found or not found.get("name"):
        return None
    group = found.get("apiGroup")
    if group is None:
        group, slash, _ = str(found.get("apiVersion") or "").partition("/")
        group = group if slash else ""
    return model.ObjectReference(group, found.get("kind") or "", found["name"])


def parse_references(body: Json) -> list[model.ObjectReference]:
    """The bootstrap and infrastructure references of a MachinePool."""
    machine = _mapping(_mapping(_mapping(body, "spec"), "template"), "spec")
    found = (_mapping(machine, "bootstrap").get("configRef"), machine.get("infrastructureRef"))
    return [reference for item in found if (reference := _parse_reference(item)) is not None]


def parse_cluster(body: Json) -> model.Cluster:
    metadata = body["metadata"]
    return model.Cluster(
        metadata["name"],
        metadata.get("uid", ""),
        bool(_mapping(body, "spec").get("paused")),
        metadata.get("deletionTimestamp") is not None,
        _has_passed_delete_hooks(body),
        tuple(metadata.get("finalizers") or ()),
        metadata.get("resourceVersion", ""),
    )


_WAITING_FOR_HOOK = "WaitingForBeforeDeleteHook"


def _has_passed_delete_hooks(body: Json) -> bool:
    """True unless Cluster API may still wait for BeforeClusterDelete hooks. Only a topology has such hooks."""
    if not _mapping(body, "spec").get("topology"):
        return True
    if model.OK_TO_DELETE_ANNOTATION in (body["metadata"].get("annotations") or {}):
        return True
    status = _mapping(body, "status")
    conditions = (*parse_conditions(status), *parse_conditions(_mapping(status, "v1beta2")))
    deleting = next((condition for condition in conditions if condition.type == "Deleting"), None)
    return deleting is not None and deleting.status == "True" and deleting.reason != _WAITING_FOR_HOOK


def parse_cluster_pool(body: Json) -> model.ClusterPool:
    metadata = body["metadata"]
    return model.ClusterPool(
        metadata["name"],
        metadata.get("uid", ""),
        metadata.get("deletionTimestamp") is not None,
        model.FINALIZER in (metadata.get("finalizers") or ()),
    )


def parse_provider_object(
    body: Json, reference: model.ObjectReference, plural: str, contract: str
) -> model.ProviderObject:
    metadata = body["metadata"]
    return model.ProviderObject(
        reference,
        body["apiVersion"],
        plural,
        contract,
        metadata.get("uid", ""),
        metadata.get("resourceVersion", ""),
        metadata.get("deletionTimestamp") is not None,
        metadata.get("labels") or {},
        parse_owners(metadata),
        _mapping(body, "spec"),
        _mapping(body, "status"),
    )


def parse_infra_machine(infra_machine: api_types.InfraMachine, api_version: str, kind: str) -> model.InfraMachine:
    provider_id = (infra_machine.spec.provider_id if infra_machine.spec else None) or ""
    reference = model.ObjectReference(api_version.partition("/")[0], kind, infra_machine.meta.name or "")
    return model.InfraMachine(reference, api_version, provider_id, infra_machine.meta.deletion_timestamp is not None)


def parse_machine(body: Json) -> model.Machine:
    metadata, spec, status = body["metadata"], _mapping(body, "spec"), _mapping(body, "status")
    if body.get("apiVersion") == model.V1BETA1:
        status = _mapping(status, "v1beta2")
    conditions_by_type = {condition.type: condition for condition in parse_conditions(status)}
    return model.Machine(
        metadata["name"],
        metadata.get("uid", ""),
        metadata.get("generation", 0),
        metadata.get("deletionTimestamp") is not None,
        metadata.get("labels") or {},
        metadata.get("annotations") or {},
        parse_owners(metadata),
        _mapping(spec, "infrastructureRef").get("name") or "",
        spec.get("version") or "",
        _is_true(conditions_by_type.get("Ready")),
        _is_true(conditions_by_type.get("Available")),
        conditions_by_type.get("UpToDate"),
        frozenset(_applied_metadata(body)),
    )


def _applied_metadata(body: Json) -> list[tuple[str, str]]:
    """Labels and annotations applied by this controller or by Cluster API's."""
    entries = (body["metadata"].get("managedFields")) or ()
    found = []
    for entry in entries:
        if (entry.get("manager"), entry.get("operation")) == (model.MACHINE_MANAGER, "Apply"):
            metadata = _mapping(_mapping(entry, "fieldsV1"), "f:metadata")
            for word in ("labels", "annotations"):
                found += [(word, key[2:]) for key in _mapping(metadata, f"f:{word}") if key.startswith("f:")]
    return found


def parse_node(node: api_types.Node) -> model.Node:
    spec, status, metadata = node.spec or api_types.NodeSpec(), node.status or api_types.NodeStatus(), node.meta
    ready = next((condition for condition in status.conditions or () if condition.type == "Ready"), None)
    since = ready.last_transition_time if ready else None
    return model.Node(
        metadata.name or "",
        metadata.uid or "",
        metadata.resource_version or "",
        spec.provider_id or "",
        ready is not None and ready.status == "True",
        None if since is None else since.timestamp(),
        metadata.deletion_timestamp is not None,
        (status.node_info.kubelet_version if status.node_info else None) or "",
        metadata.annotations or {},
        tuple(model.Taint(item.get("key") or "", item) for item in spec.taints or ()),
    )


def _is_true(condition: model.Condition | None) -> bool:
    return condition is not None and condition.status == "True"


def _mapping(body: Json, name: str) -> Json:
    found = body.get(name)
    return found if isinstance(found, dict) else {}


def parse_time_or_zero(spelled: str | None) -> float:
    """Seconds since the epoch; 0 if the time is missing."""
    return _parse_time(spelled) or 0.0


def _parse_time(spelled: str | None) -> float | None:
    return None if spelled is None else time_formats.parse_time(spelled)


JsonObject = dict[str, Any]


def merge_patches(before: model.MachinePool, after: model.MachinePool) -> tuple[JsonObject, JsonObject]:
    """Merge patches of the object and of its status; each empty if nothing changed."""
    main = json_merge_patch(_encode_object(before), _encode_object(after))
    status = json_merge_patch(_encode_status(before), _encode_status(after))
    return main, {"status": status} if status else {}


def json_merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> JsonObject:
    """The JSON merge patch (RFC 7386) from one object to another."""
    changed: JsonObject = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := json_merge_patch(old, value):
                changed[name] = inner
        elif name not in before or old != value:
            changed[name] = value
    return changed


def _encode_object(pool: model.MachinePool) -> JsonObject:
    spec: JsonObject = {}
    if pool.provider_ids:
        spec["providerIDList"] = list(pool.provider_ids)
    if pool.data_secret_name is not None:
        spec["template"] = {"spec": {"bootstrap": {"dataSecretName": pool.data_secret_name}}}
    metadata: JsonObject = {"labels": dict(pool.labels)}
    if pool.finalizers:
        metadata["finalizers"] = list(pool.finalizers)
    if pool.owners:
        metadata["ownerReferences"] = [encode_owner(owner) for owner in pool.owners]
    return {"metadata": metadata, "spec": spec}


def _encode_status(pool: model.MachinePool) -> JsonObject:
    return (
        encode_v1beta1_status(pool.status) if pool.api_version == model.V1BETA1 else encode_v1beta2_status(pool.status)
    )


def encode_v1beta2_status(status: model.MachinePoolStatus) -> JsonObject:
    """Status in v1beta2 form."""
    counts = _encode_counts(status)
    old = {
        "conditions": encode_v1beta1_conditions(status.old_conditions),
        **counts,
        "failureReason": status.failure_reason,
        "failureMessage": status.failure_message,
    }
    begun = {
        "bootstrapDataSecretCreated": status.bootstrap_created,
        "infrastructureProvisioned": status.infrastructure_provisioned,
    }
    kept_old = _without_empty(old)
    return _without_none(
        {
            "initialization": _without_none(begun) or None,
            "replicas": status.replicas,
            "readyReplicas": status.ready_replicas,
            "availableReplicas": status.available_replicas,
            "upToDateReplicas": status.up_to_date_replicas,
            "conditions": encode_conditions(status.conditions) or None,
            "deprecated": {"v1beta1": kept_old} if kept_old else None,
            **_encode_common(status),
        }
    )


def encode_v1beta1_status(status: model.MachinePoolStatus) -> JsonObject:
    """Status in v1beta1 form."""
    new = _without_none(
        {
            "conditions": encode_conditions(status.conditions) or None,
            "readyReplicas": status.ready_replicas,
            "availableReplicas": status.available_replicas,
            "upToDateReplicas": status.up_to_date_replicas,
        }
    )
    return _without_none(
        {
            "bootstrapReady": status.bootstrap_created,
            "infrastructureReady": status.infrastructure_provisioned,
            "replicas": status.replicas,
            **_without_empty(_encode_counts(status)),
            "failureReason": status.failure_reason or None,
            "failureMessage": status.failure_message or None,
            "conditions": encode_v1beta1_conditions(status.old_conditions) or None,
            "v1beta2": new or None,
            **_encode_common(status),
        }
    )


def _encode_common(status: model.MachinePoolStatus) -> JsonObject:
    refs = [{"apiVersion": "v1", "kind": "Node", "name": ref.name, "uid": ref.uid} for ref in status.node_refs]
    versions = [{"version": version, "replicas": replicas} for version, replicas in status.versions]
    return {
        "nodeRefs": refs or None,
        "versions": versions or None,
        "phase": status.phase or None,
        "observedGeneration": status.observed_generation,
    }


def _encode_counts(status: model.MachinePoolStatus) -> JsonObject:
    return {
        "readyReplicas": status.nodes.ready,
        "availableReplicas": status.nodes.available,
        "unavailableReplicas": status.nodes.unavailable,
    }


def encode_conditions(conditions: Iterable[model.Condition]) -> list[JsonObject]:
    """Conditions in v1beta2 form; an empty message is kept."""
    return [
        _without_none(
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "lastTransitionTime": condition.last_transition_time or None,
                "observedGeneration": condition.observed_generation,
            }
        )
        for condition in conditions
    ]


def encode_v1beta1_conditions(conditions: Iterable[model.Condition]) -> list[JsonObject]:
    """Conditions in v1beta1 form; empty fields are left out."""
    return [
        _without_empty(
            {
                "type": condition.type,
                "status": condition.status,
                "severity": condition.severity,
                "lastTransitionTime": condition.last_transition_time,
                "reason": condition.reason,
                "message": condition.message,
            }
        )
        for condition in conditions
    ]


def format_time(seconds: float) -> str:
    return time_formats.format_time(seconds)


def _without_none(fields: JsonObject) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


def _without_empty(fields: JsonObject) -> JsonObject:
    return {name: value for name, value in fields.items() if value}


def encode_owner(owner: OwnerReference) -> dict[str, Any]:
    """An owner reference as JSON."""
    body: dict[str, Any] = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    if owner.controller:
        body["controller"] = True
    if owner.block_owner_deletion:
        body["blockOwnerDeletion"] = True
    return body
