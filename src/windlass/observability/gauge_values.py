"""Gauge values after a decision: cluster, pods, groups, scale-down, drains and DRA template mismatches."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.engine import drain_loop, taints
from windlass.engine.cluster_state import backoff, readiness
from windlass.engine.dra.inventory import are_pools_ready
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, node_groups
from windlass.engine.model.decision_record import NOT_ACTIONABLE, ScaleDownResult
from windlass.engine.model.drains import ENDED_PHASES
from windlass.engine.model.durable_memory import StartedDrain
from windlass.engine.model.dynamic_resources import PoolId, ResourceSlices
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.scale_up import pending_pods
from windlass.engine.scale_up.equivalence_groups import MAX_GROUPS_PER_CONTROLLER
from windlass.explain.decision_view import DecisionView
from windlass.observability import metric_definitions
from windlass.observability.metric_definitions import CA_PREFIX

_NAMED_DRIVERS = frozenset({"compute-domain.nvidia.com", "dra.net", "gpu.nvidia.com", "tpu.google.com"})

_CUSTOM = "custom.driver"

MISSING, EXTRA, MISMATCH, UNKNOWN = "missing", "extra", "mismatch", "unknown"


def driver_label(slices: ResourceSlices) -> str:
    """Return the value of a `dra_drivers` label: drivers of the node's own ResourceSlices, sorted, separated by
    commas.
    """
    return ",".join(
        sorted(
            {resource_slice.driver if resource_slice.driver in _NAMED_DRIVERS else _CUSTOM for resource_slice in slices}
        )
    )


def expected_slices(group: node_groups.NodeGroup, memory: LoopMemory) -> ResourceSlices:
    """Return the ResourceSlices expected of a new node of a group."""
    template = memory.volatile.templates.get(group.id)
    if template is not None:
        return template.node.slices
    return group.template.slices if group.template is not None else ()


@dataclass(frozen=True, slots=True)
class _DeviceGroup:
    """Devices of a pool with equal attribute names."""

    driver: str
    attributes: frozenset[str]
    count: int


def count_template_mismatches(view: DecisionView) -> Mapping[tuple[str, ...], float]:
    """Count pools of ready nodes that differ from their group's template, by driver and kind of difference.

    Only templates from the provider with devices; otherwise a group's example node would be compared with itself.
    """
    inventory = view.observation.snapshot.devices.inventory
    expected = {
        group.id: (group.template.slices if group.template is not None else ())
        or expected_slices(group, view.decision.memory)
        for group in view.observation.groups
    }
    if not inventory.slices and not any(expected.values()):
        return {}
    counts: Counter[tuple[str, str]] = Counter()
    for node in view.observation.nodes:
        group = view.group_of.get(node.name)
        if group is None or not readiness.assess_node(node).is_ready:
            continue
        own, template = inventory.slices_of_node(node.name), expected[group.id]
        if (own or template) and are_pools_ready(own, template):
            counts.update(_compare_devices(template, own))
    drivers = {driver for driver, _ in counts}
    kinds = (MISSING, EXTRA, MISMATCH, UNKNOWN)
    return {(driver, kind): float(counts[driver, kind]) for driver in drivers for kind in kinds}


def _compare_devices(template: ResourceSlices, own: ResourceSlices) -> Counter[tuple[str, str]]:
    """Yield (driver, kind of difference). Drivers with an incomplete or changing pool are left out."""
    unsettled = set(_unsettled_drivers(own))
    expected, actual = (
        [device_group for device_group in _group_devices(slices) if device_group.driver not in unsettled]
        for slices in (template, own)
    )
    for device_group in list(expected):
        if device_group in actual:
            expected.remove(device_group)
            actual.remove(device_group)
    differences: Counter[tuple[str, str]] = Counter()
    for device_group in expected:
        nearest = _nearest_device_group(device_group, actual)
        if nearest is not None:
            actual.remove(nearest)
        differences[device_group.driver, MISSING if nearest is None else MISMATCH] += 1
    differences.update((device_group.driver, EXTRA) for device_group in actual)
    return differences


def _nearest_device_group(device_group: _DeviceGroup, among: Sequence[_DeviceGroup]) -> _DeviceGroup | None:
    """Return the device group of the same driver with the most common attributes; then with the closest number of
    devices.
    """
    same = [other for other in among if other.driver == device_group.driver]
    return min(
        same,
        key=lambda other: (-len(other.attributes & device_group.attributes), abs(other.count - device_group.count)),
        default=None,
    )


def _unsettled_drivers(slices: ResourceSlices) -> Iterator[str]:
    """Return drivers with an incomplete pool, or with a pool in two generations."""
    by_pool: dict[PoolId, list[tuple[int, int]]] = {}
    for resource_slice in slices:
        by_pool.setdefault(resource_slice.pool_id, []).append((resource_slice.generation, resource_slice.slice_count))
    for pool, parts in by_pool.items():
        generations = {generation for generation, _ in parts}
        if len(generations) > 1 or len(parts) != parts[0][1]:
            yield pool.driver


def _group_devices(slices: ResourceSlices) -> list[_DeviceGroup]:
    counts: Counter[tuple[PoolId, frozenset[str]]] = Counter()
    for resource_slice in slices:
        for device in resource_slice.devices:
            counts[resource_slice.pool_id, frozenset(name for name, _ in device.traits.attributes)] += 1
    return [_DeviceGroup(pool.driver, attributes, count) for (pool, attributes), count in counts.items()]


@dataclass(frozen=True, slots=True)
class SkippedNodes:
    """Candidates that the last simulation skipped."""

    evaluated_s: float
    """Time of the last simulation: a node that was not skipped was evaluated then."""
    since_s: Mapping[str, float] = field(default_factory=dict)
    """Time of the last evaluation of each skipped node."""

    def update(self, skipped: Iterable[str], now_s: float) -> "SkippedNodes":
        """Update after a simulation that skipped these nodes."""
        return SkippedNodes(now_s, {name: self.since_s.get(name, self.evaluated_s) for name in skipped})

    @property
    def longest_s(self) -> float:
        """Return the longest time since a skipped node was evaluated; 0 without skipped nodes."""
        return self.evaluated_s - min(self.since_s.values(), default=self.evaluated_s)


NODE_STATES = ("ready", "unready", "notStarted", "suspended", "longUnregistered", "unregistered")

FILTER_OUT_SCHEDULABLE = "filter-out-pod-list-processor"


def settings_gauges(settings: Settings) -> metric_definitions.GaugeValues:
    """Return gauges that are constant while the process runs."""
    limits = settings.limits
    cores, memory = limits.cores_total, limits.memory_total_bytes
    return _with_prefix(
        cpu_limits_cores={("minimum",): cores.min, ("maximum",): cores.max},
        memory_limits_bytes={("minimum",): memory.min, ("maximum",): memory.max},
        nodes_count={(state,): 0 for state in NODE_STATES},
    )


def decision_gauges(view: DecisionView, settings: Settings, now_s: float) -> metric_definitions.GaugeValues:
    """Return gauges of a loop's results. Parts that the loop did not reach keep their values."""
    return {
        **_cluster_gauges(view, settings, now_s),
        **_pod_gauges(view.observation, settings),
        **_scale_down_gauges(view),
        **_group_gauges(view, now_s),
        **_draining_nodes(view.drains.values()),
    }


