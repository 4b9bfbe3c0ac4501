"""DaemonSet controller: one pod for every eligible node, pinned to it by node affinity and bound by the scheduler."""

from typing import Any

from windlass.simulator.cluster import api_objects
from windlass.simulator.cluster.api_client import Change
from windlass.simulator.cluster.event_loop import EventLoop
from windlass.simulator.cluster.pod_controller import OwnedObjects, PodFactory
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

    watched_kinds = (api_objects.DAEMON_SETS, api_objects.NODES, api_objects.PODS)

    def __init__(self, event_loop: EventLoop) -> None:
        self._api = event_loop.api
        self._pod_factory = PodFactory(event_loop.api)
        self._pods = OwnedObjects("DaemonSet", api_objects.PODS)
        self._pod_keys: dict[tuple[str, str], str] = {}
        """Pod keys by the set's uid and the node's name."""
        self._due: dict[tuple[str, str], None] = {}
        """Pairs of DaemonSet and node to reconcile, by key and name."""

    def on_change(self, change: Change) -> None:
        match change.kind:
            case api_objects.NODES:
                if _may_change_eligibility(change.now, change.before):
                    self._due.update(
                        ((key, change.key), None) for key in self._api.list_objects(api_objects.DAEMON_SETS)
                    )
            case api_objects.DAEMON_SETS:
                if change.now is None:
                    self._pod_factory.forget(change.obj["metadata"]["uid"])
                elif change.before is None:
                    self._due.update(((change.key, name), None) for name in self._api.list_objects(api_objects.NODES))
            case api_objects.PODS:
                self._on_pod(change)

    def _on_pod(self, change: Change) -> None:
        key = self._pods.on_change(change)
        owner = api_objects.controller_of(change.obj)
        if key is None or owner is None:
            return
        node = node_filters.pinned_node_name(change.obj)
        if change.now is None and self._pod_keys.get((owner["uid"], node)) == change.key:
            del self._pod_keys[owner["uid"], node]
            self._due[key, node] = None

    def sync(self) -> bool:
        due, self._due = self._due, {}
        for key, name in due:
            found, node = self._api.find(api_objects.DAEMON_SETS, key), self._api.find(api_objects.NODES, name)
            if found is not None and node is not None and not api_objects.is_deleting(found):
                self._reconcile(found, node)
        return bool(due)

    def _reconcile(self, found: Json, node: Json) -> None:
        seat = (found["metadata"]["uid"], node["metadata"]["name"])
        if seat in self._pod_keys or not should_run_on(found, node):
            return
        pod = self._pod_factory.make_pod(found)
        spec = {
            **pod["spec"],
            "affinity": node_name_affinity(seat[1]),
            "tolerations": [*(pod["spec"].get("tolerations") or ()), *TOLERATIONS],
        }
        self._pod_keys[seat] = api_objects.key_of(self._api.create(api_objects.PODS, {**pod, "spec": spec}))


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


def should_run_on(found: Json, node: Json) -> bool:
    """Is a node eligible for a pod of the DaemonSet?"""
    template = found["spec"]["template"]
    tolerations = [*(template["spec"].get("tolerations") or ()), *TOLERATIONS]
    hard = [taint for taint in node["spec"].get("taints") or () if taint["effect"] in ("NoSchedule", "NoExecute")]
    # A node that is not ready gets its daemon pods, too: they may be what makes it ready.
    waited_for = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    lasting = [taint for taint in hard if taint["key"] not in waited_for]
    if not all(node_filters.is_tolerated(taint, tolerations) for taint in lasting):
        return False
    return node_filters.matches_node_affinity({"spec": template["spec"]}, node)
