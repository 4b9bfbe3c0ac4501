"""Invariants that hold after every step for any autoscaler, checked on API objects alone.

No pod on two nodes, no node over capacity, no node group resized beyond its bounds, no eviction against a
PodDisruptionBudget, no running pod lost by a scale-down. Each rule receives every change and keeps its own state; the
helpers that they share come first. No code is shared with the engine, the simulated controllers or the
schedulers, so that a mistake in any of them is detected. Imitate `SingleNodeRule`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Protocol

from windlass import quantity
from windlass.simulator.cluster import api_client
from windlass.simulator.cluster.api_client import Change, IdentityCache
from windlass.simulator.cluster.event_loop import EventLoop


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation: time, rule, object, and the numbers."""

    at_s: float
    rule: str
    name: str
    said: str

    def __str__(self) -> str:
        return f"at {self.at_s:g} s: {self.rule}: {self.name}: {self.said}"


Breach = tuple[str, str]
"""The object's name and the violation."""

Json = dict[str, Any]


def is_finished(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_deleting(obj: Json) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_condition_true(obj: Json, type_: str) -> bool:
    """Is this condition of the object true?"""
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(item["type"] == type_ and item["status"] == "True" for item in conditions)


def controller_of(obj: Json) -> Json:
    """The reference to the object's controller; empty if it has none."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return {}


def matches_selector(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Does a label selector match? None matches nothing, an empty one everything."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for desired in selector.get("matchExpressions") or ():
        value, values = labels.get(desired["key"]), desired.get("values") or ()
        met = {
            "In": value is not None and value in values,
            "NotIn": value is None or value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not met[desired["operator"]]:
            return False
    return True


def scale_limit(limit: int | str, of: int) -> int:
    """A number, or a percentage rounded up."""
    return limit if isinstance(limit, int) else math.ceil(int(limit[:-1]) * of / 100)


def parse_amounts(amounts: Mapping[str, Any] | None) -> dict[str, int]:
    """Amounts in units of 10⁻⁹."""
    return {name: quantity.read_quantity(amount).nano for name, amount in (amounts or {}).items()}


def pod_requests(spec: Json) -> dict[str, int]:
    """Requests of a pod: the larger of its containers' sum and each init container, and 1 of `pods`."""
    together: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, amount in parse_amounts((container.get("resources") or {}).get("requests")).items():
            together[name] = together.get(name, 0) + amount
    for container in spec.get("initContainers") or ():
        for name, amount in parse_amounts((container.get("resources") or {}).get("requests")).items():
            together[name] = max(together.get(name, 0), amount)
    for name, amount in parse_amounts(spec.get("overhead")).items():
        together[name] = together.get(name, 0) + amount
    return {**together, "pods": 10**9}


class SingleNodeRule:
    """Tracks the nodes of pods by uid."""

    rule = "no pod on two nodes"

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}

    def on_change(self, change: Change) -> Iterator[Breach]:
        if change.kind != api_client.PODS:
            return
        uid = change.obj["metadata"]["uid"]
        node = change.obj["spec"].get("nodeName") or ""
        before = self._nodes.get(uid, "")
        if before and node != before:
            yield change.key, f"was on {before} and is now on {node or 'none'}"
        if change.now is None:
            self._nodes.pop(uid, None)
        elif node:
            self._nodes[uid] = node

    def check(self) -> Iterator[Breach]:
        yield from ()


class NodeCapacityRule:
    """Tracks the allocatable resources of nodes and the requests of their pods."""

    rule = "no node over capacity"

    def __init__(self) -> None:
        self._has: dict[str, dict[str, int]] = {}
        self._taken: dict[str, dict[str, int]] = {}
        self._bound_pods: dict[str, tuple[str, dict[str, int]]] = {}
        self._touched: dict[str, None] = {}
        self._known: IdentityCache[dict[str, int]] = IdentityCache()

    def on_change(self, change: Change) -> Iterator[Breach]:
        if change.kind == api_client.NODES:
            if change.now is None:
                self._has.pop(change.key, None)
            elif change.before is None or change.before["status"] is not change.now["status"]:
                self._has[change.key] = parse_amounts(change.now["status"].get("allocatable"))
                self._touched[change.key] = None
        elif change.kind == api_client.PODS:
            self._on_pod(change)
        yield from ()

    def _on_pod(self, change: Change) -> None:
        pod = change.now
        is_here = pod is not None and bool(pod["spec"].get("nodeName")) and not is_finished(pod)
        if is_here == (change.key in self._bound_pods):
            return
        if pod is not None and is_here:
            seat = self._bound_pods[change.key] = (pod["spec"]["nodeName"], self._requests(pod))
            self._add(*seat, 1)
        else:
            self._add(*self._bound_pods.pop(change.key), -1)

    def _requests(self, pod: Json) -> dict[str, int]:
        containers = pod["spec"]["containers"]  # pods of one owner share the spec object
        asked = self._known.get(containers)
        return self._known.put(containers, pod_requests(pod["spec"])) if asked is None else asked

    def _add(self, node: str, asked: dict[str, int], sign: int) -> None:
        taken = self._taken.setdefault(node, {})
        for name, amount in asked.items():
            taken[name] = taken.get(name, 0) + sign * amount
        if not any(taken.values()):
            del self._taken[node]
        self._touched[node] = None

    def check(self) -> Iterator[Breach]:
        touched, self._touched = self._touched, {}
        for node in touched:
            has = self._has.get(node)
            if has is None:
                continue
            for name, amount in self._taken.get(node, {}).items():
                if amount > has.get(name, 0):
                    yield node, f"has {has.get(name, 0) / 10**9:g} {name}, its pods ask for {amount / 10**9:g}"


