"""Cluster history: when machines were requested, booted and ended, and when pods came, were bound and ended.

`HistoryBuilder` compares consecutive observations. An event between two of them is dated by a timestamp of its object
if there is one (Kubernetes truncates them to seconds), and else to the middle of the time in which it was not seen.

`read_history` reads a recording, with the file that was rotated out of it just before. `list_failures` finds what
a history shows of zones that failed, capacity that ran out, and machines that were lost.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windlass import errors
from windlass.autoscaler.record_replay import recording_file, replay
from windlass.engine.model import facts, node_groups
from windlass.engine.model.drainability import ControllerKey
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot.pod_table import PodTemplateKey

PENDING_PREFIX, FAILED_PREFIX = "pending-machine-", "failed-machine-"
"""Ids that Cluster API's provider gives to Machines without a provider id."""

MIRROR_OWNER = "Node"
"""Kind of the owner of mirror pods."""

_CONTIGUOUS_S = 3600.0
"""Longest time between the end of a rotated file and the beginning of the next that they are read as one."""

_STAMP_S = 1.0
"""Precision of timestamps."""


@dataclass(slots=True, eq=False)
class PodHistory:
    """One pod."""

    name: str
    template: PodTemplateKey
    labels: dict[str, str]
    created_s: float
    node: str = ""
    """Where it was bound."""
    bound_s: float | None = None
    started_s: float | None = None
    gone_s: float | None = None
    is_initial: bool = False
    """It existed at the beginning."""
    is_deleted: bool = False
    """It was deleted rather than having finished."""

    @property
    def owner(self) -> facts.Owner | None:
        return self.template.owner


@dataclass(slots=True, eq=False)
class MachineHistory:
    """One machine."""

    requested_s: float
    is_initial: bool = False
    has_id: bool = False
    """The cloud has created an instance."""
    registered_s: float | None = None
    ready_s: float | None = None
    stopping_s: float | None = None
    gone_s: float | None = None
    unready: list[tuple[float, float | None]] = field(default_factory=list)
    """Times in which its node was not ready although it had been; None: until it was gone."""


@dataclass(slots=True, eq=False)
class GroupHistory:
    """One node group."""

    first: node_groups.NodeGroup
    last: node_groups.NodeGroup
    machines: list[MachineHistory] = field(default_factory=list)
    """In the order of the requests for them."""
    nodes: list[facts.Node] = field(default_factory=list)
    """Its nodes as they were first seen ready."""

    @property
    def zone(self) -> str:
        examples = [*self.nodes, *([self.last.template] if self.last.template is not None else [])]
        return next((zone for node in examples if (zone := node.labels.get(facts.ZONE))), "")


@dataclass(frozen=True, slots=True)
class SizeChange:
    """A new size of a controller, and the time in which it was changed."""

    replicas: int
    at_s: float
    after_s: float


@dataclass(slots=True)
class BufferHistory:
    """The placeholder pods of a CapacityBuffer."""

    like: facts.Pod
    counts: list[tuple[float, int]] = field(default_factory=list)
    """Times and numbers of pods, whenever it changed."""


@dataclass(slots=True)
class ClusterHistory:
    """All that was seen between two times."""

    begin_s: float = 0.0
    end_s: float = 0.0
    groups: dict[str, GroupHistory] = field(default_factory=dict)
    pods: list[PodHistory] = field(default_factory=list)
    sizes: dict[ControllerKey, list[SizeChange]] = field(default_factory=dict)
    daemon_sets: dict[tuple[str, str], node_groups.DaemonSet] = field(default_factory=dict)
    budgets: dict[tuple[str, str], list[facts.PodDisruptionBudget]] = field(default_factory=dict)
    """Each budget as it was, whenever it changed."""
    buffers: dict[tuple[str, str], "BufferHistory"] = field(default_factory=dict)
    """CapacityBuffers, by namespace and name of their placeholder pods."""
    other_nodes: dict[str, facts.Node] = field(default_factory=dict)
    """Nodes of no group at the beginning."""
    left_out: set[str] = field(default_factory=set)
    """Kinds of objects that a scenario cannot have."""


