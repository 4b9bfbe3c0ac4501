"""Disruption controller: the status of PodDisruptionBudgets.

Computes the same status as the embedded API server's own controller (`apiserver.disruption_status`), but once for all
writes of a step instead of on every write: thousands of pods make that necessary. Between two steps the API server
charges evictions against the status itself.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from windlass.apiserver import disruption_controller
from windlass.simulator.cluster import api_client
from windlass.simulator.cluster.api_client import Change
from windlass.simulator.cluster.event_loop import EventLoop
from windlass.simulator.reference_scheduler import label_selectors

Json = dict[str, Any]

ControllerKey = tuple[str, str]
"""Kind and key of a pod's controller."""

_SCALABLE_OWNERS = {
    "ReplicaSet": api_client.REPLICA_SETS,
    "StatefulSet": api_client.STATEFUL_SETS,
    "Job": api_client.JOBS,
}


@dataclass(slots=True)
class _BudgetPods:
    """The pods that a budget selects: their controllers, and the names of the healthy ones."""

    members: dict[str, ControllerKey | None] = field(default_factory=dict)
    """By pod key."""
    healthy: dict[str, None] = field(default_factory=dict)
    """Names of ready pods that are not being deleted, as an ordered set."""
    controllers: Counter[ControllerKey] = field(default_factory=Counter)

    def add(self, key: str, pod: Json) -> None:
        if key not in self.members:
            owner = api_client.controller_of(pod)
            controller = (owner["kind"], f"{pod['metadata']['namespace']}/{owner['name']}") if owner else None
            self.members[key] = controller
            if controller is not None:
                self.controllers[controller] += 1
        if api_client.is_ready(pod) and not api_client.is_deleting(pod):
            self.healthy[pod["metadata"]["name"]] = None
        else:
            self.healthy.pop(pod["metadata"]["name"], None)

    def remove(self, key: str, name: str) -> None:
        self.healthy.pop(name, None)
        controller = self.members.pop(key, None)
        if controller is not None:
            self.controllers[controller] -= 1
            if not self.controllers[controller]:
                del self.controllers[controller]


class DisruptionController:
    """Writes the status of PodDisruptionBudgets once per step."""

    watched_kinds = (api_client.BUDGETS, api_client.PODS, api_client.REPLICA_SETS, api_client.STATEFUL_SETS)

    def __init__(self, event_loop: EventLoop) -> None:
        self._event_loop, self._api = event_loop, event_loop.api
        self._pods_of: dict[str, _BudgetPods] = {}
        self._budgets_of: dict[str, list[str]] = {}
        """Keys of budgets by key of pod."""
        self._due: dict[str, None] = {}

    def on_change(self, change: Change) -> None:
        match change.kind:
            case api_client.BUDGETS:
                self._react_to_budget(change)
            case api_client.PODS:
                self._react_to_pod(change)
            case _ if change.before is not None and change.now is not None:
                if change.before["spec"].get("replicas") != change.now["spec"].get("replicas"):
                    namespace = change.obj["metadata"]["namespace"]
                    self._due.update((key, None) for key in self._pods_of if key.startswith(namespace + "/"))

    def _react_to_budget(self, change: Change) -> None:
        if change.now is None:
            for member in self._pods_of.pop(change.key, _BudgetPods()).members:
                self._budgets_of[member].remove(change.key)
        elif change.before is None or change.before["spec"] != change.now["spec"]:
            pods = self._pods_of[change.key] = _BudgetPods()
            for key, pod in self._api.list_objects(api_client.PODS).items():
                if protects(change.now, pod):
                    pods.add(key, pod)
                    names = self._budgets_of.setdefault(key, [])
                    if change.key not in names:
                        names.append(change.key)
            self._due[change.key] = None

    def _react_to_pod(self, change: Change) -> None:
        key, pod = change.key, change.obj
        if change.before is None and self._pods_of:
            budgets = self._api.list_objects(api_client.BUDGETS)
            names = [name for name in self._pods_of if name in budgets and protects(budgets[name], pod)]
            if names:
                self._budgets_of[key] = names
        for name in self._budgets_of.get(key, ()):
            self._due[name] = None
            if change.now is not None:
                self._pods_of[name].add(key, change.now)
            else:
                self._pods_of[name].remove(key, pod["metadata"]["name"])
        if change.now is None:
            self._budgets_of.pop(key, None)

    def sync(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            budget = self._api.find(api_client.BUDGETS, key)
            if budget is not None and key in self._pods_of:
                self._sync(budget, key, self._pods_of[key])
        return bool(due)

    def _sync(self, budget: Json, key: str, pods: _BudgetPods) -> None:
        now_s = self._event_loop.wall_s()
        status = disruption_controller.compute_status(
            budget, len(pods.members), pods.healthy, lambda: self._count_expected(pods), now_s
        )
        for since in (status.get("disruptedPods") or {}).values():
            left_s = disruption_controller.disruption_ends_s(since) - now_s
            self._event_loop.call_later(left_s, lambda: self._due.setdefault(key))
        if status != (budget.get("status") or {}):
            self._api.update(api_client.BUDGETS, {**budget, "status": status})

    def _count_expected(self, pods: _BudgetPods) -> int:
        """The sum of the replicas of the pods' controllers, each once; a Deployment stands for its ReplicaSets."""
        scales: dict[str, int] = {}
        for kind, key in pods.controllers:
            owner = self._api.find(_SCALABLE_OWNERS[kind], key) if kind in _SCALABLE_OWNERS else None
            if owner is None:
                continue
            above = api_client.controller_of(owner)
            if above is not None and above["kind"] == "Deployment":
                parent = self._api.find(api_client.DEPLOYMENTS, f"{owner['metadata']['namespace']}/{above['name']}")
                scales[above["uid"]] = parent["spec"]["replicas"] if parent is not None else 0
            else:
                uid = owner["metadata"]["uid"]
                scales[uid] = owner["spec"].get("replicas", owner["spec"].get("parallelism", 0))
        return sum(scales.values())


def protects(budget: Json, pod: Json) -> bool:
    if budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    selector = budget["spec"].get("selector")
    return not label_selectors.selector_error(selector) and label_selectors.matches_selector(
        selector, pod["metadata"].get("labels") or {}
    )
