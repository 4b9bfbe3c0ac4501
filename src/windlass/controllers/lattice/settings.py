"""Settings of the Lattice controller."""

from dataclasses import dataclass, field

from windlass.controllers.lattice.permissions import Handed


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be done otherwise."""

    deploys_autoscaler: bool = True
    """Run an autoscaler in lattice-system as soon as a pool is autoscaled."""
    autoscaler_image: str = "windlass:latest"
    """What it is run from: an image whose PATH has `windlass`."""
    autoscaler_discovery: str = "capi-system"
    """The namespace in which it looks for pools: that of the LatticeClusters."""
    autoscaler_rights: Handed = field(default_factory=Handed)
    """What it may do: whoever puts the process together knows the autoscaler."""
    resync_s: float = 600.0
    """Every LatticeCluster is looked at this often, even if nothing seems to have changed."""
