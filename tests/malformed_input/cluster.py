"""The cluster behind the API server: node groups, machines and pods, and the controllers that act on them."""

import asyncio
import contextlib
import json
import time
from typing import Any

import aiohttp

from tests.malformed_input.objects import CAPACITY, CAPI, SINCE, SIZE, TENANT, Json

ORDINARY, IDLE = "ordinary", "idle"
MARK = "cluster.x-k8s.io/delete-machine"
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
MERGE = "application/merge-patch+json"
DEPLOYMENTS = f"/apis/{CAPI}/namespaces/default/machinedeployments"
SETS = f"/apis/{CAPI}/namespaces/default/machinesets"
MACHINES = f"/apis/{CAPI}/namespaces/default/machines"
PODS = "/api/v1/namespaces/%s/pods"
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/cluster-autoscaler"
MEMORY = "/api/v1/namespaces/kube-system/configmaps/windlass-memory"
GROUPS = (ORDINARY, IDLE, TENANT)


class Api:
    """The API server, asked directly."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url, self._session = url, session

    async def call(
        self, method: str, path: str, body: Json | bytes | None = None, kind: str = "application/json"
    ) -> tuple[int, Json]:
        raw = json.dumps(body).encode() if isinstance(body, dict) else body
        async with self._session.request(method, self._url + path, data=raw, headers={"content-type": kind}) as answer:
            return answer.status, json.loads(await answer.read())

    async def create(self, path: str, body: Json) -> Json:
        status, found = await self.call("POST", path, body)
        assert status == 201, found
        return found

    async def items(self, path: str) -> list[Json]:
        status, found = await self.call("GET", path)
        assert status == 200, found
        listed: list[Json] = found["items"]
        return listed

    async def version(self) -> str:
        """The server's resourceVersion now."""
        _, found = await self.call("GET", f"{PODS % 'kube-node-lease'}?limit=1")
        version: str = found["metadata"]["resourceVersion"]
        return version


def make_pod(name: str, namespace: str, pool: str, cpu: str, **annotations: str) -> Json:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": pool}, "annotations": annotations},
        "spec": {
            "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}],
            "nodeSelector": {"pool": pool},
            "tolerations": [{"key": pool, "operator": "Exists"}],
            "terminationGracePeriodSeconds": 1,
        },
    }


