"""Machine controllers of Cluster API: MachineDeployment, MachineSet, Machine and MachineHealthCheck.

A MachineDeployment has one MachineSet per template, sets its replicas and rolls out one machine at a time; a MachineSet
deletes annotated Machines first. A Machine requests an instance, is linked to its node, and drains it before deletion.
"""

import functools
import math
from typing import Any

from windlass.simulator.cluster import api_client, cloud, node_groups
from windlass.simulator.cluster.api_client import ApiRequestError, Change, PodsByNode
from windlass.simulator.cluster.event_loop import EventLoop
from windlass.simulator.cluster.pod_controller import OwnedObjects
from windlass.simulator.cluster.workloads import hash_template

Json = dict[str, Any]

DRAIN_RETRY_S = 20.0
"""Time after which Cluster API retries an eviction that a budget refused."""


class MachineController:
    """Reconciles Machines, and deletes unhealthy ones of groups with a MachineHealthCheck."""

    watched_kinds = (api_client.MACHINES, api_client.NODES, api_client.PODS, api_client.BUDGETS)

    def __init__(self, event_loop: EventLoop, cloud_: cloud.Cloud) -> None:
        self._event_loop, self._api, self._cloud = event_loop, event_loop.api, cloud_
        self._due: dict[str, None] = {}
        self._by_node: dict[str, str] = {}
        self._pods = PodsByNode()
        self._draining: dict[str, str] = {}
        """Machines by the node that is being drained for them."""
        self._held: dict[str, float] = {}
        """By draining node, since when budgets refuse evictions."""
        self.evictions = 0
        """Number of pods that were left for Cluster API to evict."""
        cloud_.add_listener(self)

    # ── The cloud ────────────────────────────────────────────────────────────────────────────────────────────────

    def instance_created(self, instance: cloud.Instance) -> None:
        machine = self._api.find(api_client.MACHINES, instance.machine)
        if machine is not None:
            joined = api_client.with_part(machine, "spec", providerID=instance.provider_id)
            self._set_phase(joined, "Deleting" if api_client.is_deleting(machine) else "Provisioned")

    def instance_running(self, instance: cloud.Instance) -> None:
        """The node reports that itself."""

    def instance_unreachable(self, instance: cloud.Instance) -> None:
        after_s = instance.group.remediate_after_s
        if after_s is not None:
            self._event_loop.call_later(after_s, lambda: self._remediate(instance))

    def instance_terminated(self, instance: cloud.Instance) -> None:
        if instance.is_ended_on_purpose:
            self._api.remove(api_client.NODES, instance.name)
            self._api.remove(api_client.MACHINES, instance.machine)

    def _remediate(self, instance: cloud.Instance) -> None:
        machine = self._api.find(api_client.MACHINES, instance.machine)
        if machine is not None and instance.state != cloud.UP:
            self._replace(machine)

    def _replace(self, machine: Json) -> None:
        """Delete a Machine as a MachineHealthCheck would; its MachineSet creates another."""
        if not api_client.is_deleting(machine):
            now = self._api.now()
            self._api.update(api_client.MACHINES, api_client.with_part(machine, "metadata", deletionTimestamp=now))

    # ── Changes ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_change(self, change: Change) -> None:
        match change.kind:
            case api_client.MACHINES:
                self._due[change.key] = None
                if change.now is None:
                    self._forget(change.key, change.obj)
            case api_client.NODES:
                annotations = change.obj["metadata"].get("annotations") or {}
                if "cluster.x-k8s.io/machine" in annotations and (change.before is None or change.now is None):
                    self._due[f"{node_groups.NAMESPACE}/{annotations['cluster.x-k8s.io/machine']}"] = None
            case api_client.PODS:
                self._on_pod(change)
            case api_client.BUDGETS:
                self._on_budget()

    def _forget(self, key: str, machine: Json) -> None:
        self._let_go(machine["metadata"]["name"])
        self._cloud.terminate(key)

    def _on_pod(self, change: Change) -> None:
        node = api_client.node_of(change.obj)
        if not node:
            return
        if change.now is None:
            self._pods.remove(node, change.key)
        else:
            self._pods.add(node, change.key)
        if node in self._draining:
            self._due[self._draining[node]] = None

    def _on_budget(self) -> None:
        """Retry evictions now: a budget's status has changed, so the result may differ."""
        held, self._held = self._held, {}
        for node, since_s in held.items():
            tries = max(math.ceil((self._event_loop.now_s() - since_s) / DRAIN_RETRY_S), 1)
            again_s = since_s + tries * DRAIN_RETRY_S
            self._event_loop.call_later(again_s - self._event_loop.now_s(), functools.partial(self._retry, node))

    def sync(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            machine = self._api.find(api_client.MACHINES, key)
            if machine is None:
                continue
            if api_client.is_deleting(machine):
                self._delete(key, machine)
            elif key not in self._cloud.instances and not machine["spec"].get("providerID"):
                self._launch(key, machine)
            else:
                self._join(machine)
        return bool(due)

    # ── Creation──────────────────────────────────────────────────────────────────────────────────────────────────

    def _launch(self, key: str, machine: Json) -> None:
        group = self._cloud.groups[machine["metadata"]["labels"][node_groups.DEPLOYMENT_NAME_LABEL]]
        self._cloud.launch(key, machine["metadata"]["name"], group)
        self._set_phase(machine, "Provisioning")
        if group.remediate_after_s is not None:
            self._event_loop.call_later(group.remediate_after_s, lambda: self._give_up(key, machine["metadata"]["uid"]))

    def _give_up(self, key: str, uid: str) -> None:
        """Delete a Machine whose node has not appeared in time."""
        machine = self._api.find(api_client.MACHINES, key)
        if machine is not None and machine["metadata"]["uid"] == uid and not machine["status"].get("nodeRef"):
            self._replace(machine)

    def _join(self, machine: Json) -> None:
        name = machine["metadata"]["name"]
        status = machine.get("status") or {}
        if "nodeRef" not in status and self._api.find(api_client.NODES, name) is not None:
            self._set_phase(machine, "Running", nodeRef={"name": name})

    def _set_phase(self, machine: Json, phase: str, **status: Any) -> None:
        self._api.update(api_client.MACHINES, api_client.with_part(machine, "status", phase=phase, **status))

    # ── Deletion───────────────────────────────────────────────────────────────────────────────────────────────────

    def _delete(self, key: str, machine: Json) -> None:
        if (machine.get("status") or {}).get("phase") != "Deleting":
            self._set_phase(machine, "Deleting")
        name = machine["metadata"]["name"]
        node = self._api.find(api_client.NODES, name)
        if node is None or not self._drain(key, node):
            self._let_go(name)
            self._cloud.terminate(key)
            if key not in self._cloud.instances:
                # The instance has vanished, or was never requested.
                self._api.remove(api_client.NODES, name)
                self._api.remove(api_client.MACHINES, key)

    def _drain(self, key: str, node: Json) -> bool:
        """Drain a node as far as possible now; True if pods remain."""
        name = node["metadata"]["name"]
        if not node["spec"].get("unschedulable"):
            self._api.update(api_client.NODES, api_client.with_part(node, "spec", unschedulable=True))
        remaining = [pod for pod in self._pods_on(name) if _needs_drain(pod)]
        if not api_client.is_ready(node):
            # An unreachable kubelet ends no pods, so deletion does not wait for it.
            remaining = [pod for pod in remaining if not api_client.is_deleting(pod)]
        is_new = name not in self._draining
        self._draining[name] = key
        for pod in remaining:
            if not api_client.is_deleting(pod):
                self._evict(pod, name, is_new)
        return bool(remaining)

    def _pods_on(self, node: str) -> list[Json]:
        return [pod for key in self._pods.pods_on(node) if (pod := self._api.find(api_client.PODS, key)) is not None]

    def _evict(self, pod: Json, node: str, is_new: bool) -> None:
        metadata = pod["metadata"]
        path = f"{self._api.path_of(api_client.PODS, metadata['namespace'])}/{metadata['name']}/eviction"
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": metadata["name"]}}
        try:
            self._api.request("POST", path, body)
            self.evictions += 1
        except ApiRequestError:
            if is_new:
                self._held[node] = self._event_loop.now_s()

    def _retry(self, node: str) -> None:
        key = self._draining.pop(node, None)
        if key is not None:
            self._due[key] = None

    def _let_go(self, node: str) -> None:
        self._draining.pop(node, None)
        self._held.pop(node, None)


def _needs_drain(pod: Json) -> bool:
    owner = api_client.controller_of(pod)
    return not api_client.is_finished(pod) and (owner is None or owner["kind"] != "DaemonSet")


DELETE_MACHINE_ANNOTATION = "cluster.x-k8s.io/delete-machine"

FINALIZER = "machine.cluster.x-k8s.io"


class MachineSetController:
    """Creates and deletes the Machines of MachineSets."""

    watched_kinds = (api_client.MACHINE_SETS, api_client.MACHINES)

    def __init__(self, event_loop: EventLoop) -> None:
        self._api = event_loop.api
        self._machines = OwnedObjects("MachineSet", api_client.MACHINES)
        self._due: dict[str, None] = {}

    def on_change(self, change: Change) -> None:
        key = change.key if change.kind == api_client.MACHINE_SETS else self._machines.on_change(change)
        if key is not None:
            self._due[key] = None

    def sync(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            machine_set = self._api.find(api_client.MACHINE_SETS, key)
            if machine_set is not None and not api_client.is_deleting(machine_set):
                self._reconcile(machine_set)
        return bool(due)

    def _reconcile(self, machine_set: Json) -> None:
        machines = [item for item in self._machines.of(machine_set) if not api_client.is_deleting(item)]
        surplus = len(machines) - machine_set["spec"]["replicas"]
        for _ in range(-surplus):
            self._api.create(api_client.MACHINES, _make_machine(machine_set))
        for machine in sorted(machines, key=_deletion_priority)[: max(surplus, 0)]:
            now = self._api.now()
            self._api.update(api_client.MACHINES, api_client.with_part(machine, "metadata", deletionTimestamp=now))
        self._count(machine_set)

    def _count(self, machine_set: Json) -> None:
        machines = [item for item in self._machines.of(machine_set) if not api_client.is_deleting(item)]
        ready = sum(map(is_running, machines))
        status = {
            "replicas": len(machines),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "upToDateReplicas": len(machines),
            "observedGeneration": machine_set["metadata"].get("generation", 0),
            "selector": f"{node_groups.SET_NAME_LABEL}={machine_set['metadata']['name']}",
        }
        if machine_set.get("status") != status:
            self._api.update(api_client.MACHINE_SETS, {**machine_set, "status": status})


def is_running(machine: Json) -> bool:
    return (machine.get("status") or {}).get("phase") == "Running"


def _deletion_priority(machine: Json) -> tuple[int, str]:
    """The lowest is deleted first: annotated, then unhealthy, then by name."""
    if DELETE_MACHINE_ANNOTATION in (machine["metadata"].get("annotations") or {}):
        return 0, machine["metadata"]["name"]
    return (2 if is_running(machine) else 1), machine["metadata"]["name"]


def _make_machine(machine_set: Json) -> Json:
    template = machine_set["spec"]["template"]
    labels = {
        **(template.get("metadata") or {}).get("labels", {}),
        node_groups.SET_NAME_LABEL: machine_set["metadata"]["name"],
    }
    return {
        "metadata": {
            "generateName": machine_set["metadata"]["name"] + "-",
            "namespace": machine_set["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [api_client.owned_by(machine_set)],
            "finalizers": [FINALIZER],
        },
        "spec": template["spec"],
        "status": {"phase": "Pending"},
    }


MACHINE_TEMPLATE_HASH = "machine-template-hash"

REVISION_ANNOTATION = "machinedeployment.clusters.x-k8s.io/revision"

_SURGE = 1


class MachineDeploymentController:
    """Keeps one MachineSet per template of each MachineDeployment."""

    watched_kinds = (api_client.MACHINE_DEPLOYMENTS, api_client.MACHINE_SETS)

    def __init__(self, event_loop: EventLoop) -> None:
        self._api = event_loop.api
        self._sets = OwnedObjects("MachineDeployment", api_client.MACHINE_SETS)
        self._due: dict[str, None] = {}

    def on_change(self, change: Change) -> None:
        key = change.key if change.kind == api_client.MACHINE_DEPLOYMENTS else self._sets.on_change(change)
        if key is not None:
            self._due[key] = None

    def sync(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            machine_deployment = self._api.find(api_client.MACHINE_DEPLOYMENTS, key)
            if machine_deployment is not None and not api_client.is_deleting(machine_deployment):
                self._reconcile(machine_deployment)
        return bool(due)

    def _reconcile(self, machine_deployment: Json) -> None:
        sets = self._sets.of(machine_deployment)
        hash_ = hash_template(machine_deployment["spec"]["template"])
        new = next((item for item in sets if item["metadata"]["labels"].get(MACHINE_TEMPLATE_HASH) == hash_), None)
        old = [
            entry
            for entry in sets
            if entry is not new and (_desired_replicas(entry) or _status_count(entry, "replicas"))
        ]
        replicas = machine_deployment["spec"].get("replicas", 1)
        if new is None:
            first = replicas if not old else 0
            self._api.create(
                api_client.MACHINE_SETS, _make_machine_set(machine_deployment, hash_, first, len(sets) + 1)
            )
        elif not old:
            self._scale(new, replicas)
        else:
            self._roll(replicas, new, old)
        self._report(machine_deployment, sets, new)

    def _roll(self, replicas: int, new: Json, old: list[Json]) -> None:
        """One step: one more new Machine, then one less of the old as soon as the new one runs."""
        total = _desired_replicas(new) + sum(map(_desired_replicas, old))
        self._scale(new, min(_desired_replicas(new) + max(replicas + _SURGE - total, 0), replicas))
        spare = total - replicas - (_desired_replicas(new) - _status_count(new, "availableReplicas"))
        for item in old:
            taken = min(max(spare, 0), _desired_replicas(item))
            spare -= taken
            self._scale(item, _desired_replicas(item) - taken)

    def _scale(self, machine_set: Json, replicas: int) -> None:
        if _desired_replicas(machine_set) != replicas:
            self._api.update_spec(api_client.MACHINE_SETS, machine_set, replicas=replicas)

    def _report(self, machine_deployment: Json, sets: list[Json], new: Json | None) -> None:
        replicas, ready = (sum(_status_count(item, name) for item in sets) for name in ("replicas", "readyReplicas"))
        desired = machine_deployment["spec"].get("replicas", 1)
        phase = "Running" if replicas == desired == ready else ("ScalingUp" if replicas <= desired else "ScalingDown")
        status = {
            "replicas": replicas,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "upToDateReplicas": _status_count(new, "replicas") if new is not None else 0,
            "observedGeneration": machine_deployment["metadata"].get("generation", 0),
            "selector": f"{node_groups.DEPLOYMENT_NAME_LABEL}={machine_deployment['metadata']['name']}",
            "phase": phase,
        }
        if machine_deployment.get("status") != status:
            self._api.update(api_client.MACHINE_DEPLOYMENTS, {**machine_deployment, "status": status})


def _desired_replicas(machine_set: Json) -> int:
    return int(machine_set["spec"]["replicas"])


def _status_count(machine_set: Json, name: str) -> int:
    return int((machine_set.get("status") or {}).get(name, 0))


def _make_machine_set(machine_deployment: Json, hash_: str, replicas: int, revision: int) -> Json:
    template = machine_deployment["spec"]["template"]
    labels = {**(template.get("metadata") or {}).get("labels", {}), MACHINE_TEMPLATE_HASH: hash_}
    return {
        "metadata": {
            "name": f"{machine_deployment['metadata']['name']}-{hash_}",
            "namespace": machine_deployment["metadata"]["namespace"],
            "labels": labels,
            "annotations": {REVISION_ANNOTATION: str(revision)},
            "ownerReferences": [api_client.owned_by(machine_deployment)],
        },
        "spec": {
            "clusterName": machine_deployment["spec"]["clusterName"],
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {**template, "metadata": {"labels": labels}},
        },
        "status": {},
    }