class HistoryBuilder:
    """Builds the history from observations in order of time."""

    def __init__(self, scan_interval_s: float = 10.0) -> None:
        self.history = ClusterHistory()
        self._scan_s = scan_interval_s
        self._before_s = 0.0
        self._is_first = True
        self._pods: dict[str, PodHistory] = {}
        self._pending: set[str] = set()
        self._starting: set[str] = set()
        self._machines: dict[str, MachineHistory] = {}
        """By provider id, or by the id that stands for one."""
        self._ids: dict[str, set[str]] = {}
        """Ids by group."""
        self._nodes: dict[str, facts.Node] = {}
        self._by_node: dict[str, MachineHistory] = {}
        self._group_of: dict[str, GroupHistory] = {}
        """By provider id."""
        self._controllers: object = None
        self._last_sizes: dict[ControllerKey, int] = {}
        self._budgets: object = None

    def observe(self, observation: Observation, now_s: float) -> None:
        """Add an observation. It is valid during this call only."""
        if self._is_first:
            self.history.begin_s = self._before_s = now_s
        self.history.end_s = now_s
        for group in observation.groups:
            self._observe_group(group, now_s)
        self._observe_nodes(observation, now_s)
        self._observe_pods(observation, now_s)
        self._observe_owners(observation, now_s)
        self._is_first = False
        self._before_s = now_s

    def _moment(self, now_s: float) -> float:
        """The middle of the time in which something happened that this observation shows."""
        return now_s - min(now_s - self._before_s, self._scan_s) / 2

    def _refine(self, stamp_s: float, now_s: float) -> float:
        """The time of a truncated timestamp: now, if it can be."""
        return now_s if stamp_s <= now_s <= stamp_s + _STAMP_S else stamp_s + _STAMP_S / 2

    # ── Machines ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _observe_group(self, group: node_groups.NodeGroup, now_s: float) -> None:
        group_history = self.history.groups.get(group.id)
        if group_history is None:
            group_history = self.history.groups[group.id] = GroupHistory(group, group)
        elif group_history.last is group:
            return
        group_history.last = group
        before, now = self._ids.get(group.id, set()), {instance.provider_id for instance in group.instances}
        lost = [id_ for id_ in before if id_ not in now]
        for instance in group.instances:
            if instance.provider_id not in before:
                self._add_instance(group_history, instance, lost, now_s)
            if instance.state == "Deleting" and (machine := self._machines[instance.provider_id]).stopping_s is None:
                machine.stopping_s = self._moment(now_s)
        for id_ in lost:
            machine = self._machines.pop(id_)
            self._group_of.pop(id_, None)
            if machine.gone_s is None and machine.registered_s is None:
                machine.gone_s = self._moment(now_s)
        self._ids[group.id] = now

    def _add_instance(self, group: GroupHistory, instance: node_groups.Instance, lost: list[str], now_s: float) -> None:
        """A new machine; or one that had no provider id and has one now, or has failed."""
        id_ = instance.provider_id
        is_synthetic = id_.startswith((PENDING_PREFIX, FAILED_PREFIX))
        name = id_.rpartition("/")[2] if not is_synthetic else id_.partition("-machine-")[2]
        candidates = [name for name in lost if name.startswith(PENDING_PREFIX)]
        was = next((candidate for candidate in candidates if candidate.endswith(name)), None)
        if was is None and not is_synthetic and candidates:
            was = candidates[0]
        if was is None:
            machine = MachineHistory(now_s, is_initial=self._is_first)
            group.machines.append(machine)
        else:
            lost.remove(was)
            machine = self._machines.pop(was)
        machine.has_id |= not is_synthetic
        self._machines[id_] = machine
        if not is_synthetic:
            self._group_of[id_] = group

    def _observe_nodes(self, observation: Observation, now_s: float) -> None:
        table = observation.snapshot.nodes
        node_by_name = {node.name: node for node, alive in zip(table.facts, table.alive.tolist(), strict=True) if alive}
        for name, node in node_by_name.items():
            if self._nodes.get(name) is not node:
                self._observe_node(node, now_s)
        for name in self._nodes.keys() - node_by_name.keys():
            self._end_node(name, now_s)
        self._nodes = node_by_name

    def _observe_node(self, node: facts.Node, now_s: float) -> None:
        machine = self._machines.get(node.provider_id) if node.provider_id else None
        if machine is None:
            if self._is_first:
                self.history.other_nodes[node.name] = node
            return
        self._by_node[node.name] = machine
        if machine.registered_s is None:
            machine.registered_s = now_s if machine.is_initial else self._refine(node.created_s, now_s)
        ready = next((condition for condition in node.conditions if condition.type == "Ready"), None)
        is_ready = ready is not None and ready.status == "True"
        if is_ready and machine.ready_s is None:
            assert ready is not None
            machine.ready_s = now_s if machine.is_initial else self._refine(ready.since_s, now_s)
            self._group_of[node.provider_id].nodes.append(node)
        since_s = now_s if ready is None else self._refine(ready.since_s, now_s)
        is_open = bool(machine.unready) and machine.unready[-1][1] is None
        if is_ready and is_open:
            machine.unready[-1] = machine.unready[-1][0], since_s
        elif not is_ready and not is_open and machine.ready_s is not None and machine.stopping_s is None:
            lag_s = UNKNOWN_AFTER_S if ready is not None and ready.status == "Unknown" else 0.0
            machine.unready.append((since_s - lag_s, None))

    def _end_node(self, name: str, now_s: float) -> None:
        machine = self._by_node.pop(name, None)
        if machine is not None and machine.gone_s is None:
            machine.gone_s = self._moment(now_s)

    # ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _observe_pods(self, observation: Observation, now_s: float) -> None:
        table = observation.snapshot.pods
        rows, nodes = table.rows, table.node_rows
        for uid in rows.keys() - self._pods.keys():
            row = rows[uid]
            template, created_s = table.template_key(row), float(table.created_s[row])
            pod = PodHistory(table.names[row], template, table.label_map(row), created_s, is_initial=self._is_first)
            self._pods[uid] = pod
            self.history.pods.append(pod)
            self._pending.add(uid)
            self._starting.add(uid)
        for uid in self._pods.keys() - rows.keys():
            self._pods.pop(uid).gone_s = self._moment(now_s)
            self._pending.discard(uid)
            self._starting.discard(uid)
        for uid in [uid for uid in self._pending if nodes[rows[uid]] >= 0]:
            self._pending.discard(uid)
            self._pods[uid].bound_s = self._moment(now_s)
            self._pods[uid].node = observation.snapshot.nodes.names[nodes[rows[uid]]]
        for uid in [uid for uid in self._starting if nodes[rows[uid]] >= 0 and rows[uid] not in table.health]:
            self._starting.discard(uid)
            self._pods[uid].started_s = self._moment(now_s)
        for row, (deleted_s, _) in table.times.items():
            if deleted_s is not None and (known := self._pods.get(table.uids[row])) is not None:
                known.is_deleted = True

    # ── Around pods ──────────────────────────────────────────────────────────────────────────────────────────────

    def _observe_owners(self, observation: Observation, now_s: float) -> None:
        history = self.history
        controllers = observation.controllers or {}
        if controllers is not self._controllers:
            self._controllers = controllers
            sizes = {
                key: controller.replicas
                for key, controller in controllers.items()
                if controller.kind not in ("Job", "DaemonSet")
            }
            for key, replicas in sizes.items():
                if self._last_sizes.get(key) != replicas:
                    history.sizes.setdefault(key, []).append(SizeChange(replicas, now_s, self._before_s))
            for key in self._last_sizes.keys() - sizes.keys():
                history.sizes[key].append(SizeChange(0, now_s, self._before_s))
            self._last_sizes = sizes
        if observation.budgets is not self._budgets:
            self._budgets = observation.budgets
            for budget in observation.budgets:
                known = history.budgets.setdefault((budget.namespace, budget.name), [])
                if not known or known[-1] != budget:
                    known.append(budget)
        for daemon_set in observation.daemon_sets:
            history.daemon_sets.setdefault((daemon_set.namespace, daemon_set.name), daemon_set)
        for spare in observation.spares:
            buffer = history.buffers.setdefault((spare.like.namespace, spare.like.name), BufferHistory(spare.like))
            if not buffer.counts or buffer.counts[-1][1] != len(spare.names):
                buffer.counts.append((now_s, len(spare.names)))
        kinds = (
            ("ProvisioningRequests", observation.requests),
            ("CapacityQuotas", observation.quotas),
            ("priorities of the expander", observation.priorities),
            ("MachineDrainRules", observation.machine_drain_rules),
            ("paused node groups", observation.held),
        )
        history.left_out.update(name for name, found in kinds if found)


