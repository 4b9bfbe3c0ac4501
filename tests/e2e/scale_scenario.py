"""The scene of a test: its groups and pods, and what happened to them."""

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import yaml

from testbed import api, objects
from testbed.api import Object
from testbed.bed import Bed
from tests.e2e.autoscaler_process import Live
from tests.e2e.gateway import Call, Gateway
from tests.e2e.node_groups import LABEL, TO_BE_DELETED, Group, taints, to_text
from tests.e2e.polling import WITHIN_S, wait_for

HOLD = "e2e/hold"
"""A finalizer: a pod that has it takes its time to end."""
_HELD_S = 600

T = TypeVar("T")


class Scene:
    """One test: its groups, its pods, and what happened to them."""

    def __init__(self, bed: Bed, live: Live, gateway: Gateway, name: str) -> None:
        self.bed, self.api, self.live, self.gateway, self.name = bed, bed.api, live, gateway, name
        self._made: list[str] = []
        self._groups: list[Group] = []
        self._began_s = self._ended_s = float("inf")
        self.expects_refusals = False
        """Does it lack rights, on purpose?"""

    # Beginning and ending

    def begin(self) -> None:
        self._began_s = time.monotonic()

    def end(self) -> None:
        self._ended_s = time.monotonic()
        self.clear()

    # Making

    def group(
        self,
        name: str,
        replicas: int = 0,
        *,
        cpu: int = 4,
        kind: str = "MachineDeployment",
        machines: bool = True,
        namespace: str = "default",
        node: Mapping[str, Any] | None = None,
        template: Mapping[str, str] | None = None,
        **annotations: str | None,
    ) -> Group:
        """A group whose nodes have so many cores. Annotations as `Group.annotate` takes them; None leaves one out.

        `machines`: a MachinePool shows its Machines. `template`: annotations of what it refers to.
        """
        name = f"{self.name}-{name}"
        shape = {"capacity": {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "110"}, **(node or {})}
        shape["labels"] = {LABEL: name, **shape.get("labels", {})}
        usual: dict[str, str | None] = {
            "min_size": "0",
            "max_size": "9",
            "boot_seconds": "1",
            "labels": ",".join(f"{key}={value}" for key, value in shape["labels"].items()),
        }
        told = {key: value for key, value in to_text({**usual, **annotations}).items() if value is not None}
        how: Any = {"cluster": "work" if namespace == "default" else namespace, "namespace": namespace}
        if kind == "MachinePool":
            bodies = objects.machine_pool(name, replicas, machines=machines, node=shape, annotations=told, **how)
        else:
            bodies = objects.machine_deployment(name, replicas, node=shape, annotations=told, **how)
        infrastructure, made = bodies
        infrastructure["metadata"]["annotations"] = dict(template or {})
        self.add(infrastructure)
        if kind != "MachinePool":  # from zero, nobody knows what nodes to come are like before its template says so
            at = f"{api.path_of(infrastructure)}/{name}"
            api.wait_for(f"{at} says its capacity", lambda: self.api.get(at).get("status"), poll_s=0.05)
        self.add(made)
        group = Group(self.api, f"{api.path_of(made)}/{name}", f"{kind}/{namespace}/{name}", name)
        self._groups.append(group)
        return group

    def deployment(self, name: str, cluster: str, template: str, **annotations: str | None) -> Group:
        """A MachineDeployment at zero that shares its template with others."""
        name = f"{self.name}-{name}"
        told = {key: value for key, value in to_text(annotations).items() if value is not None}
        _, made = objects.machine_deployment(name, 0, cluster=cluster, annotations=told)
        made["spec"]["template"]["spec"]["infrastructureRef"]["name"] = template
        made["metadata"]["labels"] = {"e2e/test": self.name}
        self.api.add(made)
        return Group(self.api, f"{api.path_of(made)}/{name}", f"MachineDeployment/default/{name}", name)

    def add(self, body: Object) -> Object:
        """Make something that goes with the test."""
        self._made.append(f"{api.path_of(body)}/{body['metadata']['name']}")
        return self.api.add(body)

    def pods(
        self,
        name: str,
        count: int,
        groups: Iterable[Group],
        *,
        cpu: str = "1",
        hold: bool = False,
        spread: bool = False,
        **spec: Any,
    ) -> None:
        """A ReplicaSet whose pods run on nodes of these groups, and nowhere else.

        `hold`: they take their time to end, until `release`; they are granted it, so that they do not count as stuck
        before. `spread`: no node has two more than another.
        """
        labels = {"e2e/test": self.name, "app": f"{self.name}-{name}"}
        wanted = {"key": LABEL, "operator": "In", "values": [group.name for group in groups]}
        affinity = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        }
        pod: Object = {
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
            "affinity": {"nodeAffinity": affinity},
            "topologySpreadConstraints": _spread(labels) if spread else [],
            **({"terminationGracePeriodSeconds": _HELD_S} if hold else {}),
            **spec,
        }
        metadata: Object = {"labels": labels, "finalizers": [HOLD] if hold else []}
        template = {"metadata": metadata, "spec": pod}
        wanted_pods = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
        self.add(objects.made("apps/v1", "ReplicaSet", f"{self.name}-{name}", "default", wanted_pods))

    def scale_pods(self, name: str, count: int) -> None:
        path = f"/apis/apps/v1/namespaces/default/replicasets/{self.name}-{name}"
        self.api.merge(path, {"spec": {"replicas": count}})

    def budget(self, name: str, min_available: int) -> None:
        spec = {"minAvailable": min_available, "selector": {"matchLabels": {"app": f"{self.name}-{name}"}}}
        self.add(objects.made("policy/v1", "PodDisruptionBudget", f"{self.name}-{name}", "default", spec))

    def release(self) -> None:
        """Let pods end that were held."""
        for pod in self.find_pods():
            if HOLD in pod["metadata"].get("finalizers", ()):
                with contextlib.suppress(api.Refused):
                    self.api.merge(_pod_path(pod), {"metadata": {"finalizers": None}})

    # Looking

    @staticmethod
    def now_s() -> float:
        return time.monotonic()

    def find_pods(self, name: str = "") -> list[Object]:
        label = f"app={self.name}-{name}" if name else f"e2e/test={self.name}"
        return self.api.items("/api/v1/namespaces/default/pods", labelSelector=label)

    def running(self, name: str = "") -> list[Object]:
        """Pods that run and are not on their way out."""
        return [
            pod
            for pod in self.find_pods(name)
            if pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp")
        ]

    def places(self, name: str = "") -> dict[str, int]:
        """How many pods run on each node."""
        found: dict[str, int] = {}
        for pod in self.running(name):
            node = pod["spec"]["nodeName"]
            found[node] = found.get(node, 0) + 1
        return found

    def wait_running(self, count: int, name: str = "", within_s: float = WITHIN_S) -> None:
        wait_for(f"{count} pods run", lambda: len(self.running(name)), lambda now: now == count, within_s)

    def wait_unschedulable(self, count: int, name: str = "") -> None:
        """The scheduler has found no node for so many pods."""

        def look() -> int:
            return sum(map(_is_unschedulable, self.find_pods(name)))

        wait_for(f"{count} pods are unschedulable", look, lambda now: now == count)

    def wait(
        self, what: str, look: Callable[[], T], until: Callable[[T], object] = bool, within_s: float = WITHIN_S
    ) -> T:
        return wait_for(what, look, until, within_s)

    def leaving(self) -> list[str]:
        """Nodes from which a pod is being evicted."""
        return [pod["spec"]["nodeName"] for pod in self.find_pods() if pod["metadata"].get("deletionTimestamp")]

    def calls(self) -> list[Call]:
        """What the autoscaler asked for since the test began."""
        return [call for call in self.gateway.since(self._began_s) if call.at_s <= self._ended_s]

    def events(self, reason: str, about: str = "") -> list[Object]:
        """Events of the autoscaler with a reason, about an object whose name begins so."""
        found = self.api.items("/api/v1/events", fieldSelector=f"reason={reason}")
        return [
            event
            for event in found
            if event.get("source", {}).get("component") == "cluster-autoscaler"
            and event["involvedObject"]["name"].startswith(about)
        ]

    def status(self, group: Group) -> Object:
        """What the status ConfigMap says of a group; nothing while there is none."""
        found = self.api.find("/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status")
        if found is None:
            return {}
        groups: list[Object] = yaml.safe_load(found["data"]["status"]).get("nodeGroups", [])
        return next((item for item in groups if item["name"] == group.id), {})

    def marked(self) -> list[str]:
        """Nodes of this test that are tainted by the autoscaler, or cordoned."""
        return [
            node["metadata"]["name"]
            for group in self._groups
            for node in group.nodes()
            if node["spec"].get("unschedulable") or TO_BE_DELETED in taints(node)
        ]

    def resizes(self, group: Group) -> list[Call]:
        """Every time that the autoscaler wrote the size of a group."""
        return [call for call in self.calls() if call.method == "PATCH" and f"/{group.name}/scale" in call.path]

    def count_resized(self, group: Group) -> int:
        """How often the autoscaler changed the size of a group. A write that met a newer version is made again."""
        return sum(1 for call in self.resizes(group) if call.status == 200)

    def clear(self) -> None:
        """Take everything away; nobody waits for it: what is left of it concerns no other test."""
        deployments = f"/apis/{objects.CLUSTER_API}/namespaces/default/machinedeployments"
        self.api.delete(f"{deployments}?labelSelector=e2e/test={self.name}")
        for path in reversed(self._made):
            with contextlib.suppress(api.Refused):
                self.api.delete(path)
        self.release()


def slug(test: str) -> str:
    """A name for the objects of a test."""
    return re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower())[:16].strip("-")


def _pod_path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _is_unschedulable(pod: Object) -> bool:
    return any(
        (item["type"], item["status"], item.get("reason")) == ("PodScheduled", "False", "Unschedulable")
        for item in pod["status"].get("conditions", ())
    )


def _spread(labels: Mapping[str, str]) -> list[Object]:
    """As many on each node as on any other, of those that take pods."""
    term = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    return [{**term, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}]