def drain_gauges(advanced: drain_loop.DrainLoopResult) -> metric_definitions.GaugeValues:
    """Return gauges of drains."""
    phases = Counter(str(drain.phase) for drain in advanced.story if drain.phase not in ENDED_PHASES)
    return {
        metric_definitions.DRAINING_NODES.name: {(phase,): float(count) for phase, count in phases.items()},
        **_draining_nodes(advanced.memory.durable.drains.values()),
    }


def _with_prefix(**values: Mapping[tuple[str, ...], float]) -> metric_definitions.GaugeValues:
    return {
        CA_PREFIX + name: {labels: float(value) for labels, value in series.items()} for name, series in values.items()
    }


def _cluster_gauges(view: DecisionView, settings: Settings, now_s: float) -> metric_definitions.GaugeValues:
    record, observation = view.record, view.observation
    total, nodes = record.health.total, observation.nodes
    states = (
        total.ready, total.unready, total.not_started, total.suspended, total.long_unregistered, total.unregistered
    )  # fmt: skip
    # Count by capacity: most nodes are equal to many others.
    staying = Counter(node.capacity for node in nodes if not (node.taints and taints.is_being_deleted(node, now_s)))
    amounts = [(dict(capacity), count) for capacity, count in staying.items()]
    most = sum(group.max_size for group in observation.groups if group.exists)
    limit = settings.limits.max_nodes_total
    passing = taints.make_transient_taints(settings.templates, settings.deviations.readiness_taints)
    types = Counter(taint_type(taint.key, passing) for node in nodes for taint in node.taints)
    return _with_prefix(
        cluster_safe_to_autoscale={(): record.health.verdict.is_healthy and record.repairs.stop not in NOT_ACTIONABLE},
        nodes_count={(state,): len(names) for state, names in zip(NODE_STATES, states, strict=True)},
        node_groups_count={("autoscaled",): len(observation.groups), ("autoprovisioned",): 0},
        max_nodes_count={(): min(limit, most) if limit > 0 else most},
        cluster_cpu_current_cores={(): sum(-(-has.get(facts.CPU, 0) // 1000) * count for has, count in amounts)},
        cluster_memory_current_bytes={(): sum(has.get(facts.MEMORY, 0) * count for has, count in amounts)},
        node_taints_count={(name,): count for name, count in types.items()},
        dra_node_template_resources_mismatch=count_template_mismatches(view),
    )


def taint_type(key: str, passing: taints.TransientTaints) -> str:
    """Return the label of a taint: keys of Kubernetes and the autoscaler as they are, others summarised."""
    old = taints.STARTUP_PREFIXES[0]
    if key.startswith(old):
        return old
    if key in taints.CONDITION_TAINTS or key in (taints.TO_BE_DELETED_KEY, taints.DELETION_CANDIDATE_KEY):
        return key
    if passing.is_startup(key):
        return "startup-taint"
    return "status-taint" if passing.is_status(key) else "other"


def _pod_gauges(observation: Observation, settings: Settings) -> metric_definitions.GaugeValues:
    waiting = pending_pods.sort_pending(observation.snapshot, settings)
    rows = (*waiting.unschedulable, *waiting.unprocessed)
    overflowing = 0 if settings.deviations.group_pods_by_likeness else _count_overflowing(observation, rows)
    return _with_prefix(
        unschedulable_pods_count={
            ("unschedulable",): len(waiting.unschedulable),
            ("scheduler_unprocessed",): len(waiting.unprocessed),
        },
        skipped_pods_count={(FILTER_OUT_SCHEDULABLE,): 0},
        overflowing_controllers_count={(): overflowing},
    )


def _count_overflowing(observation: Observation, rows: Iterable[int]) -> int:
    table = observation.snapshot.pods
    kinds: dict[str, set[tuple[str, tuple[str, ...]]]] = {}
    for row in rows:
        kind = table.template_key(row)
        if kind.owner is not None:
            kinds.setdefault(kind.owner.uid, set()).add((kind.digest, table.labels[row]))
    return sum(1 for templates in kinds.values() if len(templates) > MAX_GROUPS_PER_CONTROLLER)


def _scale_down_gauges(view: DecisionView) -> metric_definitions.GaugeValues:
    if view.evaluation is None:
        return {}
    return _with_prefix(
        unneeded_nodes_count={(): len(view.decision.memory.durable.scale_down.since)},
        unremovable_nodes_count={(str(reason),): count for reason, count in view.count_unremovable().items()},
        scale_down_in_cooldown={(): view.record.scale_down.result is ScaleDownResult.IN_COOLDOWN},
    )


def skipped_node_gauges(skipped: SkippedNodes) -> metric_definitions.GaugeValues:
    return _with_prefix(max_node_skip_eval_duration_seconds={(): skipped.longest_s})


def _group_gauges(view: DecisionView, now_s: float) -> metric_definitions.GaugeValues:
    existing = {id: group_view for id, group_view in view.groups.items() if group_view.group.exists}
    backoffs = view.decision.memory.durable.health.backoffs
    backoff_status: dict[tuple[str, ...], float] = {}
    for id in existing:
        backoff_status[id, ""] = 0.0
        if id in backoffs:
            code = backoffs[id].error.code or "unknown"
            backoff_status[id, code] = float(backoff.find_backoff(backoffs, id, now_s) is not None)
    return _with_prefix(
        node_group_min_count={(id,): group_view.group.min_size for id, group_view in existing.items()},
        node_group_max_count={(id,): group_view.group.max_size for id, group_view in existing.items()},
        node_group_target_count={(id,): group_view.group.target_size for id, group_view in existing.items()},
        node_group_healthiness={(id,): group_view.is_healthy for id, group_view in existing.items()},
        node_group_backoff_status=backoff_status,
    )


def _draining_nodes(drains: Iterable[StartedDrain]) -> metric_definitions.GaugeValues:
    """Return nodes that wait only for others of their atomic group."""
    ready = [
        drain
        for drain in drains
        if drain.progress.ready_s is not None and drain.progress.deleting_s is None and drain.progress.failure is None
    ]
    return _with_prefix(pending_node_deletions={(): len(ready)})
