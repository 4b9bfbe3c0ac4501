"""Permissions: what ProvisioningRequests, CapacityBuffers and CapacityQuotas take, each where its flag is on."""

from windlass.kube.rights import READ, Rule

_GROUP = "autoscaling.x-k8s.io"
_WORKLOADS = ("deployments", "replicasets", "statefulsets")

REQUESTS = (
    Rule(_GROUP, ("provisioningrequests",), (*READ, "delete"), "requests; those that ended long ago are deleted"),
    Rule(_GROUP, ("provisioningrequests/status",), ("patch",), "answering them"),
    Rule("", ("podtemplates",), READ, "the pods that they ask for"),
)

BUFFERS = (
    Rule(_GROUP, ("capacitybuffers",), READ, "the room to keep"),
    Rule(_GROUP, ("capacitybuffers/status",), ("patch",), "how much of it is kept"),
    Rule("", ("podtemplates",), READ, "the pods that room is kept for"),
    Rule("", ("podtemplates",), ("create", "patch"), "what they are like, when the server has completed them"),
    Rule("", ("resourcequotas",), READ, "how many of them their namespace may have"),
    Rule(
        "",
        ("pods",),
        ("create",),
        "in a dry run only, so that the server completes them",
    ),
    Rule("", ("replicationcontrollers", "replicationcontrollers/scale"), ("get",), "workloads that buffers follow"),
    Rule("apps", (*_WORKLOADS, *(f"{one}/scale" for one in _WORKLOADS)), ("get",), "workloads that buffers follow"),
    Rule("batch", ("jobs",), ("get",), "workloads that buffers follow; Jobs have no scale"),
)

QUOTAS = (
    Rule(_GROUP, ("capacityquotas",), READ, "how large the cluster may become"),
    Rule(_GROUP, ("capacityquotas/status",), ("patch",), "how much of that is used"),
)
