"""Disruption controller: the status of PodDisruptionBudgets.

The embedded API server has this controller, too, but reacts to every single write; here all changes of one step are
counted together, which thousands of pods make necessary. Evictions in between are charged by the API server itself.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from windlass.kube import time_formats
from windlass.simulator.cluster import api_objects, api_resources
from windlass.simulator.cluster.api_client import Change
from windlass.simulator.cluster.event_loop import EventLoop
from windlass.simulator.reference_scheduler import label_selectors

Json = dict[str, Any]

ControllerKey = tuple[str, str]
"""Kind and key of whatever keeps a pod."""

_DELETION_TIMEOUT_S = 120.0
"""A pod whose eviction was granted counts as gone for so long, even if nobody deletes it."""
_SCALABLE_OWNERS = {
    "ReplicaSet": api_resources.REPLICA_SETS,
    "StatefulSet": api_resources.STATEFUL_SETS,
    "Job": api_resources.JOBS,
}


@dataclass(slots=True)
class _BudgetPods:
    """A budget's pods: how many each controller has here, and who is healthy."""

    members: dict[str, ControllerKey | None] = field(default_factory=dict)
    """By pod key."""
    healthy: dict[str, None] = field(default_factory=dict)
    """Names."""
    controllers: Counter[ControllerKey] = field(default_factory=Counter)

    def add(self, key: str, pod: Json) -> None:
        if key not in self.members:
            owner = api_objects.controller_of(pod)
            controller = (owner["kind"], f"{pod['metadata']['namespace']}/{owner['name']}") if owner else None
            self.members[key] = controller
            if controller is not None:
                self.controllers[controller] += 1
        if api_objects.is_ready(pod) and not api_objects.is_deleting(pod):
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
    """The disruption controller."""

    watched_kinds = (api_resources.BUDGETS, api_resources.PODS, api_resources.REPLICA_SETS, api_resources.STATEFUL_SETS)

    def __init__(self, pulse: EventLoop) -> None:
        self._pulse, self._api = pulse, pulse.api
        self._counted: dict[str, _BudgetPods] = {}
        self._mine: dict[str, list[str]] = {}
        """Budgets of each pod."""
        self._due: dict[str, None] = {}

    def on_change(self, change: Change) -> None:
        match change.kind:
            case api_resources.BUDGETS:
                self._react_to_budget(change)
            case api_resources.PODS:
                self._react_to_pod(change)
            case _ if change.before is not None and change.now is not None:
                if change.before["spec"].get("replicas") != change.now["spec"].get("replicas"):
                    namespace = change.obj["metadata"]["namespace"]
                    self._due.update((key, None) for key in self._counted if key.startswith(namespace + "/"))

    def _react_to_budget(self, change: Change) -> None:
        if change.now is None:
            for member in self._counted.pop(change.key, _BudgetPods()).members:
                self._mine[member].remove(change.key)
        elif change.before is None or change.before["spec"] != change.now["spec"]:
            counted = self._counted[change.key] = _BudgetPods()
            for key, pod in self._api.list_objects(api_resources.PODS).items():
                if protects(change.now, pod):
                    counted.add(key, pod)
                    mine = self._mine.setdefault(key, [])
                    if change.key not in mine:
                        mine.append(change.key)
            self._due[change.key] = None

    def _react_to_pod(self, change: Change) -> None:
        key, pod = change.key, change.obj
        if change.before is None and self._counted:
            budgets = self._api.list_objects(api_resources.BUDGETS)
            mine = [name for name in self._counted if name in budgets and protects(budgets[name], pod)]
            if mine:
                self._mine[key] = mine
        for name in self._mine.get(key, ()):
            self._due[name] = None
            if change.now is not None:
                self._counted[name].add(key, change.now)
            else:
                self._counted[name].remove(key, pod["metadata"]["name"])
        if change.now is None:
            self._mine.pop(key, None)

    def sync(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            found = self._api.find(api_resources.BUDGETS, key)
            if found is not None and key in self._counted:
                self._sync(found, key, self._counted[key])
        return bool(due)

    def _sync(self, budget: Json, key: str, counted: _BudgetPods) -> None:
        before = budget.get("status") or {}
        disrupted = self._still_disrupted(before.get("disruptedPods") or {}, counted.healthy, key)
        expected, desired = self._expect(budget["spec"], counted)
        current = len(counted.healthy) - len(disrupted)
        status: Json = {
            "currentHealthy": current,
            "desiredHealthy": desired,
            "disruptionsAllowed": max(current - desired, 0) if expected > 0 else 0,
            "expectedPods": expected,
            "observedGeneration": budget["metadata"].get("generation", 0),
        }
        status["conditions"] = api_objects.with_conditions(budget, [_make_condition(status)], self._api.now())
        if disrupted:
            status["disruptedPods"] = disrupted
        if status != before:
            self._api.update(api_resources.BUDGETS, {**budget, "status": status})

    def _still_disrupted(self, granted: dict[str, str], healthy: dict[str, None], key: str) -> dict[str, str]:
        still = {}
        for name, since in granted.items():
            left_s = time_formats.parse_server_time(since) + _DELETION_TIMEOUT_S - self._pulse.wall_s()
            if name in healthy and left_s > 0:
                still[name] = since
                self._pulse.call_later(left_s, lambda: self._due.setdefault(key))
        return still

    def _expect(self, spec: Json, counted: _BudgetPods) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy."""
        most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
        if isinstance(least, int):
            return len(counted.members), least
        expected = self._wanted(counted)
        if most is not None:
            return expected, max(expected - _scale_limit(most, expected), 0)
        return expected, _scale_limit(least or 0, expected)

    def _wanted(self, counted: _BudgetPods) -> int:
        """The replicas that the pods' controllers want, each counted once; of a Deployment's sets the Deployment."""
        scales: dict[str, int] = {}
        for kind, key in counted.controllers:
            found = self._api.find(_SCALABLE_OWNERS[kind], key) if kind in _SCALABLE_OWNERS else None
            if found is None:
                continue
            above = api_objects.controller_of(found)
            if above is not None and above["kind"] == "Deployment":
                parent = self._api.find(api_resources.DEPLOYMENTS, f"{found['metadata']['namespace']}/{above['name']}")
                scales[above["uid"]] = parent["spec"]["replicas"] if parent is not None else 0
            else:
                uid = found["metadata"]["uid"]
                scales[uid] = found["spec"].get("replicas", found["spec"].get("parallelism", 0))
        return sum(scales.values())


def protects(budget: Json, pod: Json) -> bool:
    if budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    selector = budget["spec"].get("selector")
    return not label_selectors.selector_error(selector) and label_selectors.matches_selector(
        selector, pod["metadata"].get("labels") or {}
    )


def _scale_limit(limit: int | str, expected: int) -> int:
    return limit if isinstance(limit, int) else math.ceil(int(limit.rstrip("%")) * expected / 100)


def _make_condition(status: Json) -> Json:
    is_allowed = status["disruptionsAllowed"] > 0
    return {
        "type": "DisruptionAllowed",
        "status": "True" if is_allowed else "False",
        "reason": "SufficientPods" if is_allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": status["observedGeneration"],
    }