_MIN_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"

_MAX_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"


class GroupBoundsRule:
    """Tracks the sizes of MachineDeployments, except those that the scenario has set."""

    rule = "no group outside its bounds"

    def __init__(self, excused: Set[tuple[str, int]]) -> None:
        self._excused = excused

    def on_change(self, change: Change) -> Iterator[Breach]:
        if change.kind != api_client.MACHINE_DEPLOYMENTS or change.before is None or change.now is None:
            return
        before, now = change.before["spec"].get("replicas"), change.now["spec"].get("replicas")
        if before == now or (change.key, now) in self._excused:
            return
        annotations = change.now["metadata"].get("annotations") or {}
        try:
            least, most = int(annotations.get(_MIN_SIZE_ANNOTATION, 0)), int(annotations.get(_MAX_SIZE_ANNOTATION, 0))
        except ValueError:
            yield (
                change.key,
                f"set from {before} to {now}, "
                f"bounds are {annotations.get(_MIN_SIZE_ANNOTATION)!r} to {annotations.get(_MAX_SIZE_ANNOTATION)!r}",
            )
            return
        # From outside the bounds, every step towards them is allowed.
        if (now > most and now > before) or (now < least and now < before):
            yield change.key, f"set from {before} to {now}, bounds are {least} to {most}"

    def check(self) -> Iterator[Breach]:
        yield from ()


class DisruptionBudgetRule:
    """Tracks budgets, their pods, and the replicas of the pods' controllers."""

    rule = "no eviction against a budget"

    def __init__(self) -> None:
        self._budgets: dict[str, Json] = {}
        self._pods: dict[str, Json] = {}
        self._budgets_of_pod: dict[str, tuple[str, ...]] = {}
        """Names of budgets by pod."""
        self._healthy: dict[str, set[str]] = {}
        self._members: dict[str, set[str]] = {}
        self._owners: dict[str, Counter[str]] = {}
        """By budget: number of pods by uid of their controller."""
        self._scales: dict[str, tuple[str, int]] = {}
        """By uid of a controller: the uid of its owner or its own, and its replicas."""

    def on_change(self, change: Change) -> Iterator[Breach]:
        match change.kind:
            case api_client.BUDGETS:
                self._on_budget(change)
            case api_client.PODS:
                yield from self._on_pod(change)
            case api_client.DEPLOYMENTS | api_client.REPLICA_SETS | api_client.STATEFUL_SETS | api_client.JOBS:
                self._on_scale(change)

    def check(self) -> Iterator[Breach]:
        yield from ()

    def _on_scale(self, change: Change) -> None:
        uid, spec = change.obj["metadata"]["uid"], change.obj["spec"]
        if change.now is None:
            self._scales.pop(uid, None)
            return
        above = controller_of(change.obj).get("uid", uid)
        self._scales[uid] = (above, spec.get("replicas", spec.get("parallelism", 0)))

    def _on_budget(self, change: Change) -> None:
        key = change.key
        if change.now is not None and key in self._budgets:
            self._budgets[key] = change.now
            return
        if change.now is None:
            self._budgets.pop(key, None)
            return
        self._budgets[key] = change.now
        self._healthy[key], self._members[key], self._owners[key] = set(), set(), Counter()
        for name, pod in self._pods.items():
            if self._selects(change.now, pod):
                self._budgets_of_pod[name] = (*self._budgets_of_pod.get(name, ()), key)
                self._note(name, pod)

    def _selects(self, budget: Json, pod: Json) -> bool:
        if budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
            return False
        return matches_selector(budget["spec"].get("selector"), pod["metadata"].get("labels") or {})

    def _on_pod(self, change: Change) -> Iterator[Breach]:
        key, pod, before = change.key, change.now, change.before
        if pod is None:
            self._pods.pop(key, None)
            uid = controller_of(change.obj).get("uid", "")
            for name in self._budgets_of_pod.pop(key, ()):
                self._healthy[name].discard(key)
                if key in self._members[name]:
                    self._members[name].remove(key)
                    self._owners[name] -= Counter((uid,))
            return
        self._pods[key] = pod
        if key not in self._budgets_of_pod:
            selecting = (name for name, budget in self._budgets.items() if self._selects(budget, pod))
            self._budgets_of_pod[key] = tuple(selecting)
        if not self._budgets_of_pod[key]:
            return
        was_healthy = {name: key in self._healthy[name] for name in self._budgets_of_pod[key]}
        self._note(key, pod)
        if before is not None and is_deleting(pod) and not is_deleting(before) and _is_evicted(pod):
            for name, was in was_healthy.items():
                if was and name in self._budgets and (violation := self._violation_text(name)):
                    yield key, violation

    def _note(self, key: str, pod: Json) -> None:
        is_healthy = is_condition_true(pod, "Ready") and not is_deleting(pod)
        for name in self._budgets_of_pod[key]:
            if key not in self._members[name]:
                self._members[name].add(key)
                self._owners[name][controller_of(pod).get("uid", "")] += 1
            (self._healthy[name].add if is_healthy else self._healthy[name].discard)(key)

    def _violation_text(self, name: str) -> str:
        desired, remaining = self._wanted(name), len(self._healthy[name])
        return (
            f"evicted, budget {name} wants {desired} healthy pods, {remaining} are left" if remaining < desired else ""
        )

    def _wanted(self, name: str) -> int:
        spec = self._budgets[name]["spec"]
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if isinstance(least, int):
            return least
        sizes: dict[str, int] = {}
        for uid in self._owners[name]:
            above, size = self._scales.get(uid, ("", 0))
            sizes[above] = self._scales.get(above, (above, size))[1]
        expected = sum(sizes.values())
        return scale_limit(least, expected) if least is not None else expected - scale_limit(most or 0, expected)


