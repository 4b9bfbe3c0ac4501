"""RBAC rules of the autoscaler, by role; none of them covers Secrets.

Rules of single options (priority expander, ProvisioningRequests, CapacityBuffers, CapacityQuotas) are roles of their
own.
"""

from windlass.autoscaler import memory_store
from windlass.autoscaler.options import process_options
from windlass.kube import rbac
from windlass.kube.rbac import READ, PolicyRule, RbacProfile, RoleGrant, ServiceAccount
from windlass.observability import options
from windlass.providers.clusterapi import provider

SYSTEM_NAMESPACE = "windlass-system"

_ACCOUNT = ServiceAccount("windlass-autoscaler", SYSTEM_NAMESPACE)

_OBJECTS = options.ObjectOptions()

OBSERVER_RULES = (
    PolicyRule(
        "",
        ("nodes", "pods", "namespaces"),
        READ,
        "pending pods, candidate nodes, namespaces selected by affinity terms",
    ),
    PolicyRule("", ("replicationcontrollers",), READ, "whether evicted pods are recreated"),
    PolicyRule("apps", ("replicasets", "statefulsets"), READ, "whether evicted pods are recreated"),
    PolicyRule("batch", ("jobs",), READ, "whether evicted pods are recreated"),
    PolicyRule("apps", ("daemonsets",), READ, "DaemonSet pods of new nodes"),
    PolicyRule("policy", ("poddisruptionbudgets",), READ, "allowed disruptions"),
    PolicyRule("", ("persistentvolumes", "persistentvolumeclaims"), READ, "volume constraints of pods"),
    PolicyRule(
        "storage.k8s.io",
        ("csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"),
        READ,
        "volume constraints of pods",
    ),
    PolicyRule(
        "resource.k8s.io",
        ("deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices"),
        READ,
        "device claims of pods",
    ),
)
"""Rules to observe the workload cluster, except node groups."""

ACTUATOR_RULES = (
    PolicyRule("", ("nodes",), ("get", "update"), "deletion taint and cordon"),
    PolicyRule("", ("pods/eviction",), ("create",), "drain, subject to PodDisruptionBudgets"),
    PolicyRule("", ("events",), ("create", "patch"), "events on pods and nodes"),
)
"""Rules to act on the workload cluster. Controllers delete Nodes and Machines."""


def memory_config_maps() -> tuple[str, ...]:
    """Names of the memory ConfigMaps; all but the first are for clusters with some 100,000 timers."""
    return (_OBJECTS.memory_config_map, *memory_store.part_names(_OBJECTS.memory_config_map))


def own_objects_grant(
    namespace: str, lease: str = process_options.LeaderElectionOptions().leader_elect_resource_name
) -> RoleGrant:
    """Rules for windlass's own objects, by their default names or those of flags."""
    maps = ("configmaps",)
    told, kept = _OBJECTS.status_config_map_name, memory_config_maps()
    rules = (
        PolicyRule("", maps, ("create",), "creation of its ConfigMaps"),
        PolicyRule("", maps, ("get", "update", "delete"), "status ConfigMap (--status-config-map-name)", (told,)),
        PolicyRule("", maps, ("get", "update"), "memory kept across restarts (--memory-config-map)", kept),
    )
    return RoleGrant((*rbac.lease_grant(namespace, lease).rules, *rules), namespace)


def base_rules(namespace: str) -> tuple[tuple[PolicyRule, ...], tuple[PolicyRule, ...]]:
    """Rules of an autoscaler on one cluster without optional features: cluster-wide, and in its own namespace."""
    return (*OBSERVER_RULES, *ACTUATOR_RULES, *provider.READ_RULES, *provider.scale_rules()), own_objects_grant(
        namespace
    ).rules


def priority_expander_grant(namespace: str) -> RoleGrant:
    """Rules to read the ConfigMap of --expander=priority."""
    return RoleGrant(
        (PolicyRule("", ("configmaps",), READ, "priorities of node groups", (options.PRIORITY_CONFIG_MAP,)),), namespace
    )


AUTOSCALER = RbacProfile(
    "autoscaler",
    f"`windlass autoscaler --namespace={SYSTEM_NAMESPACE}`, in the cluster whose pods it serves.",
    _ACCOUNT,
    (RoleGrant((*OBSERVER_RULES, *ACTUATOR_RULES)), own_objects_grant(SYSTEM_NAMESPACE)),
)

CLUSTER_API = RbacProfile(
    "autoscaler-clusterapi",
    "`windlass autoscaler`, in the management cluster, which may be the same cluster. With"
    " --node-group-auto-discovery=clusterapi:namespace=… a RoleBinding in that namespace suffices.",
    _ACCOUNT,
    (RoleGrant((*provider.READ_RULES, *provider.scale_rules(), *provider.EVENT_RULES)),),
    is_option=True,
)

