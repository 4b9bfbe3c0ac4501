"""15,000 Machines of 15 MachineDeployments, listed and followed: what they weigh, and what one of them costs.

The management cluster is a transport in this process. Machines have nine conditions, labels, annotations and
references, as Cluster API writes them. First everything is listed (`mb` is what stays of it) and observed. Then one
Machine changes at a time, and one node, and the groups are observed again each time. `MACHINES` in the environment
makes it smaller or larger.
"""

import asyncio
import gc
import os
import time
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec

from windlass import clock
from windlass.engine.model import facts
from windlass.kube import client, transport
from windlass.providers.clusterapi import provider as clusterapi_provider

MACHINES = int(os.environ.get("MACHINES", "15000"))
GROUPS = 15
CHANGES = 50
GROUP, VERSION = "cluster.x-k8s.io", "v1beta2"
_KINDS = {"machines": "Machine", "machinesets": "MachineSet", "machinedeployments": "MachineDeployment"}
_TIME = "2026-11-15T08:00:00Z"
_CONDITIONS = (
    "Available", "Ready", "UpToDate", "BootstrapConfigReady", "InfrastructureReady", "NodeHealthy", "NodeReady",
    "Deleting", "Paused",
)  # fmt: skip


def machine(number: int, version: int = 1, failed: bool = False) -> dict[str, Any]:
    group = number % GROUPS
    name = f"workload-{group:02d}-7d9c5b8f6-{number:05x}"
    labels = {
        f"{GROUP}/cluster-name": "workload", f"{GROUP}/deployment-name": f"md-{group:02d}",
        "machine-template-hash": "7d9c5b8f6-x7k2p", f"{GROUP}/set-name": f"ms-{group:02d}",
        "topology.cluster.x-k8s.io/owned": "", "node-role.kubernetes.io/worker": "",
    }  # fmt: skip
    conditions = [
        {"type": item, "status": "False" if item in ("Deleting", "Paused") else "True", "reason": f"{item}Reason",
         "observedGeneration": 2, "lastTransitionTime": _TIME, "message": f"* {item}: nothing to report of this one"}
        for item in _CONDITIONS
    ]  # fmt: skip
    failure = {"failureReason": "CreateError", "failureMessage": "no capacity"} if failed else {}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Machine",
        "metadata": {
            "name": name, "namespace": "fleet", "uid": f"00000000-0000-4000-8000-{number:012d}", "generation": 2,
            "resourceVersion": str(100_000_000 + version), "creationTimestamp": _TIME, "labels": labels,
            "annotations": {"cluster.x-k8s.io/certificates-expiry": _TIME, "some.team/owner": "platform"},
            "finalizers": ["machine.cluster.x-k8s.io"],
            "ownerReferences": [{
                "apiVersion": f"{GROUP}/{VERSION}", "kind": "MachineSet", "name": f"ms-{group:02d}",
                "uid": f"00000000-0000-4000-9000-{group:012d}", "controller": True, "blockOwnerDeletion": True,
            }],
        },
        "spec": {
            "clusterName": "workload", "providerID": f"aws:///eu-central-1{'abc'[group % 3]}/i-{number:017x}",
            "version": "v1.36.3", "failureDomain": f"eu-central-1{'abc'[group % 3]}",
            "bootstrap": {"configRef": {"kind": "KubeadmConfig", "name": name}, "dataSecretName": name},
            "infrastructureRef": {"apiGroup": f"infrastructure.{GROUP}", "kind": "AWSMachine", "name": name},
        },
        "status": {
            "phase": "Failed" if failed else "Running", "nodeRef": {"name": node_name(number)},
            "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Flatcar", "architecture": "amd64"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "conditions": conditions,
            "deprecated": {"v1beta1": {"conditions": conditions[:4], **failure}},
        },
    }  # fmt: skip


def node_name(number: int) -> str:
    return f"ip-10-{number // 65536}-{number // 256 % 256}-{number % 256}.eu-central-1.compute.internal"


def node(number: int) -> facts.Node:
    return facts.Node(
        node_name(number), provider_id=machine(number)["spec"]["providerID"],
        annotations={f"{GROUP}/machine": machine(number)["metadata"]["name"], f"{GROUP}/cluster-namespace": "fleet"},
    )  # fmt: skip


