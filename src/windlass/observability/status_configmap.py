"""Status ConfigMap: Cluster Autoscaler's status of the cluster and of each node group, as YAML, and its writer.

The status has health, scale-up and scale-down. The writer keeps the latest text and never blocks the loop. Transition
times are read back after a restart.
"""

import asyncio
import datetime
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from windlass.engine.cluster_state import backoff
from windlass.engine.model import node_groups, plan
from windlass.engine.model.cluster_health import NO_NODES, Backoff, Readiness
from windlass.engine.model.plan import PlanResult
from windlass.errors import WindlassError
from windlass.explain.decision_view import DecisionView, GroupView
from windlass.kube import client, errors, resources, time_formats, yaml_documents
from windlass.kube.events import InvolvedObject
from windlass.kube.resources import Unstructured
from windlass.observability import object_events

MAX_MESSAGE_LENGTH = 500
"""Maximum length of an error message: the ConfigMap must stay below 1 MiB."""
TRUNCATED = "<truncated>"

HEALTH, SCALE_UP, SCALE_DOWN = "health", "scaleUp", "scaleDown"
CLUSTER_SCOPE = ""
"""Key of the cluster in place of a group's id."""

TransitionTimes = Mapping[tuple[str, str], tuple[str, float | None]]
"""Status and transition time by group and condition; None if it was never probed."""


@dataclass(frozen=True, slots=True)
class StatusCondition:
    """One condition of the status. `probed_s`: None before the first probe."""

    status: str
    probed_s: float | None
    since_s: float | None


@dataclass(frozen=True, slots=True)
class NodeGroupStatus:
    """Status of one node group."""

    name: str
    health: StatusCondition
    nodes: Readiness
    target_size: int
    min_size: int
    max_size: int
    scale_up: StatusCondition
    backoff: Backoff | None
    scale_down: StatusCondition
    candidates: int
    replicas_owner: node_groups.ReplicasOwner | None = None


@dataclass(frozen=True, slots=True)
class ClusterWideStatus:
    """Status of the whole cluster."""

    health: StatusCondition
    nodes: Readiness
    scale_up: StatusCondition
    scale_down: StatusCondition
    candidates: int


@dataclass(frozen=True, slots=True)
class ScaleDownCandidates:
    """Unneeded nodes of the last scale-down simulation."""

    probed_s: float | None = None
    by_group: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AutoscalerStatus:
    """The complete status. Without a cluster part before the first decision."""

    at_s: float
    cluster: ClusterWideStatus | None = None
    groups: tuple[NodeGroupStatus, ...] = ()
    message: str = ""
    since: TransitionTimes = field(default_factory=dict)
    candidates: ScaleDownCandidates = field(default_factory=ScaleDownCandidates)
    held: tuple[node_groups.HeldGroup, ...] = ()
    """Groups that are not scaled for now, and why."""


def initial_status(now_s: float, since: TransitionTimes | None = None, message: str = "") -> AutoscalerStatus:
    """Return the status before the first loop, with the transition times of an earlier process."""
    return AutoscalerStatus(now_s, message=message, since=since or {})


def build_cluster_status(
    view: DecisionView, outcome: PlanResult, before: AutoscalerStatus, now_s: float
) -> AutoscalerStatus:
    """Build the status after a loop. `before`: the previous status."""
    if message := object_events.describe_not_actionable(view.record.repairs.stop):
        return initial_status(now_s, before.since, message)
    return _StatusBuilder(view, outcome, before, now_s).build()