UNKNOWN_AFTER_S = 50.0
"""Time without heartbeats after which the node lifecycle controller marks a node unknown."""


def read_history(
    path: Path, since_s: float = float("-inf"), until_s: float = float("inf")
) -> tuple[ClusterHistory, Settings]:
    """The history between two times, and the last settings. InvalidInput if nothing was recorded then."""
    builder: HistoryBuilder | None = None
    settings = Settings()
    for part in list_parts(path):
        recording = replay.Recording(part)
        settings = recording.settings
        if builder is None:
            builder = HistoryBuilder(settings.scale_down.scan_interval_s)
        first = _find_first(part, since_s)
        for step in recording:
            if step.now_s > until_s:
                break
            if step.number >= first:
                builder.observe(step.seen, max(step.now_s, since_s))
    if builder is None or not builder.history.groups or builder.history.end_s <= since_s:
        raise errors.InvalidInput(f"{path}: found no node group in the recorded time, expected one or more")
    return builder.history, settings


def _find_first(path: Path, since_s: float) -> int:
    """The number of the step that shows the state at a time: the last one until then."""
    before = [number for number, at_s in enumerate(_list_times(path)) if number and at_s <= since_s]
    return max(before, default=0)


def list_parts(path: Path) -> list[Path]:
    """The rotated file, if it ends where this one begins, and this one."""
    older = recording_file.rotated_path(path)
    if not older.exists():
        return [path]
    try:
        end_s = max(_list_times(older), default=0.0)
        begin_s = next(_list_times(path), float("inf"))
    except errors.InvalidInput:
        return [path]
    return [older, path] if 0.0 <= begin_s - end_s <= _CONTIGUOUS_S else [path]


