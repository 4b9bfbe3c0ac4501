"""Cluster dump: facts and a snapshot from a list of API objects, as from `kubectl get -o json` or a YAML file.

Objects may be of any kind and in any order. An unreadable object is set aside and does not affect the others.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from windlass import errors, scheduler_releases
from windlass.autoscaler.readers import dra, nodes, pods, storage_objects, workloads
from windlass.engine.model import dynamic_resources, facts
from windlass.engine.snapshot import cluster_snapshot, volume_usage
from windlass.kube import resources, scheme
from windlass.kube.models import meta
from windlass.kube.models import pods as pod_models


@dataclass(slots=True)
class ClusterObjects:
    """Facts by kind, in input order, and the objects that could not be read."""

    release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE
    """Release of kube-scheduler whose rules apply."""
    nodes: list[facts.Node] = field(default_factory=list)
    pods: list[facts.Pod] = field(default_factory=list)
    namespaces: list[facts.Namespace] = field(default_factory=list)
    volumes: list[facts.PersistentVolume] = field(default_factory=list)
    claims: list[facts.PersistentVolumeClaim] = field(default_factory=list)
    storage_classes: list[facts.StorageClass] = field(default_factory=list)
    csi_nodes: list[facts.CSINode] = field(default_factory=list)
    csi_drivers: list[facts.CSIDriver] = field(default_factory=list)
    capacities: list[facts.CSIStorageCapacity] = field(default_factory=list)
    attachments: list[facts.VolumeAttachment] = field(default_factory=list)
    slices: list[dynamic_resources.ResourceSlice] = field(default_factory=list)
    device_classes: list[dynamic_resources.DeviceClass] = field(default_factory=list)
    device_claims: list[dynamic_resources.ResourceClaim] = field(default_factory=list)
    device_taint_rules: list[dynamic_resources.DeviceTaintRule] = field(default_factory=list)
    budgets: list[facts.PodDisruptionBudget] = field(default_factory=list)
    controllers: list[facts.Controller] = field(default_factory=list)
    set_aside: list[errors.InvalidObject] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter, compare=False)
    """Number of objects of ignored kinds, by `apiVersion kind`."""


READERS: dict[tuple[str, str], tuple[str, Callable[[Any], Any]]] = {
    ("v1", "Node"): ("nodes", nodes.read_node),
    ("v1", "Pod"): ("pods", pods.read_pod),
    ("v1", "Namespace"): ("namespaces", nodes.read_namespace),
    ("v1", "PersistentVolume"): ("volumes", storage_objects.read_volume),
    ("v1", "PersistentVolumeClaim"): ("claims", storage_objects.read_claim),
    ("storage.k8s.io/v1", "StorageClass"): ("storage_classes", storage_objects.read_storage_class),
    ("storage.k8s.io/v1", "CSINode"): ("csi_nodes", storage_objects.read_csi_node),
    ("storage.k8s.io/v1", "CSIDriver"): ("csi_drivers", storage_objects.read_csi_driver),
    ("storage.k8s.io/v1", "CSIStorageCapacity"): ("capacities", storage_objects.read_storage_capacity),
    ("storage.k8s.io/v1", "VolumeAttachment"): ("attachments", storage_objects.read_attachment),
    ("resource.k8s.io/v1", "ResourceSlice"): ("slices", dra.read_resource_slice),
    ("resource.k8s.io/v1", "DeviceClass"): ("device_classes", dra.read_device_class),
    ("resource.k8s.io/v1", "ResourceClaim"): ("device_claims", dra.read_resource_claim),
    ("resource.k8s.io/v1", "DeviceTaintRule"): ("device_taint_rules", dra.read_taint_rule),
    ("policy/v1", "PodDisruptionBudget"): ("budgets", workloads.read_budget),
    ("v1", "ReplicationController"): ("controllers", workloads.read_replica_controller),
    ("apps/v1", "ReplicaSet"): ("controllers", workloads.read_replica_controller),
    ("apps/v1", "StatefulSet"): ("controllers", workloads.read_replica_controller),
    ("apps/v1", "DaemonSet"): ("controllers", workloads.read_daemon_set_controller),
    ("batch/v1", "Job"): ("controllers", workloads.read_job_controller),
}
"""Field and reader of each kind, by (apiVersion, kind). Other kinds are ignored."""

_SALVAGERS: dict[str, Callable[[Any, str], Any]] = {
    "Node": nodes.salvage_node,
    "Pod": pods.salvage_pod,
    "PodDisruptionBudget": workloads.salvage_budget,
}
"""Functions that salvage the readable part of an unreadable object, by kind."""


def read_objects(
    objects: Iterable[scheme.Raw], release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE
) -> ClusterObjects:
    """Read all objects, lists included. An unreadable object is set aside."""
    cluster = ClusterObjects(release)
    for raw in objects:
        _add_object(cluster, raw, None)
    return cluster


def _add_object(cluster: ClusterObjects, raw: scheme.Raw, known: scheme.TypeHeader | None) -> None:
    try:
        text = scheme.as_json(raw)
        header = known or scheme.read_header(text)
        if header.is_list:
            for item in header.items or ():
                _add_object(cluster, item, header.of_items)
        elif found := READERS.get((header.api_version or "", header.kind or "")):
            _read_object(cluster, text, header, *found)
        elif header.api_version and header.kind:
            cluster.passed_over[f"{header.api_version} {header.kind}"] += 1
        elif header.kind != "List":
            raise _invalid_object(text, header)
    except errors.InvalidObject as error:
        cluster.set_aside.append(error)


def _read_object(
    cluster: ClusterObjects, text: scheme.Json, header: scheme.TypeHeader, place: str, reader: Callable[[Any], Any]
) -> None:
    try:
        decoded = scheme.decode_object(text, header)
        if isinstance(decoded, pod_models.Pod):
            fact, complaint = pods.read_pod_with_warning(decoded, cluster.release)
            cluster.set_aside += [] if complaint is None else [complaint]
        else:
            fact = reader(decoded)
    except Exception as error:
        complaint = resources.to_invalid_object(header.kind or "object", scheme.read_identity(_as_bytes(text)), error)
        cluster.set_aside.append(complaint)
        fact = _salvage_object(text, header, str(complaint))
    if fact is not None:
        getattr(cluster, place).append(fact)


def _salvage_object(text: scheme.Json, header: scheme.TypeHeader, reason: str) -> Any:
    """Return the readable part of an object; None for a pending pod, and for most kinds."""
    read_partly = _SALVAGERS.get(header.kind or "")
    model = scheme.KINDS[header.api_version or "", header.kind or ""]
    partial = scheme.decode_partial(resources.decoder(model), _as_bytes(text))
    if partial is None or read_partly is None:
        return None
    found = read_partly(partial, reason)
    return None if isinstance(found, facts.Pod) and not found.node_name else found


def _as_bytes(text: scheme.Json) -> bytes:
    return text.encode(errors="replace") if isinstance(text, str) else bytes(text)


def _invalid_object(text: scheme.Json, header: scheme.TypeHeader) -> errors.InvalidObject:
    """Return the InvalidObject of an object without identity."""
    try:
        name = msgspec.json.decode(text, type=meta.Object).meta.key
    except msgspec.MsgspecError:
        name = ""
    field_name, found = ("apiVersion", header.api_version) if header.kind else ("kind", header.kind)
    accepted = "what the object is: v1 and Pod, say"
    return errors.InvalidObject(header.kind or "object", name or "without a name", field_name, found, accepted)


def build_snapshot(objects: ClusterObjects) -> cluster_snapshot.Snapshot:
    """Build a snapshot of all objects that were read."""
    stored: tuple[volume_usage.StorageFact, ...] = (
        *objects.volumes, *objects.claims, *objects.storage_classes, *objects.csi_nodes, *objects.csi_drivers,
        *objects.capacities,
        *objects.attachments,
    )  # fmt: skip
    offered: tuple[dynamic_resources.DeviceFact, ...] = (
        *objects.slices, *objects.device_classes, *objects.device_claims, *objects.device_taint_rules,
    )  # fmt: skip
    return cluster_snapshot.build_snapshot(
        objects.nodes, objects.pods, objects.namespaces, stored, offered, objects.release
    )
