"""Permissions: what the controller of EKS Anywhere's Clusters takes."""

from windlass.controllers import permissions as operator
from windlass.controllers.eks_anywhere import names
from windlass.controllers.worker_pools import permissions as worker_pools
from windlass.kube.rights import READ, Grant, Rights, Rule

_GROUP = names.API_VERSION.partition("/")[0]

EVERY = (
    Rights(
        "eks-anywhere",
        "`windlass operator --controllers=eks_anywhere`.",
        operator.ACCOUNT,
        (
            Grant(
                (
                    Rule(_GROUP, ("clusters",), READ, "Clusters and their worker node groups"),
                    Rule(_GROUP, ("clusters/status",), ("patch",), "how they fare"),
                )
            ),
            Grant(
                (
                    worker_pools.KEEPING,
                    worker_pools.DELETING,
                    Rule("cluster.x-k8s.io", ("clusters",), READ, "the Cluster that pools belong to"),
                    Rule("controlplane.cluster.x-k8s.io", ("kubeadmcontrolplanes",), READ, "whether it is ready"),
                    Rule("etcdcluster.cluster.x-k8s.io", ("etcdadmclusters",), READ, "whether its etcd is"),
                ),
                names.NAMESPACE,
            ),
        ),
        is_option=True,
    ),
)
