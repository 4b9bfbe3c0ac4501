"""Readiness: in what state the nodes of each group are, and which instances have no node.

    ready, unready        as its conditions and taints say
    not started           not ready, but so young that it may still become so
    suspended             put to sleep: its condition Suspended is True
    deleted               on its way out (tainted) and without an instance: no longer part of the group's target size
    unregistered          an instance without a node; long unregistered once it took longer than a node may take

Instances that are being deleted or could not be created are not expected to register.
"""

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import NamedTuple

from windlass.engine import facts, settings

SIGNS_OF_TROUBLE = frozenset({"DiskPressure", "NetworkUnavailable"})
"""Conditions that make a node unready where they are True. Others, as memory pressure, do not."""
DECIDING_CONDITIONS = SIGNS_OF_TROUBLE | {"Ready"}
"""Conditions on which the readiness of a node depends."""
NOT_READY_TAINTS = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/network-unavailable",
    }
)
RESOURCE_UNREADY = "cluster-autoscaler.kubernetes.io/resource-not-ready"
"""Reason of a node that says it is ready but lacks a device that it should have."""
STARTUP_TAINT = "cluster-autoscaler.kubernetes.io/startup-taint"
"""Reason of a node that says it is ready but carries a startup taint."""


class Judgement(NamedTuple):
    """Whether a node is ready, since when that is settled, and the reason that it gives if not."""

    is_ready: bool
    since_s: float = 0.0
    reason: str = ""


UNKNOWN = Judgement(False)


class State(enum.StrEnum):
    """The state of a registered node."""

    READY = "ready"
    UNREADY = "unready"
    NOT_STARTED = "notStarted"
    SUSPENDED = "suspended"
    DELETED = "deleted"


_ARRIVED = (State.READY, State.UNREADY, State.SUSPENDED)
"""Of nodes that are not awaited any more."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """The nodes of a group, or of the cluster, by state. Instances without a node go by their provider id."""

    ready: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    not_started: tuple[str, ...] = ()
    suspended: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unregistered: tuple[str, ...] = ()
    long_unregistered: tuple[str, ...] = ()
    resource_unready: tuple[str, ...] = ()
    """Those of the unready that lack a device. Reported, never decided on."""
    leaving: tuple[str, ...] = ()
    """Those of the ready, unready and suspended whose instance is on its way out, where they do not count as the
    group's any more: its target size does not."""

    @property
    def registered(self) -> int:
        return sum(map(len, (self.ready, self.unready, self.not_started, self.suspended, self.deleted)))

    @property
    def arrived(self) -> int:
        """How many of the group's nodes are not awaited any more: there, or given up."""
        here = sum(map(len, (self.ready, self.unready, self.suspended, self.long_unregistered)))
        return here - len(self.leaving)


NOBODY = Readiness()


@dataclass(frozen=True, slots=True)
class Survey:
    """Readiness of every group that has a node or an instance to register, and of the whole cluster."""

    by_group: Mapping[str, Readiness]
    total: Readiness


def judge(node: facts.Node) -> Judgement:
    """What the node's conditions and taints say of it. Without a Ready condition it is not ready."""
    is_ready, is_known, since_s, reason = True, False, 0.0, ""
    for condition in node.conditions:
        if condition.type == "Ready":
            is_known = True
            if condition.status in ("False", "Unknown"):
                is_ready, reason = False, condition.reason
        elif condition.type in SIGNS_OF_TROUBLE:
            is_ready = is_ready and condition.status != "True"
        else:
            continue
        if condition.since_s > since_s:
            since_s = condition.since_s
    if not is_known:
        return UNKNOWN
    if is_ready and node.taints:
        is_ready = not any(taint.key in NOT_READY_TAINTS for taint in node.taints)
    return Judgement(is_ready, since_s, reason)


def is_ready_and_schedulable(node: facts.Node) -> bool:
    """Is the node ready, and not cordoned?"""
    return not node.unschedulable and judge(node).is_ready


def mark_unready(node: facts.Node, reason: str) -> facts.Node:
    """The node as if it had never become ready, whatever it says."""
    condition = facts.Condition("Ready", "False", node.created_s, reason)
    return replace(node, conditions=(condition, *(other for other in node.conditions if other.type != "Ready")))


def is_suspended(node: facts.Node) -> bool:
    for condition in node.conditions:
        if condition.type == "Suspended":
            return condition.status == "True"
    return False


