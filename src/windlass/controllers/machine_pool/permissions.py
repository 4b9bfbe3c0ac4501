"""Permissions: what the MachinePool controller takes, in the management cluster and in workload clusters."""

from windlass.controllers import permissions as operator
from windlass.kube import rights
from windlass.kube.rights import READ, Grant, Rights, Rule

_GROUP = "cluster.x-k8s.io"
_PROVIDERS = ("infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io")

_DEFINITIONS = Rule("apiextensions.k8s.io", ("customresourcedefinitions",), READ, "kinds that pools refer to")

NAMESPACED = (
    Rule(_GROUP, ("machinepools",), (*READ, "patch"), "the pools; finalizers, owners and what is copied into them"),
    Rule(_GROUP, ("machinepools/status",), ("patch",), "how they fare"),
    rights.own(_GROUP, "machinepools"),
    rights.belong(_GROUP, "machinepools"),
    Rule(_GROUP, ("clusters",), READ, "whether a pool's Cluster is paused, and has a control plane"),
    Rule(_GROUP, ("machines",), (*READ, "create", "patch"), "a Machine for each machine of an infrastructure pool"),
    Rule(_GROUP, ("machines/status",), ("patch",), "what is said of those"),
    Rule(_PROVIDERS[0], ("*",), (*READ, "patch", "delete"), "infrastructure pools and their machines"),
    Rule(_PROVIDERS[1], ("*",), (*READ, "patch", "delete"), "bootstrap configs"),
    Rule("", ("secrets",), ("get", *READ), "<cluster>-kubeconfig: the way to a workload cluster"),
    Rule("", ("events",), ("create", "patch"), "what became of a pool"),
)
"""Where pools are."""
MANAGEMENT = (*NAMESPACED, _DEFINITIONS)

ONE_NAMESPACE = "machine-pools"
"""Stands for the one that `--namespace` names."""

WORKLOAD = (Rule("", ("nodes",), (*READ, "patch", "delete"), "annotations, taints, and nodes that are left behind"),)
"""Of whoever the kubeconfig of a workload cluster is for."""

EVERY = (
    Rights(
        "machine-pool",
        "`windlass operator --controllers=machine_pool`, in the management cluster.",
        operator.ACCOUNT,
        (Grant(MANAGEMENT),),
        is_option=True,
    ),
    Rights(
        "machine-pool-namespaced",
        f"`windlass operator --controllers=machine_pool --namespace={ONE_NAMESPACE}`: the same in one namespace, in"
        " place of machine-pool.yaml. No Secret of another namespace can be read. Put in the namespace that is meant.",
        operator.ACCOUNT,
        (Grant(NAMESPACED, ONE_NAMESPACE), Grant((_DEFINITIONS,))),
        is_option=True,
    ),
    Rights(
        "machine-pool-workload",
        "What it does in a workload cluster, as whoever the Secret <cluster>-kubeconfig is for. Cluster API's own"
        " manager reads the same Secret, and takes more.",
        None,
        (Grant(WORKLOAD),),
    ),
)