class _StatusBuilder:
    """Builder of a status."""

    def __init__(self, view: DecisionView, outcome: PlanResult, before: AutoscalerStatus, now_s: float) -> None:
        self._view, self._before, self._now_s = view, before, now_s
        self._resized = {
            instruction.group: instruction.to_size
            for instruction in outcome.done
            if isinstance(instruction, plan.Resize)
        }
        self._since: dict[tuple[str, str], tuple[str, float | None]] = {}
        self._candidates = before.candidates
        if view.evaluation is not None:
            by_group = {id: len(group.unneeded) for id, group in view.groups.items() if group.unneeded}
            self._candidates = ScaleDownCandidates(now_s, by_group)

    def build(self) -> AutoscalerStatus:
        groups = tuple(self._describe_group(group) for group in self._view.groups.values())
        return AutoscalerStatus(self._now_s, self._describe_cluster(groups), groups, "", self._since, self._candidates)

    def _describe_cluster(self, groups: tuple[NodeGroupStatus, ...]) -> ClusterWideStatus:
        health, candidates = self._view.record.health, sum(self._candidates.by_group.values())
        is_growing = any(group.scale_up.status == "InProgress" for group in groups)
        return ClusterWideStatus(
            self._find_transition_time(CLUSTER_SCOPE, HEALTH, _health_status(health.verdict.is_healthy), self._now_s),
            health.total,
            self._find_transition_time(
                CLUSTER_SCOPE, SCALE_UP, "InProgress" if is_growing else "NoActivity", self._now_s
            ),
            self._find_transition_time(
                CLUSTER_SCOPE, SCALE_DOWN, _scale_down_status(candidates), self._candidates.probed_s
            ),
            candidates,
        )

    def _describe_group(self, view: GroupView) -> NodeGroupStatus:
        group, readiness = view.group, view.readiness
        is_probed = view.health is not None and view.health.readiness is not None
        probed_s = self._now_s if is_probed else None
        target_size = self._resized.get(group.id, view.target_size)
        current = backoff.find_backoff(self._view.decision.memory.durable.health.backoffs, group.id, self._now_s)
        scale_up = self._scale_up_status(view, target_size, current)
        candidates = self._candidates.by_group.get(group.id, 0)
        return NodeGroupStatus(
            group.id,
            self._find_transition_time(group.id, HEALTH, _health_status(view.is_healthy), probed_s),
            readiness,
            target_size,
            group.min_size,
            group.max_size,
            self._find_transition_time(group.id, SCALE_UP, scale_up, probed_s),
            current if scale_up == "Backoff" else None,
            self._find_transition_time(group.id, SCALE_DOWN, _scale_down_status(candidates), self._candidates.probed_s),
            candidates,
            group.replicas_owner,
        )

    def _scale_up_status(self, view: GroupView, target_size: int, backoff: Backoff | None) -> str:
        requests = self._view.decision.memory.durable.health.requests.scale_ups
        if view.group.id in requests and target_size > view.readiness.arrived:
            return "InProgress"
        if not view.is_healthy:
            return "Unhealthy"
        return "NoActivity" if backoff is None else "Backoff"

    def _find_transition_time(self, group: str, part: str, status: str, probed_s: float | None) -> StatusCondition:
        """Return the transition time of a condition: the previous one, or now if its status changed."""
        last, since_s = self._before.since.get((group, part), ("", None))
        if status != last or since_s is None:
            since_s = probed_s
        self._since[group, part] = (status, since_s)
        return StatusCondition(status, probed_s, since_s)


def _health_status(is_healthy: bool) -> str:
    return "Healthy" if is_healthy else "Unhealthy"


def _scale_down_status(count: int) -> str:
    return "CandidatesPresent" if count > 0 else "NoCandidates"


def truncate_message(message: str) -> str:
    """Truncate a message to the maximum length."""
    if len(message) <= MAX_MESSAGE_LENGTH:
        return message
    return message[: MAX_MESSAGE_LENGTH - len(TRUNCATED)] + TRUNCATED


STATUS_KEY = "status"

LAST_UPDATED_ANNOTATION = "cluster-autoscaler.kubernetes.io/last-updated"

_AFTER_SECONDS = re.compile(r" after ([0-9.]+)s$")

_UNKNOWN = StatusCondition("", None, None)

_NOTHING = ClusterWideStatus(_UNKNOWN, NO_NODES, _UNKNOWN, _UNKNOWN, 0)


def format_go_time(now_s: float) -> str:
    """Format a time like Go: `2026-11-15 08:23:16.2965 +0000 UTC`."""
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=round(now_s * 1e6))
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


def format_status(status: AutoscalerStatus) -> str:
    """Format the status as YAML."""
    return yaml.dump(status_document(status), Dumper=_Dumper, sort_keys=True, allow_unicode=True)


# ── Document ─────────────────────────────────────────────────────────────────────────────────────────────────────


