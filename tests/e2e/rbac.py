"""Rights: what cluster-autoscaler needs, as found by running it with none, and one user who has these and no more."""

from testbed import api
from tests.e2e.polling import wait_for
from windlass.autoscaler import rbac
from windlass.kube import rbac as spelling

USER = "nobody"
"""Of the test bed: someone who may do nothing else."""

_READ = ["list", "watch"]

WORKLOAD: list[api.Object] = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", *_READ, "update"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", *_READ]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {
        "apiGroups": [""],
        "resources": [
            "namespaces",
            "services",
            "replicationcontrollers",
            "persistentvolumes",
            "persistentvolumeclaims",
        ],
        "verbs": _READ,
    },
    {"apiGroups": ["apps"], "resources": ["daemonsets", "replicasets", "statefulsets"], "verbs": _READ},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": _READ},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _READ},
    {
        "apiGroups": ["storage.k8s.io"],
        "resources": ["csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"],
        "verbs": _READ,
    },
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices"],
        "verbs": _READ,
    },
]
"""In the whole cluster."""

OWN: list[api.Object] = [
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "update", "delete"]},
]
"""In kube-system."""

_GROUPS = ["machinedeployments", "machinesets", "machinepools"]
MANAGEMENT: list[api.Object] = [
    {"apiGroups": ["cluster.x-k8s.io"], "resources": _GROUPS, "verbs": _READ},
    {"apiGroups": ["cluster.x-k8s.io"], "resources": [f"{kind}/scale" for kind in _GROUPS], "verbs": ["get", "patch"]},
    {"apiGroups": ["cluster.x-k8s.io"], "resources": ["machines"], "verbs": ["get", *_READ, "update"]},
]
"""Where the Machines are."""

DRAIN_RULES: list[api.Object] = [
    {"apiGroups": ["cluster.x-k8s.io"], "resources": ["machinedrainrules", "clusters"], "verbs": _READ}
]
"""The same, for what Cluster Autoscaler does not read."""

TEMPLATES: list[api.Object] = [
    {
        "apiGroups": ["infrastructure.cluster.x-k8s.io"],
        "resources": ["fakemachinetemplates", "fakemachinepools"],
        "verbs": _READ,
    }
]
"""The same, of the infrastructure's own kinds."""

REQUESTS: list[api.Object] = [
    {
        "apiGroups": ["autoscaling.x-k8s.io"],
        "resources": ["provisioningrequests", "provisioningrequests/status"],
        "verbs": ["get", *_READ, "create", "update", "patch", "delete"],
    },
    {"apiGroups": [""], "resources": ["podtemplates"], "verbs": ["get", *_READ]},
]
"""In the whole cluster, as the FAQ has them."""

_RBAC = "rbac.authorization.k8s.io/v1"
_TEMPLATES_ROLE = f"/apis/{_RBAC}/clusterroles/autoscaler-templates"


def grant(server: api.Api) -> None:
    """Give the user all of these."""
    for name, rules in (
        ("workload", WORKLOAD),
        ("management", MANAGEMENT),
        ("drain-rules", DRAIN_RULES),
        ("templates", TEMPLATES),
    ):
        _bind(server, "ClusterRole", f"autoscaler-{name}", "", rules)
    _bind(server, "Role", "autoscaler-own", "kube-system", OWN)


def grant_requests(server: api.Api) -> None:
    """And what the FAQ asks for besides, where ProvisioningRequests are served."""
    _bind(server, "ClusterRole", "autoscaler-requests", "", REQUESTS)


def grant_capacity(server: api.Api) -> None:
    """And what is shipped for those who serve CapacityBuffers and CapacityQuotas."""
    for option in (rbac.CAPACITY_BUFFERS, rbac.CAPACITY_QUOTAS):
        for grant in option.grants:
            _bind(server, "ClusterRole", option.role_name, "", spelling.to_policy_rules(grant.rules))


def revoke_templates(server: api.Api) -> None:
    server.merge(_TEMPLATES_ROLE, {"rules": []})
    _wait_known(server, TEMPLATES[0], "", granted=False)


def restore_templates(server: api.Api) -> None:
    server.merge(_TEMPLATES_ROLE, {"rules": TEMPLATES})
    _wait_known(server, TEMPLATES[0], "", granted=True)


def _bind(server: api.Api, kind: str, name: str, namespace: str, rules: list[api.Object]) -> None:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    server.add({"apiVersion": _RBAC, "kind": kind, "metadata": metadata, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}
    binding = {"apiVersion": _RBAC, "kind": f"{kind}Binding", "metadata": metadata}
    server.add({**binding, "roleRef": reference, "subjects": [user]})
    for rule in rules:
        _wait_known(server, rule, namespace, granted=True)


def _wait_known(server: api.Api, rule: api.Object, namespace: str, *, granted: bool) -> None:
    """Until the API server decides by this rule: it follows roles and bindings, and may be behind."""
    resource, _, subresource = rule["resources"][-1].partition("/")
    asked = {"group": rule["apiGroups"][0], "resource": resource, "subresource": subresource, "verb": rule["verbs"][-1]}
    asked |= {"namespace": namespace, "name": rule.get("resourceNames", [""])[0]}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": USER, "resourceAttributes": asked},
    }
    wait_for(
        f"{USER} may {'' if granted else 'not '}{asked['verb']} {rule['resources'][-1]}",
        lambda: server.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)["status"]["allowed"],
        lambda allowed: allowed is granted,
    )
