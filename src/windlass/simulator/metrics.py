"""Simulation metrics: counts, integrals over time and samples, their totals, and the scenario's expectations.

`MetricsCollector` reads every change of the simulated cluster and changes nothing itself.

Cost lower bound: the least cost of the pods at one time, packed fractionally on the cheapest machines. For any weights
w of resources, the pods on a machine g together weigh no more than the machine:

    Σ w·request ≤ w·capacity(g)
    cost ≥ Σ over pods of  w·request × min over machines that may take it of price(g) / w·capacity(g)

The best of several weights is taken. Capacity is what DaemonSet pods leave of a machine. Real packing cannot reach it.
"""

import array
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from windlass.simulator.cluster import api_client, cloud, workloads
from windlass.simulator.cluster.api_client import Change, IdentityCache
from windlass.simulator.cluster.node_groups import NodeGroup
from windlass.simulator.cluster.simulated_cluster import SimulatedCluster
from windlass.simulator.fast_scheduler import node_plugins, pod_shapes
from windlass.simulator.reference_scheduler import resource_requests
from windlass.simulator.scenario.model import Expectation

Json = dict[str, Any]
Floats = npt.NDArray[np.float64]

_WEIGHT_MIXES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Weights of the first of two resources, in mixes of both."""


class CostLowerBound:
    """The demand of all pods, and the lower bound of its cost."""

    def __init__(self, groups: Sequence[NodeGroup]) -> None:
        self._groups = groups
        self._shapes = pod_shapes.PodShapes()
        self._counts: dict[int, int] = {}
        self._allowed: dict[int, tuple[pod_shapes.PodShape, npt.NDArray[np.bool_]]] = {}
        self._pods: dict[str, int] = {}
        self._names = (
            "cpu",
            "memory",
            *sorted({name for node_group in groups for name in node_group.allocatable if "/" in name}),
        )
        self._capacity = np.array([self._vector(_allocatable_of(group)) for group in groups])
        self._nodes = [_example_node(group) for group in groups]
        self._prices = np.array([group.price_per_hour for group in groups])
        self._least_sizes = np.array([group.min_size for group in groups])

    def _vector(self, amounts: resource_requests.ResourceList) -> list[float]:
        return [float(amounts.get(name, 0)) for name in self._names]

    def add(self, key: str, pod: Json) -> None:
        shape = self._shapes.shape_pod(pod).shape
        if shape.number not in self._allowed:
            allowed = [not node_plugins.check_static_filters(shape, node) for node in self._nodes]
            self._allowed[shape.number] = shape, np.array(allowed, bool)
        if key not in self._pods:
            self._pods[key] = shape.number
            self._counts[shape.number] = self._counts.get(shape.number, 0) + 1

    def remove(self, key: str) -> None:
        number = self._pods.pop(key, None)
        if number is not None:
            self._counts[number] -= 1

    def set_daemon_overhead(self, daemons: Iterable[Json]) -> None:
        """Subtract the requests of these DaemonSets from the machines' capacity."""
        capacity = np.array([self._vector(_allocatable_of(node_group)) for node_group in self._groups])
        for daemon in daemons:
            pod = {"kind": "Pod", "metadata": daemon["metadata"], "spec": daemon["spec"]["template"]["spec"]}
            desired = np.array(self._vector(resource_requests.pending_pod_requests(pod)))
            for i, node in enumerate(self._nodes):
                if workloads.should_run_on(daemon, node):
                    capacity[i] -= desired
        self._capacity = np.maximum(capacity, 0)

    def bound(self) -> tuple[float, float]:
        """The least price per hour and the least number of nodes for the current pods."""
        present = [(number, count) for number, count in self._counts.items() if count]
        cost_floor, node_floor = float(self._prices @ self._least_sizes), float(self._least_sizes.sum())
        if not present:
            return cost_floor, node_floor
        desired = np.array([self._vector(self._allowed[number][0].amounts) for number, _ in present])
        counts = np.array([count for _, count in present], float)
        allowed = np.array([self._allowed[number][1] for number, _ in present])
        cost = self._bound(desired, counts, allowed, self._prices)
        nodes = self._bound(desired, counts, allowed, np.ones(len(self._groups)))
        return max(cost, cost_floor), max(nodes, node_floor)

    def _bound(self, desired: Floats, counts: Floats, allowed: npt.NDArray[np.bool_], prices: Floats) -> float:
        best = 0.0
        for weights in self._weights():
            weight = self._capacity @ weights
            ratio = np.where(weight > 0, prices / np.where(weight > 0, weight, 1.0), np.inf)
            cheapest = np.where(allowed, ratio, np.inf).min(axis=1)
            asked = (desired @ weights) * counts
            fits = np.isfinite(cheapest) & (asked > 0)
            best = max(best, float((asked[fits] * cheapest[fits]).sum()))
        return best

    def _weights(self) -> list[Floats]:
        """Weights for each resource alone and for pairs, relative to the mean capacity of machines."""
        scale = 1.0 / np.maximum(self._capacity.mean(axis=0), 1e-9)
        alone = np.eye(len(self._names)) * scale
        mixed = [share * alone[i] + (1 - share) * alone[i + 1]
                 for i in range(len(self._names) - 1) for share in _WEIGHT_MIXES]  # fmt: skip
        return [*alone, *mixed]


