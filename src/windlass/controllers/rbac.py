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


def _lease_grant(namespace: str, name: str) -> RoleGrant:
    """Leader election, and events about the Lease: whether controllers are ready."""
    events = PolicyRule("", ("events",), ("create",), "events about the Lease: whether controllers are ready")
    return RoleGrant((*rbac.lease_grant(namespace, name).rules, events), namespace)


OPERATOR = RbacProfile(
    "operator",
    f"`windlass operator --leader-elect-namespace={ACCOUNT.namespace}`. Each controller has a further file.",
    ACCOUNT,
    (_lease_grant(ACCOUNT.namespace, "windlass-operator"),),
)

_MACHINE_DEPLOYMENTS = ("machinedeployments",)

MANAGE_MACHINE_DEPLOYMENTS = PolicyRule(
    CLUSTER_API_GROUP,
    _MACHINE_DEPLOYMENTS,
    ("get", *READ, "create", "patch"),
    "MachineDeployments of the pools; replicas of autoscaled ones are the autoscaler's",
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
                    PolicyRule(_EKS_ANYWHERE_GROUP, ("clusters/status",), ("patch",), "status"),
                )
            ),
            RoleGrant(
                (
                    MANAGE_MACHINE_DEPLOYMENTS,
                    DELETE_MACHINE_DEPLOYMENTS,
                    PolicyRule("cluster.x-k8s.io", ("clusters",), READ, "Clusters of the pools"),
                    PolicyRule(
                        "controlplane.cluster.x-k8s.io", ("kubeadmcontrolplanes",), READ, "control plane readiness"
                    ),
                    PolicyRule("etcdcluster.cluster.x-k8s.io", ("etcdadmclusters",), READ, "etcd readiness"),
                    PolicyRule("", ("namespaces",), ("get",), "existence of the namespace"),
                ),
                model.NAMESPACE,
            ),
        ),
        is_option=True,
    ),
)

_LATTICE_GROUP = lattice_model.API_VERSION.partition("/")[0]

_ADOPTED_LATTICE_GROUP = lattice_model.ADOPTED_API_VERSION.partition("/")[0]

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
                PolicyRule(_LATTICE_GROUP, ("latticeclusters/status",), ("patch",), "status"),
                PolicyRule(_ADOPTED_LATTICE_GROUP, ("latticeclusters",), READ, "those of Lattice's own operator"),
                MANAGE_MACHINE_DEPLOYMENTS,
                PolicyRule("", ("events",), ("create", "patch"), "events about pools"),
            )
        ),
    ),
    is_option=True,
)


_OWN_IMAGE = PolicyRule("", ("pods",), ("get",), "image of its own pod, which the autoscaler runs as well")


def lattice_autoscaler_rights(handed: lattice_model.AutoscalerRules) -> RbacProfile:
    """The permissions that the Lattice controller needs to deploy the autoscaler."""
    whole = (
        PolicyRule(
            "", ("namespaces",), ("get",), "existence of the autoscaler's namespace", (lattice_model.SYSTEM_NAMESPACE,)
        ),
        PolicyRule(
            rbac.GROUP,
            ("clusterroles", "clusterrolebindings"),
            ("create",),
            "creation of its cluster roles and bindings",
        ),
        PolicyRule(
            rbac.GROUP,
            ("clusterroles", "clusterrolebindings"),
            _GET_PATCH,
            "update of its own objects",
            _AUTOSCALER_NAME,
        ),
    )
    inside = (
        PolicyRule("", ("serviceaccounts",), ("create",), "creation of the autoscaler's ServiceAccount"),
        PolicyRule("", ("serviceaccounts",), _GET_PATCH, "update of its own objects", _AUTOSCALER_NAME),
        PolicyRule(rbac.GROUP, ("roles", "rolebindings"), ("create",), "creation of its roles and bindings"),
        PolicyRule(rbac.GROUP, ("roles", "rolebindings"), _GET_PATCH, "update of its own objects", _AUTOSCALER_NAME),
        PolicyRule("apps", ("deployments",), ("create",), "the autoscaler"),
        PolicyRule("apps", ("deployments",), _GET_PATCH, "update of its own objects", _AUTOSCALER_NAME),
    )
    return RbacProfile(
        "lattice-deploy-autoscaler",
        "`windlass operator --controllers=lattice --lattice-deploy-autoscaler`, the default, in addition: deploying"
        " the autoscaler, and the autoscaler's own permissions, because RBAC lets it grant no others.",
        ACCOUNT,
        (
            RoleGrant((*whole, *handed.cluster)),
            RoleGrant((*inside, *handed.own), lattice_model.SYSTEM_NAMESPACE),
            RoleGrant((_OWN_IMAGE,), ACCOUNT.namespace),
        ),
        is_option=True,
    )


_MACHINE_POOL_GROUP = "cluster.x-k8s.io"

