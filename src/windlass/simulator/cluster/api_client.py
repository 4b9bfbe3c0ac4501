"""API client of the simulated components: live objects to read, direct writes, and the queue of changes.

Writes of controllers and kubelets are valid by construction, so they go directly into the store, without decoding,
defaulting and field ownership; watchers see no difference except in `managedFields`. Templates pass the server's full
admission once (`admit`); every pod of a template is a copy of the result. Evictions, and all other requests that the
server must decide, go through `request`.

API objects are parsed JSON: accessors, changed copies, an index of pods by node, a cache keyed by identity, and the
resources of the simulated cluster by API group and plural, the CustomResourceDefinitions among them.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from windlass import errors
from windlass.apiserver import object_meta, server, storage
from windlass.kube import time_formats, transport

Json = dict[str, Any]

FINISHED = ("Succeeded", "Failed")


def key_of(obj: Json) -> str:
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def with_part(obj: Json, part: str, **changes: Any) -> Json:
    """The object with some fields of `metadata`, `spec` or `status` replaced; None drops a field."""
    merged = {**(obj.get(part) or {}), **changes}
    return {**obj, part: {name: value for name, value in merged.items() if value is not None}}


def with_annotation(obj: Json, name: str, value: str | None) -> Json:
    annotations = {**(obj["metadata"].get("annotations") or {}), name: value}
    return with_part(obj, "metadata", annotations={key: text for key, text in annotations.items() if text is not None})


def controller_of(obj: Json) -> Json | None:
    """The owner reference of the object's controller."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            owner_reference: Json = owner
            return owner_reference
    return None


def owned_by(owner: Json) -> Json:
    """A reference to an object as controller of others."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_deleting(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_finished(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in FINISHED


def is_active(pod: Json) -> bool:
    """Is the pod neither finished nor being deleted?"""
    return not is_deleting(pod) and not is_finished(pod)


def node_of(pod: Json) -> str:
    return str(pod["spec"].get("nodeName") or "")


def condition_of(obj: Json, type_: str) -> Json | None:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition["type"] == type_:
            found: Json = condition
            return found
    return None


def is_ready(obj: Json) -> bool:
    """Does the Ready condition of a pod or node hold?"""
    condition = condition_of(obj, "Ready")
    return condition is not None and condition["status"] == "True"


def with_conditions(obj: Json, conditions: Iterable[Json], now: str) -> list[Json]:
    """The object's conditions with these set. A transition time changes only with the status."""
    condition_by_type = {
        condition["type"]: condition for condition in (obj.get("status") or {}).get("conditions") or ()
    }
    for condition in conditions:
        old = condition_by_type.get(condition["type"])
        since = old.get("lastTransitionTime", now) if old and old["status"] == condition["status"] else now
        condition_by_type[condition["type"]] = {**condition, "lastTransitionTime": since}
    return list(condition_by_type.values())


class PodsByNode:
    """Keys of pods by node, in insertion order."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, None]] = {}

    def add(self, node: str, pod: str) -> None:
        self._by_node.setdefault(node, {})[pod] = None

    def remove(self, node: str, pod: str) -> None:
        held = self._by_node.get(node)
        if held is not None:
            held.pop(pod, None)
            if not held:
                del self._by_node[node]

    def pods_on(self, node: str) -> list[str]:
        return list(self._by_node.get(node, ()))


Value = TypeVar("Value")

_MAX_ENTRIES = 256
"""Few parts are shared at one time. The others belong to one Job each, or to a pod that was decoded again."""


class IdentityCache(Generic[Value]):
    """Values by the identity of an object, which is kept alive with its value, so that its id is not reused."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Value]] = {}

    def get(self, part: object) -> Value | None:
        known = self._known.get(id(part))
        return None if known is None else known[1]

    def put(self, part: object, value: Value) -> Value:
        if len(self._known) >= _MAX_ENTRIES:
            self._known.clear()  # nearly all of these belong to deleted pods
        self._known[id(part)] = part, value
        return value


GroupResource = tuple[str, str]

PODS: GroupResource = ("", "pods")

NODES: GroupResource = ("", "nodes")

NAMESPACES: GroupResource = ("", "namespaces")

DEPLOYMENTS: GroupResource = ("apps", "deployments")

REPLICA_SETS: GroupResource = ("apps", "replicasets")

STATEFUL_SETS: GroupResource = ("apps", "statefulsets")

DAEMON_SETS: GroupResource = ("apps", "daemonsets")

JOBS: GroupResource = ("batch", "jobs")

BUDGETS: GroupResource = ("policy", "poddisruptionbudgets")

PRIORITY_CLASSES: GroupResource = ("scheduling.k8s.io", "priorityclasses")

CLUSTERS: GroupResource = ("cluster.x-k8s.io", "clusters")

MACHINE_DEPLOYMENTS: GroupResource = ("cluster.x-k8s.io", "machinedeployments")

MACHINE_SETS: GroupResource = ("cluster.x-k8s.io", "machinesets")

MACHINES: GroupResource = ("cluster.x-k8s.io", "machines")