def status_document(status: AutoscalerStatus) -> dict[str, Any]:
    """Return the status as plain data. Empty parts are omitted where Cluster Autoscaler omits them."""
    made: dict[str, Any] = {
        "time": format_go_time(status.at_s),
        "autoscalerStatus": "Initializing" if status.cluster is None else "Running",
        "clusterWide": _cluster(status.cluster or _NOTHING),
    }
    if status.message:
        made["message"] = status.message
    if status.groups:
        made["nodeGroups"] = [_group(group) for group in status.groups]
    if status.held:
        made["heldNodeGroups"] = [
            {"name": held_group.id, "reason": truncate_message(held_group.why)} for held_group in status.held
        ]
    return made


def _cluster(cluster: ClusterWideStatus) -> dict[str, Any]:
    return {
        HEALTH: {**_condition(cluster.health), "nodeCounts": _counts(cluster.nodes)},
        SCALE_UP: _condition(cluster.scale_up),
        SCALE_DOWN: _with_candidates(cluster.scale_down, cluster.candidates),
    }


def _group(group: NodeGroupStatus) -> dict[str, Any]:
    sizes = {"cloudProviderTarget": group.target_size, "minSize": group.min_size, "maxSize": group.max_size}
    return {
        "name": group.name,
        HEALTH: {**_condition(group.health), "nodeCounts": _counts(group.nodes), **sizes},
        SCALE_UP: {**_condition(group.scale_up), "backoffInfo": _backoff(group)},
        SCALE_DOWN: _with_candidates(group.scale_down, group.candidates),
        **_replicas_owner(group),
    }


def _replicas_owner(group: NodeGroupStatus) -> dict[str, Any]:
    """Return the replicas owner; omitted without one, as always in Cluster Autoscaler."""
    owner = group.replicas_owner
    return (
        {} if owner is None else {"replicasOwner": {"manager": owner.manager, "remedy": truncate_message(owner.remedy)}}
    )


def _backoff(group: NodeGroupStatus) -> dict[str, str]:
    if group.backoff is None:
        return {}
    error = group.backoff.error
    told = {
        "errorCode": error.code,
        "errorMessage": truncate_message(_AFTER_SECONDS.sub(_format_go_durations, error.message)),
    }
    return {key: value for key, value in told.items() if value}


def _format_go_durations(seconds: re.Match[str]) -> str:
    """Rewrite durations in seconds to Go's format."""
    return f" after {time_formats.format_duration(float(seconds[1]))}"


def _with_candidates(condition: StatusCondition, candidates: int) -> dict[str, Any]:
    made = _condition(condition)
    return {**made, "candidates": candidates} if candidates else made


def _condition(condition: StatusCondition) -> dict[str, Any]:
    made = {"lastProbeTime": _time(condition.probed_s), "lastTransitionTime": _time(condition.since_s)}
    return {"status": condition.status, **made} if condition.status else dict(made)


def _counts(nodes: Readiness) -> dict[str, Any]:
    registered: dict[str, Any] = {
        "total": nodes.registered,
        "ready": len(nodes.ready),
        "notStarted": len(nodes.not_started),
        "suspended": len(nodes.suspended),
        "unready": {"total": len(nodes.unready), "resourceUnready": len(nodes.resource_unready)},
    }
    if nodes.deleted:
        registered["beingDeleted"] = len(nodes.deleted)
    return {
        "registered": registered,
        "longUnregistered": len(nodes.long_unregistered),
        "unregistered": len(nodes.unregistered),
    }


class _Time(str):
    """A string that Go's YAML quotes, because it would parse as a timestamp."""

    __slots__ = ()


_Base: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The C implementation gives the same text in a tenth of the time; a status is written in every loop."""


class _Dumper(_Base):  # type: ignore[misc, valid-type] # depends on the installed library
    """Dumps YAML like Go."""


def _represent_go_time(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Represent a string in plain style, unless a character would be read as a line break."""
    return dumper.represent_str(text) if text.isprintable() else _represent_go_time(dumper, text)


_Dumper.add_representer(_Time, _represent_go_time)


_Dumper.add_representer(str, _represent)


def _time(at_s: float | None) -> _Time | None:
    return None if at_s is None else _Time(time_formats.format_time(at_s))


# ── Parsing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def parse_transition_times(text: str) -> TransitionTimes:
    """Parse the transition times of a status. Missing ones are left out."""
    try:
        found = yaml_documents.load_yaml(text)
    except yaml.YAMLError:
        return {}
    if not isinstance(found, dict):
        return {}
    return dict(_parse_transitions(found))


