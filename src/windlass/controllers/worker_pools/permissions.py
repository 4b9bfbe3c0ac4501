"""Permissions: what keeping worker pools takes of MachineDeployments."""

from windlass.controllers.worker_pools.machine_deployments import GROUP
from windlass.kube.rights import READ, Rule

POOLS = Rule(
    GROUP,
    ("machinedeployments",),
    ("get", *READ, "create", "patch", "delete"),
    "the pools, as MachineDeployments; the size of autoscaled ones is left to the autoscaler",
)
