"""Annotations and labels of Cluster API objects: size bounds, group options, paused, ClusterClass topology.

Keys that begin with the API group follow it when it is renamed (CAPI_GROUP); all others are fixed. An option that
cannot be read is reported and left out, so the flag's value holds. A size whose owner is the topology controller
cannot be scaled.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import fields as fields_of
from typing import TypeAlias

from windlass import selectors
from windlass.engine.model import node_groups
from windlass.kube import fields, time_formats
from windlass.kube.models import clusterapi, meta

DEFAULT_GROUP = "cluster.x-k8s.io"

PAUSED = "cluster.x-k8s.io/paused"
"""Cluster API skips objects with this annotation, with any value."""

REVISION = "machinedeployment.clusters.x-k8s.io/revision"

CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"

CPU = CAPACITY + "cpu"

MEMORY = CAPACITY + "memory"

EPHEMERAL_DISK = CAPACITY + "ephemeral-disk"

GPU_TYPE = CAPACITY + "gpu-type"

GPU_COUNT = CAPACITY + "gpu-count"

MAX_PODS = CAPACITY + "maxPods"

TAINTS = CAPACITY + "taints"

LABELS = CAPACITY + "labels"

DRA_DRIVER = CAPACITY + "dra-driver"

CSI_DRIVER = CAPACITY + "csi-driver"


@dataclass(frozen=True, slots=True)
class AnnotationKeys:
    """Keys with the API group as prefix."""

    group: str = DEFAULT_GROUP
    mirrored_group: str = ""
    """Group whose bounds count where the own ones are missing: OpenShift copies annotations to mirrors unchanged."""

    @property
    def min_size(self) -> str:
        return f"{self.group}/cluster-api-autoscaler-node-group-min-size"

    @property
    def max_size(self) -> str:
        return f"{self.group}/cluster-api-autoscaler-node-group-max-size"

    @property
    def options(self) -> str:
        """Prefix of the annotations of group options."""
        return f"{self.group}/autoscaling-options-"

    @property
    def delete_machine(self) -> str:
        """Annotation of a Machine that is deleted first when its group shrinks."""
        return f"{self.group}/delete-machine"

    @property
    def machine(self) -> str:
        """Annotation of a Node: the name of its Machine."""
        return f"{self.group}/machine"

    @property
    def cluster_namespace(self) -> str:
        """Annotation of a Node: the namespace of its Machine."""
        return f"{self.group}/cluster-namespace"

    @property
    def cluster_name(self) -> str:
        """Label: the Cluster of an object."""
        return f"{self.group}/cluster-name"


def annotation_path(key: str) -> str:
    """The path of an annotation within its object."""
    return f"metadata.annotations[{key}]"


@dataclass(frozen=True, slots=True)
class SizeBounds:
    """Min and max size. A resource with max size 0 is not a node group."""

    min: int = 0
    max: int = 0

    @property
    def allow_nodes(self) -> bool:
        return self.max > 0


def read_size_bounds(annotations: Mapping[str, str], named: AnnotationKeys) -> SizeBounds:
    """Bounds from annotations; a missing one is 0. InvalidField if one is invalid."""
    if named.mirrored_group and not {named.min_size, named.max_size} & annotations.keys():
        named = AnnotationKeys(named.mirrored_group)
    least = _read_size(annotations, named.min_size)
    most = _read_size(annotations, named.max_size)
    if most < least:
        annotation = annotations.get(named.max_size)
        raise fields.InvalidField(
            annotation_path(named.max_size), annotation, f"at least the minimum, which is {least}"
        )
    return SizeBounds(least, most)


def _read_size(annotations: Mapping[str, str], key: str) -> int:
    text = annotations.get(key, "0")
    size = selectors.parse_int64(text)
    if size is None or size < 0:
        raise fields.InvalidField(annotation_path(key), text, "a whole number, zero or more")
    return size


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII)


def _read_share(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return float(text)


def _read_bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


_SHARE = (_read_share, "a number such as 0.5")

_TIME = (time_formats.parse_duration, time_formats.ACCEPTED_DURATION)

_BOOL = (_read_bool, "true or false")

_OPTIONS: tuple[tuple[str, str, tuple[Callable[[str], float | bool], str]], ...] = (
    ("scaledownutilizationthreshold", "scale_down_utilization_threshold", _SHARE),
    ("scaledowngpuutilizationthreshold", "scale_down_gpu_utilization_threshold", _SHARE),
    ("scaledownunneededtime", "scale_down_unneeded_s", _TIME),
    ("scaledownunreadytime", "scale_down_unready_s", _TIME),
    ("maxnodeprovisiontime", "max_node_provision_s", _TIME),
    ("maxnodestartuptime", "max_node_startup_s", _TIME),
    ("ignoredaemonsetsutilization", "ignore_daemonsets_utilization", _BOOL),
    ("zeroormaxnodescaling", "zero_or_max", _BOOL),
    ("allownonatomicscaleuptomax", "allow_non_atomic_scale_up_to_max", _BOOL),
)

assert {field for _, field, _ in _OPTIONS} <= {field.name for field in fields_of(node_groups.GroupOptions)}


def read_group_options(
    annotations: Mapping[str, str], named: AnnotationKeys
) -> tuple[node_groups.GroupOptions, tuple[fields.InvalidField, ...]]:
    """Group options from annotations, and errors of invalid ones."""
    options: dict[str, float | bool] = {}
    complaints: list[fields.InvalidField] = []
    for name, field, (read_value, accepted) in _OPTIONS:
        key = named.options + name
        text = annotations.get(key, "").lower()
        if not text:
            continue
        try:
            options[field] = read_value(text)
        except ValueError:
            complaints.append(fields.InvalidField(annotation_path(key), annotations[key], accepted))
    return node_groups.GroupOptions(**options), tuple(complaints)  # type: ignore[arg-type]


_CONDITION = "Paused"


def find_pause_reason(obj: meta.Object) -> str:
    """Why Cluster API skips the object; empty if it does not."""
    if PAUSED in (obj.meta.annotations or {}):
        return f"it has the annotation {PAUSED}"
    condition = find_paused_condition(getattr(obj, "status", None))
    return "" if condition is None else f"condition {_CONDITION}: {condition.message or condition.reason or 'True'}"


def find_paused_condition(
    status: clusterapi.MachineGroupStatus | clusterapi.MachineStatus | None,
) -> clusterapi.Condition | None:
    """The reason of a True Paused condition; None if there is none."""
    if status is None:
        return None
    of_v1beta1 = (status.v1beta2.conditions if status.v1beta2 else None) or ()
    conditions = (*(status.conditions or ()), *of_v1beta1)
    return next((item for item in conditions if item.type == _CONDITION and item.status == "True"), None)


TOPOLOGY_MANAGER = "capi-topology"
"""Field manager of the topology controller."""

_DEPLOYMENT_NAME = "topology.cluster.x-k8s.io/deployment-name"

_POOL_NAME = "topology.cluster.x-k8s.io/pool-name"

MachineGroup: TypeAlias = clusterapi.MachineDeployment | clusterapi.MachineSet | clusterapi.MachinePool


def topology_owns_replicas(group: MachineGroup) -> bool:
    """True if the topology controller applies replicas; never for a MachineSet."""
    metadata = group.metadata
    return isinstance(metadata, clusterapi.MachineGroupMeta) and metadata.applies_replicas(TOPOLOGY_MANAGER)


_MANAGED_BY = "cluster.x-k8s.io/replicas-managed-by"
"""Annotation of a MachinePool whose provider copies the size of the instance group to spec.replicas. `false` is off."""


def find_replicas_owner(group: MachineGroup, api_version: str) -> node_groups.ReplicasOwner | None:
    """Who owns replicas, and how to release them; None if the autoscaler may own them."""
    uid, manager = group.meta.uid or "", (group.meta.annotations or {}).get(_MANAGED_BY, "false")
    if topology_owns_replicas(group):
        return node_groups.ReplicasOwner(TOPOLOGY_MANAGER, _describe_remedy(group), api_version, uid)
    if manager == "false" or not isinstance(group, clusterapi.MachinePool):
        return None
    remedy = f"remove the annotation {_MANAGED_BY}, or both size annotations, from MachinePool {group.meta.key}"
    return node_groups.ReplicasOwner(manager or "true", remedy, api_version, uid, is_topology=False)


def _describe_remedy(group: MachineGroup) -> str:
    is_pool = isinstance(group, clusterapi.MachinePool)
    field, label = ("machinePools", _POOL_NAME) if is_pool else ("machineDeployments", _DEPLOYMENT_NAME)
    name = (group.meta.labels or {}).get(label)
    entry = f"the entry {name} of {field}" if name else f"its entry of {field}"
    cluster_name = group.spec.cluster_name if group.spec else None
    cluster = f"Cluster {group.meta.namespace}/{cluster_name}" if cluster_name else "its Cluster"
    return f"remove replicas from {entry} in spec.topology.workers of {cluster}"
