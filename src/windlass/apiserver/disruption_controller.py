"""Disruption controller: the status of PodDisruptionBudgets, and the pods that a budget selects."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass import selectors
from windlass.apiserver import embedded_controllers, pod_strategy, storage
from windlass.apiserver.registry import Resource, ServerState
from windlass.apiserver.storage import StoredObject
from windlass.apiserver.value_types import Json
from windlass.kube import time_formats


def read_budget_selector(budget: Json) -> selectors.LabelSelector | None:
    """The pods that a budget is about; None if it selects none."""
    spec = budget["spec"].get("selector")
    return None if spec is None else read_label_selector(spec)


def read_label_selector(spec: Mapping[str, Any]) -> selectors.LabelSelector:
    """A label selector as objects spell it."""
    wanted = [
        selectors.Requirement(key, selectors.Operator.IN, (value,))
        for key, value in (spec.get("matchLabels") or {}).items()
    ]
    for expression in spec.get("matchExpressions") or ():
        values = tuple(sorted(set(expression.get("values") or ())))
        wanted.append(selectors.Requirement(expression["key"], selectors.Operator(expression["operator"]), values))
    return selectors.LabelSelector.of(wanted)


def set_disruption_condition(budget: Json, now: str, failure: str = "") -> None:
    """DisruptionAllowed, as the status' number says; or that the status could not be computed."""
    known = budget["status"]
    is_allowed = known.get("disruptionsAllowed", 0) > 0 and not failure
    reason = "SyncFailed" if failure else ("SufficientPods" if is_allowed else "InsufficientPods")
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if is_allowed else "False",
        "observedGeneration": known.get("observedGeneration", 0),
        "lastTransitionTime": now,
        "reason": reason,
        "message": failure,
    }
    if not condition["observedGeneration"]:
        del condition["observedGeneration"]
    conditions = known.setdefault("conditions", [])
    for i, old in enumerate(conditions):
        if old["type"] == condition["type"]:
            if old["status"] == condition["status"]:
                condition["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[i] = condition
            return
    conditions.append(condition)


_DELETION_TIMEOUT_S = 120.0
"""A pod whose eviction was granted counts as gone for so long, even if nobody deletes it."""

Controller = tuple[str, str, str, str]
"""apiVersion, kind, name and uid of a pod's controller."""


class _NoController(Exception):
    """The pods' expected number cannot be told."""


@dataclass(slots=True)
class _Tracked:
    """One budget and the pods that it is about."""

    selector: selectors.LabelSelector | None
    asks_controllers: bool
    """Does the budget depend on how many pods their controllers want?"""
    members: dict[str, tuple[str, bool, Controller | None]] = field(default_factory=dict)
    """By pod key: name, healthy, controller."""

    def put(self, stored: StoredObject) -> bool:
        """Take a pod in, or out; does that change anything?"""
        before = self.members.pop(stored.key, None)
        if self.selector is None or not self.selector.matches(stored.labels):
            return before is not None
        pod = stored.decode()
        now = (stored.name, not stored.is_deleting and pod_strategy.is_pod_ready(pod), _controller_of(pod))
        self.members[stored.key] = now
        return now != before

    def drop(self, key: str) -> bool:
        return self.members.pop(key, None) is not None


class DisruptionController:
    """Keeps budgets' status current."""

    def __init__(self, core: ServerState) -> None:
        self._core = core
        self._resource = core.resource("policy", "poddisruptionbudgets")
        self._budgets = core.table(self._resource)
        self._pods = core.table(core.resource("", "pods"))
        self._tracked: dict[str, dict[str, _Tracked]] = {}
        """By namespace, by key."""
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
            for key, one in list(tracked.items()):
                is_changed = one.drop(event.now.key) if is_gone else one.put(event.now)
                # What controllers want is looked up with every change of a pod, and only then: as in the real one.
                if is_changed or (one.asks_controllers and event.now.key in one.members):
                    self._sync(key, one)

    def recheck(self, now_s: float) -> None:
        """Pods that should have gone and did not count again."""
        if now_s >= self._recheck_at_s:
            self._recheck_at_s = math.inf
            for tracked in list(self._tracked.values()):
                for key, one in list(tracked.items()):
                    self._sync(key, one)

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
        asks = "maxUnavailable" in spec or isinstance(spec.get("minAvailable"), str)
        one = _Tracked(read_budget_selector(budget), asks)
        for stored in self._pods.list_namespace(namespace):
            one.put(stored)
        self._tracked.setdefault(namespace, {})[now.key] = one
        self._sync(now.key, one)

    # ── Status ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _sync(self, key: str, one: _Tracked) -> None:
        stored = self._budgets.objects.get(key)
        if stored is None:
            return
        budget = stored.decode()
        now_s = self._core.clock.now_s()
        try:
            self._compute(budget, one, now_s)
        except _NoController as error:
            budget["status"]["disruptionsAllowed"] = 0
            set_disruption_condition(budget, time_formats.format_time_cached(now_s), str(error))
        if budget["status"] != stored.decode()["status"]:
            written = budget["status"]
            embedded_controllers.update_object(
                self._core, self._resource, stored, lambda live: live | {"status": written}, "status"
            )

    def _compute(self, budget: Json, one: _Tracked, now_s: float) -> None:
        expected, desired = self._expect(budget["spec"], one)
        disrupted = self._still_disrupted(budget["status"], one, now_s)
        healthy = sum(1 for name, is_healthy, _ in one.members.values() if is_healthy and name not in disrupted)
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        before = budget["status"]
        budget["status"] = {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": allowed,
            "expectedPods": expected,
            "observedGeneration": budget["metadata"].get("generation", 0),
            "conditions": list(before.get("conditions") or ()),
        }
        if disrupted:
            budget["status"]["disruptedPods"] = disrupted
        set_disruption_condition(budget, time_formats.format_time_cached(now_s))

    def _still_disrupted(self, known: Json, one: _Tracked, now_s: float) -> dict[str, str]:
        """Pods whose eviction was granted and that are still there, for as long as that may last."""
        granted = known.get("disruptedPods") or {}
        if not granted:
            return {}
        present = {name for name, is_healthy, _ in one.members.values() if is_healthy}
        still = {}
        for name, since in granted.items():
            until_s = time_formats.parse_server_time(since) + _DELETION_TIMEOUT_S
            if name in present and until_s > now_s:
                still[name] = since
                self._recheck_at_s = min(self._recheck_at_s, until_s)
        return still

    def _expect(self, spec: Json, one: _Tracked) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy."""
        if (most := spec.get("maxUnavailable")) is not None:
            expected = self._count_expected(one)
            return expected, max(expected - _scale_limit(most, expected), 0)
        least = spec.get("minAvailable")
        if isinstance(least, int):
            return len(one.members), least
        if least is None:
            return 0, 0
        expected = self._count_expected(one)
        return expected, _scale_limit(least, expected)

    def _count_expected(self, one: _Tracked) -> int:
        """The replicas that the pods' controllers want. Pods without a controller do not count."""
        scales: dict[str, int] = {}
        asked: set[Controller] = set()
        for key, (name, _, controller) in one.members.items():
            if controller is None or controller in asked:
                continue
            asked.add(controller)
            found = self._find_scale(controller, key.split("/")[0])
            if found is None:
                raise _NoController(f'found no controllers for pod "{name}"')
            scales[found[0]] = found[1]
        return sum(scales.values())

    def _find_scale(self, controller: Controller, namespace: str) -> tuple[str, int] | None:
        """A controller's uid and its replicas; a ReplicaSet of a Deployment counts as the Deployment."""
        api_version, kind, name, uid = controller
        resource = self._core.registry.find_kind(api_version, kind)
        if resource is None:
            raise _NoController(f'no matches for kind "{kind}" in version "{api_version}"')
        if resource.scale is None:
            said = f"{resource.plural}.{resource.group}".rstrip(".")
            raise _NoController(f"{said} does not implement the scale subresource")
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


def _scale_limit(limit: int | str, total: int) -> int:
    """A limit as a number of pods; percentages are rounded up."""
    return limit if isinstance(limit, int) else -(-int(limit.removesuffix("%")) * total // 100)