def _allocatable_of(group: NodeGroup) -> resource_requests.ResourceList:
    return resource_requests.node_allocatable(_example_node(group))


def _example_node(group: NodeGroup) -> Json:
    return {
        "kind": "Node",
        "metadata": {"name": group.name, "labels": group.node_labels(group.name)},
        "spec": {"taints": list(group.taints)},
        "status": {"allocatable": group.allocatable},
    }


_HOUR_S = 3600.0

_CORE, _GIB = 1000.0, 2.0**30


@dataclass(slots=True)
class MetricSeries:
    """Samples at even distances, the first at the beginning."""

    every_s: float
    nodes: dict[str, list[int]]
    """By group: nodes that are ready."""
    pending: list[int] = field(default_factory=list)
    """Pending pods, without daemon pods and pods of negative priority."""
    utilization_cpu: list[float] = field(default_factory=list)
    utilization_memory: list[float] = field(default_factory=list)
    cost_per_hour: list[float] = field(default_factory=list)
    cost_per_hour_lower_bound: list[float] = field(default_factory=list)
    nodes_lower_bound: list[float] = field(default_factory=list)
    by_group: dict[str, list[tuple[float, ...]]] = field(default_factory=dict)
    """By group: requested and allocatable cores, requested and allocatable GiB, cost per hour."""
    pending_by_namespace: list[dict[str, int]] = field(default_factory=list)


@dataclass(slots=True)
class _GroupFigures:
    """What a group has now."""

    used: Counter[str] = field(default_factory=Counter)
    has: Counter[str] = field(default_factory=Counter)
    cost: float = 0.0

    @property
    def sample(self) -> tuple[float, ...]:
        cores = (round(float(amounts["cpu"]) / _CORE, 2) for amounts in (self.used, self.has))
        memory = (round(float(amounts["memory"]) / _GIB, 2) for amounts in (self.used, self.has))
        return (*cores, *memory, round(self.cost, 4))


@dataclass(slots=True)
class _Integral:
    """A value, and its integral over time."""

    now: float = 0.0
    total: float = 0.0