def _is_evicted(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(
        item["type"] == "DisruptionTarget" and item.get("reason") == "EvictionByEvictionAPI" for item in conditions
    )


_MACHINE_ANNOTATION = "cluster.x-k8s.io/machine"


class PodLossRule:
    """Tracks pods by node, and Machines that are being deleted."""

    rule = "no running pod lost by a scale-down"

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Json]] = {}
        self._going: set[str] = set()

    def on_change(self, change: Change) -> Iterator[Breach]:
        match change.kind:
            case api_client.MACHINES:
                name = change.obj["metadata"]["name"]
                if change.now is not None and is_deleting(change.now):
                    self._going.add(name)
                elif change.now is None:
                    self._going.discard(name)
            case api_client.PODS:
                self._on_pod(change)
            case api_client.NODES if change.now is None:
                yield from self._on_node_deleted(change.obj)

    def _on_pod(self, change: Change) -> None:
        node = change.obj["spec"].get("nodeName") or ""
        if change.now is None:
            held = self._pods.get(node, {})
            held.pop(change.key, None)
            if not held:
                self._pods.pop(node, None)
        elif node:
            self._pods.setdefault(node, {})[change.key] = change.now

    def _on_node_deleted(self, node: Json) -> Iterator[Breach]:
        """Report running pods on a deleted node."""
        remaining = self._pods.pop(node["metadata"]["name"], {})
        machine = (node["metadata"].get("annotations") or {}).get(_MACHINE_ANNOTATION, "")
        if machine not in self._going or not is_condition_true(node, "Ready"):
            return
        for key, pod in remaining.items():
            if not is_finished(pod) and controller_of(pod).get("kind") != "DaemonSet":
                yield key, f"was still on {node['metadata']['name']} when its machine was deleted"

    def check(self) -> Iterator[Breach]:
        yield from ()


class InvariantRule(Protocol):
    """One invariant."""

    rule: str

    def on_change(self, change: Change) -> Iterator[Breach]:
        """Update state, and yield violations that are visible at once."""

    def check(self) -> Iterator[Breach]:
        """Yield violations at the end of a step."""


class InvariantChecker:
    """Runs all rules as a component that only reads."""

    watched_kinds = api_client.WATCHED

    def __init__(self, event_loop: EventLoop, excused: Set[tuple[str, int]]) -> None:
        self._event_loop = event_loop
        self._rules: tuple[InvariantRule, ...] = (
            SingleNodeRule(),
            NodeCapacityRule(),
            GroupBoundsRule(excused),
            DisruptionBudgetRule(),
            PodLossRule(),
        )
        self.violations: list[Violation] = []
        self.steps = 0
        """Number of times that all rules were checked."""
        event_loop.after_each_step(self._check_rules)

    def on_change(self, change: Change) -> None:
        for rule in self._rules:
            self._record(rule, rule.on_change(change))

    def sync(self) -> bool:
        return False

    def _check_rules(self) -> None:
        self.steps += 1
        for rule in self._rules:
            self._record(rule, rule.check())

    def _record(self, rule: InvariantRule, breaches: Iterable[Breach]) -> None:
        for name, said in breaches:
            self.violations.append(Violation(round(self._event_loop.now_s(), 3), rule.rule, name, said))
