"""observe: objects as the API has them, in either version, into facts."""

from collections.abc import Mapping
from typing import Any

from windlass import errors
from windlass.controllers.machine_pool import facts, models, names
from windlass.kube import durations, managed_fields, times

Json = Mapping[str, Any]

_SECRET_PATH = ("spec", "template", "spec", "bootstrap", "dataSecretName")
_COPIERS = frozenset({"windlass", "manager", "capi-manager"})
"""Who copies secret names from bootstrap configs, by the names that managedFields have them under: this controller, and
Cluster API's own, from which a pool may have been taken over."""


def read_pool(body: Json) -> facts.Pool:
    """A MachinePool. InvalidObject if it is none that can be worked with."""
    metadata, spec, status = body["metadata"], _map(body, "spec"), _map(body, "status")
    template = _map(spec, "template")
    machine = _map(template, "spec")
    template_meta = _map(template, "metadata")
    bootstrap = _map(machine, "bootstrap")
    is_old = body.get("apiVersion") == names.V1BETA1
    if not spec.get("clusterName"):
        where = f"{metadata.get('namespace')}/{metadata.get('name')}"
        raise errors.InvalidObject("MachinePool", where, "spec.clusterName", spec.get("clusterName"), "a name")
    return facts.Pool(
        metadata["namespace"],
        metadata["name"],
        metadata.get("uid", ""),
        body.get("apiVersion") or names.V1BETA2,
        metadata.get("resourceVersion", ""),
        metadata.get("generation", 0),
        _seconds(metadata.get("creationTimestamp")) or 0.0,
        _seconds(metadata.get("deletionTimestamp")),
        metadata.get("labels") or {},
        metadata.get("annotations") or {},
        tuple(metadata.get("finalizers") or ()),
        read_owners(metadata),
        spec["clusterName"],
        spec.get("replicas"),
        tuple(spec.get("providerIDList") or ()),
        _read_reference(bootstrap.get("configRef")),
        bootstrap.get("dataSecretName"),
        any(owner.manager in _COPIERS for owner in managed_fields.owners(body, _SECRET_PATH)),
        _read_reference(machine.get("infrastructureRef")),
        (spec if is_old else machine).get("minReadySeconds") or 0,
        _read_timeout(machine, is_old=is_old),
        template_meta.get("labels") or {},
        template_meta.get("annotations") or {},
        _read_old_status(status) if is_old else _read_status(status),
    )


def _read_status(status: Json) -> facts.Status:
    begun = _map(status, "initialization")
    old = _map(_map(status, "deprecated"), "v1beta1")
    return facts.Status(
        begun.get("bootstrapDataSecretCreated"),
        begun.get("infrastructureProvisioned"),
        status.get("replicas"),
        status.get("readyReplicas"),
        status.get("availableReplicas"),
        status.get("upToDateReplicas"),
        *_read_common(status),
        _read_counts(old),
        old.get("failureReason") or "",
        old.get("failureMessage") or "",
        status.get("phase") or "",
        status.get("observedGeneration"),
        read_conditions(status),
        read_conditions(old),
    )


def _read_old_status(status: Json) -> facts.Status:
    new = _map(status, "v1beta2")
    return facts.Status(
        status.get("bootstrapReady"),
        status.get("infrastructureReady"),
        status.get("replicas"),
        new.get("readyReplicas"),
        new.get("availableReplicas"),
        new.get("upToDateReplicas"),
        *_read_common(status),
        _read_counts(status),
        status.get("failureReason") or "",
        status.get("failureMessage") or "",
        status.get("phase") or "",
        status.get("observedGeneration"),
        read_conditions(new),
        read_conditions(status),
    )


def _read_common(status: Json) -> tuple[tuple[tuple[str, int], ...], tuple[facts.NodeRef, ...]]:
    versions = tuple((each["version"], each.get("replicas") or 0) for each in status.get("versions") or ())
    refs = tuple(facts.NodeRef(each.get("name") or "", each.get("uid") or "") for each in status.get("nodeRefs") or ())
    return versions, refs


def _read_counts(status: Json) -> facts.Counts:
    found = (status.get(f"{word}Replicas") or 0 for word in ("ready", "available", "unavailable"))
    return facts.Counts(*found)


def _read_timeout(machine: Json, *, is_old: bool) -> float | None:
    if not is_old:
        found = _map(machine, "deletion").get("nodeDeletionTimeoutSeconds")
        return None if found is None else float(found)
    spelled = machine.get("nodeDeletionTimeout")
    try:
        return None if spelled is None else durations.parse(str(spelled))
    except ValueError:
        return None


def read_conditions(status: Json) -> tuple[facts.Condition, ...]:
    return tuple(
        facts.Condition(
            each.get("type") or "",
            each.get("status") or "",
            each.get("reason") or "",
            each.get("message") or "",
            each.get("severity") or "",
            each.get("observedGeneration"),
            each.get("lastTransitionTime") or "",
        )
        for each in status.get("conditions") or ()
    )


