"""The kinds that the world is made of, by API group and plural."""

Kind = tuple[str, str]

PODS: Kind = ("", "pods")
NODES: Kind = ("", "nodes")
NAMESPACES: Kind = ("", "namespaces")
DEPLOYMENTS: Kind = ("apps", "deployments")
REPLICA_SETS: Kind = ("apps", "replicasets")
STATEFUL_SETS: Kind = ("apps", "statefulsets")
DAEMON_SETS: Kind = ("apps", "daemonsets")
JOBS: Kind = ("batch", "jobs")
BUDGETS: Kind = ("policy", "poddisruptionbudgets")
PRIORITY_CLASSES: Kind = ("scheduling.k8s.io", "priorityclasses")
CLUSTERS: Kind = ("cluster.x-k8s.io", "clusters")
MACHINE_DEPLOYMENTS: Kind = ("cluster.x-k8s.io", "machinedeployments")
MACHINE_SETS: Kind = ("cluster.x-k8s.io", "machinesets")
MACHINES: Kind = ("cluster.x-k8s.io", "machines")
MACHINE_POOLS: Kind = ("cluster.x-k8s.io", "machinepools")
MACHINE_TEMPLATES: Kind = ("infrastructure.cluster.x-k8s.io", "simulatedmachinetemplates")
POD_TEMPLATES: Kind = ("", "podtemplates")
PROVISIONING_REQUESTS: Kind = ("autoscaling.x-k8s.io", "provisioningrequests")
CAPACITY_BUFFERS: Kind = ("autoscaling.x-k8s.io", "capacitybuffers")

WATCHED = (
    PODS, NODES, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, BUDGETS, MACHINE_DEPLOYMENTS,
    MACHINE_SETS, MACHINES, PROVISIONING_REQUESTS,
)  # fmt: skip
"""Kinds whose changes the parts are told of."""
