"""The meter: hears of every change, and keeps counts, integrals over time and samples."""

import array
from dataclasses import dataclass, field
from typing import Any

from windlass.simulator.measure.demand import Demand
from windlass.simulator.scheduler import requests
from windlass.simulator.world import cloud, edit, kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.remembering import Remembered
from windlass.simulator.world.world import World

Json = dict[str, Any]

_HOUR_S = 3600.0


@dataclass(slots=True)
class Series:
    """Samples at even distances, the first at the beginning."""

    every_s: float
    nodes: dict[str, list[int]]
    """By group: nodes that are ready."""
    pending: list[int] = field(default_factory=list)
    """Pods without a node, those of daemons and of negative priority left out."""
    utilization_cpu: list[float] = field(default_factory=list)
    utilization_memory: list[float] = field(default_factory=list)
    cost_per_hour: list[float] = field(default_factory=list)
    cost_per_hour_lower_bound: list[float] = field(default_factory=list)
    nodes_lower_bound: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Sum:
    """Something that lasts, and its integral over time."""

    now: float = 0.0
    total: float = 0.0


class Meter:
    """Reads the world. Hears, and never acts."""

    hears = (kinds.PODS, kinds.NODES, kinds.MACHINE_DEPLOYMENTS, kinds.DAEMON_SETS)

    def __init__(self, world: World, sample_s: float) -> None:
        self._world, self._api, self._pulse = world, world.api, world.pulse
        self._demand = Demand(list(world.cloud.groups.values()))
        self.series = Series(sample_s, {name: [] for name in world.cloud.groups})
        self.waits_s = array.array("d")
        """Of every pod that got its node: how long that took."""
        self.given_up_s = array.array("d")
        """Of every pod that was deleted while it waited: how long it had."""
        self.counts = dict.fromkeys(("evictions", "preemptions", "nodes_added", "nodes_removed", "ups", "downs"), 0)
        self.machines, self.cost, self.bound_cost, self.bound_nodes = _Sum(), _Sum(), _Sum(), _Sum()
        self._used, self._has = {"cpu": _Sum(), "memory": _Sum()}, {"cpu": _Sum(), "memory": _Sum()}
        self._waiting: dict[str, float] = {}
        self._seated: dict[str, requests.Amounts] = {}
        self._ready: dict[str, tuple[str, requests.Amounts]] = {}
        self._ready_count = dict.fromkeys(world.cloud.groups, 0)
        self._billed: dict[str, float] = {}
        self._amounts: Remembered[requests.Amounts] = Remembered()
        self._read_s = 0.0
        self._is_begun = False
        world.cloud.tell(self)

    # ── Time ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """From here on it counts."""
        self._is_begun = True
        self.counts = dict.fromkeys(self.counts, 0)
        del self.waits_s[:], self.given_up_s[:]
        self._read_s = self._pulse.now_s()
        self._sample()

    def read(self) -> None:
        """Time has passed, and all was as it was: add it up."""
        now_s = self._pulse.now_s()
        if not self._is_begun or now_s <= self._read_s:
            return
        every_s = self.series.every_s
        taken_s = len(self.series.pending) * every_s
        while taken_s <= now_s:
            self._add(taken_s)
            self._sample()
            taken_s += every_s
        self._add(now_s)

    def _add(self, now_s: float) -> None:
        passed_s = now_s - self._read_s
        self._read_s = now_s
        for one in (self.machines, self.cost, self.bound_cost, self.bound_nodes, *self._used.values(),
                    *self._has.values()):  # fmt: skip
            one.total += one.now * passed_s

    def _sample(self) -> None:
        series = self.series
        self.bound_cost.now, self.bound_nodes.now = self._demand.bound()
        for name, numbers in series.nodes.items():
            numbers.append(self._ready_count[name])
        series.pending.append(len(self._waiting))
        for name, found in (("cpu", series.utilization_cpu), ("memory", series.utilization_memory)):
            has = self._has[name].now
            found.append(round(self._used[name].now / has, 6) if has else 0.0)
        series.cost_per_hour.append(round(self.cost.now, 6))
        series.cost_per_hour_lower_bound.append(round(self.bound_cost.now, 6))
        series.nodes_lower_bound.append(round(self.bound_nodes.now, 6))

    def utilization(self, name: str) -> float:
        """Over the whole time: what was asked for of what was there."""
        has = self._has[name].total
        return self._used[name].total / has if has else 0.0

    def still_waiting_s(self) -> list[float]:
        """Of every pod that has no node yet: for how long."""
        return [self._pulse.now_s() - since_s for since_s in self._waiting.values()]

    # ── Machines ─────────────────────────────────────────────────────────────────────────────────────────────────

    def instance_came(self, instance: cloud.Instance) -> None:
        """What the cloud has, it charges for."""
        self._billed[instance.machine] = instance.group.price_per_hour
        self.machines.now += 1
        self.cost.now = sum(self._billed.values())

    def instance_up(self, instance: cloud.Instance) -> None:
        """Its node counts once it is ready."""

    def instance_down(self, instance: cloud.Instance) -> None:
        """It costs as before."""

    def instance_gone(self, instance: cloud.Instance) -> None:
        if self._billed.pop(instance.machine, None) is not None:
            self.machines.now -= 1
            self.cost.now = sum(self._billed.values())

    # ── Objects ──────────────────────────────────────────────────────────────────────────────────────────────────

    def react(self, change: Change) -> None:
        match change.kind:
            case kinds.PODS:
                self._hear_pod(change)
            case kinds.NODES:
                self._hear_node(change)
            case kinds.DAEMON_SETS:
                self._demand.rest(self._api.all(kinds.DAEMON_SETS).values())
            case _ if change.before is not None and change.now is not None:
                before, now = (one["spec"].get("replicas", 0) for one in (change.before, change.now))
                self.counts["ups"] += now > before
                self.counts["downs"] += now < before

    def act(self) -> bool:
        return False

    def _hear_node(self, change: Change) -> None:
        name = change.key
        self.counts["nodes_added"] += change.before is None
        self.counts["nodes_removed"] += change.now is None
        before = self._ready.pop(name, None)
        if before is not None:
            self._change_ready(*before, -1)
        if change.now is not None and edit.is_ready(change.now):
            instance = self._world.cloud.instances.get(f"default/{name}")
            if instance is not None:
                found = self._ready[name] = (instance.group.name, requests.of_node(change.now))
                self._change_ready(*found, 1)

    def _change_ready(self, group: str, has: requests.Amounts, sign: int) -> None:
        self._ready_count[group] += sign
        for name, one in self._has.items():
            one.now += sign * has.get(name, 0)

    def _hear_pod(self, change: Change) -> None:
        pod, before, key = change.obj, change.before, change.key
        owner = edit.controller_of(pod)
        is_daemon = owner is not None and owner["kind"] == "DaemonSet"
        self._follow_demand(change, is_daemon)
        if change.now is not None and before is not None and edit.is_deleting(pod) and not edit.is_deleting(before):
            target = edit.condition_of(pod, "DisruptionTarget")
            self.counts["evictions"] += bool(target and target["reason"] == "EvictionByEvictionAPI")
            self.counts["preemptions"] += bool(target and target["reason"] == "PreemptionByScheduler")
        is_counted = not is_daemon and (pod["spec"].get("priority") or 0) >= 0
        if change.now is None or edit.is_deleting(pod):
            if key in self._waiting:
                self.given_up_s.append(self._waited_s(key))
        elif is_counted and before is None and not edit.node_of(pod):
            self._waiting[key] = self._pulse.now_s()
        elif edit.node_of(pod) and key in self._waiting:
            self.waits_s.append(self._waited_s(key))

    def _waited_s(self, key: str) -> float:
        """How long a pod has waited that waits no longer."""
        return round(max(self._pulse.now_s() - self._waiting.pop(key), 0.0), 3)

    def _follow_demand(self, change: Change, is_daemon: bool) -> None:
        key = change.key
        if change.now is None or edit.is_finished(change.now):
            self._demand.drop(key)
            self._take(key, None)
            return
        if change.before is None and not is_daemon:
            self._demand.put(key, change.now)
        if edit.is_deleting(change.now):
            self._demand.drop(key)
        if edit.node_of(change.now) and key not in self._seated:
            self._take(key, self._amounts_of(change.now))

    def _take(self, key: str, amounts: requests.Amounts | None) -> None:
        before = self._seated.pop(key, {})
        if amounts is not None:
            self._seated[key] = amounts
        for name, one in self._used.items():
            one.now += (amounts or {}).get(name, 0) - before.get(name, 0)

    def _amounts_of(self, pod: Json) -> requests.Amounts:
        containers = pod["spec"]["containers"]  # which pods of one owner share
        known = self._amounts.find(containers)
        return self._amounts.keep(containers, requests.of_pending(pod)) if known is None else known