class MetricsCollector:
    """Collects metrics from changes of the simulated cluster. Writes nothing."""

    watched_kinds = (
        api_client.PODS,
        api_client.NODES,
        api_client.MACHINE_DEPLOYMENTS,
        api_client.DAEMON_SETS,
    )

    def __init__(self, cluster: SimulatedCluster, sample_s: float) -> None:
        self._cluster, self._api, self._event_loop = cluster, cluster.api, cluster.event_loop
        self._demand = CostLowerBound(list(cluster.cloud.groups.values()))
        self.series = MetricSeries(
            sample_s, {name: [] for name in cluster.cloud.groups}, by_group={name: [] for name in cluster.cloud.groups}
        )
        self.wait_times_s = array.array("d")
        """Pending times of pods that were bound."""
        self.given_up_s = array.array("d")
        """Pending times of pods that were deleted while pending."""
        self.counts = dict.fromkeys(("evictions", "preemptions", "nodes_added", "nodes_removed", "ups", "downs"), 0)
        self.machines, self.cost, self.bound_cost, self.bound_nodes = _Integral(), _Integral(), _Integral(), _Integral()
        self._used, self._has = {"cpu": _Integral(), "memory": _Integral()}, {"cpu": _Integral(), "memory": _Integral()}
        self._waiting: dict[str, float] = {}
        self._seated: dict[str, tuple[str, resource_requests.ResourceList]] = {}
        self._waiting_in: Counter[str] = Counter()
        self._group_figures = {name: _GroupFigures() for name in cluster.cloud.groups}
        self._ready: dict[str, tuple[str, resource_requests.ResourceList]] = {}
        self._ready_count = dict.fromkeys(cluster.cloud.groups, 0)
        self._billed: dict[str, float] = {}
        self._amounts: IdentityCache[resource_requests.ResourceList] = IdentityCache()
        self._read_s = 0.0
        self._is_begun = False
        cluster.cloud.add_listener(self)

    # ── Time ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Start measuring."""
        self._is_begun = True
        self.counts = dict.fromkeys(self.counts, 0)
        del self.wait_times_s[:], self.given_up_s[:]
        self._read_s = self._event_loop.now_s()
        self._sample()

    def integrate(self) -> None:
        """Integrate over the time since the last step, in which no value changed."""
        now_s = self._event_loop.now_s()
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
        for integral in (self.machines, self.cost, self.bound_cost, self.bound_nodes, *self._used.values(),
                    *self._has.values()):  # fmt: skip
            integral.total += integral.now * passed_s

    def _sample(self) -> None:
        series = self.series
        self.bound_cost.now, self.bound_nodes.now = self._demand.bound()
        for name, numbers in series.nodes.items():
            numbers.append(self._ready_count[name])
            series.by_group[name].append(self._group_figures[name].sample)
        series.pending_by_namespace.append({name: count for name, count in self._waiting_in.items() if count})
        series.pending.append(len(self._waiting))
        for name, found in (("cpu", series.utilization_cpu), ("memory", series.utilization_memory)):
            has = self._has[name].now
            found.append(round(self._used[name].now / has, 6) if has else 0.0)
        series.cost_per_hour.append(round(self.cost.now, 6))
        series.cost_per_hour_lower_bound.append(round(self.bound_cost.now, 6))
        series.nodes_lower_bound.append(round(self.bound_nodes.now, 6))

    def utilization(self, name: str) -> float:
        """Requests as a share of allocatable, over the whole time."""
        has = self._has[name].total
        return self._used[name].total / has if has else 0.0

    def pending_s(self) -> list[float]:
        """Pending times of pods that are still pending."""
        return [self._event_loop.now_s() - since_s for since_s in self._waiting.values()]

    # ── Machines ─────────────────────────────────────────────────────────────────────────────────────────────────

    def instance_created(self, instance: cloud.Instance) -> None:
        """An instance costs from its creation."""
        self._billed[instance.machine] = instance.group.price_per_hour
        self._group_figures[instance.group.name].cost += instance.group.price_per_hour
        self.machines.now += 1
        self.cost.now = sum(self._billed.values())

    def instance_running(self, instance: cloud.Instance) -> None:
        """Nodes count once they are ready."""

    def instance_unreachable(self, instance: cloud.Instance) -> None:
        """An unreachable instance still costs."""

    def instance_terminated(self, instance: cloud.Instance) -> None:
        if self._billed.pop(instance.machine, None) is not None:
            self._group_figures[instance.group.name].cost -= instance.group.price_per_hour
            self.machines.now -= 1
            self.cost.now = sum(self._billed.values())

    # ── Objects ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_change(self, change: Change) -> None:
        match change.kind:
            case api_client.PODS:
                self._on_pod(change)
            case api_client.NODES:
                self._on_node(change)
            case api_client.DAEMON_SETS:
                self._demand.set_daemon_overhead(self._api.list_objects(api_client.DAEMON_SETS).values())
            case _ if change.before is not None and change.now is not None:
                before, now = (item["spec"].get("replicas", 0) for item in (change.before, change.now))
                self.counts["ups"] += now > before
                self.counts["downs"] += now < before

    def sync(self) -> bool:
        return False

    def _on_node(self, change: Change) -> None:
        name = change.key
        self.counts["nodes_added"] += change.before is None
        self.counts["nodes_removed"] += change.now is None
        before = self._ready.pop(name, None)
        if before is not None:
            self._change_ready(*before, -1)
        if change.now is not None and api_client.is_ready(change.now):
            instance = self._cluster.cloud.instances.get(f"default/{name}")
            if instance is not None:
                group_and_size = self._ready[name] = (
                    instance.group.name,
                    resource_requests.node_allocatable(change.now),
                )
                self._change_ready(*group_and_size, 1)

    def _change_ready(self, group: str, has: resource_requests.ResourceList, sign: int) -> None:
        self._ready_count[group] += sign
        for name, integral in self._has.items():
            integral.now += sign * has.get(name, 0)
            self._group_figures[group].has[name] += sign * has.get(name, 0)

    def _on_pod(self, change: Change) -> None:
        pod, before, key = change.obj, change.before, change.key
        owner = api_client.controller_of(pod)
        is_daemon = owner is not None and owner["kind"] == "DaemonSet"
        self._follow_demand(change, is_daemon)
        if (
            change.now is not None
            and before is not None
            and api_client.is_deleting(pod)
            and not api_client.is_deleting(before)
        ):
            target = api_client.condition_of(pod, "DisruptionTarget")
            self.counts["evictions"] += bool(target and target["reason"] == "EvictionByEvictionAPI")
            self.counts["preemptions"] += bool(target and target["reason"] == "PreemptionByScheduler")
        is_counted = not is_daemon and (pod["spec"].get("priority") or 0) >= 0
        if change.now is None or api_client.is_deleting(pod):
            if key in self._waiting:
                self.given_up_s.append(self._waited_s(key))
        elif is_counted and before is None and not api_client.node_of(pod):
            self._waiting[key] = self._event_loop.now_s()
            self._waiting_in[key.partition("/")[0]] += 1
        elif api_client.node_of(pod) and key in self._waiting:
            self.wait_times_s.append(self._waited_s(key))

    def _waited_s(self, key: str) -> float:
        """The pending time of a pod that is no longer pending."""
        self._waiting_in[key.partition("/")[0]] -= 1
        return round(max(self._event_loop.now_s() - self._waiting.pop(key), 0.0), 3)

    def _follow_demand(self, change: Change, is_daemon: bool) -> None:
        key = change.key
        if change.now is None or api_client.is_finished(change.now):
            self._demand.remove(key)
            self._take(key, None)
            return
        if change.before is None and not is_daemon:
            self._demand.add(key, change.now)
        if api_client.is_deleting(change.now):
            self._demand.remove(key)
        if api_client.node_of(change.now) and key not in self._seated:
            instance = self._cluster.cloud.instances.get(f"default/{api_client.node_of(change.now)}")
            group = instance.group.name if instance is not None else ""
            self._take(key, (group, self._amounts_of(change.now)))

    def _take(self, key: str, seat: tuple[str, resource_requests.ResourceList] | None) -> None:
        """The pod's group and requests from now on; None: it is on no node."""
        for sign, taken in ((-1, self._seated.pop(key, None)), (1, seat)):
            if taken is None:
                continue
            group, amounts = taken
            for name, integral in self._used.items():
                integral.now += sign * amounts.get(name, 0)
                if group:
                    self._group_figures[group].used[name] += sign * amounts.get(name, 0)
        if seat is not None:
            self._seated[key] = seat

    def _amounts_of(self, pod: Json) -> resource_requests.ResourceList:
        containers = pod["spec"]["containers"]  # pods of one owner share the spec object
        known = self._amounts.get(containers)
        return self._amounts.put(containers, resource_requests.pending_pod_requests(pod)) if known is None else known


