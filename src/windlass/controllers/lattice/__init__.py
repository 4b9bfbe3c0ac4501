"""lattice: the worker pools of LatticeClusters.

A pool becomes a MachineDeployment. With `min` and `max` it is autoscaled: its bounds are annotations, and its replicas
are the autoscaler's. Without them it has the replicas that it asks for. `docs/worker-pools.md` has the matrix.
"""

from windlass.controllers.lattice.controller import make

__all__ = ["make"]