def _parse_transitions(found: dict[str, Any]) -> Iterator[tuple[tuple[str, str], tuple[str, float]]]:
    groups = found.get("nodeGroups")
    named = [(item.get("name"), item) for item in groups if isinstance(item, dict)] if isinstance(groups, list) else []
    for name, parts in ((CLUSTER_SCOPE, found.get("clusterWide")), *named):
        for part in (HEALTH, SCALE_UP, SCALE_DOWN):
            condition = parts.get(part) if isinstance(parts, dict) else None
            if not isinstance(condition, dict) or not isinstance(name, str):
                continue
            status, since = condition.get("status"), condition.get("lastTransitionTime")
            if isinstance(status, str) and isinstance(since, str):
                try:
                    yield (name, part), (status, time_formats.parse_time(since))
                except ValueError:
                    continue


WRITE_INTERVAL_S = 2.0
"""Minimum interval between writes: loops can follow each other at once, and API requests are limited."""

_CONFIG_MAPS = resources.CONFIG_MAPS.untyped()

_log = logging.getLogger(__name__)


class StatusWriter:
    """Writes the status ConfigMap."""

    def __init__(self, api: client.Client, namespace: str, name: str) -> None:
        self._client, self._namespace, self._name = api, namespace, name
        self._wanted: AutoscalerStatus | None = None
        self._changed = asyncio.Event()
        self._found: Unstructured | None = None
        """The ConfigMap as last read or written."""

    @property
    def reference(self) -> InvolvedObject:
        """Reference to the ConfigMap, for events."""
        uid = "" if self._found is None else str((self._found.get("metadata") or {}).get("uid", ""))
        return InvolvedObject("v1", "ConfigMap", self._name, self._namespace, uid)

    async def read_since(self) -> TransitionTimes:
        """Read the transition times of an earlier process."""
        try:
            self._found = await self._client.get(_CONFIG_MAPS, self._name, self._namespace)
        except errors.NotFound:
            return {}
        except WindlassError as error:
            _log.warning(
                "failed to read status ConfigMap: configmap=%s/%s error=%s", self._namespace, self._name, error
            )
            return {}
        return parse_transition_times(str((self._found.get("data") or {}).get(STATUS_KEY, "")))

    def put(self, status: AutoscalerStatus) -> None:
        """Store a status to be written. Never blocks; replaces a status that was not written yet."""
        self._wanted = status
        self._changed.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._changed.wait()
            await self.flush()
            await self._client.clock.sleep(WRITE_INTERVAL_S)

    async def flush(self) -> None:
        """Write the pending status now. Errors are logged."""
        self._changed.clear()
        wanted, self._wanted = self._wanted, None
        if wanted is None:
            return
        try:
            self._found = await self._write(wanted)
        except WindlassError as error:
            self._found = None
            _log.error("failed to write status ConfigMap: configmap=%s/%s error=%s", self._namespace, self._name, error)

    async def delete(self) -> None:
        """Delete the status ConfigMap."""
        self._wanted = None
        try:
            await self._client.delete(_CONFIG_MAPS, self._name, self._namespace)
        except errors.NotFound:
            return
        except WindlassError as error:
            _log.error(
                "failed to delete status ConfigMap: configmap=%s/%s error=%s", self._namespace, self._name, error
            )

    async def _write(self, status: AutoscalerStatus) -> Unstructured:
        """Update the ConfigMap that was last read, or else the current one, or else create it."""
        if self._found is not None:
            try:
                return await self._client.update(_CONFIG_MAPS, self._body(status, self._found))
            except (errors.Conflict, errors.NotFound):
                self._found = None
        try:
            found = await self._client.get(_CONFIG_MAPS, self._name, self._namespace)
        except errors.NotFound:
            return await self._client.create(_CONFIG_MAPS, self._body(status, None))
        return await self._client.update(_CONFIG_MAPS, self._body(status, found))

    def _body(self, status: AutoscalerStatus, found: Unstructured | None) -> Unstructured:
        """Return the ConfigMap with windlass's keys changed; others stay."""
        before = found or {"metadata": {"name": self._name, "namespace": self._namespace}}
        metadata = dict(before.get("metadata") or {"name": self._name, "namespace": self._namespace})
        metadata["annotations"] = {
            **(metadata.get("annotations") or {}),
            LAST_UPDATED_ANNOTATION: format_go_time(status.at_s),
        }
        data = {**(before.get("data") or {}), STATUS_KEY: format_status(status)}
        return {**before, "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
