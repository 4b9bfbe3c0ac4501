"""The harness: an autoscaler that is started, killed and started again, and the groups and pods of one test."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from testbed import api, objects
from testbed.api import Object
from testbed.bed import Bed
from testbed.infrastructure.knobs import PREFIX
from tests.e2e.gateway import Call, Gateway

LABEL = "e2e/group"
"""On every node: the group that it belongs to."""
CAPI = "cluster.x-k8s.io/"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
MARK = CAPI + "delete-machine"
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
HOLD = "e2e/hold"
"""A finalizer: a pod that has it takes its time to end."""
WITHIN_S = 60.0
_POLL_S = 0.25
"""The control plane has two cores at best: looking often makes everything slower."""

T = TypeVar("T")

FLAGS = (
    "--cloud-provider=clusterapi",
    "--leader-elect=false",
    "--scan-interval=2s",
    "--scale-down-unneeded-time=1h",
    "--scale-down-unready-time=1h",
    "--scale-down-delay-after-add=0s",
    "--scale-down-delay-after-failure=1s",
    "--node-delete-delay-after-taint=1s",
    "--balance-similar-node-groups",
    f"--balancing-ignore-label={LABEL}",
    "--balancing-ignore-label=node.cluster.x-k8s.io/group",
    "--ok-total-unready-count=100",
    "--emit-per-nodegroup-metrics",
    "-v=4",
)
"""Quick, but leaves nodes alone: groups that are to shrink, or to give up, say so themselves."""


def wait_for(what: str, look: Callable[[], T], until: Callable[[T], object] = bool, within_s: float = WITHIN_S) -> T:
    """What is seen, as soon as it is what is waited for."""
    deadline_s = time.monotonic() + within_s
    while not until(seen := look()):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"not within {within_s:g} s: {what}; last seen: {seen!r:.2000}")
        time.sleep(_POLL_S)
    return seen


class Live:
    """`windlass autoscaler`, as a process."""

    def __init__(self, kubeconfig: Path, log: Path, flags: Sequence[str] = FLAGS) -> None:
        self.kubeconfig, self.log, self.flags = kubeconfig, log, tuple(flags)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *flags: str) -> None:
        """Start it; further flags overrule those that it usually has."""
        assert not self.is_alive
        self.port = _free_port()
        command = [sys.executable, "-m", "windlass.cli", "autoscaler", f"--kubeconfig={self.kubeconfig}"]
        command += [f"--address=127.0.0.1:{self.port}", *self.flags, *flags]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
        with self.log.open("ab") as output:
            output.write(f"--- started with {' '.join(flags) or 'the usual flags'}\n".encode())
            output.flush()
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )

    def kill(self) -> None:
        """As a crash does; it cannot do a thing about it."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """As a kubelet does. What it returns."""
        return self._end(signal.SIGTERM)

    def wait_looped(self, more: int = 1) -> None:
        """So many more loops have ended."""
        began = self.loops()
        wait_for("the next loop", self.loops, lambda now: now >= began + more, WITHIN_S)

    def loops(self) -> int:
        found = self.metrics().get('cluster_autoscaler_function_duration_seconds_count{function="main"}', 0.0)
        return int(found)

    def metrics(self) -> dict[str, float]:
        """Each series and its value; nothing while it does not answer."""
        try:
            lines = self.get("/metrics").splitlines()
        except OSError:
            return {}
        series = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in series}

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            found: bytes = answer.read()
        return found.decode()

    def _end(self, how: signal.Signals) -> int:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(how)
        return self._process.wait(30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def write_kubeconfig(path: Path, of_user: Path, port: int) -> Path:
    """The kubeconfig of a user who goes through a gateway."""
    config = json.loads(of_user.read_text())
    config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{port}"}
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path


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
        self.server.merge(self.path, {"metadata": {"annotations": _spell(annotations)}})

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

        def look() -> list[tuple[str, bool]]:
            return [(node["metadata"]["name"], is_ready(node)) for node in self.nodes()]

        found = wait_for(
            f"{self.id} has {count} nodes", look, lambda now: len(now) == count and all(up for _, up in now), within_s
        )
        return [name for name, _ in found]


class Scene:
    """One test: its groups, its pods, and what happened to them."""

    def __init__(self, bed: Bed, live: Live, gateway: Gateway, name: str) -> None:
        self.bed, self.api, self.live, self.gateway, self.name = bed, bed.api, live, gateway, name
        self._made: list[str] = []
        self._groups: list[Group] = []
        self._began_s = time.monotonic()
        self.expects_refusals = False
        """Does it lack rights, on purpose?"""

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
        told = {key: value for key, value in _spell({**usual, **annotations}).items() if value is not None}
        how: Any = {"cluster": "work" if namespace == "default" else namespace, "namespace": namespace}
        if kind == "MachinePool":
            bodies = objects.machine_pool(name, replicas, machines=machines, node=shape, annotations=told, **how)
        else:
            bodies = objects.machine_deployment(name, replicas, node=shape, annotations=told, **how)
        infrastructure, made = bodies
        infrastructure["metadata"]["annotations"] = dict(template or {})
        self.add(infrastructure)
        self.add(made)
        found = Group(self.api, f"{api.path_of(made)}/{name}", f"{kind}/{namespace}/{name}", name)
        self._groups.append(found)
        return found

    def deployment(self, name: str, cluster: str, template: str, **annotations: str | None) -> Group:
        """A MachineDeployment at zero that shares its template with others."""
        name = f"{self.name}-{name}"
        told = {key: value for key, value in _spell(annotations).items() if value is not None}
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

        `hold`: they take their time to end, until `release`. `spread`: no node has two more than another.
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

    def wait(
        self, what: str, look: Callable[[], T], until: Callable[[T], object] = bool, within_s: float = WITHIN_S
    ) -> T:
        return wait_for(what, look, until, within_s)

    def leaving(self) -> list[str]:
        """Nodes from which a pod is being evicted."""
        return [pod["spec"]["nodeName"] for pod in self.find_pods() if pod["metadata"].get("deletionTimestamp")]

    def calls(self) -> list[Call]:
        """What the autoscaler asked for since the test began."""
        return self.gateway.since(self._began_s)

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
        """What the status ConfigMap says of a group."""
        found = self.api.get("/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status")
        groups: list[Object] = yaml.safe_load(found["data"]["status"]).get("nodeGroups", [])
        return next((each for each in groups if each["name"] == group.id), {})

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

    # Ending

    def clear(self) -> None:
        """Take everything away; nobody waits for it: what is left of it concerns no other test."""
        deployments = f"/apis/{objects.CLUSTER_API}/namespaces/default/machinedeployments"
        self.api.delete(f"{deployments}?labelSelector=e2e/test={self.name}")
        for path in reversed(self._made):
            with contextlib.suppress(api.Refused):
                self.api.delete(path)
        self.release()


def _pod_path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _spread(labels: Mapping[str, str]) -> list[Object]:
    """As many on each node as on any other, of those that take pods."""
    term = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    return [{**term, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}]


_BOUNDS = {"min_size", "max_size"}
_KNOBS = {"provision_seconds", "boot_seconds", "ready_seconds", "terminate_seconds", "fail", "lose"}
_OPTIONS = {
    "unneeded": "scaledownunneededtime",
    "unready": "scaledownunreadytime",
    "provision": "maxnodeprovisiontime",
    "startup": "maxnodestartuptime",
}


def _spell(annotations: Mapping[str, str | None]) -> dict[str, str | None]:
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
    said = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return said and not any(key.startswith("node.kubernetes.io/") for key in taints(node))


def taints(node: Object) -> list[str]:
    return [taint["key"] for taint in node["spec"].get("taints", ())]


def slug(test: str) -> str:
    """A name for the objects of a test."""
    return re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower())[:16].strip("-")
