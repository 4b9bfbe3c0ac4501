"""Workload controllers: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, TTL of finished Jobs, and a batch queue.

A Deployment has one ReplicaSet per template and moves its replicas from the old to the new within surge and
unavailability; a StatefulSet makes pods with stable names in order and removes them from the end. A
DaemonSet has one pod for every eligible node, pinned to it by node affinity and bound by the scheduler. The batch queue
submits Jobs with ProvisioningRequests.
"""

import math
import zlib
from typing import Any

import msgspec

from windlass.simulator.cluster import api_client
from windlass.simulator.cluster.api_client import Change, GroupResource
from windlass.simulator.cluster.event_loop import EventLoop
from windlass.simulator.cluster.pod_controller import OwnedObjects, OwnedPods, PodController, PodFactory
from windlass.simulator.reference_scheduler import node_filters

Json = dict[str, Any]

_TOLERATED_TAINTS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
TOLERATIONS: tuple[Json, ...] = tuple(
    {"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED_TAINTS
)
"""Tolerations that the controller adds to every daemon pod."""


class DaemonSetController:
    """Creates and deletes daemon pods as nodes come, go and change."""

    watched_kinds = (api_client.DAEMON_SETS, api_client.NODES, api_client.PODS)

    def __init__(self, event_loop: EventLoop) -> None:
        self._api = event_loop.api
        self._pod_factory = PodFactory(event_loop.api)
        self._pods = OwnedObjects("DaemonSet", api_client.PODS)
        self._pod_keys: dict[tuple[str, str], str] = {}
        """Pod keys by the set's uid and the node's name."""
        self._due: dict[tuple[str, str], None] = {}
        """Pairs of DaemonSet and node to reconcile, by key and name."""

    def on_change(self, change: Change) -> None:
        match change.kind:
            case api_client.NODES:
                if _may_change_eligibility(change.now, change.before):
                    self._due.update(
                        ((key, change.key), None) for key in self._api.list_objects(api_client.DAEMON_SETS)
                    )
            case api_client.DAEMON_SETS:
                if change.now is None:
                    self._pod_factory.forget(change.obj["metadata"]["uid"])
                elif change.before is None:
                    self._due.update(((change.key, name), None) for name in self._api.list_objects(api_client.NODES))
            case api_client.PODS:
                self._on_pod(change)

    def _on_pod(self, change: Change) -> None:
        key = self._pods.on_change(change)
        owner = api_client.controller_of(change.obj)
        if key is None or owner is None:
            return
        node = node_filters.pinned_node_name(change.obj)
        if change.now is None and self._pod_keys.get((owner["uid"], node)) == change.key:
            del self._pod_keys[owner["uid"], node]
            self._due[key, node] = None

    def sync(self) -> bool:
        due, self._due = self._due, {}
        for key, name in due:
            daemon_set, node = self._api.find(api_client.DAEMON_SETS, key), self._api.find(api_client.NODES, name)
            if daemon_set is not None and node is not None and not api_client.is_deleting(daemon_set):
                self._reconcile(daemon_set, node)
        return bool(due)

    def _reconcile(self, daemon_set: Json, node: Json) -> None:
        seat = (daemon_set["metadata"]["uid"], node["metadata"]["name"])
        if seat in self._pod_keys or not should_run_on(daemon_set, node):
            return
        pod = self._pod_factory.make_pod(daemon_set)
        spec = {
            **pod["spec"],
            "affinity": node_name_affinity(seat[1]),
            "tolerations": [*(pod["spec"].get("tolerations") or ()), *TOLERATIONS],
        }
        self._pod_keys[seat] = api_client.key_of(self._api.create(api_client.PODS, {**pod, "spec": spec}))


def node_name_affinity(node: str) -> Json:
    """The affinity of a daemon pod: this node, by name."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def _may_change_eligibility(now: Json | None, before: Json | None) -> bool:
    """Did the node change in a way that may change its eligibility?"""
    if now is None:
        return False
    if before is None:
        return True
    return bool(
        now["spec"].get("taints") != before["spec"].get("taints")
        or now["metadata"].get("labels") != before["metadata"].get("labels")
    )


def should_run_on(daemon_set: Json, node: Json) -> bool:
    """Is a node eligible for a pod of the DaemonSet?"""
    template = daemon_set["spec"]["template"]
    tolerations = [*(template["spec"].get("tolerations") or ()), *TOLERATIONS]
    hard = [taint for taint in node["spec"].get("taints") or () if taint["effect"] in ("NoSchedule", "NoExecute")]
    # A node that is not ready gets its daemon pods, too: they may be what makes it ready.
    waited_for = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    lasting = [taint for taint in hard if taint["key"] not in waited_for]
    if not all(node_filters.is_tolerated(taint, tolerations) for taint in lasting):
        return False
    return node_filters.matches_node_affinity({"spec": template["spec"]}, node)


POD_TEMPLATE_HASH = "pod-template-hash"


class DeploymentController:
    """Keeps one ReplicaSet per template of each Deployment, and rolls out changes."""

    watched_kinds = (api_client.DEPLOYMENTS, api_client.REPLICA_SETS)

    def __init__(self, event_loop: EventLoop) -> None:
        self._api = event_loop.api
        self._sets = OwnedObjects("Deployment", api_client.REPLICA_SETS)
        self._due: dict[str, None] = {}

    def on_change(self, change: Change) -> None:
        key = change.key if change.kind == api_client.DEPLOYMENTS else self._sets.on_change(change)
        if key is not None:
            self._due[key] = None

    def sync(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            deployment = self._api.find(api_client.DEPLOYMENTS, key)
            if deployment is not None and not api_client.is_deleting(deployment):
                self._reconcile(deployment)
        return bool(due)

    def _reconcile(self, deployment: Json) -> None:
        sets = [item for item in self._sets.of(deployment) if not api_client.is_deleting(item)]
        hash_ = hash_template(deployment["spec"]["template"])
        new = next((entry for entry in sets if entry["metadata"]["labels"].get(POD_TEMPLATE_HASH) == hash_), None)
        old = [replica_set for replica_set in sets if replica_set is not new and _desired_replicas(replica_set)]
        if new is None:
            first = 0 if old else deployment["spec"]["replicas"]
            self._api.post(api_client.REPLICA_SETS, make_replica_set(deployment, hash_, first))
        elif not old:
            self._scale(new, deployment["spec"]["replicas"])
        else:
            self._roll(deployment, new, old)
        self._count(deployment, sets)

    def _roll(self, deployment: Json, new: Json, old: list[Json]) -> None:
        """One step: scale the new set up within maxSurge, and the old ones down within maxUnavailable."""
        replicas = deployment["spec"]["replicas"]
        limits = deployment["spec"]["strategy"].get("rollingUpdate") or {}
        surge = _scale_limit(limits.get("maxSurge", "25%"), replicas, is_rounded_up=True)
        missing = _scale_limit(limits.get("maxUnavailable", "25%"), replicas, is_rounded_up=False)
        if not surge and not missing:
            missing = 1
        total = _desired_replicas(new) + sum(map(_desired_replicas, old))
        raised = max(min(replicas + surge - total, replicas - _desired_replicas(new)), 0)
        self._scale(new, min(_desired_replicas(new) + raised, replicas))
        spare = total - (replicas - missing) - (_desired_replicas(new) - _available_replicas(new))
        for item in old:
            unhealthy = min(_desired_replicas(item) - _available_replicas(item), max(spare, 0))
            taken = unhealthy + max(min(spare - unhealthy, _desired_replicas(item) - unhealthy), 0)
            spare -= taken
            self._scale(item, _desired_replicas(item) - taken)

    def _scale(self, replica_set: Json, replicas: int) -> None:
        if _desired_replicas(replica_set) != replicas:
            self._api.update_spec(api_client.REPLICA_SETS, replica_set, replicas=replicas)

    def _count(self, deployment: Json, sets: list[Json]) -> None:
        total = sum((item.get("status") or {}).get("replicas", 0) for item in sets)
        ready = sum(map(_available_replicas, sets))
        status = {
            "replicas": total,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(deployment["spec"]["replicas"] - ready, 0),
            "observedGeneration": deployment["metadata"].get("generation", 0),
        }
        if deployment.get("status") != status:
            self._api.update(api_client.DEPLOYMENTS, {**deployment, "status": status})


def hash_template(template: Json) -> str:
    return f"{zlib.crc32(msgspec.json.encode(template, order='deterministic')):08x}"


def make_replica_set(deployment: Json, hash_: str, replicas: int) -> Json:
    metadata, spec = deployment["metadata"], deployment["spec"]
    template = spec["template"]
    labels = {**(template["metadata"].get("labels") or {}), POD_TEMPLATE_HASH: hash_}
    selector = {
        **spec["selector"],
        "matchLabels": {**(spec["selector"].get("matchLabels") or {}), POD_TEMPLATE_HASH: hash_},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{hash_}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [api_client.owned_by(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "selector": selector,
            "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
        },
    }


def _desired_replicas(replica_set: Json) -> int:
    return int(replica_set["spec"]["replicas"])


def _available_replicas(replica_set: Json) -> int:
    return int((replica_set.get("status") or {}).get("availableReplicas", 0))


def _scale_limit(limit: int | str, replicas: int, *, is_rounded_up: bool) -> int:
    """A number, or a percentage of the replicas."""
    if isinstance(limit, int):
        return limit
    share = int(limit.rstrip("%")) * replicas / 100
    return math.ceil(share) if is_rounded_up else math.floor(share)


STATUS_LAG_S = 1.0
"""Delay after a change of pods before statuses are written, so that changes are batched."""


class ReplicaSetController(PodController):
    """Creates and deletes the pods of ReplicaSets."""

    def __init__(self, event_loop: EventLoop) -> None:
        self._pods = OwnedPods("ReplicaSet")
        super().__init__(event_loop, api_client.REPLICA_SETS, self._pods)
        self._counting: set[str] = set()

    def reconcile(self, key: str, replica_set: Json) -> None:
        active = self._pods.active(replica_set)
        surplus = len(active) - replica_set["spec"]["replicas"]
        if surplus < 0:
            for _ in range(-surplus):
                self._api.create(api_client.PODS, self._pod_factory.make_pod(replica_set))
        elif surplus > 0:
            for pod in deletion_order(list(active.values()))[:surplus]:
                self._api.delete_pod(pod)
        if key not in self._counting:
            self._counting.add(key)
            self._event_loop.call_later(STATUS_LAG_S, lambda: self._count(key))

    def _count(self, key: str) -> None:
        self._counting.discard(key)
        replica_set = self._api.find(api_client.REPLICA_SETS, key)
        if replica_set is None:
            return
        active, ready = len(self._pods.active(replica_set)), self._pods.ready_count(replica_set)
        status = {
            "replicas": active,
            "fullyLabeledReplicas": active,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": replica_set["metadata"].get("generation", 0),
        }
        if replica_set.get("status") != status:
            self._api.update(api_client.REPLICA_SETS, {**replica_set, "status": status})


def deletion_order(pods: list[Json]) -> list[Json]:
    """Deletion order: pods without a node, not ready, with more siblings on their node, the youngest."""
    crowd: dict[str, int] = {}
    for pod in pods:
        crowd[api_client.node_of(pod)] = crowd.get(api_client.node_of(pod), 0) + 1

    def value(pod: Json) -> tuple[bool, bool, int]:
        return bool(api_client.node_of(pod)), api_client.is_ready(pod), -crowd[api_client.node_of(pod)]

    newest_first = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)
    return sorted(newest_first, key=value)


class StatefulSetController(PodController):
    """Creates and deletes the pods of StatefulSets in order."""

    def __init__(self, event_loop: EventLoop) -> None:
        self._pods = OwnedObjects("StatefulSet", api_client.PODS)
        super().__init__(event_loop, api_client.STATEFUL_SETS, self._pods)

    def reconcile(self, key: str, stateful_set: Json) -> None:
        pods = {pod["metadata"]["name"]: pod for pod in self._pods.of(stateful_set)}
        is_ordered = stateful_set["spec"].get("podManagementPolicy") != "Parallel"
        names = [f"{stateful_set['metadata']['name']}-{i}" for i in range(stateful_set["spec"]["replicas"])]
        for name in names:
            pod = pods.pop(name, None)
            if pod is None:
                index = {"statefulset.kubernetes.io/pod-name": name}
                self._api.create(api_client.PODS, self._pod_factory.make_pod(stateful_set, name, index))
            # The next pod waits until this one is ready; a terminating pod keeps its name until it is deleted.
            if is_ordered and (pod is None or not api_client.is_ready(pod) or api_client.is_deleting(pod)):
                break
        self._shrink([pod for name, pod in pods.items() if name not in names], is_ordered)
        self._count(stateful_set)

    def _shrink(self, surplus: list[Json], is_ordered: bool) -> None:
        last_first = sorted(surplus, key=lambda pod: -int(pod["metadata"]["name"].rpartition("-")[2]))
        if is_ordered and any(api_client.is_deleting(pod) for pod in last_first):
            return
        for pod in last_first[:1] if is_ordered else last_first:
            self._api.delete_pod(pod)

    def _count(self, stateful_set: Json) -> None:
        pods = [pod for pod in self._pods.of(stateful_set) if api_client.is_active(pod)]
        ready = sum(map(api_client.is_ready, pods))
        status = {
            "replicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": stateful_set["metadata"].get("generation", 0),
        }
        if stateful_set.get("status") != status:
            self._api.update(api_client.STATEFUL_SETS, {**stateful_set, "status": status})


class JobController(PodController):
    """Creates the pods of Jobs, and removes finished Jobs after their TTL."""

    def __init__(self, event_loop: EventLoop) -> None:
        self._pods = OwnedObjects("Job", api_client.PODS)
        super().__init__(event_loop, api_client.JOBS, self._pods)
        self._succeeded: dict[str, set[str]] = {}
        """Uids of succeeded pods by uid of their Job: they count even if their node was deleted."""

    def on_change(self, change: Change) -> None:
        super().on_change(change)
        if change.kind == api_client.JOBS and change.now is None:
            self._succeeded.pop(change.obj["metadata"]["uid"], None)

    def reconcile(self, key: str, job: Json) -> None:
        if is_complete(job):
            return
        pods = self._pods.of(job)
        active = [pod for pod in pods if api_client.is_active(pod)]
        done = self._succeeded.setdefault(job["metadata"]["uid"], set())
        done.update(pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") == "Succeeded")
        succeeded = len(done)
        desired = job["spec"].get("completions", 1) - succeeded
        if desired <= 0:
            self._finish(key, job, succeeded)
            return
        missing = min(job["spec"].get("parallelism", 1), desired) - len(active)
        for _ in range(missing):
            self._api.create(api_client.PODS, self._pod_factory.make_pod(job))
        self._count(job, {"active": len(active) + max(missing, 0), "succeeded": succeeded})

    def _count(self, job: Json, counts: dict[str, int]) -> None:
        status = {"startTime": job["metadata"]["creationTimestamp"], **counts}
        if job.get("status") != status:
            self._api.update(api_client.JOBS, {**job, "status": status})

    def _finish(self, key: str, job: Json, succeeded: int) -> None:
        now = self._api.now()
        condition = {"type": "Complete", "status": "True", "lastTransitionTime": now, "lastProbeTime": now}
        status = {
            "startTime": job["metadata"]["creationTimestamp"],
            "completionTime": now,
            "succeeded": succeeded,
            "conditions": [condition],
        }
        self._api.update(api_client.JOBS, {**job, "status": status})
        ttl_s = job["spec"].get("ttlSecondsAfterFinished")
        if ttl_s is not None:
            self._event_loop.call_later(ttl_s, lambda: self._api.remove(api_client.JOBS, key))


def is_complete(job: Json) -> bool:
    condition = api_client.condition_of(job, "Complete")
    return condition is not None and condition["status"] == "True"


CONSUME_ANNOTATION = "autoscaling.x-k8s.io/consume-provisioning-request"

_VERSION = "autoscaling.x-k8s.io/v1"


class ProvisioningJobQueue:
    """Jobs that wait for their ProvisioningRequest. Jobs whose request has failed wait forever."""

    watched_kinds: tuple[GroupResource, ...] = (api_client.PROVISIONING_REQUESTS,)

    def __init__(self, event_loop: EventLoop) -> None:
        self._api = event_loop.api
        self._waiting: dict[str, Json] = {}
        self._due: list[str] = []

    def submit(self, job: Json, provisioning_class: str) -> None:
        """Create a ProvisioningRequest for all pods of a Job."""
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        metadata, template = {"name": name, "namespace": namespace}, job["spec"]["template"]
        self._api.post(api_client.POD_TEMPLATES, {"metadata": metadata, "template": template})
        pods = {"podTemplateRef": {"name": name}, "count": job["spec"]["parallelism"]}
        spec = {"provisioningClassName": provisioning_class, "podSets": [pods]}
        kind = {"apiVersion": _VERSION, "kind": "ProvisioningRequest"}
        self._api.post(api_client.PROVISIONING_REQUESTS, {**kind, "metadata": metadata, "spec": spec})
        consuming = api_client.with_annotation(template, CONSUME_ANNOTATION, name)
        self._waiting[f"{namespace}/{name}"] = api_client.with_part(job, "spec", template=consuming)

    def on_change(self, change: Change) -> None:
        condition = api_client.condition_of(change.obj, "Provisioned")
        if change.key in self._waiting and condition is not None and condition["status"] == "True":
            self._due.append(change.key)

    def sync(self) -> bool:
        """Create the Jobs whose capacity was found or provisioned."""
        due, self._due = self._due, []
        for key in dict.fromkeys(due):
            self._api.post(api_client.JOBS, self._waiting.pop(key))
        return bool(due)
