"""Disruption budgets' status: how many pods there should be, are, and may be disrupted.

The embedded API server has this controller, too, but reacts to every single write; here all changes of one moment are
counted together, which thousands of pods make necessary. Evictions in between are charged by the server itself.
"""

import math
from typing import Any

from windlass.apiserver import times
from windlass.simulator.scheduler import matching
from windlass.simulator.world import edit, kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.pulse import Pulse

Json = dict[str, Any]

_FORGOTTEN_AFTER_S = 120.0
"""A pod whose eviction was granted counts as gone for so long, even if nobody deletes it."""
_SCALES = {"ReplicaSet": kinds.REPLICA_SETS, "StatefulSet": kinds.STATEFUL_SETS, "Job": kinds.JOBS}


class Budgets:
    """The disruption controller."""

    hears = (kinds.BUDGETS, kinds.PODS, kinds.REPLICA_SETS, kinds.STATEFUL_SETS)

    def __init__(self, pulse: Pulse) -> None:
        self._pulse, self._api = pulse, pulse.api
        self._members: dict[str, dict[str, None]] = {}
        """Keys of the pods that each budget is about."""
        self._budgets: dict[str, list[str]] = {}
        """Budgets of each pod."""
        self._due: dict[str, None] = {}

    def react(self, change: Change) -> None:
        match change.kind:
            case kinds.BUDGETS:
                self._react_to_budget(change)
            case kinds.PODS:
                self._react_to_pod(change)
            case _ if change.before is not None and change.now is not None:
                if change.before["spec"].get("replicas") != change.now["spec"].get("replicas"):
                    namespace = change.obj["metadata"]["namespace"]
                    self._due.update((key, None) for key in self._members if key.startswith(namespace + "/"))

    def _react_to_budget(self, change: Change) -> None:
        if change.now is None:
            for pod in self._members.pop(change.key, {}):
                self._budgets[pod].remove(change.key)
        elif change.before is None or change.before["spec"] != change.now["spec"]:
            members = self._members[change.key] = {
                key: None for key, pod in self._api.all(kinds.PODS).items() if protects(change.now, pod)
            }
            for key in members:
                mine = self._budgets.setdefault(key, [])
                if change.key not in mine:
                    mine.append(change.key)
            self._due[change.key] = None

    def _react_to_pod(self, change: Change) -> None:
        key = change.key
        if change.before is None and self._members:
            budgets = self._api.all(kinds.BUDGETS)
            mine = [name for name in self._members if name in budgets and protects(budgets[name], change.obj)]
            if mine:
                self._budgets[key] = mine
                for name in mine:
                    self._members[name][key] = None
        for name in self._budgets.get(key, ()):
            self._due[name] = None
        if change.now is None:
            for name in self._budgets.pop(key, ()):
                self._members[name].pop(key, None)

    def act(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            found = self._api.find(kinds.BUDGETS, key)
            if found is not None:
                self._sync(found, key)
        return bool(due)

    def _sync(self, budget: Json, key: str) -> None:
        pods = [pod for name in self._members.get(key, ()) if (pod := self._api.find(kinds.PODS, name)) is not None]
        healthy = {pod["metadata"]["name"] for pod in pods if not edit.is_deleting(pod) and edit.is_ready(pod)}
        before = budget.get("status") or {}
        disrupted = self._still_disrupted(before.get("disruptedPods") or {}, healthy, key)
        expected, desired = self._expect(budget["spec"], pods)
        current = len(healthy) - len(disrupted)
        status: Json = {
            "currentHealthy": current,
            "desiredHealthy": desired,
            "disruptionsAllowed": max(current - desired, 0) if expected > 0 else 0,
            "expectedPods": expected,
            "observedGeneration": budget["metadata"].get("generation", 0),
        }
        status["conditions"] = edit.with_conditions(budget, [_condition(status)], self._api.now())
        if disrupted:
            status["disruptedPods"] = disrupted
        if status != before:
            self._api.update(kinds.BUDGETS, {**budget, "status": status})

    def _still_disrupted(self, granted: dict[str, str], healthy: set[str], key: str) -> dict[str, str]:
        still = {}
        for name, since in granted.items():
            left_s = times.read(since) + _FORGOTTEN_AFTER_S - self._pulse.wall_s()
            if name in healthy and left_s > 0:
                still[name] = since
                self._pulse.later(left_s, lambda: self._due.setdefault(key))
        return still

    def _expect(self, spec: Json, pods: list[Json]) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy."""
        most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
        if isinstance(least, int):
            return len(pods), least
        expected = self._wanted(pods)
        if most is not None:
            return expected, max(expected - _scaled(most, expected), 0)
        return expected, _scaled(least or 0, expected)

    def _wanted(self, pods: list[Json]) -> int:
        """The replicas that the pods' controllers want, each counted once; of a Deployment's sets the Deployment."""
        scales: dict[str, int] = {}
        for pod in pods:
            owner = edit.controller_of(pod)
            if owner is None or owner["uid"] in scales or owner["kind"] not in _SCALES:
                continue
            key = f"{pod['metadata']['namespace']}/{owner['name']}"
            found = self._api.find(_SCALES[owner["kind"]], key)
            scales[owner["uid"]] = 0
            if found is not None:
                above = edit.controller_of(found)
                if above is not None and above["kind"] == "Deployment":
                    parent = self._api.find(kinds.DEPLOYMENTS, f"{pod['metadata']['namespace']}/{above['name']}")
                    scales[above["uid"]] = parent["spec"]["replicas"] if parent is not None else 0
                else:
                    scales[owner["uid"]] = found["spec"].get("replicas", found["spec"].get("parallelism", 0))
        return sum(scales.values())


def protects(budget: Json, pod: Json) -> bool:
    if budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    return matching.selects(budget["spec"].get("selector"), pod["metadata"].get("labels") or {})


def _scaled(limit: int | str, expected: int) -> int:
    return limit if isinstance(limit, int) else math.ceil(int(limit.rstrip("%")) * expected / 100)


def _condition(status: Json) -> Json:
    is_allowed = status["disruptionsAllowed"] > 0
    return {
        "type": "DisruptionAllowed",
        "status": "True" if is_allowed else "False",
        "reason": "SufficientPods" if is_allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": status["observedGeneration"],
    }
