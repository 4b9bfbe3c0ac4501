"""Permissions: what keeping MachineSets of Machine API and of Cluster API alike takes."""

from windlass.controllers.openshift import names
from windlass.controllers.openshift.permissions import EVENTS
from windlass.kube import rights
from windlass.kube.rights import READ, Account, Grant, Rights, Rule

_NAME = "machineset-sync"
_MACHINE_API, _CLUSTER_API = "machine.openshift.io", "cluster.x-k8s.io"
_MARKS = "marks of Machines that are to go first"

EVERY = (
    Rights(
        _NAME,
        "`windlass operator --controllers=machineset_sync --leader-elect-namespace=openshift-cluster-api`, as a"
        " ServiceAccount whom the policies in deploy/policies let through.",
        Account("capi-controllers", names.CLUSTER_API_NAMESPACE),
        (
            Grant(
                (
                    Rule(
                        "config.openshift.io",
                        ("infrastructures",),
                        ("get",),
                        "what the Cluster is called (without --machineset-sync-cluster)",
                        ("cluster",),
                    ),
                )
            ),
            Grant(
                (
                    Rule(_MACHINE_API, ("machinesets",), (*READ, "patch", "delete"), "MachineSets of Machine API"),
                    Rule(_MACHINE_API, ("machinesets/status",), ("patch",), "whose authority they are under"),
                    Rule(_MACHINE_API, ("machines",), (*READ, "patch"), _MARKS),
                    EVENTS,
                ),
                names.MACHINE_API_NAMESPACE,
            ),
            Grant(
                (
                    Rule(_CLUSTER_API, ("machinesets",), (*READ, "create", "patch", "delete"), "their mirrors"),
                    Rule(_CLUSTER_API, ("machinesets/status",), ("patch",), "how they fare"),
                    Rule(_CLUSTER_API, ("machines",), (*READ, "patch"), _MARKS),
                    Rule(_CLUSTER_API, ("clusters",), READ, "the Cluster that mirrors belong to"),
                    rights.own(_CLUSTER_API, "clusters"),
                    Rule(
                        "infrastructure.cluster.x-k8s.io",
                        ("*",),
                        (*READ, "create", "patch", "delete"),
                        "templates; who knows the cloud's own kind may name it in place of all",
                    ),
                    EVENTS,
                    *rights.lease(names.CLUSTER_API_NAMESPACE, "windlass-operator").rules,
                ),
                names.CLUSTER_API_NAMESPACE,
            ),
        ),
    ),
)
