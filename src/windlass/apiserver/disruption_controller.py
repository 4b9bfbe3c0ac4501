"""Disruption controller: tracks the pods of each PodDisruptionBudget and writes the budget's status on every change.

The status (expected and healthy pods, allowed disruptions, the DisruptionAllowed condition) is computed by
`compute_status`, for the simulated cluster's disruption controller, too. The two differ in how they collect the pods of
a budget: this one on every write, the other once for all writes of a step.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass import selectors
from windlass.apiserver import storage, workload_strategies, write_handlers
from windlass.apiserver.registry import Resource, ServerState
from windlass.apiserver.storage import StoredObject
from windlass.apiserver.value_types import Json
from windlass.kube import time_formats

_DELETION_TIMEOUT_S = 120.0
"""A pod with a granted eviction counts as disrupted for this long, even if no client deletes it."""


def compute_status(
    budget: Json, pod_count: int, healthy: Collection[str], count_expected: Callable[[], int], now_s: float
) -> Json:
    """The new status.

    `healthy` are the names of ready pods; `count_expected` returns the replicas of the pods' controllers, and is called
    only where the budget depends on them.
    """
    before: Json = budget.get("status") or {}
    expected, desired = _required_pods(budget["spec"], pod_count, count_expected)
    disrupted = _still_disrupted(before.get("disruptedPods") or {}, healthy, now_s)
    current = len(healthy) - len(disrupted)  # pods in disruptedPods are healthy, but no longer count
    status: Json = {
        "currentHealthy": current,
        "desiredHealthy": desired,
        "disruptionsAllowed": max(current - desired, 0) if expected > 0 else 0,
        "expectedPods": expected,
        "observedGeneration": budget["metadata"].get("generation", 0),
        "conditions": list(before.get("conditions") or ()),
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    set_disruption_condition(status, time_formats.format_time(now_s))
    return status


def set_disruption_condition(status: Json, now: str, failure: str = "") -> None:
    """Set DisruptionAllowed from `disruptionsAllowed`, or to SyncFailed with the message of a failure."""
    is_allowed = status.get("disruptionsAllowed", 0) > 0 and not failure
    reason = "SyncFailed" if failure else ("SufficientPods" if is_allowed else "InsufficientPods")
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if is_allowed else "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": now,
        "reason": reason,
        "message": failure,
    }
    if not condition["observedGeneration"]:
        del condition["observedGeneration"]
    conditions = status.setdefault("conditions", [])
    for i, old in enumerate(conditions):
        if old["type"] == condition["type"]:
            if old["status"] == condition["status"]:
                condition["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[i] = condition
            return
    conditions.append(condition)


def disruption_ends_s(granted_at: str) -> float:
    """The time from which a pod whose eviction was granted then, and that is still there, counts as healthy again."""
    return time_formats.parse_server_time(granted_at) + _DELETION_TIMEOUT_S


def _still_disrupted(granted: dict[str, str], healthy: Collection[str], now_s: float) -> dict[str, str]:
    """Pods with a granted eviction that still exist and whose deletion timeout has not passed."""
    return {name: since for name, since in granted.items() if name in healthy and disruption_ends_s(since) > now_s}


def _required_pods(spec: Json, pod_count: int, count_expected: Callable[[], int]) -> tuple[int, int]:
    """Expected pods, and how many of them have to be healthy."""
    limit = spec.get("maxUnavailable")
    if limit is not None:
        expected = count_expected()
        return expected, max(expected - _scale_limit(limit, expected), 0)
    limit = spec.get("minAvailable")
    if isinstance(limit, int):
        return pod_count, limit
    if limit is None:
        return 0, 0
    expected = count_expected()
    return expected, _scale_limit(limit, expected)


def _scale_limit(limit: int | str, expected: int) -> int:
    """A limit as a number of pods; percentages are rounded up."""
    return limit if isinstance(limit, int) else -(-int(limit.removesuffix("%")) * expected // 100)


def read_budget_selector(budget: Json) -> selectors.LabelSelector | None:
    """The selector of a budget's pods; None if it selects none."""
    spec = budget["spec"].get("selector")
    return None if spec is None else read_label_selector(spec)


def read_label_selector(spec: Mapping[str, Any]) -> selectors.LabelSelector:
    """A label selector from its JSON form."""
    requirements = [
        selectors.Requirement(key, selectors.Operator.IN, (value,))
        for key, value in (spec.get("matchLabels") or {}).items()
    ]
    for expression in spec.get("matchExpressions") or ():
        values = tuple(sorted(set(expression.get("values") or ())))
        requirements.append(
            selectors.Requirement(expression["key"], selectors.Operator(expression["operator"]), values)
        )
    return selectors.LabelSelector.of(requirements)


Controller = tuple[str, str, str, str]
"""apiVersion, kind, name and uid of a pod's controller."""


class _NoController(Exception):
    """The expected number of pods is unknown, because a controller is missing or has no scale."""


@dataclass(slots=True)
class _BudgetPods:
    """The pods that one budget selects."""

    selector: selectors.LabelSelector | None
    needs_replicas: bool
    """Does the budget depend on the replicas of the pods' controllers?"""
    members: dict[str, tuple[str, bool, Controller | None]] = field(default_factory=dict)
    """By pod key: name, healthy, controller."""

    def put(self, stored: StoredObject) -> bool:
        """Add, update or remove a pod; True if that changed anything."""
        before = self.members.pop(stored.key, None)
        if self.selector is None or not self.selector.matches(stored.labels):
            return before is not None
        pod = stored.decode()
        now = (stored.name, not stored.is_deleting and workload_strategies.is_pod_ready(pod), _controller_of(pod))
        self.members[stored.key] = now
        return now != before

    def remove(self, key: str) -> bool:
        return self.members.pop(key, None) is not None


