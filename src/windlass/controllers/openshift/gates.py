"""Gates: which features OpenShift has turned on, and on which platform it runs.

The FeatureGate `cluster` lists, for each version that is being run or upgraded to, what is on. Cluster API has a gate
for each platform: what platforms without one have of it is not to be touched.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass.kube.resources import Resource, Unstructured

Json = Mapping[str, Any]

FEATURE_GATES = Resource("config.openshift.io/v1", "featuregates", "FeatureGate", False, Unstructured)
INFRASTRUCTURES = Resource("config.openshift.io/v1", "infrastructures", "Infrastructure", False, Unstructured)
SINGLETON = "cluster"
"""The name of each."""

PROVISIONING_REQUESTS = "ProvisioningRequestAvailable"
_CLUSTER_API = "ClusterAPIMachineManagement"
_PLATFORMS = frozenset({"AWS", "Azure", "BareMetal", "GCP", "OpenStack", "PowerVS", "VSphere"})
"""Those with a gate for Cluster API."""


@dataclass(frozen=True, slots=True)
class Gates:
    """What is on."""

    platform: str = ""
    enabled: frozenset[str] = frozenset()

    @property
    def has_cluster_api(self) -> bool:
        """May anything of Cluster API be looked at, or touched?"""
        return self.platform in _PLATFORMS and f"{_CLUSTER_API}{self.platform}" in self.enabled

    @property
    def has_provisioning_requests(self) -> bool:
        return PROVISIONING_REQUESTS in self.enabled


def read(feature_gate: Json | None, infrastructure: Json | None, version: str = "") -> Gates:
    """As of a version; of one that is not listed nothing is on. Without one: what is on in every version listed."""
    status = (infrastructure or {}).get("status") or {}
    platform = (status.get("platformStatus") or {}).get("type") or status.get("platform") or ""
    listed = ((feature_gate or {}).get("status") or {}).get("featureGates") or ()
    found = [
        frozenset(gate.get("name") or "" for gate in entry.get("enabled") or ())
        for entry in listed
        if not version or entry.get("version") == version
    ]
    return Gates(platform, frozenset.intersection(*found) if found else frozenset())
