"""Settings of the MachinePool controller."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be done otherwise."""

    rotate_bootstrap_secret: bool = False
    """Copy the bootstrap config's data secret name whenever it changes, over any that is there, as Cluster API's own
    controller does. By default it is copied into an empty field only: a name that a user set stays."""
    allow_insecure_kubeconfigs: bool = False
    """Let kubeconfigs in Secrets name servers without TLS, servers that are not verified, proxies, and loopback,
    link-local and metadata addresses."""
    resync_s: float = 600.0
    """Every pool is looked at this often, even if nothing seems to have changed."""
    grace_s: float = 10.0
    """A workload cluster that does not answer counts as unreachable after this long."""
