"""Permissions: what the controller of MachineAutoscalers takes."""

from windlass.controllers.openshift import names
from windlass.controllers.openshift.permissions import EVENTS, GATES
from windlass.kube import rights
from windlass.kube.rights import READ, Account, Grant, Rights, Rule

_NAME = "machine-autoscaler"
_OWN = "autoscaling.openshift.io"
_BOUNDS = "bounds of MachineSets, as annotations"

EVERY = (
    Rights(
        _NAME,
        f"`windlass operator --controllers=machine_autoscaler --leader-elect-namespace={names.MACHINE_API_NAMESPACE}"
        f" --leader-elect-name={_NAME}`.",
        Account(_NAME, names.MACHINE_API_NAMESPACE),
        (
            Grant((GATES,)),
            Grant(
                (
                    Rule(_OWN, ("machineautoscalers",), (*READ, "patch"), "MachineAutoscalers, and their finalizer"),
                    Rule(_OWN, ("machineautoscalers/status",), ("patch",), "how they fare"),
                    Rule("machine.openshift.io", ("machinesets",), (*READ, "patch"), _BOUNDS),
                    EVENTS,
                    *rights.lease(names.MACHINE_API_NAMESPACE, _NAME).rules,
                ),
                names.MACHINE_API_NAMESPACE,
            ),
            Grant(
                (Rule("cluster.x-k8s.io", ("machinesets",), (*READ, "patch"), _BOUNDS), EVENTS),
                names.CLUSTER_API_NAMESPACE,
            ),
        ),
    ),
)
