"""Node groups of the simulated cluster: machine type, bounds, price, random delays and failure rates.

Random numbers come from one generator per component, all from one seed, so that a change in one component leaves the
random numbers of the others alone.
"""

import math
import random
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from windlass import product


@dataclass(frozen=True, slots=True)
class RandomStreams:
    """Source of the components' random generators."""

    seed: int

    def for_component(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")


@dataclass(frozen=True, slots=True)
class DelayDistribution:
    """Distribution of a duration: log-normal around a median, at least `least_s`.

    `spread` is the standard deviation of the logarithm: with 0.5 one in six takes more than 1.65 times the median.
    """

    median_s: float
    spread: float = 0.0
    least_s: float = 0.0
    observed_s: tuple[float, ...] = ()
    """Durations that were observed, in their order; infinity for what never came. They replace the distribution."""

    def sample(self, generator: random.Random) -> float:
        """A random duration in seconds, rounded to milliseconds."""
        if not self.spread or not self.median_s:
            return max(self.median_s, self.least_s)
        drawn = self.median_s * math.exp(generator.gauss(0.0, self.spread))
        return round(max(drawn, self.least_s), 3)


class DelaySampler:
    """Draws durations of one component: at random, or those that were observed one after another, and then again."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator
        self._taken: dict[Hashable, int] = {}

    def sample(self, delay: DelayDistribution, drawn_by: Hashable) -> float:
        """A duration in seconds. `drawn_by`: whose turn in the observed ones it is, such as the name of a group."""
        if not delay.observed_s:
            return delay.sample(self._generator)
        taken = self._taken.get(drawn_by, 0)
        self._taken[drawn_by] = taken + 1
        return delay.observed_s[taken % len(delay.observed_s)]


Json = dict[str, Any]

CLUSTER = "simulated"

NAMESPACE = "default"

MIN_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"

MAX_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"

OPTIONS_PREFIX = "cluster.x-k8s.io/autoscaling-options-"

CAPACITY_PREFIX = "capacity.cluster-autoscaler.kubernetes.io/"

CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"

DEPLOYMENT_NAME_LABEL = "cluster.x-k8s.io/deployment-name"

SET_NAME_LABEL = "cluster.x-k8s.io/set-name"

ZONE = "topology.kubernetes.io/zone"

REGION = "topology.kubernetes.io/region"

INSTANCE_TYPE = "node.kubernetes.io/instance-type"

_BOOT, _SETTLE, _STOP = DelayDistribution(60.0), DelayDistribution(5.0), DelayDistribution(10.0)

_ARCHITECTURE = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}


@dataclass(frozen=True, slots=True)
class NodeGroup:
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
    boot: DelayDistribution = _BOOT
    """From the request for a machine to its node."""
    ready: DelayDistribution = _SETTLE
    """From the node's registration to its readiness."""
    stop: DelayDistribution = _STOP
    """From the end of the drain to the instance's termination."""
    failure_rate: float = 0.0
    """Share of machines that never register a node."""
    unready_rate: float = 0.0
    """Share of machines whose node never becomes ready."""
    lifetime: DelayDistribution | None = None
    """Time until a machine vanishes by itself; None: never."""
    remediate_after_s: float | None = None
    """Timeout of a MachineHealthCheck for missing or unready nodes; None: no MachineHealthCheck."""

    def node_labels(self, node_name: str) -> dict[str, str]:
        return {
            **_ARCHITECTURE,
            "kubernetes.io/hostname": node_name,
            ZONE: self.zone,
            REGION: "simulated",
            INSTANCE_TYPE: self.machine_type,
            **self.labels,
        }


def make_group_objects(group: NodeGroup) -> list[Json]:
    """A group's template and MachineDeployment."""
    labels = {key: value for key, value in group.node_labels("").items() if key != "kubernetes.io/hostname"}
    status = {"capacity": group.allocatable, "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"}}
    template = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "SimulatedMachineTemplate",
        "metadata": {"name": group.name, "namespace": NAMESPACE, "labels": {CLUSTER_NAME_LABEL: CLUSTER}},
        "spec": {"template": {"spec": {"type": group.machine_type, "zone": group.zone}}},
        "status": status,
    }
    annotations = {
        MIN_SIZE_ANNOTATION: str(group.min_size),
        MAX_SIZE_ANNOTATION: str(group.max_size),
        CAPACITY_PREFIX + "maxPods": group.allocatable.get("pods", "110"),
        CAPACITY_PREFIX + "labels": ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        **{OPTIONS_PREFIX + name: value for name, value in group.options.items()},
    }
    if group.price_per_hour:
        annotations[product.PRICE_ANNOTATION] = str(group.price_per_hour)
    if group.taints:
        annotations[CAPACITY_PREFIX + "taints"] = ",".join(map(_make_taint, group.taints))
    return [template, _make_deployment(group, annotations)]


def _make_deployment(group: NodeGroup, annotations: dict[str, str]) -> Json:
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
    selected = {CLUSTER_NAME_LABEL: CLUSTER, DEPLOYMENT_NAME_LABEL: group.name}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "metadata": {
            "name": group.name,
            "namespace": NAMESPACE,
            "labels": {CLUSTER_NAME_LABEL: CLUSTER},
            "annotations": annotations,
        },
        "spec": {
            "clusterName": CLUSTER,
            "replicas": group.initial,
            "selector": {"matchLabels": selected},
            "template": {"metadata": {"labels": selected}, "spec": machine},
        },
    }


def _make_taint(taint: Json) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
