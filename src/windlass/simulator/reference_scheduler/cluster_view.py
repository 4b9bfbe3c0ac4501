"""Cluster view of the scheduler: API objects, assigned pods by node, and the order of the scheduling queue.

Objects are parsed JSON and never changed in place: putting an object replaces its earlier version.
"""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from windlass import errors
from windlass.simulator.reference_scheduler import resource_requests
from windlass.simulator.reference_scheduler.resource_requests import ResourceList

Json = dict[str, Any]

FINISHED = ("Succeeded", "Failed")

NEVER = datetime.datetime.max.replace(tzinfo=datetime.UTC)


def key_of(obj: Json) -> str:
    """`namespace/name`, or the bare name of a cluster-scoped object."""
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def labels_of(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def priority_of(pod: Json) -> int:
    return int(pod["spec"].get("priority") or 0)


def is_terminating(obj: Json) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def node_name_of(pod: Json) -> str:
    return str(pod["spec"].get("nodeName") or "")


def nominated_node_of(pod: Json) -> str:
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


def is_same_pod(one: Json, other: Json) -> bool:
    return one["metadata"].get("uid") == other["metadata"].get("uid") and key_of(one) == key_of(other)


def read_time(text: str | None) -> datetime.datetime:
    """A time of the API in seconds; infinity if there is none."""
    return datetime.datetime.fromisoformat(text) if text else NEVER


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod on a node, and its requests."""

    pod: Json
    requests: ResourceList
    nonzero_requests: ResourceList
    """CPU and memory with a default for containers that request none, as scores count them."""

    @classmethod
    def of(cls, pod: Json) -> "AssignedPod":
        amounts = resource_requests.assigned_pod_requests(pod)
        return cls(pod, amounts, resource_requests.nonzero_assigned_requests(pod, amounts))


@dataclass(slots=True)
class NodeView:
    """A node, its allocatable resources, and its pods by key."""

    node: Json
    allocatable: resource_requests.ResourceList
    pods: dict[str, AssignedPod] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @property
    def labels(self) -> dict[str, str]:
        return labels_of(self.node)

    def add(self, pod: Json) -> None:
        self.pods[key_of(pod)] = AssignedPod.of(pod)

    def remove(self, pod: Json) -> None:
        del self.pods[key_of(pod)]

    def copy(self) -> "NodeView":
        return NodeView(self.node, self.allocatable, dict(self.pods))


class ClusterView:
    """All objects by kind and key, without finished pods, which the scheduler does not list."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeView] = {}
        self.waiting: dict[str, Json] = {}
        """Pods without a node."""
        self.seated: dict[str, dict[str, AssignedPod]] = {}
        """Pods by the name of their node, which need not exist (any more)."""
        self.rejected: list[errors.InvalidObject] = []
        self._others: dict[str, dict[str, Json]] = {}
        self._node_of_pod: dict[str, str] = {}
        """Node names by pod key."""

    @classmethod
    def of(cls, objects: Iterable[Json]) -> "ClusterView":
        """A view of these objects. Unreadable ones are collected in `rejected`."""
        view = cls()
        for obj in objects:
            try:
                view.put(obj)
            except errors.InvalidObject as error:
                view.rejected.append(error)
        return view

    def all_of(self, kind: str) -> dict[str, Json]:
        """Objects of a kind other than Node and Pod, by key."""
        return self._others.get(kind, {})

    def find(self, kind: str, key: str) -> Json | None:
        return self.all_of(kind).get(key)

    def put(self, obj: Json) -> None:
        """Add an object, or replace its earlier version."""
        match obj["kind"]:
            case "Node":
                name = key_of(obj)
                pods = self.seated.setdefault(name, {})
                self.nodes[name] = NodeView(obj, resource_requests.node_allocatable(obj), pods)
            case "Pod":
                self._put_pod(obj)
            case kind:
                resource_requests.validate_storage(obj)
                self._others.setdefault(kind, {})[key_of(obj)] = obj

    def _put_pod(self, pod: Json) -> None:
        seated = AssignedPod.of(pod)
        self.remove(pod)
        if (pod.get("status") or {}).get("phase") in FINISHED:
            return
        if node_name_of(pod):
            self.seated.setdefault(node_name_of(pod), {})[key_of(pod)] = seated
            self._node_of_pod[key_of(pod)] = node_name_of(pod)
        else:
            self.waiting[key_of(pod)] = pod

    def remove(self, obj: Json) -> None:
        """Remove an object, if it exists."""
        key = key_of(obj)
        match obj["kind"]:
            case "Node":
                self.nodes.pop(key, None)
            case "Pod":
                self.waiting.pop(key, None)
                self.seated.get(self._node_of_pod.pop(key, ""), {}).pop(key, None)
            case kind:
                self._others.get(kind, {}).pop(key, None)

    def bind(self, pod: Json, node_name: str) -> Json:
        """Bind a pending pod to a node, and return the new object."""
        bound = {**pod, "spec": {**pod["spec"], "nodeName": node_name}}
        self.put(bound)
        return bound


SCHEDULER_NAME = "default-scheduler"


def list_queued(cluster: ClusterView) -> list[Json]:
    """Pending pods in the order of the scheduling queue, without gated ones."""
    return sort_by_priority(pod for pod in cluster.waiting.values() if is_queued(pod) and not is_terminating(pod))


def is_queued(pod: Json) -> bool:
    """Is the pod pending, for this scheduler, and without scheduling gates?"""
    spec = pod["spec"]
    return (spec.get("schedulerName") or SCHEDULER_NAME) == SCHEDULER_NAME and not spec.get("schedulingGates")


def sort_by_priority(pods: Iterable[Json]) -> list[Json]:
    """By priority, then by age, then by name, so that the order is deterministic."""
    return sorted(
        pods, key=lambda pod: (-priority_of(pod), read_time(pod["metadata"].get("creationTimestamp")), key_of(pod))
    )


def nominated_pods(cluster: ClusterView) -> dict[str, list[Json]]:
    """Nominated pods by node."""
    promised: dict[str, list[Json]] = {}
    for pod in cluster.waiting.values():
        if nominated_node_of(pod) and is_queued(pod):
            promised.setdefault(nominated_node_of(pod), []).append(pod)
    return promised