_PROVIDER_GROUPS = ("infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io")

_READ_DEFINITIONS = PolicyRule(
    "apiextensions.k8s.io", ("customresourcedefinitions",), READ, "definitions of the kinds that pools refer to"
)

MACHINE_POOL_NAMESPACED_RULES = (
    PolicyRule(
        _MACHINE_POOL_GROUP,
        ("machinepools",),
        (*READ, "patch"),
        "pools: finalizers, owner references, copied fields",
    ),
    PolicyRule(_MACHINE_POOL_GROUP, ("machinepools/status",), ("patch",), "status"),
    rbac.block_owner_deletion_rule(_MACHINE_POOL_GROUP, "machinepools"),
    PolicyRule(
        _MACHINE_POOL_GROUP,
        ("machinepools",),
        ("delete",),
        "pools of a Cluster that is deleted; owner references (OwnerReferencesPermissionEnforcement)",
    ),
    PolicyRule(
        _MACHINE_POOL_GROUP,
        ("clusters",),
        (*READ, "patch"),
        "Clusters: paused, being deleted; the finalizer that keeps them until their pools are gone",
    ),
    PolicyRule(
        _MACHINE_POOL_GROUP,
        ("machines",),
        (*READ, "create", "patch"),
        "Machines for the machines of an infrastructure pool",
    ),
    PolicyRule(_MACHINE_POOL_GROUP, ("machines/status",), ("patch",), "conditions of Machines"),
    PolicyRule(_PROVIDER_GROUPS[0], ("*",), (*READ, "patch", "delete"), "infrastructure pools and their machines"),
    PolicyRule(_PROVIDER_GROUPS[1], ("*",), (*READ, "patch", "delete"), "bootstrap configs"),
    PolicyRule("", ("secrets",), ("get", *READ), "<cluster>-kubeconfig: the way to a workload cluster"),
    PolicyRule("", ("events",), ("create", "patch"), "events about pools"),
)
"""Permissions in the namespaces of MachinePools."""

MACHINE_POOL_MANAGEMENT_RULES = (*MACHINE_POOL_NAMESPACED_RULES, _READ_DEFINITIONS)

POOL_NAMESPACE = "machine-pools"
"""Placeholder for the namespace of `--namespace`."""

MACHINE_POOL_WORKLOAD_RULES = (
    PolicyRule("", ("nodes",), (*READ, "patch", "delete"), "annotations and taints; deletion of leftover nodes"),
)
"""Permissions of the user of a workload cluster's kubeconfig."""

_PROVIDER_ROLES = {
    "matchLabels": {"cluster.x-k8s.io/aggregate-to-manager": "true"},
    # Cluster API's own manager has the label, too; its role reads all Secrets.
    "matchExpressions": [{"key": "cluster.x-k8s.io/provider", "operator": "NotIn", "values": ["cluster-api"]}],
}

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
        (
            RoleGrant(
                (
                    *MACHINE_POOL_NAMESPACED_RULES,
                    PolicyRule("", ("namespaces",), ("get",), "existence of the namespace"),
                ),
                POOL_NAMESPACE,
            ),
            RoleGrant((_READ_DEFINITIONS,)),
        ),
        is_option=True,
    ),
    RbacProfile(
        "machine-pool-providers",
        "The same: kinds of providers whose API group is another than Cluster API's own. By the contract of Cluster API"
        " they grant the rights on their kinds in ClusterRoles with this label.",
        ACCOUNT,
        (RoleGrant((), aggregated=(_PROVIDER_ROLES,)),),
        is_option=True,
    ),
    RbacProfile(
        "machine-pool-providers-namespaced",
        "The same for machine-pool-namespaced.yaml: what those ClusterRoles allow, in that namespace.",
        ACCOUNT,
        (RoleGrant((), POOL_NAMESPACE, (_PROVIDER_ROLES,)),),
        is_option=True,
    ),
    RbacProfile(
        "machine-pool-workload",
        "Requests to a workload cluster, under the identity of the Secret <cluster>-kubeconfig. Cluster API's manager"
        " reads the same Secret and needs more.",
        None,
        (RoleGrant(MACHINE_POOL_WORKLOAD_RULES),),
    ),
)

OPENSHIFT_EVENTS = PolicyRule("", ("events",), ("create", "patch"), "events")

OPENSHIFT_FEATURE_GATES = PolicyRule(
    "config.openshift.io",
    ("featuregates", "infrastructures", "clusterversions"),
    READ,
    "feature gates, platform, and the version of OpenShift",
)

_OPERATOR_NAME = "cluster-autoscaler-operator"

OPENSHIFT_OPERATOR_LEASE = f"{_OPERATOR_NAME}-leader"
"""The Lease of OpenShift's own operator: the two never act at the same time."""

_AUTOSCALING_GROUP = "autoscaling.openshift.io"

