"""How soon the live autoscaler reacts, on the real test bed: scheduler, Cluster API and KWOK nodes that boot in 5 s.

`burst`   one group, twenty pods
`zones`   300 pods of 500m over three balanced zones of four-core nodes, from one node each
`kinds`   three kinds of pods that need three groups, two of them at zero
`groups`  60 groups, 57 at zero, ten pods that only one of them fits

Of each: from the last pod marked unschedulable to the last resize (`resize`), how many resizes there were (`steps`),
and until all pods run since they were created (`running`). Seconds. In the environment, `ONLY=burst,kinds` names some
of them, and `LOG=file` keeps what the autoscaler says.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import testbed
from testbed import bed, clusterapi, objects
from windlass import clock
from windlass.kube import access, client, informers, resources
from windlass.kube.models import meta
from windlass.kube.resources import Unstructured

_PREFIX = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
_CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
_NODE = {"cpu": "4", "memory": "16Gi", "pods": "110"}
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    replicas: int
    maximum: int
    labels: Mapping[str, str] = field(default_factory=dict)

    def make(self) -> list[dict[str, Any]]:
        told = ",".join(f"{key}={value}" for key, value in self.labels.items())
        annotations = {
            f"{_PREFIX}min-size": "0",
            f"{_PREFIX}max-size": str(self.maximum),
            f"{_CAPACITY}cpu": _NODE["cpu"],
            f"{_CAPACITY}memory": _NODE["memory"],
            "fake.infrastructure/boot-seconds": "5",
            **({f"{_CAPACITY}labels": told} if told else {}),
        }
        node = {"capacity": _NODE, "labels": dict(self.labels)}
        return objects.machine_deployment(self.name, self.replicas, node=node, annotations=annotations)


@dataclass(frozen=True, slots=True)
class Work:
    name: str
    pods: int
    cpu: str
    selector: Mapping[str, str] = field(default_factory=dict)

    def make(self) -> dict[str, Any]:
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": self.cpu}}}
        labels = {"app": self.name}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "nodeSelector": dict(self.selector)},
        }
        spec = {"replicas": self.pods, "selector": {"matchLabels": labels}, "template": template}
        return objects.made("apps/v1", "Deployment", self.name, "default", spec)


@dataclass(frozen=True, slots=True)
class Scenario:
    groups: Sequence[Group]
    works: Sequence[Work]
    flags: Sequence[str] = ()


ZONE = "topology.kubernetes.io/zone"
SCENARIOS = {
    "burst": Scenario([Group("a", 1, 20)], [Work("w", 20, "900m")]),
    "zones": Scenario(
        [Group(f"zone-{zone}", 1, 50, {ZONE: zone}) for zone in "abc"],
        [Work("w", 300, "500m")],
        ["--balance-similar-node-groups", "--balancing-ignore-label=node.cluster.x-k8s.io/group"],
    ),
    "kinds": Scenario(
        [Group(kind, int(kind == "red"), 10, {"kind": kind}) for kind in ("red", "green", "blue")],
        [Work(kind, 10, "900m", {"kind": kind}) for kind in ("red", "green", "blue")],
    ),
    "groups": Scenario(
        [Group(f"g{number:02}", int(number < 3), 10, {"which": f"g{number:02}"}) for number in range(60)],
        [Work("w", 10, "900m", {"which": "g42"})],
    ),
}


class Watcher:
    """When things were first seen, by the monotonic clock."""

    def __init__(self) -> None:
        self.unschedulable: dict[str, float] = {}
        self.running: dict[str, float] = {}
        self.sizes: dict[str, list[tuple[float, int]]] = {}

    def see_pod(self, found: Unstructured) -> None:
        name, status = found["metadata"]["name"], found.get("status", {})
        conditions = status.get("conditions") or ()
        if any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions):
            self.unschedulable.setdefault(name, time.monotonic())
        if status.get("phase") == "Running":
            self.running.setdefault(name, time.monotonic())

    def see_group(self, found: Unstructured) -> None:
        sizes = self.sizes.setdefault(found["metadata"]["name"], [])
        size = int(found["spec"].get("replicas", 0))
        if not sizes or sizes[-1][1] != size:
            sizes.append((time.monotonic(), size))

    @property
    def resizes(self) -> list[float]:
        return sorted(at_s for sizes in self.sizes.values() for at_s, _ in sizes[1:])


class _Sink:
    def __init__(self, see: Any) -> None:
        self._see = see

    def begin(self) -> None: ...

    def end(self) -> None: ...

    def remove(self, metadata: meta.ObjectMeta) -> None: ...

    def put(self, metadata: meta.ObjectMeta, found: Unstructured) -> None:
        self._see(found)


@contextmanager
def autoscaling(found: bed.Bed, flags: Sequence[str]) -> Iterator[None]:
    command = [sys.executable, "-m", "windlass.cli", "autoscaler", "--kubeconfig", str(found.kubeconfig)]
    with open(os.environ.get("LOG", os.devnull), "a") as log:
        process = subprocess.Popen([*command, "--address=127.0.0.1:0", *flags], stdout=log, stderr=log)
        try:
            _wait_for_status(found)
            yield
        finally:
            process.terminate()
            process.wait()


def _wait_for_status(found: bed.Bed) -> None:
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        maps = found.api.get("/api/v1/namespaces/kube-system/configmaps")["items"]
        status = [one for one in maps if one["metadata"]["name"] == "cluster-autoscaler-status"]
        if status and "Running" in status[0]["data"]["status"]:
            return
        time.sleep(0.2)
    raise TimeoutError("the autoscaler did not begin")


async def play(found: bed.Bed, scenario: Scenario) -> dict[str, float]:
    watcher, reach = Watcher(), access.find(clock.Real(), str(found.kubeconfig))
    wanted = sum(work.pods for work in scenario.works)
    async with reach.connect() as server:
        api = client.Client(server, clock.Real(), client.Settings(qps=0))
        async with asyncio.TaskGroup() as together:
            pods = informers.Informer(api, resources.PODS.untyped(), _Sink(watcher.see_pod))
            groups = informers.Informer(api, resources.MACHINE_DEPLOYMENTS.untyped(), _Sink(watcher.see_group))
            following = [together.create_task(pods.run()), together.create_task(groups.run())]
            await pods.wait_synced()
            await groups.wait_synced()
            began_s = time.monotonic()
            for work in scenario.works:
                await asyncio.to_thread(found.api.add, work.make())
            while len(watcher.running) < wanted and time.monotonic() < began_s + _PATIENCE_S:
                await asyncio.sleep(0.05)
            for task in following:
                task.cancel()
    if len(watcher.running) < wanted or not watcher.resizes:
        return {"running_pods": len(watcher.running), "steps": len(watcher.resizes)}
    last_pod_s = max(watcher.unschedulable.values())
    return {
        "resize": watcher.resizes[-1] - last_pod_s,
        "steps": max(len(sizes) - 1 for sizes in watcher.sizes.values()),
        "running": max(watcher.running.values()) - began_s,
    }


def measure(scenario: Scenario) -> dict[str, float]:
    with testbed.running(scheduler=True, kwok=True, capi=True) as found:
        clusterapi.add_cluster(found.api, found.kubeconfig)
        for group in scenario.groups:
            for body in group.make():
                found.api.add(body)
        wanted = 1 + sum(group.replicas for group in scenario.groups)
        while len(found.api.get("/api/v1/nodes")["items"]) < wanted:
            time.sleep(0.2)
        with autoscaling(found, scenario.flags):
            return asyncio.run(play(found, scenario))


def run() -> dict[str, Any]:
    only = os.environ.get("ONLY", ",".join(SCENARIOS)).split(",")
    return {f"{name}_{key}": round(value, 3) for name in only for key, value in measure(SCENARIOS[name]).items()}
