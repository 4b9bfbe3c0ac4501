"""Settings of the ClusterAutoscaler controller."""

from dataclasses import dataclass

from windlass.controllers.openshift import names

SNAPSHOT = "0.0.1-snapshot"
"""What a version is called that nobody released."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be done otherwise."""

    name: str = "default"
    """The one ClusterAutoscaler that counts."""
    namespace: str = names.MACHINE_API_NAMESPACE
    """Where the autoscaler runs."""
    image: str = "windlass:latest"
    """What it is run from: an image whose PATH has `windlass`."""
    replicas: int = 1
    cloud_provider: str = "clusterapi"
    verbosity: int = 1
    """What it logs if the ClusterAutoscaler does not say."""
    extra_args: str = ""
    """One more word for its command line, behind all others."""
    architecture: str = "amd64"
    """Of nodes of an empty group, if nothing else is known."""
    release_version: str = ""
    """The version of OpenShift that is run; empty if nobody released it."""
    webhooks_port: int = 8443
    resync_s: float = 600.0

    @property
    def version(self) -> str:
        """As it is told."""
        return self.release_version or SNAPSHOT