def classify(node: facts.Node, has_instance: bool, max_node_startup_time_s: float, now_s: float) -> State:
    """The node's state. One that is exactly as old as a node may be while starting has had its time."""
    if not has_instance and any(taint.key == facts.TO_BE_DELETED for taint in node.taints):
        return State.DELETED
    if is_suspended(node):
        return State.SUSPENDED
    if judge(node).is_ready:
        return State.READY
    return State.NOT_STARTED if node.created_s + max_node_startup_time_s > now_s else State.UNREADY


def track_unregistered(
    nodes: Iterable[facts.Node], groups: Iterable[facts.NodeGroup], before: Mapping[str, float], now_s: float
) -> dict[str, float]:
    """Instances without a node, and since when each has been seen so."""
    registered = {node.provider_id for node in nodes}
    return {
        instance.provider_id: before.get(instance.provider_id, now_s)
        for group in groups
        for instance in group.instances
        if instance.provider_id not in registered and is_expected_to_register(instance)
    }


def is_expected_to_register(instance: facts.Instance) -> bool:
    return instance.state != "Deleting" and instance.error is None


def survey(
    nodes: Collection[facts.Node],
    groups: Collection[facts.NodeGroup],
    group_of: Mapping[str, facts.NodeGroup],
    unregistered_since: Mapping[str, float],
    chosen: settings.Settings,
    now_s: float,
) -> Survey:
    """Sort nodes and unregistered instances by state. `group_of` is by node name; other nodes are in the total only."""
    instances = {instance.provider_id: instance.state for group in groups for instance in group.instances}
    are_gone = chosen.deviations.count_leaving_nodes_as_gone
    limits = {group.id: settings.for_group(chosen, group.options) for group in groups}
    ungrouped, by_group = _Lists(chosen.groups), {group_id: _Lists(each) for group_id, each in limits.items()}
    for node in nodes:
        group = group_of.get(node.name)
        lists = ungrouped if group is None else by_group[group.id]
        state = classify(node, node.provider_id in instances, lists.max_node_startup_time_s, now_s)
        lists.add_node(node, state, is_leaving=are_gone and instances.get(node.provider_id) == "Deleting")
    for group in groups if unregistered_since else ():
        for provider_id, is_long in _find_unregistered(group, unregistered_since, limits[group.id], now_s):
            by_group[group.id].add_instance(provider_id, is_long)
    found = {group_id: lists.freeze() for group_id, lists in by_group.items()}
    total = _add_up([*found.values(), ungrouped.freeze()])
    return Survey({group_id: each for group_id, each in found.items() if each != NOBODY}, total)


def _add_up(parts: Sequence[Readiness]) -> Readiness:
    names = [field.name for field in fields(Readiness)]
    return Readiness(**{name: tuple(chain.from_iterable(getattr(part, name) for part in parts)) for name in names})


def _find_unregistered(
    group: facts.NodeGroup, since: Mapping[str, float], limits: settings.GroupDefaults, now_s: float
) -> Iterator[tuple[str, bool]]:
    for instance in group.instances:
        since_s = since.get(instance.provider_id)
        if since_s is not None:
            yield instance.provider_id, since_s + limits.max_node_provision_time_s < now_s


class _Lists:
    """A Readiness in the making."""

    __slots__ = (
        "_by_state", "_leaving", "_long_unregistered", "_resource_unready", "_unregistered", "max_node_startup_time_s",
    )  # fmt: skip

    def __init__(self, limits: settings.GroupDefaults) -> None:
        self.max_node_startup_time_s = limits.max_node_startup_time_s
        self._by_state: dict[State, list[str]] = {state: [] for state in State}
        self._unregistered: list[str] = []
        self._long_unregistered: list[str] = []
        self._resource_unready: list[str] = []
        self._leaving: list[str] = []

    def add_node(self, node: facts.Node, state: State, is_leaving: bool) -> None:
        self._by_state[state].append(node.name)
        if is_leaving and state in _ARRIVED:
            self._leaving.append(node.name)
        if state is State.UNREADY and judge(node).reason == RESOURCE_UNREADY:
            self._resource_unready.append(node.name)

    def add_instance(self, provider_id: str, is_long: bool) -> None:
        (self._long_unregistered if is_long else self._unregistered).append(provider_id)

    def freeze(self) -> Readiness:
        return Readiness(
            ready=tuple(self._by_state[State.READY]),
            unready=tuple(self._by_state[State.UNREADY]),
            not_started=tuple(self._by_state[State.NOT_STARTED]),
            suspended=tuple(self._by_state[State.SUSPENDED]),
            deleted=tuple(self._by_state[State.DELETED]),
            unregistered=tuple(self._unregistered),
            long_unregistered=tuple(self._long_unregistered),
            resource_unready=tuple(self._resource_unready),
            leaving=tuple(self._leaving),
        )