def _list_times(path: Path) -> Iterator[float]:
    return (float(frame["at_s"]) for frame in recording_file.read_frames(path))


Step = dict[str, Any]

_TOGETHER_S = 40.0
"""Nodes that become unready within this time fail together."""

_LEAST_OUTAGE = 2
"""Nodes whose failure at once, with no other left in their zone, is an outage of the zone."""


def list_failures(history: ClusterHistory, names: dict[str, str]) -> list[Step]:
    """Steps of a timeline; times are seconds since the beginning. `names`: of groups, by id."""
    outages = list(_find_outages(history))
    steps: list[Step] = [
        {"at": from_s - history.begin_s, "do": "outage", "zone": zone, "for": until_s - from_s}
        for zone, from_s, until_s in outages
    ]
    for id_, group in history.groups.items():
        dark = [(from_s, until_s) for zone, from_s, until_s in outages if zone == group.zone]
        steps += _list_unready(history, names[id_], group, dark)
        steps += _list_stock_outs(history, names[id_], group, dark)
    return _merge([step for step in steps if step["at"] >= 0.0])


def _merge(steps: list[Step]) -> list[Step]:
    """Steps that differ in their count alone, as one."""
    merged: dict[tuple[object, ...], Step] = {}
    for step in steps:
        same = tuple((key, round(value, 1) if isinstance(value, float) else value)
                     for key, value in step.items() if key != "count")  # fmt: skip
        if same in merged and "count" in step:
            merged[same]["count"] += step["count"]
        else:
            merged[same] = step
    return list(merged.values())


