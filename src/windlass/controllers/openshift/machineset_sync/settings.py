"""Settings of the mirroring of MachineSets."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be done otherwise."""

    cluster: str = ""
    """The Cluster of Cluster API that MachineSets belong to. Empty: what OpenShift's Infrastructure says; where there
    is none, what the MachineSet's label machine.openshift.io/cluster-api-cluster says.
    """
    resync_s: float = 600.0
    """Every pair is looked at this often, even if nothing seems to have changed."""
