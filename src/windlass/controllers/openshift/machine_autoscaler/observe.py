"""observe: facts, read from JSON. Nothing here waits."""

from collections.abc import Mapping
from typing import Any

from windlass.controllers.openshift.machine_autoscaler import facts

Json = Mapping[str, Any]


def read_autoscaler(body: Json) -> facts.Autoscaler:
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    return facts.Autoscaler(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        resource_version=metadata.get("resourceVersion") or "",
        created=metadata.get("creationTimestamp") or "",
        is_deleting=bool(metadata.get("deletionTimestamp")),
        finalizers=tuple(metadata.get("finalizers") or ()),
        min=spec.get("minReplicas") or 0,
        max=spec.get("maxReplicas") or 0,
        target=read_reference(spec.get("scaleTargetRef")) or facts.Reference(),
        status=facts.Status(read_reference(status.get("lastTargetRef")), tuple(status.get("conditions") or ())),
    )


def read_reference(given: Json | None) -> facts.Reference | None:
    if given is None:
        return None
    return facts.Reference(given.get("apiVersion") or "", given.get("kind") or "", given.get("name") or "")