Totals = dict[str, float]


def compute_totals(meter: MetricsCollector, *, evictions_by_machines: int, violations: int) -> Totals:
    """Totals by name, in the order of `TOTALS`."""
    waits_s = sorted([*meter.wait_times_s, *meter.given_up_s, *meter.pending_s()])
    nodes = [sum(numbers) for numbers in zip(*meter.series.nodes.values(), strict=True)]
    cost, bound = meter.cost.total / _HOUR_S, meter.bound_cost.total / _HOUR_S
    counts = meter.counts
    totals: Totals = {
        "pods": len(waits_s),
        "pods_that_waited": sum(1 for wait_s in waits_s if wait_s > 0),
        "pending_p50_s": quantile(waits_s, 0.5),
        "pending_p95_s": quantile(waits_s, 0.95),
        "pending_max_s": waits_s[-1] if waits_s else 0.0,
        "pods_never_placed": len(meter.pending_s()),
        "pods_given_up": len(meter.given_up_s),
        "node_hours": meter.machines.total / _HOUR_S,
        "node_hours_lower_bound": meter.bound_nodes.total / _HOUR_S,
        "cost": cost,
        "cost_lower_bound": bound,
        "cost_ratio": cost / bound if bound else 0.0,
        "utilization_cpu": meter.utilization("cpu"),
        "utilization_memory": meter.utilization("memory"),
        "evictions": counts["evictions"],
        "evictions_by_machines": evictions_by_machines,
        "preemptions": counts["preemptions"],
        "nodes_added": counts["nodes_added"],
        "nodes_removed": counts["nodes_removed"],
        "scale_ups": counts["ups"],
        "scale_downs": counts["downs"],
        "most_nodes": max(nodes, default=0),
        "least_nodes": min(nodes, default=0),
        "violations": violations,
    }
    return {name: round(float(value), 4) for name, value in totals.items()}


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of values does not exceed; 0 for no values."""
    if not ordered:
        return 0.0
    return ordered[min(max(math.ceil(len(ordered) * share) - 1, 0), len(ordered) - 1)]


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """One expectation of a scenario, and the measured value."""

    expected: Expectation
    least: float
    most: float
    """Equal to `least` for a total; the maximum within the time for a series."""

    @property
    def is_met(self) -> bool:
        lowest, highest = self.expected.at_least, self.expected.at_most
        return (lowest is None or self.least >= lowest) and (highest is None or self.most <= highest)

    def __str__(self) -> str:
        expected = self.expected
        measured = f"{self.least:g}" if self.least == self.most else f"{self.least:g} to {self.most:g}"
        limits = [f"at least {expected.at_least:g}"] if expected.at_least is not None else []
        limits += [f"at most {expected.at_most:g}"] if expected.at_most is not None else []
        of = f" of {expected.group}" if expected.group else ""
        return f"{expected.measure}{of}: found {measured}, expected {' and '.join(limits)}"


def check_expectation(expected: Expectation, totals: Totals, series: MetricSeries) -> ExpectationResult:
    if expected.start is None and expected.end is None and expected.group is None:
        return ExpectationResult(expected, totals[expected.measure], totals[expected.measure])
    numbers = _numbers(expected, series)
    first = int((expected.start or 0.0) / series.every_s)
    last = int(expected.end / series.every_s) if expected.end is not None else len(numbers) - 1
    within = numbers[first : last + 1] or [0.0]
    return ExpectationResult(expected, float(min(within)), float(max(within)))


def _numbers(expected: Expectation, series: MetricSeries) -> Sequence[float]:
    if expected.measure != "nodes":
        values: Sequence[float] = getattr(series, expected.measure)
        return values
    group = expected.group
    selected = [numbers for name, numbers in series.nodes.items() if group is None or name == group]
    selected = selected or [numbers for name, numbers in series.nodes.items() if name.rpartition("-")[0] == group]
    return [sum(at) for at in zip(*selected, strict=True)]
