"""Reporting: what the operator says of itself in its ClusterOperator. Pure.

What it depends on may be away for a moment: the operator is degraded only when it has been found so three times in a
row. Until then it says that it is available, at the version that it is of.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass import errors
from windlass.controllers.openshift import apis
from windlass.controllers.openshift.cluster_autoscaler import facts, names
from windlass.controllers.openshift.cluster_autoscaler.decide import deployment
from windlass.kube import conditions

Json = Mapping[str, Any]

FAILURES = 3
"""How often in a row something has to be wrong."""
EVERY_S = 15.0
"""How often it is looked at. What is seen sooner again does not count once more."""
OPERATOR = "operator"
_SEMVER = re.compile(
    r"v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


class Unreadable(errors.WindlassError):
    """A version that is none."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What was wrong so far."""

    failures: int = 0
    counted_s: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What is said, and what is remembered."""

    is_well: bool
    conditions: tuple[conditions.Condition, ...]
    versions: tuple[Json, ...]
    memory: Memory


@dataclass(frozen=True, slots=True)
class _Said:
    """One condition that says more than that it is True or False, and the version, if it is told."""

    kind: str
    reason: str
    message: str
    version: str | None = None
    is_well: bool = False


def report(seen: facts.Operators, memory: Memory, version: str, now_s: float) -> Report:
    trouble = find_trouble(seen, version)
    if trouble is None:
        return _spell(seen, _judge(seen, version), Memory(), now_s)
    count = memory.failures
    if memory.counted_s is None or abs(now_s - memory.counted_s) >= EVERY_S:  # clocks are set back as well
        memory = Memory(min(count + 1, FAILURES), now_s)
    said = trouble
    if memory.failures < FAILURES:
        said = _Said(names.AVAILABLE, names.AS_EXPECTED, "available, but observed potential degradations.", version)
    return _spell(seen, said, memory, now_s)


def find_trouble(seen: facts.Operators, version: str) -> _Said | None:
    """What keeps the operator from doing its work; None if nothing does."""
    if seen.machine_api is None:
        missing = f'clusteroperators.config.openshift.io "{names.MACHINE_API_OPERATOR}" not found'
        return _Said(names.DEGRADED, names.MISSING_DEPENDENCY, f"error checking machine-api status: {missing}")
    if not is_available(seen.machine_api):
        return _Said(names.DEGRADED, names.MISSING_DEPENDENCY, "machine-api not ready")
    if not is_synced(seen, version):
        return None
    try:
        is_step(version, _reported(seen.own))
    except Unreadable as unreadable:
        return _Said(names.DEGRADED, names.CHECK_FAILED, f"error checking version upgrade: {unreadable}")
    return None


def _judge(seen: facts.Operators, version: str) -> _Said:
    if not is_synced(seen, version):
        return _Said(names.PROGRESSING, names.SYNCING, f"updating to {version}")
    if is_step(version, _reported(seen.own)):
        return _Said(names.PROGRESSING, names.SYNCING, f"upgrading operator version to {version}", version)
    return _Said(names.AVAILABLE, names.AS_EXPECTED, f"at version {version}", version, is_well=True)


def is_available(operator: Json) -> bool:
    """Whether a ClusterOperator says that it is available, and not degraded."""
    found = (operator.get("status") or {}).get("conditions")
    degraded = conditions.find(found, names.DEGRADED)
    return conditions.is_true(found, names.AVAILABLE) and (degraded or {}).get("status") == "False"


def is_synced(seen: facts.Operators, version: str) -> bool:
    """Whether the autoscaler runs, at this version; or there is to be none."""
    if not seen.has_autoscaler:
        return True
    found = seen.deployment
    return found is not None and deployment.is_current(found, version) and deployment.is_rolled_out(found)


def is_step(new: str, reported: str | None) -> bool:
    """Whether a version is another one but for its last number. `Unreadable` if one of them is no version."""
    after = _parse(new, "new")
    return reported is not None and _parse(reported, "current") != after


def _parse(version: str, which: str) -> tuple[str, str]:
    match = _SEMVER.fullmatch(version)
    if match is None:
        raise Unreadable(f'failed to parse {which} version "{version}": expected major.minor.patch')
    return match[1], match[2]


def _reported(own: Json | None) -> str | None:
    versions = ((own or {}).get("status") or {}).get("versions") or ()
    return next((each.get("version") for each in versions if each.get("name") == OPERATOR), None)


def _spell(seen: facts.Operators, said: _Said, memory: Memory, now_s: float) -> Report:
    status = (seen.own or {}).get("status") or {}
    before = tuple(status.get("versions") or ())
    versions = before if said.version is None else ({"name": OPERATOR, "version": said.version},)
    found = list(status.get("conditions") or ())
    if versions != before:  # the time of a new version is that of its progress, whether or not there was any to make
        found = [{**each, "status": "Unknown"} if each.get("type") == names.PROGRESSING else each for each in found]
    for kind in (names.AVAILABLE, names.PROGRESSING, names.DEGRADED, names.UPGRADEABLE):
        is_true = kind in (names.AVAILABLE, names.UPGRADEABLE) or kind == said.kind
        reason, message = (said.reason, said.message) if kind == said.kind else ("", "")
        found = list(conditions.put(found, kind, is_true, reason, message, now_s))
    kept = [_without_empty(each) for each in found]
    return Report(said.is_well, tuple(kept), versions, memory)


def _without_empty(condition: Json) -> Json:
    return {name: value for name, value in condition.items() if value != ""}


def relate(seen: facts.Operators, namespace: str) -> list[dict[str, str]]:
    """What someone who gathers what is known should look at as well."""
    group, roles = "autoscaling.openshift.io", "rbac.authorization.k8s.io"
    return [
        {"group": group, "resource": "machineautoscalers", "name": "", "namespace": namespace},
        {"group": group, "resource": "clusterautoscalers", "name": "", "namespace": namespace},
        *(
            {"group": roles, "resource": resource, "name": name}
            for resource in ("clusterroles", "clusterrolebindings")
            for name in ("cluster-autoscaler-operator", names.AUTOSCALER)
        ),
        *(
            {"group": group_, "resource": "machinesets", "name": name, "namespace": where}
            for group_, where, name in sorted(set(seen.targets))
        ),
        *({"group": "", "resource": "namespaces", "name": each} for each in _namespaces(seen, namespace)),
    ]


def _namespaces(seen: facts.Operators, namespace: str) -> list[str]:
    return sorted({namespace, *(where for _, where, _ in seen.targets if where != apis.MACHINE_API.namespace)})
