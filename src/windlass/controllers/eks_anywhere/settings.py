"""Settings of the EKS Anywhere controller."""

from dataclasses import dataclass

from windlass.controllers.eks_anywhere import names


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be done otherwise."""

    namespace: str = names.NAMESPACE
    """Where MachineDeployments, and the Clusters of Cluster API that they belong to, are."""
    resync_s: float = 600.0
    """Every Cluster is looked at this often, even if nothing seems to have changed."""
