"""Small clusters with storage, and what one filter says of a pod on each node."""

from dataclasses import replace
from types import ModuleType
from typing import Any

from windlass import scheduler_releases
from windlass.engine.model import facts, settings
from windlass.engine.model.scheduling_reasons import Refusal
from windlass.engine.snapshot import cluster_snapshot
from windlass.engine.snapshot.volume_usage import StorageFact
from windlass.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

GIB = 2**30
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
LOCAL = facts.StorageClass("local", "kubernetes.io/no-provisioner", waits_for_consumer=True)
DISKS = facts.StorageClass("disks", "disks.example.com", waits_for_consumer=True)


def node(name: str, **labels: str) -> facts.Node:
    """`zone="a"` is short for the label of that name; any other label is spelled out by `**{key: value}`."""
    short = {"zone": facts.ZONE, "region": facts.REGION}
    return facts.Node(name, labels={facts.HOSTNAME: name, **{short.get(key, key): v for key, v in labels.items()}})


def pod(*volumes: facts.Volume, name: str = "p", on: str = "", **changes: Any) -> facts.Pod:
    spec = facts.PodSpec(volumes=volumes)
    return facts.Pod("default", name, uid=f"uid-{name}", spec=spec, node_name=on, **changes)


def uses(claim: str) -> facts.Volume:
    return facts.Volume(f"volume-{claim}", "persistentVolumeClaim", claim=claim)


def ephemeral(volume: str, name: str = "p") -> facts.Volume:
    return facts.Volume(volume, "ephemeral", claim=f"{name}-{volume}", pod_uid=f"uid-{name}")


def waiting(name: str, storage_class: str | None = "disks", **changes: Any) -> facts.PersistentVolumeClaim:
    claim = facts.PersistentVolumeClaim(
        "default", name, f"uid-{name}", storage_class=storage_class, request_bytes=GIB,
        access_modes=("ReadWriteOnce",),
    )  # fmt: skip
    return replace(claim, **changes)


def bound(name: str, volume: str, **changes: Any) -> facts.PersistentVolumeClaim:
    claim = waiting(name, annotations=BOUND, volume_name=volume, phase="Bound")
    return replace(claim, **changes)


def disk(name: str, driver: str = "disks.example.com", **changes: Any) -> facts.PersistentVolume:
    """A volume of a CSI driver."""
    volume = facts.PersistentVolume(
        name, capacity_bytes=GIB, access_modes=("ReadWriteOnce",), storage_class="disks", phase="Bound",
        source="csi", driver=driver, handle=f"handle-{name}",
    )  # fmt: skip
    return replace(volume, **changes)


def local(name: str, on: str, size_bytes: int = GIB, **changes: Any) -> facts.PersistentVolume:
    """A volume that is there for the taking, on one node."""
    volume = facts.PersistentVolume(
        name, capacity_bytes=size_bytes, access_modes=("ReadWriteOnce",), storage_class="local", phase="Available",
        source="local", node_affinity=where(facts.HOSTNAME, on),
    )  # fmt: skip
    return replace(volume, **changes)


def where(key: str, *values: str) -> NodeSelector:
    return NodeSelector((NodeSelectorTerm((Requirement(key, Operator.IN, values),)),))


def cluster(
    *found: facts.Node | facts.Pod | StorageFact,
    release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE,
) -> cluster_snapshot.Snapshot:
    nodes = [fact for fact in found if isinstance(fact, facts.Node)]
    pods = [fact for fact in found if isinstance(fact, facts.Pod)]
    stored = [fact for fact in found if not isinstance(fact, facts.Node | facts.Pod)]
    return cluster_snapshot.build_snapshot(nodes, pods, stored=stored, release=release)


def refuse(seen: cluster_snapshot.Snapshot, rule: ModuleType, waits: facts.Pod) -> Refusal | None:
    """What the filter says before it looks at a node."""
    refusal: Refusal | None = rule.pre_filter(seen, seen.shape_of(waits), settings.DEFAULT_FILTER_CONFIG)
    return refusal


def refused(seen: cluster_snapshot.Snapshot, rule: ModuleType, waits: facts.Pod) -> dict[str, str]:
    """Why the filter refuses nodes, by node; those that it lets pass are not there."""
    shape = seen.shape_of(waits)
    mask = rule.mask(seen, shape, settings.DEFAULT_FILTER_CONFIG)
    if mask is None:
        return {}
    assert len(mask) == seen.nodes.count
    rows = [row for row in range(seen.nodes.count) if seen.nodes.alive[row] and not mask[row]]
    return {
        seen.nodes.names[row]: "; ".join(rule.explain(seen, shape, row, settings.DEFAULT_FILTER_CONFIG).texts)
        for row in rows
    }
