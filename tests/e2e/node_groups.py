"""Node groups of a test, and how their annotations are spelled."""

from collections.abc import Mapping
from dataclasses import dataclass

from testbed import api, objects
from testbed.api import Object
from testbed.bed import Bed
from testbed.infrastructure.knobs import PREFIX
from tests.e2e.polling import WITHIN_S, wait_for

LABEL = "e2e/group"
"""On every node: the group that it belongs to."""
CAPI = "cluster.x-k8s.io/"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
MARK = CAPI + "delete-machine"
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
CANDIDATE = "DeletionCandidateOfClusterAutoscaler"


@dataclass(frozen=True, slots=True)
class Group:
    """A MachineDeployment, MachineSet or MachinePool of one test."""

    server: api.Api
    path: str
    id: str
    name: str

    @property
    def replicas(self) -> int:
        found: int = self.server.get(self.path)["spec"]["replicas"]
        return found

    def annotate(self, **annotations: str | None) -> None:
        """Knobs of its machines (`fail="quota"`), bounds (`max_size="3"`), options (`unneeded="1s"`), or capacity."""
        self.server.merge(self.path, {"metadata": {"annotations": to_text(annotations)}})

    def scale(self, replicas: int) -> None:
        self.server.merge(f"{self.path}/scale", {"spec": {"replicas": replicas}})

    def machines(self) -> list[Object]:
        """Those that are not on their way out, oldest first."""
        collection = "/".join(self.path.split("/")[:-2]) + "/machines"
        found = [
            machine
            for machine in self.server.items(collection)
            if machine["metadata"]["name"].startswith(self.name + "-")
        ]
        alive = [machine for machine in found if not machine["metadata"].get("deletionTimestamp")]
        return sorted(
            alive, key=lambda machine: (machine["metadata"]["creationTimestamp"], machine["metadata"]["name"])
        )

    def nodes(self) -> list[Object]:
        """Oldest first."""
        found = self.server.items("/api/v1/nodes", labelSelector=f"{LABEL}={self.name}")
        return sorted(found, key=lambda node: (node["metadata"]["creationTimestamp"], node["metadata"]["name"]))

    def names(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.nodes()]

    def wait_replicas(self, replicas: int, within_s: float = WITHIN_S) -> None:
        wait_for(f"{self.id} has {replicas} replicas", lambda: self.replicas, lambda now: now == replicas, within_s)

    def wait_nodes(self, count: int, within_s: float = WITHIN_S) -> list[str]:
        """The names of its nodes, once there are so many, and all are ready."""

        def probe() -> list[tuple[str, str]]:
            nodes = [(node["metadata"]["name"], node) for node in self.nodes()]
            return [(name, "" if is_ready(node) else self._explain(node)) for name, node in nodes]

        found = wait_for(
            f"{self.id} has {count} nodes",
            probe,
            lambda now: len(now) == count and not any(why for _, why in now),
            within_s,
        )
        return [name for name, _ in found]

    def _explain(self, node: Object) -> str:
        """Why a node is not ready: its taints, and what Cluster API says of deleting its Machine."""
        name = node["metadata"]["annotations"].get(f"{CAPI}machine", node["metadata"]["name"])
        machine = self.server.find("/".join(self.path.split("/")[:-2]) + f"/machines/{name}")
        if machine is None:
            return f"{', '.join(taints(node)) or 'not Ready'}; its machine is gone"
        said = [
            f"{item['reason']}: {item.get('message', '')}"
            for item in machine.get("status", {}).get("conditions", ())
            if item["type"] == "Deleting" and item["status"] == "True"
        ]
        return f"{', '.join(taints(node)) or 'not Ready'}; {' '.join(said) or 'its machine stays'}"


_BOUNDS = {"min_size", "max_size"}
_KNOBS = {"provision_seconds", "boot_seconds", "ready_seconds", "terminate_seconds", "fail", "lose"}
_OPTIONS = {
    "unneeded": "scaledownunneededtime",
    "unready": "scaledownunreadytime",
    "provision": "maxnodeprovisiontime",
    "startup": "maxnodestartuptime",
    "zero_or_max": "zeroormaxnodescaling",
}


def to_text(annotations: Mapping[str, str | None]) -> dict[str, str | None]:
    return {_spell_key(key): value for key, value in annotations.items()}


def _spell_key(key: str) -> str:
    if key in _BOUNDS:
        return f"{CAPI}cluster-api-autoscaler-node-group-{key.replace('_', '-')}"
    if key in _KNOBS:
        return PREFIX + key.replace("_", "-")
    if key in _OPTIONS:
        return f"{CAPI}autoscaling-options-{_OPTIONS[key]}"
    return CAPACITY + ("cpu" if key == "cores" else key)


def is_ready(node: Object) -> bool:
    """Is it Ready, and does the scheduler know?"""
    conditions = node["status"].get("conditions", ())
    said = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return said and not any(key.startswith("node.kubernetes.io/") for key in taints(node))


def taints(node: Object) -> list[str]:
    return [taint["key"] for taint in node["spec"].get("taints", ())]


def add_deployment(bed: Bed, group: str) -> str:
    """A Deployment each of whose replicas takes most of a node of a group."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    pod = {"containers": [container], "nodeSelector": {"node.cluster.x-k8s.io/group": group}}
    template = {"metadata": {"labels": {"app": group}}, "spec": pod}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": group}}, "template": template}
    bed.api.add(objects.made("apps/v1", "Deployment", group, "default", spec))
    return f"/apis/apps/v1/namespaces/default/deployments/{group}"
