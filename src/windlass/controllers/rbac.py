"""RBAC rules of the operator and of each controller, from which deploy/rbac is generated.

RBAC forbids granting permissions that the grantor lacks: the Lattice controller therefore holds all permissions of the
autoscaler that it deploys.
"""

from windlass.controllers.eks_anywhere import model
from windlass.controllers.lattice import model as lattice_model
from windlass.controllers.machine_deployments import CLUSTER_API_GROUP
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.cluster_autoscaler import model as cluster_autoscaler_model
from windlass.kube import rbac
from windlass.kube.rbac import READ, PolicyRule, RbacProfile, RoleGrant, ServiceAccount

ACCOUNT = ServiceAccount("windlass-operator", "windlass-system")

OPERATOR = RbacProfile(
    "operator",
    f"`windlass operator --leader-elect-namespace={ACCOUNT.namespace}`, whichever controllers it runs; their own"
    " files come besides.",
    ACCOUNT,
    (rbac.lease_grant(ACCOUNT.namespace, "windlass-operator"),),
)

_MACHINE_DEPLOYMENTS = ("machinedeployments",)

MANAGE_MACHINE_DEPLOYMENTS = PolicyRule(
    CLUSTER_API_GROUP,
    _MACHINE_DEPLOYMENTS,
    ("get", *READ, "create", "patch"),
    "the pools, as MachineDeployments; the size of autoscaled ones is left to the autoscaler",
)

DELETE_MACHINE_DEPLOYMENTS = PolicyRule(CLUSTER_API_GROUP, _MACHINE_DEPLOYMENTS, ("delete",), "removed pools")

_EKS_ANYWHERE_GROUP = model.API_VERSION.partition("/")[0]

EKS_ANYWHERE = (
    RbacProfile(
        "eks-anywhere",
        "`windlass operator --controllers=eks_anywhere`.",
        ACCOUNT,
        (
            RoleGrant(
                (
                    PolicyRule(_EKS_ANYWHERE_GROUP, ("clusters",), READ, "Clusters and their worker node groups"),
                    PolicyRule(_EKS_ANYWHERE_GROUP, ("clusters/status",), ("patch",), "how they fare"),
                )
            ),
            RoleGrant(
                (
                    MANAGE_MACHINE_DEPLOYMENTS,
                    DELETE_MACHINE_DEPLOYMENTS,
                    PolicyRule("cluster.x-k8s.io", ("clusters",), READ, "the Cluster that pools belong to"),
                    PolicyRule("controlplane.cluster.x-k8s.io", ("kubeadmcontrolplanes",), READ, "whether it is ready"),
                    PolicyRule("etcdcluster.cluster.x-k8s.io", ("etcdadmclusters",), READ, "whether its etcd is"),
                ),
                model.NAMESPACE,
            ),
        ),
        is_option=True,
    ),
)

_LATTICE_GROUP = lattice_model.API_VERSION.partition("/")[0]

_GET_PATCH = ("get", "patch")

_AUTOSCALER_NAME = (lattice_model.AUTOSCALER,)

LATTICE = RbacProfile(
    "lattice",
    "`windlass operator --controllers=lattice`.",
    ACCOUNT,
    (
        RoleGrant(
            (
                PolicyRule(_LATTICE_GROUP, ("latticeclusters",), READ, "LatticeClusters and their pools"),
                PolicyRule(_LATTICE_GROUP, ("latticeclusters/status",), ("patch",), "how they fare"),
                MANAGE_MACHINE_DEPLOYMENTS,
                PolicyRule("", ("events",), ("create", "patch"), "what is wrong with a pool"),
            )
        ),
    ),
    is_option=True,
)


