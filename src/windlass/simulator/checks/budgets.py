"""No eviction against a budget: a healthy pod that is evicted leaves enough healthy ones behind."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from windlass.simulator.checks import reading
from windlass.simulator.checks.violation import Finding
from windlass.simulator.world import kinds
from windlass.simulator.world.api import Change

Json = dict[str, Any]


class Budgets:
    """Budgets, the pods that they are about, and how many of these should be there."""

    rule = "no eviction against a budget"

    def __init__(self) -> None:
        self._budgets: dict[str, Json] = {}
        self._pods: dict[str, Json] = {}
        self._mine: dict[str, tuple[str, ...]] = {}
        """Budgets of each pod."""
        self._healthy: dict[str, set[str]] = {}
        self._members: dict[str, set[str]] = {}
        self._owners: dict[str, Counter[str]] = {}
        """By budget: how many of its pods each controller has, by uid."""
        self._scales: dict[str, tuple[str, int]] = {}
        """By uid of a controller: the uid of the one above it, or its own, and its size."""

    def hear(self, change: Change) -> Iterator[Finding]:
        match change.kind:
            case kinds.BUDGETS:
                self._hear_budget(change)
            case kinds.PODS:
                yield from self._hear_pod(change)
            case kinds.DEPLOYMENTS | kinds.REPLICA_SETS | kinds.STATEFUL_SETS | kinds.JOBS:
                self._hear_scale(change)

    def rest(self) -> Iterator[Finding]:
        yield from ()

    def _hear_scale(self, change: Change) -> None:
        uid, spec = change.obj["metadata"]["uid"], change.obj["spec"]
        if change.now is None:
            self._scales.pop(uid, None)
            return
        above = reading.owner_of(change.obj).get("uid", uid)
        self._scales[uid] = (above, spec.get("replicas", spec.get("parallelism", 0)))

    def _hear_budget(self, change: Change) -> None:
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
            if self._is_about(change.now, pod):
                self._mine[name] = (*self._mine.get(name, ()), key)
                self._note(name, pod)

    def _is_about(self, budget: Json, pod: Json) -> bool:
        if budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
            return False
        return reading.selects(budget["spec"].get("selector"), pod["metadata"].get("labels") or {})

    def _hear_pod(self, change: Change) -> Iterator[Finding]:
        key, pod, before = change.key, change.now, change.before
        if pod is None:
            self._pods.pop(key, None)
            uid = reading.owner_of(change.obj).get("uid", "")
            for name in self._mine.pop(key, ()):
                self._healthy[name].discard(key)
                if key in self._members[name]:
                    self._members[name].remove(key)
                    self._owners[name] -= Counter((uid,))
            return
        self._pods[key] = pod
        if key not in self._mine:
            self._mine[key] = tuple(name for name, found in self._budgets.items() if self._is_about(found, pod))
        if not self._mine[key]:
            return
        was_healthy = {name: key in self._healthy[name] for name in self._mine[key]}
        self._note(key, pod)
        if before is not None and reading.is_going(pod) and not reading.is_going(before) and _is_evicted(pod):
            for name, was in was_healthy.items():
                if was and name in self._budgets and (said := self._complaint(name)):
                    yield key, said

    def _note(self, key: str, pod: Json) -> None:
        is_healthy = reading.holds(pod, "Ready") and not reading.is_going(pod)
        for name in self._mine[key]:
            if key not in self._members[name]:
                self._members[name].add(key)
                self._owners[name][reading.owner_of(pod).get("uid", "")] += 1
            (self._healthy[name].add if is_healthy else self._healthy[name].discard)(key)

    def _complaint(self, name: str) -> str:
        wanted, left = self._wanted(name), len(self._healthy[name])
        return f"evicted, budget {name} wants {wanted} healthy pods, {left} are left" if left < wanted else ""

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
        return reading.share(least, expected) if least is not None else expected - reading.share(most or 0, expected)


def _is_evicted(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(one["type"] == "DisruptionTarget" and one.get("reason") == "EvictionByEvictionAPI" for one in conditions)
