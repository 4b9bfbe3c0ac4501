"""observe: facts, read from JSON. Nothing here waits."""

from collections.abc import Mapping
from typing import Any

from windlass.controllers.eks_anywhere import facts, names
from windlass.controllers.eks_anywhere.decide import validation
from windlass.controllers.worker_pools import manifest
from windlass.controllers.worker_pools.sizes import Limits

Json = Mapping[str, Any]


def read_cluster(body: Json) -> facts.Cluster:
    metadata, spec = body["metadata"], body.get("spec") or {}
    control_plane = spec.get("controlPlaneConfiguration") or {}
    annotations = metadata.get("annotations") or {}
    groups = spec.get("workerNodeGroupConfigurations") or ()
    version = spec.get("kubernetesVersion") or ""
    return facts.Cluster(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        generation=metadata.get("generation") or 0,
        is_left_alone=bool(metadata.get("deletionTimestamp")) or names.PAUSED_ANNOTATION in annotations,
        control_plane_count=1 if control_plane.get("count") is None else control_plane["count"],
        is_in_place=_is_in_place(control_plane),
        has_external_etcd=spec.get("externalEtcdConfiguration") is not None,
        groups=tuple(read_group(metadata["name"], each, place, version) for place, each in enumerate(groups)),
        status=read_status(body.get("status") or {}),
    )


def read_group(cluster: str, given: Json, place: int = 0, version: str = "") -> facts.Group:
    """A group, complete with the name and the count that it has if none is given."""
    name = given.get("name") or f"md-{place}"
    return facts.Group(
        name,
        names.machine_deployment(cluster, name),
        validation.complete(given.get("count"), read_limits(given)),
        manifest.read_machine(given, given.get("kubernetesVersion") or version),
        given.get("labels") or {},
        _is_in_place(given),
    )


def read_limits(group: Json) -> Limits | None:
    """Autoscaling is configured or it is not; a bound that is left out is zero."""
    given = group.get("autoscalingConfiguration")
    return None if given is None else Limits(given.get("minCount") or 0, given.get("maxCount") or 0)


def _is_in_place(given: Json) -> bool:
    return (given.get("upgradeRolloutStrategy") or {}).get("type") == names.IN_PLACE


def read_status(status: Json) -> facts.Status:
    return facts.Status(
        tuple(read_condition(each) for each in status.get("conditions") or ()),
        status.get("observedGeneration"),
        status.get("reconciledGeneration"),
        status.get("failureReason") or "",
        status.get("failureMessage") or "",
    )


def read_condition(given: Json) -> facts.Condition:
    return facts.Condition(
        given.get("type") or "",
        given.get("status") or "",
        given.get("reason") or "",
        given.get("severity") or "",
        given.get("message") or "",
        given.get("lastTransitionTime") or "",
    )


def read_control_plane(body: Json) -> facts.ControlPlane:
    metadata, status = body.get("metadata") or {}, body.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    health = conditions.get("ControlPlaneComponentsHealthy") or {}
    updated = status.get("upToDateReplicas")
    return facts.ControlPlane(
        metadata.get("name") or "",
        metadata.get("generation") or 0,
        status.get("observedGeneration") or 0,
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        (status.get("updatedReplicas") if updated is None else updated) or 0,
        (conditions.get("Available") or {}).get("status") == "True",
        health.get("message") or "" if health.get("status") == "False" else None,
    )


def read_etcd(body: Json) -> facts.Etcd:
    metadata, status = body.get("metadata") or {}, body.get("status") or {}
    is_current = (metadata.get("generation") or 0) == (status.get("observedGeneration") or 0)
    return facts.Etcd(is_current, bool(status.get("ready")))


def is_initialized(cluster: Json) -> bool:
    """Whether a Cluster of Cluster API has a control plane, and which is none that we would look at ourselves."""
    conditions = (cluster.get("status") or {}).get("conditions") or ()
    found = any(each.get("type") == "ControlPlaneInitialized" and each.get("status") == "True" for each in conditions)
    return found and not has_kubeadm(cluster)


def has_kubeadm(cluster: Json) -> bool:
    return ((cluster.get("spec") or {}).get("controlPlaneRef") or {}).get("kind") == "KubeadmControlPlane"