def lattice_autoscaler_rights(handed: lattice_model.AutoscalerRules) -> RbacProfile:
    """The permissions that the Lattice controller needs to deploy the autoscaler."""
    whole = (
        PolicyRule(
            "", ("namespaces",), ("get",), "the namespace of the autoscaler is there", (lattice_model.SYSTEM_NAMESPACE,)
        ),
        PolicyRule(rbac.GROUP, ("clusterroles", "clusterrolebindings"), ("create",), "its rights in the cluster"),
        PolicyRule(
            rbac.GROUP, ("clusterroles", "clusterrolebindings"), _GET_PATCH, "what it made before", _AUTOSCALER_NAME
        ),
    )
    inside = (
        PolicyRule("", ("serviceaccounts",), ("create",), "whom it runs as"),
        PolicyRule("", ("serviceaccounts",), _GET_PATCH, "what it made before", _AUTOSCALER_NAME),
        PolicyRule(rbac.GROUP, ("roles", "rolebindings"), ("create",), "its rights in its own namespace"),
        PolicyRule(rbac.GROUP, ("roles", "rolebindings"), _GET_PATCH, "what it made before", _AUTOSCALER_NAME),
        PolicyRule("apps", ("deployments",), ("create",), "the autoscaler"),
        PolicyRule("apps", ("deployments",), _GET_PATCH, "what it made before", _AUTOSCALER_NAME),
    )
    return RbacProfile(
        "lattice-deploy-autoscaler",
        "`windlass operator --controllers=lattice --lattice-deploy-autoscaler`, the default, besides: running the"
        " autoscaler, and the autoscaler's own rights, which it holds to hand them on. It can hand on no others.",
        ACCOUNT,
        (RoleGrant((*whole, *handed.cluster)), RoleGrant((*inside, *handed.own), lattice_model.SYSTEM_NAMESPACE)),
        is_option=True,
    )


_MACHINE_POOL_GROUP = "cluster.x-k8s.io"

_PROVIDER_GROUPS = ("infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io")

_READ_DEFINITIONS = PolicyRule(
    "apiextensions.k8s.io", ("customresourcedefinitions",), READ, "kinds that pools refer to"
)

MACHINE_POOL_NAMESPACED_RULES = (
    PolicyRule(
        _MACHINE_POOL_GROUP,
        ("machinepools",),
        (*READ, "patch"),
        "the pools; finalizers, owners and what is copied into them",
    ),
    PolicyRule(_MACHINE_POOL_GROUP, ("machinepools/status",), ("patch",), "how they fare"),
    rbac.block_owner_deletion_rule(_MACHINE_POOL_GROUP, "machinepools"),
    rbac.set_owner_rule(_MACHINE_POOL_GROUP, "machinepools"),
    PolicyRule(_MACHINE_POOL_GROUP, ("clusters",), READ, "whether a pool's Cluster is paused, and has a control plane"),
    PolicyRule(
        _MACHINE_POOL_GROUP,
        ("machines",),
        (*READ, "create", "patch"),
        "a Machine for each machine of an infrastructure pool",
    ),
    PolicyRule(_MACHINE_POOL_GROUP, ("machines/status",), ("patch",), "their conditions"),
    PolicyRule(_PROVIDER_GROUPS[0], ("*",), (*READ, "patch", "delete"), "infrastructure pools and their machines"),
    PolicyRule(_PROVIDER_GROUPS[1], ("*",), (*READ, "patch", "delete"), "bootstrap configs"),
    PolicyRule("", ("secrets",), ("get", *READ), "<cluster>-kubeconfig: the way to a workload cluster"),
    PolicyRule("", ("events",), ("create", "patch"), "what became of a pool"),
)
"""Permissions in the namespaces of MachinePools."""

MACHINE_POOL_MANAGEMENT_RULES = (*MACHINE_POOL_NAMESPACED_RULES, _READ_DEFINITIONS)

POOL_NAMESPACE = "machine-pools"
"""Placeholder for the namespace of `--namespace`."""

MACHINE_POOL_WORKLOAD_RULES = (
    PolicyRule("", ("nodes",), (*READ, "patch", "delete"), "annotations, taints, and nodes that are left behind"),
)
"""Permissions of the user of a workload cluster's kubeconfig."""

