"""The status as text: the YAML in the ConfigMap's key `status`, field by field as the peer writes it, and back."""

import datetime
import re
from collections.abc import Iterator
from typing import Any

import yaml

from windlass.autoscaler.report.status import (
    CLUSTER,
    HEALTH,
    SCALE_DOWN,
    SCALE_UP,
    ClusterStatus,
    Condition,
    GroupStatus,
    Since,
    Status,
    truncate,
)
from windlass.engine.readiness import NOBODY, Readiness
from windlass.kube import durations, nesting, times

KEY = "status"
LAST_UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"

_AFTER_SECONDS = re.compile(r" after ([0-9.]+)s$")
_UNKNOWN = Condition("", None, None)
_NOTHING = ClusterStatus(_UNKNOWN, NOBODY, _UNKNOWN, _UNKNOWN, 0)


def spell_time(now_s: float) -> str:
    """A moment as Go prints it: `2026-11-15 08:23:16.2965 +0000 UTC`."""
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=round(now_s * 1e6))
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


def spell(status: Status) -> str:
    """The YAML text."""
    return yaml.dump(document(status), Dumper=_Dumper, sort_keys=True, allow_unicode=True)


# ── The document ─────────────────────────────────────────────────────────────────────────────────────────────────


def document(status: Status) -> dict[str, Any]:
    """What the text says, as plain data. Parts that say nothing are left out where the peer leaves them out."""
    made: dict[str, Any] = {
        "time": spell_time(status.at_s),
        "autoscalerStatus": "Initializing" if status.cluster is None else "Running",
        "clusterWide": _cluster(status.cluster or _NOTHING),
    }
    if status.message:
        made["message"] = status.message
    if status.groups:
        made["nodeGroups"] = [_group(group) for group in status.groups]
    if status.held:
        made["heldNodeGroups"] = [{"name": one.id, "reason": truncate(one.why)} for one in status.held]
    return made


def _cluster(cluster: ClusterStatus) -> dict[str, Any]:
    return {
        HEALTH: {**_condition(cluster.health), "nodeCounts": _counts(cluster.nodes)},
        SCALE_UP: _condition(cluster.scale_up),
        SCALE_DOWN: _with_candidates(cluster.scale_down, cluster.candidates),
    }


def _group(group: GroupStatus) -> dict[str, Any]:
    sizes = {"cloudProviderTarget": group.target_size, "minSize": group.min_size, "maxSize": group.max_size}
    return {
        "name": group.name,
        HEALTH: {**_condition(group.health), "nodeCounts": _counts(group.nodes), **sizes},
        SCALE_UP: {**_condition(group.scale_up), "backoffInfo": _backoff(group)},
        SCALE_DOWN: _with_candidates(group.scale_down, group.candidates),
        **_replicas_owner(group),
    }


def _replicas_owner(group: GroupStatus) -> dict[str, Any]:
    """Left out where no other controller applies the size, as it always is of Cluster Autoscaler."""
    owner = group.replicas_owner
    return {} if owner is None else {"replicasOwner": {"manager": owner.manager, "remedy": truncate(owner.remedy)}}


def _backoff(group: GroupStatus) -> dict[str, str]:
    if group.backoff is None:
        return {}
    error = group.backoff.error
    told = {"errorCode": error.code, "errorMessage": truncate(_AFTER_SECONDS.sub(_respell, error.message))}
    return {key: value for key, value in told.items() if value}


def _respell(seconds: re.Match[str]) -> str:
    """Decisions tell times in seconds; the peer as Go does."""
    return f" after {durations.spell(float(seconds[1]))}"


def _with_candidates(condition: Condition, candidates: int) -> dict[str, Any]:
    made = _condition(condition)
    return {**made, "candidates": candidates} if candidates else made


def _condition(condition: Condition) -> dict[str, Any]:
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
    """A text that Go's YAML quotes, because it would read as a time otherwise."""

    __slots__ = ()


_Base: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The same text either way; the one in C takes a tenth of the time, and a status is written in every loop."""


class _Dumper(_Base):  # type: ignore[misc, valid-type]  # which of the two, only the installation knows
    """Writes as Go's does."""


def _quote(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Plain, unless a character would be taken for a break of the line."""
    return dumper.represent_str(text) if text.isprintable() else _quote(dumper, text)


_Dumper.add_representer(_Time, _quote)
_Dumper.add_representer(str, _represent)


def _time(at_s: float | None) -> _Time | None:
    return None if at_s is None else _Time(times.spell(at_s))


# ── And back ─────────────────────────────────────────────────────────────────────────────────────────────────────


def read_since(text: str) -> Since:
    """Since when parts have had their status, as far as a text tells. Whatever it does not tell is left out."""
    try:
        found = nesting.load(text)
    except yaml.YAMLError:
        return {}
    if not isinstance(found, dict):
        return {}
    return dict(_read(found))


def _read(found: dict[str, Any]) -> Iterator[tuple[tuple[str, str], tuple[str, float]]]:
    groups = found.get("nodeGroups")
    named = [(one.get("name"), one) for one in groups if isinstance(one, dict)] if isinstance(groups, list) else []
    for name, parts in ((CLUSTER, found.get("clusterWide")), *named):
        for part in (HEALTH, SCALE_UP, SCALE_DOWN):
            condition = parts.get(part) if isinstance(parts, dict) else None
            if not isinstance(condition, dict) or not isinstance(name, str):
                continue
            status, since = condition.get("status"), condition.get("lastTransitionTime")
            if isinstance(status, str) and isinstance(since, str):
                try:
                    yield (name, part), (status, times.parse(since))
                except ValueError:
                    continue
