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
        "", ("nodes", "pods", "namespaces"), READ, "what waits, what it could run on, and what affinity speaks of"
    ),
    PolicyRule("", ("replicationcontrollers",), READ, "whether a pod that is evicted comes back"),
    PolicyRule("apps", ("replicasets", "statefulsets"), READ, "whether a pod that is evicted comes back"),
    PolicyRule("batch", ("jobs",), READ, "whether a pod that is evicted comes back"),
    PolicyRule("apps", ("daemonsets",), READ, "which pods a new node has from the start"),
    PolicyRule("policy", ("poddisruptionbudgets",), READ, "which pods may be evicted now"),
    PolicyRule("", ("persistentvolumes", "persistentvolumeclaims"), READ, "where volumes let their pods run"),
    PolicyRule(
        "storage.k8s.io",
        ("csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"),
        READ,
        "where volumes let their pods run",
    ),
    PolicyRule(
        "resource.k8s.io",
        ("deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices"),
        READ,
        "where devices let pods run",
    ),
)
"""Rules to observe the workload cluster, except node groups."""

ACTUATOR_RULES = (
    PolicyRule("", ("nodes",), ("get", "update"), "taints, and the cordon, of nodes that are to go"),
    PolicyRule("", ("pods/eviction",), ("create",), "draining a node, with the budgets' consent"),
    PolicyRule("", ("events",), ("create", "patch"), "what was done and why, told of pods and nodes"),
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
        PolicyRule("", maps, ("create",), "its ConfigMaps, the first time"),
        PolicyRule("", maps, ("get", "update", "delete"), "the status (--status-config-map-name)", (told,)),
        PolicyRule("", maps, ("get", "update"), "timers and requests, over a restart (--memory-config-map)", kept),
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
        (PolicyRule("", ("configmaps",), READ, "the priorities of groups", (options.PRIORITY_CONFIG_MAP,)),), namespace
    )


AUTOSCALER = RbacProfile(
    "autoscaler",
    f"`windlass autoscaler --namespace={SYSTEM_NAMESPACE}`, in the cluster whose pods it serves.",
    _ACCOUNT,
    (RoleGrant((*OBSERVER_RULES, *ACTUATOR_RULES)), own_objects_grant(SYSTEM_NAMESPACE)),
)

CLUSTER_API = RbacProfile(
    "autoscaler-clusterapi",
    "`windlass autoscaler`, in the management cluster, where the Machines are; often the same. With"
    " --node-group-auto-discovery=clusterapi:namespace=… a RoleBinding in that namespace is enough.",
    _ACCOUNT,
    (RoleGrant((*provider.READ_RULES, *provider.scale_rules(), *provider.EVENT_RULES)),),
    is_option=True,
)

PRIORITY_EXPANDER = RbacProfile(
    "autoscaler-priority-expander",
    "`windlass autoscaler --expander=priority`, besides.",
    _ACCOUNT,
    (priority_expander_grant(SYSTEM_NAMESPACE),),
    is_option=True,
)

SHADOW = RbacProfile(
    "shadow",
    "`windlass autoscaler --shadow`, beside another autoscaler: it reads, and writes nothing.",
    ServiceAccount("windlass-shadow", SYSTEM_NAMESPACE),
    (
        RoleGrant(
            (
                *OBSERVER_RULES,
                *provider.READ_RULES,
                PolicyRule("", ("events",), READ, "the reasons that the other autoscaler gives"),
            )
        ),
    ),
)

VIEWER = RbacProfile(
    "viewer",
    "`windlass plan`, `explain` and `status` (without --address), and `windlass autoscaler --dry-run`, with the rights"
    " of whoever asks. Bind it to them.",
    None,
    (
        RoleGrant((*OBSERVER_RULES, *provider.READ_RULES)),
        RoleGrant(
            (
                PolicyRule(
                    "",
                    ("configmaps",),
                    ("get",),
                    "the timers of the autoscaler that runs",
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
        "requests; those that ended long ago are deleted",
    ),
    PolicyRule(_AUTOSCALING_GROUP, ("provisioningrequests/status",), ("patch",), "answering them"),
    PolicyRule("", ("podtemplates",), READ, "the pods that they ask for"),
)

PROVISIONING_REQUESTS = RbacProfile(
    "autoscaler-provisioning-requests",
    "`windlass autoscaler --enable-provisioning-requests`, besides.",
    _ACCOUNT,
    (RoleGrant(PROVISIONING_REQUEST_RULES),),
    is_option=True,
)

CAPACITY_BUFFER_RULES = (
    PolicyRule(_AUTOSCALING_GROUP, ("capacitybuffers",), READ, "the room to keep"),
    PolicyRule(_AUTOSCALING_GROUP, ("capacitybuffers/status",), ("patch",), "how much of it is kept"),
    PolicyRule("", ("podtemplates",), READ, "the pods that room is kept for"),
    PolicyRule("", ("podtemplates",), ("create", "patch"), "what they are like, when the server has completed them"),
    PolicyRule("", ("resourcequotas",), READ, "how many of them their namespace may have"),
    PolicyRule(
        "",
        ("pods",),
        ("create",),
        "in a dry run only, so that the server completes them",
    ),
    PolicyRule(
        "", ("replicationcontrollers", "replicationcontrollers/scale"), ("get",), "workloads that buffers follow"
    ),
    PolicyRule(
        "apps", (*_WORKLOADS, *(f"{one}/scale" for one in _WORKLOADS)), ("get",), "workloads that buffers follow"
    ),
    PolicyRule("batch", ("jobs",), ("get",), "workloads that buffers follow; Jobs have no scale"),
)

CAPACITY_BUFFERS = RbacProfile(
    "autoscaler-capacity-buffers",
    "`windlass autoscaler --capacity-buffer-controller-enabled`, besides. A buffer may follow any workload that has"
    " /scale; those of other groups than these need a rule of their own.",
    _ACCOUNT,
    (RoleGrant(CAPACITY_BUFFER_RULES),),
    is_option=True,
)

CAPACITY_QUOTA_RULES = (
    PolicyRule(_AUTOSCALING_GROUP, ("capacityquotas",), READ, "how large the cluster may become"),
    PolicyRule(_AUTOSCALING_GROUP, ("capacityquotas/status",), ("patch",), "how much of that is used"),
)

CAPACITY_QUOTAS = RbacProfile(
    "autoscaler-capacity-quotas",
    "`windlass autoscaler --capacity-quotas-enabled`, besides.",
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