MACHINE_POOL = (
    RbacProfile(
        "machine-pool",
        "`windlass operator --controllers=machine_pool`, in the management cluster.",
        ACCOUNT,
        (RoleGrant(MACHINE_POOL_MANAGEMENT_RULES),),
        is_option=True,
    ),
    RbacProfile(
        "machine-pool-namespaced",
        f"`windlass operator --controllers=machine_pool --namespace={POOL_NAMESPACE}`: the same in one namespace, in"
        " place of machine-pool.yaml. No Secret of another namespace can be read. Put in the namespace that is meant.",
        ACCOUNT,
        (RoleGrant(MACHINE_POOL_NAMESPACED_RULES, POOL_NAMESPACE), RoleGrant((_READ_DEFINITIONS,))),
        is_option=True,
    ),
    RbacProfile(
        "machine-pool-workload",
        "What it does in a workload cluster, as whoever the Secret <cluster>-kubeconfig is for. Cluster API's own"
        " manager reads the same Secret, and takes more.",
        None,
        (RoleGrant(MACHINE_POOL_WORKLOAD_RULES),),
    ),
)

OPENSHIFT_EVENTS = PolicyRule("", ("events",), ("create", "patch"), "what was done, and what is wrong")

OPENSHIFT_FEATURE_GATES = PolicyRule(
    "config.openshift.io", ("featuregates", "infrastructures"), READ, "which gates are on, and on which platform"
)

_OPERATOR_NAME = "cluster-autoscaler-operator"

_AUTOSCALING_GROUP = "autoscaling.openshift.io"

_CONFIG_GROUP = "config.openshift.io"

_MANAGE_VERBS = (*READ, "create", "update")

CLUSTER_AUTOSCALER = (
    RbacProfile(
        _OPERATOR_NAME,
        "`windlass operator --controllers=cluster_autoscaler"
        f" --leader-elect-namespace={machine_apis.MACHINE_API_NAMESPACE} --leader-elect-name={_OPERATOR_NAME}`."
        " The autoscaler that it runs has rights of its own (cluster-autoscaler.yaml).",
        ServiceAccount(_OPERATOR_NAME, machine_apis.MACHINE_API_NAMESPACE),
        (
            RoleGrant(
                (
                    PolicyRule(_AUTOSCALING_GROUP, ("clusterautoscalers",), READ, "what the autoscaler is to be like"),
                    PolicyRule(_AUTOSCALING_GROUP, ("clusterautoscalers/status",), ("patch",), "how it fares"),
                    rbac.block_owner_deletion_rule(_AUTOSCALING_GROUP, "clusterautoscalers"),
                    OPENSHIFT_FEATURE_GATES,
                    PolicyRule(_CONFIG_GROUP, ("clusteroperators",), READ, "whether Machine API is there"),
                    PolicyRule(_CONFIG_GROUP, ("clusteroperators",), ("create",), "what the operator says of itself"),
                    PolicyRule(
                        _CONFIG_GROUP,
                        ("clusteroperators/status",),
                        ("patch",),
                        "what the operator says of itself",
                        (cluster_autoscaler_model.AUTOSCALER,),
                    ),
                )
            ),
            RoleGrant(
                (
                    PolicyRule("apps", ("deployments",), (*_MANAGE_VERBS, "delete"), "the autoscaler"),
                    PolicyRule("", ("services",), _MANAGE_VERBS, "its metrics, and the webhooks"),
                    PolicyRule(
                        "monitoring.coreos.com",
                        ("servicemonitors", "prometheusrules"),
                        _MANAGE_VERBS,
                        "who scrapes it, and alerts",
                    ),
                    PolicyRule("networking.k8s.io", ("networkpolicies",), _MANAGE_VERBS, "whom it may talk to"),
                    PolicyRule(
                        _AUTOSCALING_GROUP, ("machineautoscalers",), READ, "what the operator says it is related to"
                    ),
                    OPENSHIFT_EVENTS,
                    *rbac.lease_grant(machine_apis.MACHINE_API_NAMESPACE, _OPERATOR_NAME).rules,
                ),
                machine_apis.MACHINE_API_NAMESPACE,
            ),
        ),
    ),
)

_MACHINE_AUTOSCALER_NAME = "machine-autoscaler"

_BOUNDS_PURPOSE = "bounds of MachineSets, as annotations"

