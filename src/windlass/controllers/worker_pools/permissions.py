"""Permissions: what keeping worker pools takes of MachineDeployments."""

from windlass.controllers.worker_pools.machine_deployments import GROUP
from windlass.kube.rights import READ, Rule

_POOLS = ("machinedeployments",)

KEEPING = Rule(
    GROUP,
    _POOLS,
    ("get", *READ, "create", "patch"),
    "the pools, as MachineDeployments; the size of autoscaled ones is left to the autoscaler",
)
DELETING = Rule(GROUP, _POOLS, ("delete",), "pools that nobody wants any longer")