class Cluster:
    """Makes the groups, and lets their controllers act."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.nodes: dict[str, Json] = {}
        """As last seen."""
        self._serial = 0

    async def found(self) -> None:
        """Create namespaces and groups."""
        for name in (TENANT, ORDINARY):
            await self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        await self.api.create(f"/apis/{CAPI}/namespaces/default/clusters", {"metadata": {"name": "work"}, "spec": {}})
        for group in GROUPS:
            await self._add_group(group)

    async def _add_group(self, group: str) -> None:
        reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "SimulatedMachineTemplate", "name": group}
        annotations = {
            f"{SIZE}min-size": "0",
            f"{SIZE}max-size": "60",
            f"{CAPACITY}cpu": "4",
            f"{CAPACITY}memory": "16Gi",
            f"{CAPACITY}maxPods": "110",
            f"{CAPACITY}labels": f"pool={group}",
        }
        if group != TENANT:
            annotations[f"{CAPACITY}taints"] = f"{group}=yes:NoSchedule"
        infrastructure = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/default/simulatedmachinetemplates"
        await self.api.create(infrastructure, {"metadata": {"name": group}, "spec": {}})
        template = {"spec": {"clusterName": "work", "infrastructureRef": reference}}
        spec = {"clusterName": "work", "replicas": 0, "template": template}
        made = await self.api.create(
            DEPLOYMENTS, {"metadata": {"name": group, "annotations": annotations}, "spec": spec}
        )
        owner = _own("MachineDeployment", made)
        await self.api.create(SETS, {"metadata": {"name": f"{group}-1", "ownerReferences": [owner]}, "spec": spec})

    async def replicas(self, group: str) -> int:
        _, found = await self.api.call("GET", f"{DEPLOYMENTS}/{group}")
        count: int = found["spec"]["replicas"]
        return count

    async def scale(self, group: str, replicas: int) -> None:
        await self.api.call("PATCH", f"{DEPLOYMENTS}/{group}", {"spec": {"replicas": replicas}}, MERGE)

    # Controllers

    async def run(self) -> None:
        """Act until cancelled."""
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):  # the server ends
                await self._act()
            await asyncio.sleep(0.3)

    async def _act(self) -> None:
        self.nodes = {node["metadata"]["name"]: node for node in await self.api.items(NODES)}
        machines = await self.api.items(MACHINES)
        for group in GROUPS:
            await self._reconcile(
                group, [item for item in machines if item["metadata"]["name"].startswith(f"{group}-")]
            )
        await self._bind()

    async def _reconcile(self, group: str, machines: list[Json]) -> None:
        wanted = await self.replicas(group)
        for _ in range(wanted - len(machines)):
            await self._add_machine(group)
        if len(machines) > wanted:
            machines.sort(key=lambda one: (MARK not in one["metadata"].get("annotations", {}), one["metadata"]["name"]))
            for machine in machines[: len(machines) - wanted]:
                await self._remove_machine(machine["metadata"]["name"])
        if len(machines) != wanted:
            status = {"status": {"replicas": wanted, "readyReplicas": wanted}}
            await self.api.call("PATCH", f"{DEPLOYMENTS}/{group}/status", status, MERGE)
            await self.api.call("PATCH", f"{SETS}/{group}-1", {"spec": {"replicas": wanted}}, MERGE)
            await self.api.call("PATCH", f"{SETS}/{group}-1/status", status, MERGE)

    async def _add_machine(self, group: str) -> None:
        self._serial += 1
        name = f"{group}-{self._serial}"
        _, owner = await self.api.call("GET", f"{SETS}/{group}-1")
        spec = {"clusterName": "work", "providerID": f"try:///{name}"}
        metadata = {"name": name, "ownerReferences": [_own("MachineSet", owner)]}
        await self.api.create(MACHINES, {"metadata": metadata, "spec": spec})
        status = {"phase": "Running", "nodeRef": {"name": name}}
        await self.api.call("PATCH", f"{MACHINES}/{name}/status", {"status": status}, MERGE)
        amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": SINCE, "reason": "KubeletReady"}
        taints = [] if group == TENANT else [{"key": group, "value": "yes", "effect": "NoSchedule"}]
        node = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "pool": group}},
            "spec": {"providerID": f"try:///{name}", "taints": taints},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
        }
        await self.api.create(NODES, node)

    async def _remove_machine(self, name: str) -> None:
        for pod in await self.api.items(f"/api/v1/pods?fieldSelector=spec.nodeName={name}"):
            metadata = pod["metadata"]
            await self._delete_pod(metadata["namespace"], metadata["name"])
        await self.api.call("DELETE", f"{NODES}/{name}")
        await self.api.call("DELETE", f"{MACHINES}/{name}")

    async def _delete_pod(self, namespace: str, name: str) -> None:
        await self.api.call("DELETE", f"{PODS % namespace}/{name}?gracePeriodSeconds=0")

    async def _bind(self) -> None:
        """The scheduler and the kubelets, for ordinary pods and for those that were evicted: one big pod on a node."""
        pods = await self.api.items(PODS % ORDINARY)
        taken = {pod["spec"].get("nodeName") for pod in pods}
        free = [name for name in self.usable(ORDINARY) if name not in taken]
        for pod in pods:
            name = pod["metadata"]["name"]
            if pod["metadata"].get("deletionTimestamp"):
                await self._delete_pod(ORDINARY, name)
            elif not pod["spec"].get("nodeName") and pod["spec"]["nodeSelector"]["pool"] == ORDINARY and free:
                await self._place(ORDINARY, name, free.pop())

    async def _place(self, namespace: str, name: str, node: str) -> None:
        target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        await self.api.call("POST", f"{PODS % namespace}/{name}/binding", target)
        running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await self.api.call("PATCH", f"{PODS % namespace}/{name}/status", running, MERGE)

    def usable(self, group: str) -> list[str]:
        """Nodes of a group that nobody is about to remove."""
        return [
            name
            for name, node in self.nodes.items()
            if name.startswith(f"{group}-")
            and not any(t["key"] == TO_BE_DELETED for t in node["spec"].get("taints", ()))
        ]

    # Pods

    async def add_pending(self, name: str, cpu: str = "3") -> None:
        """An ordinary pod that waits for a node."""
        await self.api.create(PODS % ORDINARY, make_pod(name, ORDINARY, ORDINARY, cpu))
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"status": {"phase": "Pending", "conditions": [condition]}}
        await self.api.call("PATCH", f"{PODS % ORDINARY}/{name}/status", status, MERGE)

    async def add_running(self, name: str, node: str, cpu: str = "100m", **annotations: str) -> None:
        """A pod that runs on a node of the idle group."""
        await self.api.create(PODS % ORDINARY, make_pod(name, ORDINARY, IDLE, cpu, **annotations))
        await self._place(ORDINARY, name, node)

    async def remove_pod(self, name: str) -> None:
        await self._delete_pod(ORDINARY, name)


def _own(kind: str, owner: Json) -> Json:
    named: dict[str, Any] = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return {"apiVersion": CAPI, "kind": kind, "controller": True, **named}


def now_s() -> float:
    return time.monotonic()
