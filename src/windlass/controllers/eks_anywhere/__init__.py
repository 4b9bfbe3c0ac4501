"""eks_anywhere: the worker node groups of EKS Anywhere clusters.

A group becomes a MachineDeployment. A static group has the count that it asks for. An autoscaled one has whatever its
autoscaler makes of it: replicas are never written, and what the Cluster says of its workers leaves them out of account,
but for their bounds. `docs/worker-pools.md` says what it does, and where it differs from EKS Anywhere's own controller.
"""

from windlass.controllers.eks_anywhere.controller import make

__all__ = ["make"]