PRIORITY_EXPANDER = RbacProfile(
    "autoscaler-priority-expander",
    "`windlass autoscaler --expander=priority`, in addition.",
    _ACCOUNT,
    (priority_expander_grant(SYSTEM_NAMESPACE),),
    is_option=True,
)

SHADOW = RbacProfile(
    "shadow",
    "`windlass autoscaler --shadow`, beside another autoscaler. Read-only.",
    ServiceAccount("windlass-shadow", SYSTEM_NAMESPACE),
    (
        RoleGrant(
            (
                *OBSERVER_RULES,
                *provider.READ_RULES,
                PolicyRule("", ("events",), READ, "events of the other autoscaler"),
            )
        ),
    ),
)

VIEWER = RbacProfile(
    "viewer",
    "`windlass plan`, `explain` and `status` (without --address), and `windlass autoscaler --dry-run`, run by a user."
    " Bind it to that user.",
    None,
    (
        RoleGrant((*OBSERVER_RULES, *provider.READ_RULES)),
        RoleGrant(
            (
                PolicyRule(
                    "",
                    ("configmaps",),
                    ("get",),
                    "memory of the running autoscaler",
                    memory_config_maps(),
                ),
            ),
            SYSTEM_NAMESPACE,
        ),
    ),
)

_AUTOSCALING_GROUP = "autoscaling.x-k8s.io"

_WORKLOADS = ("deployments", "replicasets", "statefulsets")

PROVISIONING_REQUEST_RULES = (
    PolicyRule(
        _AUTOSCALING_GROUP,
        ("provisioningrequests",),
        (*READ, "delete"),
        "requests; deletion of those that ended long ago",
    ),
    PolicyRule(_AUTOSCALING_GROUP, ("provisioningrequests/status",), ("patch",), "conditions of requests"),
    PolicyRule("", ("podtemplates",), READ, "pod templates of requests"),
)

PROVISIONING_REQUESTS = RbacProfile(
    "autoscaler-provisioning-requests",
    "`windlass autoscaler --enable-provisioning-requests`, in addition.",
    _ACCOUNT,
    (RoleGrant(PROVISIONING_REQUEST_RULES),),
    is_option=True,
)

CAPACITY_BUFFER_RULES = (
    PolicyRule(_AUTOSCALING_GROUP, ("capacitybuffers",), READ, "buffers"),
    PolicyRule(_AUTOSCALING_GROUP, ("capacitybuffers/status",), ("patch",), "status of buffers"),
    PolicyRule("", ("podtemplates",), READ, "pod templates of buffers"),
    PolicyRule("", ("podtemplates",), ("create", "patch"), "resolved pod templates, with the server's defaults"),
    PolicyRule("", ("resourcequotas",), READ, "quotas that limit buffers"),
    PolicyRule(
        "",
        ("pods",),
        ("create",),
        "dry run only: the server's defaults for a pod",
    ),
    PolicyRule(
        "", ("replicationcontrollers", "replicationcontrollers/scale"), ("get",), "workloads that buffers refer to"
    ),
    PolicyRule(
        "apps", (*_WORKLOADS, *(f"{one}/scale" for one in _WORKLOADS)), ("get",), "workloads that buffers refer to"
    ),
    PolicyRule("batch", ("jobs",), ("get",), "workloads that buffers refer to; Jobs have no scale subresource"),
)

CAPACITY_BUFFERS = RbacProfile(
    "autoscaler-capacity-buffers",
    "`windlass autoscaler --capacity-buffer-controller-enabled`, in addition. A buffer may refer to any workload that"
    " has a scale subresource; other API groups need a rule of their own.",
    _ACCOUNT,
    (RoleGrant(CAPACITY_BUFFER_RULES),),
    is_option=True,
)

CAPACITY_QUOTA_RULES = (
    PolicyRule(_AUTOSCALING_GROUP, ("capacityquotas",), READ, "limits of the cluster"),
    PolicyRule(_AUTOSCALING_GROUP, ("capacityquotas/status",), ("patch",), "usage reported in their status"),
)

CAPACITY_QUOTAS = RbacProfile(
    "autoscaler-capacity-quotas",
    "`windlass autoscaler --capacity-quotas-enabled`, in addition.",
    _ACCOUNT,
    (RoleGrant(CAPACITY_QUOTA_RULES),),
    is_option=True,
)

ALL_ROLES = (
    AUTOSCALER,
    CLUSTER_API,
    PRIORITY_EXPANDER,
    PROVISIONING_REQUESTS,
    CAPACITY_BUFFERS,
    CAPACITY_QUOTAS,
    SHADOW,
    VIEWER,
)