MACHINE_AUTOSCALER = (
    RbacProfile(
        _MACHINE_AUTOSCALER_NAME,
        "`windlass operator --controllers=machine_autoscaler"
        f" --leader-elect-namespace={machine_apis.MACHINE_API_NAMESPACE}"
        f" --leader-elect-name={_MACHINE_AUTOSCALER_NAME}`.",
        ServiceAccount(_MACHINE_AUTOSCALER_NAME, machine_apis.MACHINE_API_NAMESPACE),
        (
            RoleGrant((OPENSHIFT_FEATURE_GATES,)),
            RoleGrant(
                (
                    PolicyRule(
                        _AUTOSCALING_GROUP,
                        ("machineautoscalers",),
                        (*READ, "patch"),
                        "MachineAutoscalers, and their finalizer",
                    ),
                    PolicyRule(_AUTOSCALING_GROUP, ("machineautoscalers/status",), ("patch",), "how they fare"),
                    PolicyRule("machine.openshift.io", ("machinesets",), (*READ, "patch"), _BOUNDS_PURPOSE),
                    OPENSHIFT_EVENTS,
                    *rbac.lease_grant(machine_apis.MACHINE_API_NAMESPACE, _MACHINE_AUTOSCALER_NAME).rules,
                ),
                machine_apis.MACHINE_API_NAMESPACE,
            ),
            RoleGrant(
                (PolicyRule("cluster.x-k8s.io", ("machinesets",), (*READ, "patch"), _BOUNDS_PURPOSE), OPENSHIFT_EVENTS),
                machine_apis.CLUSTER_API_NAMESPACE,
            ),
        ),
    ),
)

_MACHINESET_SYNC_NAME = "machineset-sync"

_MACHINE_API_GROUP, _CLUSTER_API_GROUP = "machine.openshift.io", "cluster.x-k8s.io"

_DELETE_MARKS_PURPOSE = "marks of Machines that are to go first"

MACHINESET_SYNC = (
    RbacProfile(
        _MACHINESET_SYNC_NAME,
        "`windlass operator --controllers=machineset_sync --leader-elect-namespace=openshift-cluster-api`, as a"
        " ServiceAccount whom the policies in deploy/policies let through.",
        ServiceAccount("capi-controllers", machine_apis.CLUSTER_API_NAMESPACE),
        (
            RoleGrant(
                (
                    PolicyRule(
                        "config.openshift.io",
                        ("infrastructures",),
                        ("get",),
                        "what the Cluster is called (without --machineset-sync-cluster)",
                        ("cluster",),
                    ),
                )
            ),
            RoleGrant(
                (
                    PolicyRule(
                        _MACHINE_API_GROUP, ("machinesets",), (*READ, "patch", "delete"), "MachineSets of Machine API"
                    ),
                    PolicyRule(
                        _MACHINE_API_GROUP, ("machinesets/status",), ("patch",), "whose authority they are under"
                    ),
                    PolicyRule(_MACHINE_API_GROUP, ("machines",), (*READ, "patch"), _DELETE_MARKS_PURPOSE),
                    OPENSHIFT_EVENTS,
                ),
                machine_apis.MACHINE_API_NAMESPACE,
            ),
            RoleGrant(
                (
                    PolicyRule(
                        _CLUSTER_API_GROUP, ("machinesets",), (*READ, "create", "patch", "delete"), "their mirrors"
                    ),
                    PolicyRule(_CLUSTER_API_GROUP, ("machinesets/status",), ("patch",), "how they fare"),
                    PolicyRule(_CLUSTER_API_GROUP, ("machines",), (*READ, "patch"), _DELETE_MARKS_PURPOSE),
                    PolicyRule(_CLUSTER_API_GROUP, ("clusters",), READ, "the Cluster that mirrors belong to"),
                    rbac.block_owner_deletion_rule(_CLUSTER_API_GROUP, "clusters"),
                    PolicyRule(
                        "infrastructure.cluster.x-k8s.io",
                        ("*",),
                        (*READ, "create", "patch", "delete"),
                        "templates; who knows the cloud's own kind may name it in place of all",
                    ),
                    OPENSHIFT_EVENTS,
                    *rbac.lease_grant(machine_apis.CLUSTER_API_NAMESPACE, "windlass-operator").rules,
                ),
                machine_apis.CLUSTER_API_NAMESPACE,
            ),
        ),
    ),
)
