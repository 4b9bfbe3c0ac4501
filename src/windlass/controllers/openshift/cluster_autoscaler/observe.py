"""observe: facts, read from JSON. Nothing here waits."""

from windlass.controllers.openshift.cluster_autoscaler import facts


def read_autoscaler(body: facts.Json) -> facts.Autoscaler:
    metadata = body["metadata"]
    return facts.Autoscaler(
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        resource_version=metadata.get("resourceVersion") or "",
        is_deleting=bool(metadata.get("deletionTimestamp")),
        spec=body.get("spec") or {},
        conditions=tuple((body.get("status") or {}).get("conditions") or ()),
    )
