"""A cluster from its objects, of any kind and in any order: what `kubectl get -o json` prints, or a YAML file holds."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from windlass import errors, releases
from windlass.autoscaler.observe import devices, nodes, pods, storage, workloads
from windlass.engine import facts
from windlass.engine.devices import model
from windlass.kube import models, resources, salvage
from windlass.kube.models import meta
from windlass.kube.models import pods as pod_models


@dataclass(slots=True)
class Cluster:
    """The facts by kind, in the order they came, and what could not be read."""

    release: releases.Release = releases.DEFAULT
    """kube-scheduler's, by whose rules they were read."""
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
    slices: list[model.ResourceSlice] = field(default_factory=list)
    device_classes: list[model.DeviceClass] = field(default_factory=list)
    device_claims: list[model.ResourceClaim] = field(default_factory=list)
    device_taint_rules: list[model.DeviceTaintRule] = field(default_factory=list)
    budgets: list[facts.PodDisruptionBudget] = field(default_factory=list)
    controllers: list[facts.Controller] = field(default_factory=list)
    set_aside: list[errors.InvalidObject] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter, compare=False)
    """How many objects there were of kinds that nobody reads, by `apiVersion kind`."""


READERS: dict[tuple[str, str], tuple[str, Callable[[Any], Any]]] = {
    ("v1", "Node"): ("nodes", nodes.read),
    ("v1", "Pod"): ("pods", pods.read),
    ("v1", "Namespace"): ("namespaces", nodes.read_namespace),
    ("v1", "PersistentVolume"): ("volumes", storage.read_volume),
    ("v1", "PersistentVolumeClaim"): ("claims", storage.read_claim),
    ("storage.k8s.io/v1", "StorageClass"): ("storage_classes", storage.read_class),
    ("storage.k8s.io/v1", "CSINode"): ("csi_nodes", storage.read_csi_node),
    ("storage.k8s.io/v1", "CSIDriver"): ("csi_drivers", storage.read_csi_driver),
    ("storage.k8s.io/v1", "CSIStorageCapacity"): ("capacities", storage.read_capacity),
    ("storage.k8s.io/v1", "VolumeAttachment"): ("attachments", storage.read_attachment),
    ("resource.k8s.io/v1", "ResourceSlice"): ("slices", devices.read_slice),
    ("resource.k8s.io/v1", "DeviceClass"): ("device_classes", devices.read_class),
    ("resource.k8s.io/v1", "ResourceClaim"): ("device_claims", devices.read_claim),
    ("resource.k8s.io/v1", "DeviceTaintRule"): ("device_taint_rules", devices.read_taint_rule),
    ("policy/v1", "PodDisruptionBudget"): ("budgets", workloads.read_budget),
    ("v1", "ReplicationController"): ("controllers", workloads.read_scaled),
    ("apps/v1", "ReplicaSet"): ("controllers", workloads.read_scaled),
    ("apps/v1", "StatefulSet"): ("controllers", workloads.read_scaled),
    ("apps/v1", "DaemonSet"): ("controllers", workloads.read_daemon_set),
    ("batch/v1", "Job"): ("controllers", workloads.read_job),
}
"""The place and the reader of each kind, by (apiVersion, kind). Other kinds are passed over."""


_SALVAGING: dict[str, Callable[[Any, str], Any]] = {
    "Node": nodes.salvage,
    "Pod": pods.salvage_pod,
    "PodDisruptionBudget": workloads.salvage_budget,
}
"""What cannot be read is not gone: how as much as possible is read of it, by kind."""


def read(objects: Iterable[models.Raw], release: releases.Release = releases.DEFAULT) -> Cluster:
    """All objects, lists opened. One that cannot be read is set aside; it stops no other."""
    cluster = Cluster(release)
    for raw in objects:
        _take(cluster, raw, None)
    return cluster


def _take(cluster: Cluster, raw: models.Raw, known: models.Header | None) -> None:
    try:
        text = models.as_json(raw)
        header = known or models.read_header(text)
        if header.is_list:
            for item in header.items or ():
                _take(cluster, item, header.of_items)
        elif found := READERS.get((header.api_version or "", header.kind or "")):
            _read(cluster, text, header, *found)
        elif header.api_version and header.kind:
            cluster.passed_over[f"{header.api_version} {header.kind}"] += 1
        elif header.kind != "List":
            raise _complain(text, header)
    except errors.InvalidObject as error:
        cluster.set_aside.append(error)


def _read(cluster: Cluster, text: models.Json, header: models.Header, place: str, reader: Callable[[Any], Any]) -> None:
    try:
        decoded = models.decode(text, header)
        if isinstance(decoded, pod_models.Pod):
            fact, complaint = pods.read_complaining(decoded, cluster.release)
            cluster.set_aside += [] if complaint is None else [complaint]
        else:
            fact = reader(decoded)
    except Exception as error:
        complaint = resources.complain(header.kind or "object", salvage.identify(_as_bytes(text)), error)
        cluster.set_aside.append(complaint)
        fact = _salvage(text, header, str(complaint))
    if fact is not None:
        getattr(cluster, place).append(fact)


def _salvage(text: models.Json, header: models.Header, why: str) -> Any:
    """What is known of it in spite of it; None of a pod that waits, and of most kinds."""
    read_partly = _SALVAGING.get(header.kind or "")
    model = models.KINDS[header.api_version or "", header.kind or ""]
    partial = salvage.decode(resources.decoder(model), _as_bytes(text))
    if partial is None or read_partly is None:
        return None
    found = read_partly(partial, why)
    return None if isinstance(found, facts.Pod) and not found.node_name else found


def _as_bytes(text: models.Json) -> bytes:
    return text.encode(errors="replace") if isinstance(text, str) else bytes(text)


def _complain(text: models.Json, header: models.Header) -> errors.InvalidObject:
    """About an object that does not say what it is."""
    try:
        name = msgspec.json.decode(text, type=meta.Object).meta.key
    except msgspec.MsgspecError:
        name = ""
    field_name, found = ("apiVersion", header.api_version) if header.kind else ("kind", header.kind)
    accepted = "what the object is: v1 and Pod, say"
    return errors.InvalidObject(header.kind or "object", name or "without a name", field_name, found, accepted)
