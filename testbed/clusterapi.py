"""Cluster API on the test bed: its definitions and webhooks installed, and a Cluster made ready for use."""

from concurrent import futures
from pathlib import Path

from testbed import api, manifests, objects, site
from testbed.infrastructure import definitions

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install(server: api.Api, where: site.Site) -> None:
    """Create the definitions and webhook configurations, and wait until the resources are served."""
    at, choice = (where.webhooks, where.files.ca_bundle), where.choice
    crds = manifests.definitions(*at, v1beta1=choice.capi_v1beta1) + definitions.every()
    with futures.ThreadPoolExecutor(4) as several:
        list(several.map(server.add, crds + manifests.webhooks(*at, machine_pools=choice.capi_machine_pools)))
    wait_established(server)


def wait_established(server: api.Api) -> None:
    """Wait until every definition is served."""
    api.wait_for(
        "CRDs established",
        lambda: server.items(_DEFINITIONS),
        lambda found: all(has_condition(crd, "Established") for crd in found),
    )


def add_cluster(server: api.Api, kubeconfig: Path, name: str = "work", namespace: str = "default") -> None:
    """A Cluster whose Machines become Nodes here, ready to take MachineDeployments and MachinePools."""
    for body in objects.cluster(name, kubeconfig.read_bytes(), namespace):
        server.add(body)
    path = f"/apis/{objects.CLUSTER_API}/namespaces/{namespace}/clusters/{name}"
    api.wait_for(
        f"Cluster {name} is initialized",
        lambda: server.get(path),
        lambda found: has_condition(found, "ControlPlaneInitialized"),
    )


def has_condition(body: api.Object, kind: str, status: str = "True") -> bool:
    conditions = body.get("status", {}).get("conditions") or ()  # null in a CRD that is new
    return any(condition["type"] == kind and condition["status"] == status for condition in conditions)