MACHINE_POOLS: GroupResource = ("cluster.x-k8s.io", "machinepools")

MACHINE_TEMPLATES: GroupResource = ("infrastructure.cluster.x-k8s.io", "simulatedmachinetemplates")

POD_TEMPLATES: GroupResource = ("", "podtemplates")

PROVISIONING_REQUESTS: GroupResource = ("autoscaling.x-k8s.io", "provisioningrequests")

CAPACITY_BUFFERS: GroupResource = ("autoscaling.x-k8s.io", "capacitybuffers")

WATCHED = (
    PODS, NODES, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, BUDGETS, MACHINE_DEPLOYMENTS,
    MACHINE_SETS, MACHINES, PROVISIONING_REQUESTS,
)  # fmt: skip
"""Kinds whose changes are dispatched to components."""


CLUSTER_API = "cluster.x-k8s.io"

INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"

AUTOSCALING = "autoscaling.x-k8s.io"

_ANYTHING: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

_COUNTED: Json = {**_ANYTHING, "properties": {"replicas": {"type": "integer", "format": "int32"}}}

_SCALE: Json = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}

_CLUSTER = ("Cluster", "string", ".spec.clusterName")

_REPLICAS = (
    ("Desired", "integer", ".spec.replicas"),
    ("Current", "integer", ".status.replicas"),
    ("Ready", "integer", ".status.readyReplicas"),
)

_PHASE = ("Phase", "string", ".status.phase")

_AGE = ("Age", "date", ".metadata.creationTimestamp")


def list_crds() -> list[Json]:
    scalable = (_CLUSTER, *_REPLICAS, _PHASE)
    machine = (
        _CLUSTER,
        ("Node Name", "string", ".status.nodeRef.name"),
        ("Provider ID", "string", ".spec.providerID"),
        _PHASE,
    )
    class_name = ("ProvisioningClassName", "string", ".spec.provisioningClassName")
    return [
        _make_crd(CLUSTER_API, "v1beta2", "Cluster", "cl", (_PHASE,)),
        _make_crd(CLUSTER_API, "v1beta2", "MachineDeployment", "md", scalable, is_scalable=True),
        _make_crd(CLUSTER_API, "v1beta2", "MachineSet", "ms", scalable, is_scalable=True),
        _make_crd(CLUSTER_API, "v1beta2", "MachinePool", "mp", scalable, is_scalable=True),
        _make_crd(CLUSTER_API, "v1beta2", "Machine", "ma", machine),
        _make_crd(
            CLUSTER_API, "v1beta2", "MachineDrainRule", columns=(("Behavior", "string", ".spec.drain.behavior"),)
        ),
        _make_crd(INFRASTRUCTURE, "v1beta1", "SimulatedMachineTemplate"),
        _make_crd(AUTOSCALING, "v1", "ProvisioningRequest", "provreq", (class_name,)),
        _make_crd(AUTOSCALING, "v1beta1", "CapacityBuffer", "cb", (("Replicas", "integer", ".status.replicas"),)),
        _make_crd(AUTOSCALING, "v1beta1", "CapacityQuota", "cq", scope="Cluster"),
    ]


def _make_crd(
    group: str,
    version: str,
    kind: str,
    short_name: str = "",
    columns: tuple[tuple[str, str, str], ...] = (),
    *,
    is_scalable: bool = False,
    scope: str = "Namespaced",
) -> Json:
    """A definition; columns of kubectl, each with its type and path, before the age."""
    singular = kind.lower()
    names: Json = {"kind": kind, "listKind": kind + "List", "plural": singular + "s", "singular": singular}
    if short_name:
        names |= {"shortNames": [short_name]}
    part = _COUNTED if is_scalable else _ANYTHING
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}, **({"scale": _SCALE} if is_scalable else {})},
        "additionalPrinterColumns": [
            {"name": name, "type": type_, "jsonPath": path} for name, type_, path in (*columns, _AGE)
        ],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": part, "status": part}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}", "labels": {"cluster.x-k8s.io/v1beta2": version}},
        "spec": {"group": group, "names": names, "scope": scope, "versions": [served]},
    }


_JSON = {"content-type": "application/json", "user-agent": "kube-controller-manager"}


