"""Permissions: what the autoscaler takes, in the cluster whose pods it serves; none of it is about Secrets.

Those of single options are in lists of their own, next to their code where they have some.
"""

from windlass.autoscaler import memory_parts, priorities, wiring
from windlass.autoscaler.batch import permissions as batch
from windlass.kube import rights
from windlass.kube.rights import READ, Account, Grant, Rights, Rule
from windlass.providers.clusterapi import permissions as clusterapi

SYSTEM_NAMESPACE = "windlass-system"
_ACCOUNT = Account("windlass-autoscaler", SYSTEM_NAMESPACE)
_OBJECTS = wiring.Objects()

OBSERVING = (
    Rule("", ("nodes", "pods", "namespaces"), READ, "what waits, what it could run on, and what affinity speaks of"),
    Rule("", ("replicationcontrollers",), READ, "whether a pod that is evicted comes back"),
    Rule("apps", ("replicasets", "statefulsets"), READ, "whether a pod that is evicted comes back"),
    Rule("batch", ("jobs",), READ, "whether a pod that is evicted comes back"),
    Rule("apps", ("daemonsets",), READ, "which pods a new node has from the start"),
    Rule("policy", ("poddisruptionbudgets",), READ, "which pods may be evicted now"),
    Rule("", ("persistentvolumes", "persistentvolumeclaims"), READ, "where volumes let their pods run"),
    Rule(
        "storage.k8s.io",
        ("csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"),
        READ,
        "where volumes let their pods run",
    ),
    Rule(
        "resource.k8s.io",
        ("deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices"),
        READ,
        "where devices let pods run",
    ),
)
"""What a decision looks at, but for the node groups."""

ACTING = (
    Rule("", ("nodes",), ("get", "update"), "taints, and the cordon, of nodes that are to go"),
    Rule("", ("pods/eviction",), ("create",), "draining a node, with the budgets' consent"),
    Rule("", ("events",), ("create", "patch"), "what was done and why, told of pods and nodes"),
)
"""What is done in the cluster. Nodes and Machines are deleted by their own controllers."""


def memory_maps() -> tuple[str, ...]:
    """Where memory is kept; all but the first are for clusters with some 100,000 timers."""
    return (_OBJECTS.memory_config_map, *memory_parts.names(_OBJECTS.memory_config_map))


def own(namespace: str, lease: str = wiring.LeaderElection().leader_elect_resource_name) -> Grant:
    """What is done to objects of its own, by the names that flags give them unless told otherwise."""
    maps = ("configmaps",)
    told, kept = _OBJECTS.status_config_map_name, memory_maps()
    rules = (
        Rule("", maps, ("create",), "its ConfigMaps, the first time"),
        Rule("", maps, ("get", "update", "delete"), "the status (--status-config-map-name)", (told,)),
        Rule("", maps, ("get", "update"), "timers and requests, over a restart (--memory-config-map)", kept),
    )
    return Grant((*rights.lease(namespace, lease).rules, *rules), namespace)


def handed(namespace: str) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """All that an autoscaler on one cluster takes without options: in the cluster, and in its own namespace."""
    return (*OBSERVING, *ACTING, *clusterapi.READING, *clusterapi.scaling()), own(namespace).rules


def follow_priorities(namespace: str) -> Grant:
    """What --expander=priority reads."""
    return Grant((Rule("", ("configmaps",), READ, "the priorities of groups", (priorities.NAME,)),), namespace)


AUTOSCALER = Rights(
    "autoscaler",
    f"`windlass autoscaler --namespace={SYSTEM_NAMESPACE}`, in the cluster whose pods it serves.",
    _ACCOUNT,
    (Grant((*OBSERVING, *ACTING)), own(SYSTEM_NAMESPACE)),
)
CLUSTER_API = Rights(
    "autoscaler-clusterapi",
    "`windlass autoscaler`, in the management cluster, where the Machines are; often the same. With"
    " --node-group-auto-discovery=clusterapi:namespace=… a RoleBinding in that namespace is enough.",
    _ACCOUNT,
    (Grant((*clusterapi.READING, *clusterapi.scaling(), *clusterapi.REPORTING)),),
    is_option=True,
)
PRIORITY_EXPANDER = Rights(
    "autoscaler-priority-expander",
    "`windlass autoscaler --expander=priority`, besides.",
    _ACCOUNT,
    (follow_priorities(SYSTEM_NAMESPACE),),
    is_option=True,
)
PROVISIONING_REQUESTS = Rights(
    "autoscaler-provisioning-requests",
    "`windlass autoscaler --enable-provisioning-requests`, besides.",
    _ACCOUNT,
    (Grant(batch.REQUESTS),),
    is_option=True,
)
CAPACITY_BUFFERS = Rights(
    "autoscaler-capacity-buffers",
    "`windlass autoscaler --capacity-buffer-controller-enabled`, besides. A buffer may follow any workload that has"
    " /scale; those of other groups than these need a rule of their own.",
    _ACCOUNT,
    (Grant(batch.BUFFERS),),
    is_option=True,
)
CAPACITY_QUOTAS = Rights(
    "autoscaler-capacity-quotas",
    "`windlass autoscaler --capacity-quotas-enabled`, besides.",
    _ACCOUNT,
    (Grant(batch.QUOTAS),),
    is_option=True,
)
SHADOW = Rights(
    "shadow",
    "`windlass autoscaler --shadow`, beside another autoscaler: it reads, and writes nothing.",
    Account("windlass-shadow", SYSTEM_NAMESPACE),
    (
        Grant(
            (
                *OBSERVING,
                *clusterapi.READING,
                Rule("", ("events",), READ, "the reasons that the other autoscaler gives"),
            )
        ),
    ),
)
VIEWER = Rights(
    "viewer",
    "`windlass plan`, `explain` and `status` (without --address), and `windlass autoscaler --dry-run`, with the rights"
    " of whoever asks. Bind it to them.",
    None,
    (
        Grant((*OBSERVING, *clusterapi.READING)),
        Grant(
            (
                Rule(
                    "",
                    ("configmaps",),
                    ("get",),
                    "the timers of the autoscaler that runs",
                    memory_maps(),
                ),
            ),
            SYSTEM_NAMESPACE,
        ),
    ),
)

EVERY = (
    AUTOSCALER,
    CLUSTER_API,
    PRIORITY_EXPANDER,
    PROVISIONING_REQUESTS,
    CAPACITY_BUFFERS,
    CAPACITY_QUOTAS,
    SHADOW,
    VIEWER,
)
