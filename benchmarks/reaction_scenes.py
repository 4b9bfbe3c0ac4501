"""What the reaction of an autoscaler is measured on: groups of machines that boot in 5 s, and the pods to come."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed import objects

_PREFIX = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
_CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
_NODE = {"cpu": "4", "memory": "16Gi", "pods": "110"}
GROUP_LABEL = "node.cluster.x-k8s.io/group"
"""The test bed's own, on every node of a group."""


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    replicas: int
    maximum: int
    labels: Mapping[str, str] = field(default_factory=dict)

    def make(self) -> list[dict[str, Any]]:
        told = ",".join(f"{key}={value}" for key, value in self.labels.items())
        annotations = {
            f"{_PREFIX}min-size": "0",
            f"{_PREFIX}max-size": str(self.maximum),
            f"{_CAPACITY}cpu": _NODE["cpu"],
            f"{_CAPACITY}memory": _NODE["memory"],
            "fake.infrastructure/boot-seconds": "5",
            **({f"{_CAPACITY}labels": told} if told else {}),
        }
        node = {"capacity": _NODE, "labels": dict(self.labels)}
        return objects.machine_deployment(self.name, self.replicas, node=node, annotations=annotations)


@dataclass(frozen=True, slots=True)
class Work:
    name: str
    pods: int
    cpu: str
    selector: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"/apis/apps/v1/namespaces/default/deployments/{self.name}"

    def make(self) -> dict[str, Any]:
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": self.cpu}}}
        labels = {"app": self.name}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "nodeSelector": dict(self.selector)},
        }
        spec = {"replicas": self.pods, "selector": {"matchLabels": labels}, "template": template}
        return objects.made("apps/v1", "Deployment", self.name, "default", spec)


@dataclass(frozen=True, slots=True)
class Scenario:
    groups: Sequence[Group]
    works: Sequence[Work]
    flags: Sequence[str] = ()
    settle_s: float = 0.0
    """How long the first nodes are there before it begins."""
    down_to: int | None = None
    """Afterwards there are so many pods of the first kind."""


ZONE = "topology.kubernetes.io/zone"
_ZONES = [Group(f"zone-{zone}", 1, 50, {ZONE: zone}) for zone in "abc"]
_BALANCED = ["--balance-similar-node-groups", f"--balancing-ignore-label={GROUP_LABEL}"]
_OLD_S = 62.0
"""Nodes younger than a minute are no model of those to come, neither here nor for the peer: the template is."""
_SOON = ["--scale-down-unneeded-time=20s", "--scale-down-delay-after-add=20s"]

SCENARIOS = {
    "burst": Scenario([Group("a", 1, 20)], [Work("w", 20, "900m")]),
    "zones": Scenario(_ZONES, [Work("w", 300, "500m")], _BALANCED, _OLD_S),
    "kinds": Scenario(
        [Group(kind, int(kind == "red"), 10, {"kind": kind}) for kind in ("red", "green", "blue")],
        [Work(kind, 10, "900m", {"kind": kind}) for kind in ("red", "green", "blue")],
    ),
    "groups": Scenario(
        [Group(f"g{number:02}", int(number < 3), 10, {"which": f"g{number:02}"}) for number in range(60)],
        [Work("w", 10, "900m", {"which": "g42"})],
    ),
    "down": Scenario(_ZONES, [Work("w", 300, "500m")], [*_BALANCED, *_SOON], _OLD_S, 60),
}