class DisruptionController:
    """Writes the status of PodDisruptionBudgets after every change of a budget or pod."""

    def __init__(self, core: ServerState) -> None:
        self._core = core
        self._resource = core.resource("policy", "poddisruptionbudgets")
        self._budgets = core.table(self._resource)
        self._pods = core.table(core.resource("", "pods"))
        self._tracked: dict[str, dict[str, _BudgetPods]] = {}
        """By namespace, then by the budget's key."""
        self._recheck_at_s = math.inf

    def handle_event(self, event: storage.StorageEvent) -> None:
        if event.table is self._budgets:
            self._react_to_budget(event)
            return
        tracked = self._tracked.get(event.now.namespace)
        if not tracked:
            return
        if event.table is self._pods:
            is_gone = event.type == storage.DELETED
            for key, pods in list(tracked.items()):
                is_changed = pods.remove(event.now.key) if is_gone else pods.put(event.now)
                # As in kube-controller-manager, only a change of a pod leads to a new look at controllers' replicas.
                if is_changed or (pods.needs_replicas and event.now.key in pods.members):
                    self._sync(key, pods)

    def recheck(self, now_s: float) -> None:
        """Count pods as healthy again whose eviction was granted but that were not deleted in time."""
        if now_s >= self._recheck_at_s:
            self._recheck_at_s = math.inf
            for tracked in list(self._tracked.values()):
                for key, pods in list(tracked.items()):
                    self._sync(key, pods)

    def _react_to_budget(self, event: storage.StorageEvent) -> None:
        now, namespace = event.now, event.now.namespace
        if event.type == storage.DELETED:
            tracked = self._tracked.get(namespace, {})
            tracked.pop(now.key, None)
            if not tracked:
                self._tracked.pop(namespace, None)
            return
        budget = now.decode()
        if event.before is not None:
            before = event.before.decode()
            if before["metadata"].get("generation") == budget["metadata"].get("generation"):
                return
        spec = budget["spec"]
        needs_replicas = "maxUnavailable" in spec or isinstance(spec.get("minAvailable"), str)
        pods = _BudgetPods(read_budget_selector(budget), needs_replicas)
        for stored in self._pods.list_namespace(namespace):
            pods.put(stored)
        self._tracked.setdefault(namespace, {})[now.key] = pods
        self._sync(now.key, pods)

    # ── Status ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _sync(self, key: str, pods: _BudgetPods) -> None:
        stored = self._budgets.objects.get(key)
        if stored is None:
            return
        budget = stored.decode()
        now_s = self._core.clock.now_s()
        healthy = frozenset(name for name, is_healthy, _ in pods.members.values() if is_healthy)
        try:
            budget["status"] = compute_status(
                budget, len(pods.members), healthy, lambda: self._count_expected(pods), now_s
            )
        except _NoController as error:
            budget["status"]["disruptionsAllowed"] = 0
            now = time_formats.format_time(now_s)
            set_disruption_condition(budget["status"], now, str(error))
        else:
            for since in (budget["status"].get("disruptedPods") or {}).values():
                self._recheck_at_s = min(self._recheck_at_s, disruption_ends_s(since))
        if budget["status"] != stored.decode()["status"]:
            written = budget["status"]
            write_handlers.update_as_controller(
                self._core, self._resource, stored, lambda live: live | {"status": written}, "status"
            )

    def _count_expected(self, pods: _BudgetPods) -> int:
        """The sum of the replicas of the pods' controllers. Pods without a controller do not count."""
        scales: dict[str, int] = {}
        counted: set[Controller] = set()
        for key, (name, _, controller) in pods.members.items():
            if controller is None or controller in counted:
                continue
            counted.add(controller)
            scale = self._find_scale(controller, key.split("/")[0])
            if scale is None:
                raise _NoController(f'found no controllers for pod "{name}"')
            uid, replicas = scale
            scales[uid] = replicas
        return sum(scales.values())

    def _find_scale(self, controller: Controller, namespace: str) -> tuple[str, int] | None:
        """A controller's uid and its replicas; a ReplicaSet of a Deployment counts as the Deployment."""
        api_version, kind, name, uid = controller
        resource = self._core.registry.find_kind(api_version, kind)
        if resource is None:
            raise _NoController(f'no matches for kind "{kind}" in version "{api_version}"')
        if resource.scale is None:
            name_of_kind = f"{resource.plural}.{resource.group}".rstrip(".")
            raise _NoController(f"{name_of_kind} does not implement the scale subresource")
        stored = self._core.find(resource, namespace, name)
        if stored is None or stored.uid != uid:
            return None
        obj = stored.decode()
        owner = _controller_of(obj)
        if resource.key == ("apps", "replicasets") and owner is not None and owner[1] == "Deployment":
            return self._find_scale(owner, namespace)
        return uid, _expected_replicas(resource, obj)


def _expected_replicas(resource: Resource, obj: Json) -> int:
    assert resource.scale is not None
    return int(storage.lookup_path(obj, *resource.scale.replicas) or 0)


def _controller_of(obj: Json) -> Controller | None:
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return owner["apiVersion"], owner["kind"], owner["name"], owner["uid"]
    return None
