"""The objects that Cluster API needs to turn a replica count into Nodes, as the fake infrastructure plays it.

The management cluster is the workload cluster: Machines become Nodes of the very API server they are declared in.
What a Node of a group looks like is its `node`: `capacity`, `labels` and `taints`, all optional.
"""

import base64
from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

CLUSTER_API = "cluster.x-k8s.io/v1beta2"
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io/v1beta1"
_CLUSTER_NAME = "cluster.x-k8s.io/cluster-name"
_LABELLED = "node.cluster.x-k8s.io/group"
_VERSION = "v1.36.3"


def cluster(name: str, kubeconfig: bytes, namespace: str = "default") -> list[Object]:
    """A Cluster, reached through a kubeconfig, in an order in which nothing has to wait for a retry.

    It has no control plane object: the Machine with the control plane label stands for one. Until that one has a Node,
    Cluster API counts no worker as ready.
    """
    labels = {_CLUSTER_NAME: name}
    control_plane = {"cluster.x-k8s.io/control-plane": ""}
    node = {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}
    return [
        _secret(f"{name}-kubeconfig", namespace, labels, kubeconfig),
        _secret(f"{name}-bootstrap", namespace, labels, b"#cloud-config"),
        made(INFRASTRUCTURE, "FakeCluster", name, namespace, {}),
        made(CLUSTER_API, "Cluster", name, namespace, {"infrastructureRef": _reference("FakeCluster", name)}),
        *machine(f"{name}-control-plane-0", cluster=name, namespace=namespace, node=node, labels=control_plane),
    ]


def machine(
    name: str,
    *,
    cluster: str = "work",
    namespace: str = "default",
    node: Object | None = None,
    labels: Mapping[str, str] | None = None,
) -> list[Object]:
    """A Machine of no group, and its infrastructure."""
    labels = {_CLUSTER_NAME: cluster, **(labels or {})}
    return [
        made(INFRASTRUCTURE, "FakeMachine", name, namespace, node or {}, labels),
        made(CLUSTER_API, "Machine", name, namespace, _machine(cluster, "FakeMachine", name), labels),
    ]


def machine_deployment(
    name: str,
    replicas: int,
    *,
    cluster: str = "work",
    namespace: str = "default",
    node: Object | None = None,
    annotations: Mapping[str, str] | None = None,
) -> list[Object]:
    """A MachineDeployment and its template. Its Nodes carry the label `node.cluster.x-k8s.io/group: NAME`."""
    template = made(INFRASTRUCTURE, "FakeMachineTemplate", name, namespace, {"template": {"spec": node or {}}})
    machines = {"metadata": {"labels": {_LABELLED: name}}, "spec": _machine(cluster, "FakeMachineTemplate", name)}
    spec = {"clusterName": cluster, "replicas": replicas, "template": machines}
    return [template, made(CLUSTER_API, "MachineDeployment", name, namespace, spec, annotations=annotations)]


def machine_pool(
    name: str,
    replicas: int,
    *,
    cluster: str = "work",
    namespace: str = "default",
    machines: bool = False,
    node: Object | None = None,
    annotations: Mapping[str, str] | None = None,
) -> list[Object]:
    """A MachinePool and its infrastructure; with `machines` it has a Machine for each replica."""
    shape = {"machines": machines, **(node or {})}
    infrastructure = made(INFRASTRUCTURE, "FakeMachinePool", name, namespace, shape)
    template = {"spec": _machine(cluster, "FakeMachinePool", name)}
    spec = {"clusterName": cluster, "replicas": replicas, "template": template}
    return [infrastructure, made(CLUSTER_API, "MachinePool", name, namespace, spec, annotations=annotations)]


def made(
    version: str,
    kind: str,
    name: str,
    namespace: str,
    spec: Object,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """An object of a kind that has a spec."""
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _machine(cluster: str, kind: str, name: str) -> Object:
    return {
        "clusterName": cluster,
        "version": _VERSION,
        "bootstrap": {"dataSecretName": f"{cluster}-bootstrap"},
        "infrastructureRef": _reference(kind, name),
    }


def _reference(kind: str, name: str) -> Object:
    return {"apiGroup": INFRASTRUCTURE.partition("/")[0], "kind": kind, "name": name}


def _secret(name: str, namespace: str, labels: Mapping[str, str], value: bytes) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    data = {"value": base64.b64encode(value).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "cluster.x-k8s.io/secret", "data": data}