_CONFIG_GROUP = "config.openshift.io"

_MANAGE_VERBS = (*READ, "create", "update")

CLUSTER_AUTOSCALER = (
    RbacProfile(
        _OPERATOR_NAME,
        "`windlass operator --controllers=cluster_autoscaler"
        f" --leader-elect-namespace={machine_apis.MACHINE_API_NAMESPACE}"
        f" --leader-elect-name={OPENSHIFT_OPERATOR_LEASE}`."
        " The autoscaler that it deploys has its own permissions (cluster-autoscaler.yaml).",
        ServiceAccount(_OPERATOR_NAME, machine_apis.MACHINE_API_NAMESPACE),
        (
            RoleGrant(
                (
                    PolicyRule(_AUTOSCALING_GROUP, ("clusterautoscalers",), READ, "configuration of the autoscaler"),
                    PolicyRule(_AUTOSCALING_GROUP, ("clusterautoscalers/status",), ("patch",), "status"),
                    rbac.block_owner_deletion_rule(_AUTOSCALING_GROUP, "clusterautoscalers"),
                    OPENSHIFT_FEATURE_GATES,
                    PolicyRule(_CONFIG_GROUP, ("clusteroperators",), READ, "whether Machine API is installed"),
                    PolicyRule(_CONFIG_GROUP, ("clusteroperators",), ("create",), "ClusterOperator status"),
                    PolicyRule(
                        _CONFIG_GROUP,
                        ("clusteroperators/status",),
                        ("patch",),
                        "ClusterOperator status",
                        (cluster_autoscaler_model.AUTOSCALER,),
                    ),
                )
            ),
            RoleGrant(
                (
                    PolicyRule("apps", ("deployments",), (*_MANAGE_VERBS, "delete"), "the autoscaler"),
                    PolicyRule("", ("services",), _MANAGE_VERBS, "Services for metrics and webhooks"),
                    PolicyRule(
                        "monitoring.coreos.com",
                        ("servicemonitors", "prometheusrules"),
                        _MANAGE_VERBS,
                        "ServiceMonitor and alerts",
                    ),
                    PolicyRule("networking.k8s.io", ("networkpolicies",), _MANAGE_VERBS, "NetworkPolicies"),
                    PolicyRule(
                        _AUTOSCALING_GROUP,
                        ("machineautoscalers",),
                        READ,
                        "related objects in the ClusterOperator status",
                    ),
                    OPENSHIFT_EVENTS,
                    _OWN_IMAGE,
                    *rbac.lease_grant(machine_apis.MACHINE_API_NAMESPACE, OPENSHIFT_OPERATOR_LEASE).rules,
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
                    PolicyRule(_AUTOSCALING_GROUP, ("machineautoscalers/status",), ("patch",), "status"),
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

_DELETE_MARKS_PURPOSE = "delete annotation of Machines"

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
                        "infrastructure name (without --machineset-sync-cluster)",
                        ("cluster",),
                    ),
                    PolicyRule(
                        "apiextensions.k8s.io",
                        ("customresourcedefinitions",),
                        ("get",),
                        "whether a mirror that is deleted goes with its definition: its MachineSet stays then",
                        (f"machinesets.{_CLUSTER_API_GROUP}",),
                    ),
                )
            ),
            RoleGrant(
                (
                    PolicyRule(
                        _MACHINE_API_GROUP, ("machinesets",), (*READ, "patch", "delete"), "MachineSets of Machine API"
                    ),
                    PolicyRule(_MACHINE_API_GROUP, ("machinesets/status",), ("patch",), "authority of MachineSets"),
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
                    PolicyRule(_CLUSTER_API_GROUP, ("machinesets/status",), ("patch",), "status"),
                    PolicyRule(_CLUSTER_API_GROUP, ("machines",), (*READ, "patch"), _DELETE_MARKS_PURPOSE),
                    PolicyRule(_CLUSTER_API_GROUP, ("clusters",), ("get", *READ), "Clusters of mirrored MachineSets"),
                    rbac.block_owner_deletion_rule(_CLUSTER_API_GROUP, "clusters"),
                    PolicyRule(
                        "infrastructure.cluster.x-k8s.io",
                        ("*",),
                        (*READ, "create", "patch", "delete"),
                        "infrastructure templates; can be narrowed to the provider's own kind",
                    ),
                    OPENSHIFT_EVENTS,
                    *rbac.lease_grant(machine_apis.CLUSTER_API_NAMESPACE, "windlass-operator").rules,
                    PolicyRule(
                        "coordination.k8s.io",
                        ("leases",),
                        ("get",),
                        "whether OpenShift's own sync is running",
                        ("machine-api-migration-leader",),
                    ),
                    PolicyRule("", ("namespaces",), ("get",), "the same of its namespace"),
                ),
                machine_apis.CLUSTER_API_NAMESPACE,
            ),
        ),
    ),
)