class ApiRequestError(errors.WindlassError):
    """The API server refused a request of a simulated component."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Change:
    """One write of any client."""

    kind: GroupResource
    key: str
    now: Json | None
    """None: the object was deleted."""
    before: Json | None
    """None: the object is new."""

    @property
    def obj(self) -> Json:
        """The current or last version of the object."""
        found = self.now if self.now is not None else self.before
        assert found is not None
        return found


class ApiClient:
    """Current parsed objects of all watched kinds, and writes."""

    def __init__(self, served: server.Server) -> None:
        self.server = served
        self.changes: deque[Change] = deque()
        """Writes that have not been dispatched to components."""
        self.notify: Callable[[], None] = lambda: None
        """Called when a change is queued."""
        self._core = served.core
        self._objects: dict[GroupResource, dict[str, Json]] = {}
        self._writing: Json | None = None

    def watch(self, kind: GroupResource) -> None:
        """Keep parsed objects of a kind from now on."""
        table = self._core.store.tables[kind]
        self._objects[kind] = {key: stored.decode() for key, stored in table.objects.items()}
        table.watchers.append(lambda event: self._on_event(kind, event))

    def _on_event(self, kind: GroupResource, event: storage.StorageEvent) -> None:
        objects, key = self._objects[kind], event.now.key
        before = objects.get(key)
        now: Json | None = None
        if event.type == storage.DELETED:
            del objects[key]
        else:
            now = objects[key] = event.now.decode() if self._writing is None else self._writing
        self.changes.append(Change(kind, key, now, before))
        self.notify()

    # ── Reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def now(self) -> str:
        """The current time in the format of API objects."""
        return time_formats.format_time(self._core.clock.now_s())

    def list_objects(self, kind: GroupResource) -> dict[str, Json]:
        """Objects by key, in order of creation."""
        return self._objects[kind]

    def find(self, kind: GroupResource, key: str) -> Json | None:
        return self._objects[kind].get(key)

    # ── Writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, kind: GroupResource, obj: Json) -> Json:
        """Create an object; the server sets its uid, and its name from `generateName`."""
        metadata = dict(obj["metadata"])
        if "name" not in metadata:
            metadata["name"] = self._name(kind, metadata["generateName"], metadata.get("namespace", ""))
        object_meta.fill_object_meta(metadata, self.now(), self._core.rng)
        metadata.setdefault("generation", 1)
        made = {**self._head(kind), **obj, "metadata": metadata}
        self._write(kind, key_of(made), made)
        return made

    def _name(self, kind: GroupResource, base: str, namespace: str) -> str:
        objects = self._core.store.tables[kind].objects
        while True:
            name = object_meta.generate_name(base, self._core.rng)
            if storage.storage_key(namespace, name) not in objects:
                return name

    def _head(self, kind: GroupResource) -> Json:
        resource = self._core.resource(*kind)
        return {"kind": resource.kind, "apiVersion": resource.api_version}

    def update(self, kind: GroupResource, obj: Json) -> None:
        """Replace an existing object."""
        self._write(kind, key_of(obj), obj)

    def update_spec(self, kind: GroupResource, obj: Json, **changes: Any) -> None:
        """Change an object's spec, with a new generation."""
        changed = with_part(obj, "spec", **changes)
        self.update(kind, with_part(changed, "metadata", generation=obj["metadata"].get("generation", 0) + 1))

    def _write(self, kind: GroupResource, key: str, obj: Json) -> None:
        self._writing = obj
        try:
            self._core.store.write(self._core.store.tables[kind], key, obj)
        finally:
            self._writing = None

    def remove(self, kind: GroupResource, key: str) -> None:
        """Remove an object at once, if it exists."""
        table = self._core.store.tables[kind]
        if key in table.objects:
            self._core.store.delete(table, key)

    def delete_pod(self, pod: Json) -> None:
        """Delete a pod as its controller would: with its grace period if it runs on a node, otherwise at once."""
        if is_deleting(pod):
            return
        if not node_of(pod) or is_finished(pod):
            self.remove(PODS, key_of(pod))
            return
        grace_s = pod["spec"].get("terminationGracePeriodSeconds", 30)
        at = time_formats.format_time(self._core.clock.now_s() + grace_s)
        self.update(
            PODS,
            with_part(pod, "metadata", deletionTimestamp=at, deletionGracePeriodSeconds=grace_s),
        )

    # ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────

    def request(self, method: str, path: str, body: Json | None = None, **query: str) -> Json:
        """A request like any client's. ApiRequestError with the server's code and message."""
        encoded = storage.encode_json(body) if body is not None else b""
        answer = self.server.handle(transport.Request(method, path, tuple(query.items()), _JSON, encoded))
        answered: Json = storage.decode_json(answer.body)
        if answer.status >= 300:
            raise ApiRequestError(answer.status, answered.get("message", ""))
        return answered

    def path_of(self, kind: GroupResource, namespace: str) -> str:
        resource = self._core.resource(*kind)
        root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        return f"{root}/namespaces/{namespace}/{resource.plural}" if namespace else f"{root}/{resource.plural}"

    def post(self, kind: GroupResource, obj: Json) -> Json:
        """Create an object through the API: decoded, defaulted, admitted, validated."""
        return self.request("POST", self.path_of(kind, obj["metadata"].get("namespace", "")), obj)

    def admit(self, kind: GroupResource, obj: Json) -> Json:
        """A new object as the server would store it: a template for any number of copies."""
        path = self.path_of(kind, obj["metadata"].get("namespace", ""))
        admitted = self.request("POST", path, obj, dryRun="All")
        admitted["metadata"] = {
            name: value for name, value in admitted["metadata"].items() if name not in _OF_ONE_OBJECT
        }
        return admitted


_OF_ONE_OBJECT = ("name", "uid", "creationTimestamp", "managedFields", "resourceVersion", "selfLink")
