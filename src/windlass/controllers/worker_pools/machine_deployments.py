"""MachineDeployments as facts, whichever version of Cluster API they are read in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.controllers.worker_pools import annotations
from windlass.controllers.worker_pools.sizes import Limits

GROUP = "cluster.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""Those that can be read here, the best first."""
CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"
DEPLOYMENT_NAME_LABEL = "cluster.x-k8s.io/deployment-name"


@dataclass(frozen=True, slots=True)
class MachineDeployment:
    """What is known of one."""

    name: str
    replicas: int | None = None
    """What is asked for; None where nobody asks."""
    generation: int = 0
    observed_generation: int = 0
    current: int = 0
    ready: int = 0
    up_to_date: int = 0
    conditions: Mapping[str, str] = field(default_factory=dict)
    """The status of each, by type."""
    is_deleting: bool = False
    body: Mapping[str, Any] = field(default_factory=dict)
    """As it was read."""

    @property
    def annotations(self) -> Mapping[str, str]:
        return (self.body.get("metadata") or {}).get("annotations") or {}

    @property
    def cluster(self) -> str:
        """The name of the Cluster that it belongs to; empty if it does not say."""
        labels = (self.body.get("metadata") or {}).get("labels") or {}
        return (self.body.get("spec") or {}).get("clusterName") or labels.get(CLUSTER_NAME_LABEL) or ""

    @property
    def limits(self) -> Limits | None:
        """The bounds that it carries; None as well if they cannot be read."""
        try:
            return annotations.read(self.annotations)
        except annotations.Unreadable:
            return None


def read(body: Mapping[str, Any]) -> MachineDeployment:
    metadata, spec, status = body.get("metadata") or {}, body.get("spec") or {}, body.get("status") or {}
    return MachineDeployment(
        name=metadata.get("name") or "",
        replicas=spec.get("replicas"),
        generation=metadata.get("generation") or 0,
        observed_generation=status.get("observedGeneration") or 0,
        current=status.get("replicas") or 0,
        ready=status.get("readyReplicas") or 0,
        up_to_date=_up_to_date(status),
        conditions={each.get("type") or "": each.get("status") or "" for each in status.get("conditions") or ()},
        is_deleting=bool(metadata.get("deletionTimestamp")),
        body=body,
    )


def _up_to_date(status: Mapping[str, Any]) -> int:
    """v1beta1 calls it otherwise."""
    found = status.get("upToDateReplicas")
    return (status.get("updatedReplicas") if found is None else found) or 0
