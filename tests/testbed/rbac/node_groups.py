"""Node groups of each kind that an autoscaler scales, at zero, and pods that need them."""

from testbed import objects
from testbed.api import Object
from testbed.bed import Bed
from tests.e2e.node_groups import LABEL, to_text

KINDS = {"MachineDeployment": "deployment", "MachineSet": "set", "MachinePool": "pool"}
"""And what groups of them are called."""
_SIZE = {"cpu": "4", "memory": "16Gi", "pods": "110"}
_TOLD = {"min_size": "0", "max_size": "3", "boot_seconds": "1", "unneeded": "1s", "cores": "4", "memory": "16Gi"}
"""Capacity as well: the fake infrastructure of pools does not say what its nodes are like."""


def add_groups(bed: Bed) -> None:
    """One of each kind, whose nodes boot in a second and go when they are not needed for a second."""
    for kind, name in KINDS.items():
        node = {"capacity": _SIZE, "labels": {LABEL: name}}
        annotations = {key: str(value) for key, value in to_text({**_TOLD, "labels": f"{LABEL}={name}"}).items()}
        if kind == "MachinePool":
            bodies = objects.machine_pool(name, 0, machines=True, node=node, annotations=annotations)
        else:
            bodies = objects.machine_deployment(name, 0, node=node, annotations=annotations)
        for body in bodies:
            bed.api.add(_as_set(body) if kind == "MachineSet" and body["kind"] == "MachineDeployment" else body)


def _as_set(deployment: Object) -> Object:
    spec, labels = deployment["spec"], {"set": deployment["metadata"]["name"]}
    template = {**spec["template"], "metadata": {"labels": labels}}
    return {
        **deployment,
        "kind": "MachineSet",
        "spec": {**spec, "selector": {"matchLabels": labels}, "template": template},
    }


def replicas(bed: Bed) -> dict[str, int]:
    root = f"/apis/{objects.CLUSTER_API}/namespaces/default"
    return {name: bed.api.get(f"{root}/{kind.lower()}s/{name}")["spec"]["replicas"] for kind, name in KINDS.items()}


def add_pods(bed: Bed, name: str, count: int, group: str, cpu: str) -> None:
    """A ReplicaSet whose pods need nodes of one group."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    pod = {"containers": [container], "nodeSelector": {LABEL: group}}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec = {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": template}
    bed.api.add(objects.made("apps/v1", "ReplicaSet", name, "default", spec))


def take_pods(bed: Bed, name: str) -> None:
    bed.api.delete(f"/apis/apps/v1/namespaces/default/replicasets/{name}")


def running(bed: Bed, name: str) -> list[str]:
    """The nodes of its pods that run."""
    pods = bed.api.items("/api/v1/namespaces/default/pods", labelSelector=f"app={name}")
    alive = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    return [pod["spec"]["nodeName"] for pod in alive if pod["status"]["phase"] == "Running"]