def _group(kind: str, number: int) -> dict[str, Any]:
    limits = {f"{GROUP}/cluster-api-autoscaler-node-group-{what}-size": size for what, size in
              (("min", "0"), ("max", "100000"))}  # fmt: skip
    capacity = {f"capacity.cluster-autoscaler.kubernetes.io/{what}": amount for what, amount in
                (("cpu", "16"), ("memory", "64Gi"))}  # fmt: skip
    metadata: dict[str, Any] = {
        "name": f"md-{number:02d}" if kind == "MachineDeployment" else f"ms-{number:02d}",
        "namespace": "fleet", "uid": f"{kind}-{number}", "resourceVersion": "1",
    }  # fmt: skip
    if kind == "MachineDeployment":
        metadata["annotations"] = limits | capacity
    else:
        metadata["ownerReferences"] = [{"kind": "MachineDeployment", "name": f"md-{number:02d}", "controller": True}]
    return {"metadata": metadata, "spec": {"clusterName": "workload", "replicas": MACHINES // GROUPS}}


class Management:
    """A transport that answers discovery and watches."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def send(self, request: transport.Request) -> transport.Response:
        plural = request.path.rpartition("/")[2]
        if plural in _KINDS:
            return _answer(self._watch(plural))
        version = {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
        listed = [{"name": name, "kind": kind, "namespaced": True} for name, kind in _KINDS.items()]
        groups = [{"name": GROUP, "versions": [version], "preferredVersion": version}]
        return _answer(_once({"resources": listed} if plural == VERSION else {"groups": groups}))

    async def _watch(self, plural: str) -> AsyncIterator[bytes]:
        kind = _KINDS[plural]
        if plural == "machines":
            for number in range(MACHINES):
                yield _line("ADDED", machine(number))
        else:
            for number in range(GROUPS):
                yield _line("ADDED", _group(kind, number))
        metadata = {"resourceVersion": "1000", "annotations": {"k8s.io/initial-events-end": "true"}}
        yield _line("BOOKMARK", {"kind": kind, "metadata": metadata})
        while plural == "machines":
            yield _line("MODIFIED", await self.changes.get())
        await asyncio.Event().wait()


async def _once(answer: dict[str, Any]) -> AsyncIterator[bytes]:
    yield msgspec.json.encode(answer)


def _answer(stream: AsyncIterator[bytes]) -> transport.Response:
    return transport.Response(200, {"content-type": "application/json"}, stream)  # type: ignore[arg-type]


def _line(kind: str, found: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": kind, "object": found}) + b"\n"


async def _follow(server: Management) -> tuple[clusterapi_provider.Provider, asyncio.Task[None]]:
    api = client.Client(server, clock.RealClock(), client.ClientSettings(qps=0))
    provider = clusterapi_provider.Provider(api)
    running = asyncio.create_task(provider.run())
    await provider.wait_synced()
    return provider, running


async def _measure() -> dict[str, float]:
    server, nodes = Management(), [node(number) for number in range(MACHINES)]
    gc.collect()
    tracemalloc.start()
    provider, running = await _follow(server)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    found: dict[str, float] = {"machines": MACHINES, "mb": held / 2**20, "bytes_each": held / MACHINES}

    def observe() -> float:
        started_s = time.process_time()
        observed = provider.observe(nodes)
        taken_s = time.process_time() - started_s
        assert sum(len(group.instances) for group in observed.groups) == MACHINES
        return taken_s

    found["first_cpu_seconds"] = observe()
    machines_s, nodes_s = [], []
    for number in range(CHANGES):
        server.changes.put_nowait(machine(number, 2 + number, failed=True))
        await asyncio.sleep(0.02)
        machines_s.append(observe())
        nodes[number] = replace(nodes[number], unschedulable=True)
        nodes_s.append(observe())
    found["one_machine_cpu_seconds"] = sorted(machines_s)[CHANGES // 2]
    found["one_node_cpu_seconds"] = sorted(nodes_s)[CHANGES // 2]
    running.cancel()
    return found


def run() -> dict[str, float]:
    return asyncio.run(_measure())