def is_stuck(machine: MachineHistory) -> bool:
    """Did it get an instance that never registered a node?"""
    return machine.registered_s is None and machine.gone_s is not None and machine.has_id


def _find_outages(history: ClusterHistory) -> Iterator[tuple[str, float, float]]:
    by_zone: dict[str, list[MachineHistory]] = defaultdict(list)
    for group in history.groups.values():
        by_zone[group.zone] += group.machines
    for zone, machines in by_zone.items():
        failed = sorted(
            (from_s, until_s if until_s is not None else machine.gone_s or history.end_s)
            for machine in machines
            for from_s, until_s in machine.unready
        )
        while failed:
            from_s = failed[0][0]
            together = [one for one in failed if one[0] <= from_s + _TOGETHER_S]
            failed = failed[len(together) :]
            ready = sum(1 for machine in machines if _is_ready_at(machine, from_s))
            if len(together) >= max(_LEAST_OUTAGE, ready):
                yield zone, from_s, max(until_s for _, until_s in together)


def _is_ready_at(machine: MachineHistory, at_s: float) -> bool:
    """Was its node ready, and not about to be removed?"""
    end_s = min(machine.gone_s or float("inf"), machine.stopping_s or float("inf"))
    return machine.ready_s is not None and machine.ready_s <= at_s < end_s


def _list_unready(
    history: ClusterHistory, name: str, group: GroupHistory, dark: list[tuple[float, float]]
) -> Iterator[Step]:
    for machine in group.machines:
        for from_s, until_s in machine.unready:
            if any(begin_s <= from_s <= end_s for begin_s, end_s in dark):
                continue
            at_s = from_s - history.begin_s
            if until_s is None and machine.gone_s is not None and machine.stopping_s is None:
                yield {"at": at_s, "do": "vanish", "group": name, "count": 1}
            else:
                end_s = until_s or machine.gone_s or history.end_s
                yield {"at": at_s, "do": "unready", "group": name, "count": 1, "for": end_s - from_s}


def _list_stock_outs(
    history: ClusterHistory, name: str, group: GroupHistory, dark: list[tuple[float, float]]
) -> Iterator[Step]:
    """Times from the first to the last of consecutive machines that got no instance until they were given up."""
    from_s = until_s = None
    for machine in group.machines:
        is_refused = machine.registered_s is None and machine.gone_s is not None and not machine.has_id
        if any(begin_s <= machine.requested_s <= end_s for begin_s, end_s in dark) or machine.is_initial:
            continue
        if is_refused:
            assert machine.gone_s is not None
            from_s = machine.requested_s if from_s is None else from_s
            until_s = max(until_s or 0.0, machine.gone_s)
        elif from_s is not None and machine.registered_s is not None:
            yield _stock_out(history, name, from_s, until_s)
            from_s = until_s = None
    if from_s is not None:
        yield _stock_out(history, name, from_s, until_s)


def _stock_out(history: ClusterHistory, name: str, from_s: float, until_s: float | None) -> Step:
    assert until_s is not None
    # A second earlier: the machines were requested when there was no capacity any more.
    at_s = max(from_s - history.begin_s - 1.0, 0.0)
    return {"at": at_s, "do": "stock-out", "group": name, "for": until_s - from_s + 1.0}
