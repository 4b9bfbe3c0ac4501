"""Node groups as the world knows them: what their machines are like, and what may go wrong with them."""

from dataclasses import dataclass, field
from typing import Any

from windlass.simulator.world.chance import Delay

Json = dict[str, Any]

CLUSTER = "simulated"
NAMESPACE = "default"
MIN_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
OPTIONS = "cluster.x-k8s.io/autoscaling-options-"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
PRICE = "windlass.dev/price-per-hour"
CLUSTER_NAME = "cluster.x-k8s.io/cluster-name"
DEPLOYMENT_NAME = "cluster.x-k8s.io/deployment-name"
SET_NAME = "cluster.x-k8s.io/set-name"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_BOOT, _SETTLE, _STOP = Delay(60.0), Delay(5.0), Delay(10.0)
_ARCHITECTURE = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}


@dataclass(frozen=True, slots=True)
class Group:
    """One MachineDeployment in one zone."""

    name: str
    machine_type: str
    zone: str
    min_size: int
    max_size: int
    initial: int
    capacity: dict[str, str]
    allocatable: dict[str, str]
    price_per_hour: float = 0.0
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Json, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    """`autoscaling-options-…` annotations of the MachineDeployment, by the rest of their name."""
    boot: Delay = _BOOT
    """From asking for a machine to its node."""
    settle: Delay = _SETTLE
    """From the node to its being ready."""
    stop: Delay = _STOP
    """From the end of the drain to the end of the machine."""
    failure_rate: float = 0.0
    """The share of machines that never become nodes."""
    unready_rate: float = 0.0
    """The share of machines whose node never becomes ready."""
    lifetime: Delay | None = None
    """After which a machine vanishes by itself; None: never."""
    remediate_after_s: float | None = None
    """A MachineHealthCheck deletes machines whose node has been away or not ready for so long; None: none does."""

    def node_labels(self, node_name: str) -> dict[str, str]:
        return {
            **_ARCHITECTURE,
            "kubernetes.io/hostname": node_name,
            ZONE: self.zone,
            REGION: "simulated",
            INSTANCE_TYPE: self.machine_type,
            **self.labels,
        }


def make_objects(group: Group) -> list[Json]:
    """A group's template and MachineDeployment."""
    labels = {key: value for key, value in group.node_labels("").items() if key != "kubernetes.io/hostname"}
    status = {"capacity": group.allocatable, "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"}}
    template = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "SimulatedMachineTemplate",
        "metadata": {"name": group.name, "namespace": NAMESPACE, "labels": {CLUSTER_NAME: CLUSTER}},
        "spec": {"template": {"spec": {"type": group.machine_type, "zone": group.zone}}},
        "status": status,
    }
    annotations = {
        MIN_SIZE: str(group.min_size),
        MAX_SIZE: str(group.max_size),
        CAPACITY + "maxPods": group.allocatable.get("pods", "110"),
        CAPACITY + "labels": ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        **{OPTIONS + name: value for name, value in group.options.items()},
    }
    if group.price_per_hour:
        annotations[PRICE] = str(group.price_per_hour)
    if group.taints:
        annotations[CAPACITY + "taints"] = ",".join(map(_spell_taint, group.taints))
    return [template, _make_deployment(group, annotations)]


def _make_deployment(group: Group, annotations: dict[str, str]) -> Json:
    machine = {
        "clusterName": CLUSTER,
        "version": "v1.36.3",
        "failureDomain": group.zone,
        "bootstrap": {"dataSecretName": "simulated"},
        "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io",
            "kind": "SimulatedMachineTemplate",
            "name": group.name,
        },
    }
    chosen = {CLUSTER_NAME: CLUSTER, DEPLOYMENT_NAME: group.name}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "metadata": {
            "name": group.name,
            "namespace": NAMESPACE,
            "labels": {CLUSTER_NAME: CLUSTER},
            "annotations": annotations,
        },
        "spec": {
            "clusterName": CLUSTER,
            "replicas": group.initial,
            "selector": {"matchLabels": chosen},
            "template": {"metadata": {"labels": chosen}, "spec": machine},
        },
    }


def _spell_taint(taint: Json) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