def read_owners(metadata: Json) -> tuple[facts.Owner, ...]:
    return tuple(
        facts.Owner(
            each.get("apiVersion") or "",
            each.get("kind") or "",
            each.get("name") or "",
            each.get("uid") or "",
            bool(each.get("controller")),
            bool(each.get("blockOwnerDeletion")),
        )
        for each in metadata.get("ownerReferences") or ()
    )


def _read_reference(found: Json | None) -> facts.Reference | None:
    if not found or not found.get("name"):
        return None
    group = found.get("apiGroup")
    if group is None:
        group, slash, _ = str(found.get("apiVersion") or "").partition("/")
        group = group if slash else ""
    return facts.Reference(group, found.get("kind") or "", found["name"])


def read_references(body: Json) -> list[facts.Reference]:
    """What a MachinePool refers to: bootstrap config and infrastructure."""
    machine = _map(_map(_map(body, "spec"), "template"), "spec")
    found = (_map(machine, "bootstrap").get("configRef"), machine.get("infrastructureRef"))
    return [reference for each in found if (reference := _read_reference(each)) is not None]


def read_cluster(body: Json) -> facts.Cluster:
    metadata = body["metadata"]
    return facts.Cluster(
        metadata["name"],
        metadata.get("uid", ""),
        bool(_map(body, "spec").get("paused")),
        metadata.get("deletionTimestamp") is not None,
    )


def read_external(body: Json, reference: facts.Reference, plural: str, contract: str) -> facts.External:
    metadata = body["metadata"]
    return facts.External(
        reference,
        body["apiVersion"],
        plural,
        contract,
        metadata.get("uid", ""),
        metadata.get("resourceVersion", ""),
        metadata.get("deletionTimestamp") is not None,
        metadata.get("labels") or {},
        read_owners(metadata),
        _map(body, "spec"),
        _map(body, "status"),
    )


def read_infra_machine(found: models.InfraMachine, api_version: str, kind: str) -> facts.InfraMachine:
    provider_id = (found.spec.provider_id if found.spec else None) or ""
    reference = facts.Reference(api_version.partition("/")[0], kind, found.meta.name or "")
    return facts.InfraMachine(reference, api_version, provider_id, found.meta.deletion_timestamp is not None)


def read_machine(body: Json) -> facts.Machine:
    metadata, spec, status = body["metadata"], _map(body, "spec"), _map(body, "status")
    if body.get("apiVersion") == names.V1BETA1:
        status = _map(status, "v1beta2")
    said = {condition.type: condition for condition in read_conditions(status)}
    return facts.Machine(
        metadata["name"],
        metadata.get("uid", ""),
        metadata.get("generation", 0),
        metadata.get("deletionTimestamp") is not None,
        metadata.get("labels") or {},
        metadata.get("annotations") or {},
        read_owners(metadata),
        _map(spec, "infrastructureRef").get("name") or "",
        spec.get("version") or "",
        _is_true(said.get("Ready")),
        _is_true(said.get("Available")),
        said.get("UpToDate"),
        frozenset(_applied(body)),
    )


def _applied(body: Json) -> list[tuple[str, str]]:
    """Labels and annotations that this controller, or Cluster API's own, applied."""
    entries = (body["metadata"].get("managedFields")) or ()
    found = []
    for entry in entries:
        if (entry.get("manager"), entry.get("operation")) == (names.MACHINE_MANAGER, "Apply"):
            metadata = _map(_map(entry, "fieldsV1"), "f:metadata")
            for word in ("labels", "annotations"):
                found += [(word, key[2:]) for key in _map(metadata, f"f:{word}") if key.startswith("f:")]
    return found


def read_node(found: models.Node) -> facts.Node:
    spec, status, metadata = found.spec or models.NodeSpec(), found.status or models.NodeStatus(), found.meta
    ready = next((each for each in status.conditions or () if each.type == "Ready"), None)
    since = ready.last_transition_time if ready else None
    return facts.Node(
        metadata.name or "",
        metadata.uid or "",
        metadata.resource_version or "",
        spec.provider_id or "",
        ready is not None and ready.status == "True",
        None if since is None else since.timestamp(),
        metadata.deletion_timestamp is not None,
        (status.node_info.kubelet_version if status.node_info else None) or "",
        metadata.annotations or {},
        tuple(facts.Taint(each.get("key") or "", each) for each in spec.taints or ()),
    )


def _is_true(condition: facts.Condition | None) -> bool:
    return condition is not None and condition.status == "True"


def _map(body: Json, name: str) -> Json:
    found = body.get(name)
    return found if isinstance(found, dict) else {}


def read_time(spelled: str | None) -> float:
    """Seconds since the epoch; zero for a time that is not there."""
    return _seconds(spelled) or 0.0


def _seconds(spelled: str | None) -> float | None:
    return None if spelled is None else times.parse(spelled)
