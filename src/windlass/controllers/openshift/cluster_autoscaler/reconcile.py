"""ClusterAutoscaler reconcile: objects to create or replace, conditions, and the ClusterOperator's status. Pure.

An invalid ClusterAutoscaler leaves the existing objects unchanged. The operator reports Degraded only after
`DEGRADED_AFTER_FAILURES` consecutive checks failed, since a dependency may be unavailable for a moment; until then it
reports Available at its version.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windlass import errors
from windlass.controllers.controller_interface import Event
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.cluster_autoscaler import manifests, model, webhook
from windlass.controllers.openshift.cluster_autoscaler.model import (
    ClusterAutoscalerPlan,
    ClusterAutoscalerSettings,
    DeleteObject,
    EnsureObject,
)
from windlass.kube import unstructured
from windlass.kube.resources import Resource

Json = dict[str, Any]


def reconcile_cluster_autoscaler(
    seen: model.ObservedClusterAutoscaler, settings: ClusterAutoscalerSettings, now_s: float
) -> ClusterAutoscalerPlan:
    """One that cannot be used leaves what is there as it is; one that is on its way out takes the Deployment along."""
    autoscaler = seen.autoscaler
    findings = webhook.validate_cluster_autoscaler(autoscaler.name, autoscaler.spec, settings.name)
    if not findings.is_valid:
        message = f"ClusterAutoscaler validation error: {findings.text}"
        event = Event("Warning", model.FAILED_VALIDATION, message, "Validate")
        return _rejected_plan(autoscaler, model.INVALID, findings.text, event, now_s)
    if seen.sync_error:
        message = f"Error getting cluster-autoscaler deployment: {seen.sync_error}"
        event = Event("Warning", model.FAILED_GET_DEPLOYMENT, message, "GetDeployment")
        return _rejected_plan(autoscaler, model.FAILED, message, event, now_s)
    if autoscaler.is_deleting:
        return ClusterAutoscalerPlan(tuple(_plan_deletion(seen)), autoscaler.conditions)
    steps = tuple(_plan_ensures(seen, settings))
    said = ready_conditions(autoscaler, True, model.IS_READY, model.IS_READY_MESSAGE, now_s)
    return ClusterAutoscalerPlan(steps, said, tuple(_deployment_events(steps)))


def desired_objects(
    autoscaler: model.ClusterAutoscaler, settings: ClusterAutoscalerSettings, seen: model.ObservedClusterAutoscaler
) -> Iterator[tuple[Resource[Any], Json]]:
    """All that is made of it: what watches over it first, itself last."""
    name, namespace = autoscaler.name, settings.namespace
    yield model.SERVICE, manifests.build_service(name, namespace)
    yield model.SERVICE_MONITOR, manifests.build_service_monitor(name, namespace)
    yield model.PROMETHEUS_RULE, manifests.build_prometheus_rule(name, namespace)
    for policy in manifests.build_network_policies(name, namespace, settings.webhooks_port):
        yield model.NETWORK_POLICY, policy
    yield model.DEPLOYMENT, manifests.build_deployment(autoscaler, settings, seen.gates)


def _plan_ensures(seen: model.ObservedClusterAutoscaler, settings: ClusterAutoscalerSettings) -> Iterator[EnsureObject]:
    for resource, body in desired_objects(seen.autoscaler, settings, seen):
        metadata = {**body["metadata"], "ownerReferences": [_owner_reference(seen.autoscaler)]}
        wanted = {"apiVersion": resource.api_version, "kind": resource.kind, **body, "metadata": metadata}
        live = seen.live.get((resource.kind, metadata["name"]))
        if live is None or not unstructured.is_subset(live, wanted):
            yield EnsureObject(resource, wanted, live)


def _owner_reference(autoscaler: model.ClusterAutoscaler) -> Json:
    named = {"apiVersion": model.API_VERSION, "kind": model.KIND, "name": autoscaler.name, "uid": autoscaler.uid}
    return {**named, "controller": True, "blockOwnerDeletion": True}


def _plan_deletion(seen: model.ObservedClusterAutoscaler) -> Iterator[DeleteObject]:
    """The Deployment; the rest goes with its owner."""
    name = model.deployment_name(seen.autoscaler.name)
    live = seen.live.get((model.DEPLOYMENT.kind, name))
    if live is not None and not live["metadata"].get("deletionTimestamp"):
        yield DeleteObject(model.DEPLOYMENT, name, live["metadata"].get("uid") or "")


def _deployment_events(steps: tuple[EnsureObject, ...]) -> Iterator[Event]:
    for step in steps:
        if step.resource.kind == model.DEPLOYMENT.kind:
            named = f"ClusterAutoscaler deployment: {step.body['metadata']['namespace']}/{step.name}"
            if step.live is None:
                yield Event("Normal", model.SUCCESSFUL_CREATE, f"Created {named}", "CreateDeployment")
            else:
                yield Event("Normal", model.SUCCESSFUL_UPDATE, f"Updated {named}", "UpdateDeployment")


def _rejected_plan(
    autoscaler: model.ClusterAutoscaler, reason: str, message: str, event: Event, now_s: float
) -> ClusterAutoscalerPlan:
    """Nothing is done. It is told once, as long as it is the same."""
    before = unstructured.find_condition(autoscaler.conditions, model.READY) or {}
    is_known = (before.get("reason"), before.get("message")) == (reason, message)
    said = ready_conditions(autoscaler, False, reason, message, now_s)
    return ClusterAutoscalerPlan((), said, () if is_known else (event,), message if reason == model.FAILED else "")


def ready_conditions(
    autoscaler: model.ClusterAutoscaler, is_ready: bool, reason: str, message: str, now_s: float
) -> tuple[unstructured.Condition, ...]:
    """The conditions that it then has: one, of whether it is ready."""
    return tuple(unstructured.set_condition(autoscaler.conditions, model.READY, is_ready, reason, message, now_s))


ApiObject = Mapping[str, Any]

DEGRADED_AFTER_FAILURES = 3
"""How often in a row something has to be wrong."""

STATUS_INTERVAL_S = 15.0
"""How often it is looked at. What is seen sooner again does not count once more."""

OPERATOR_VERSION_NAME = "operator"

_SEMANTIC_VERSION = re.compile(
    r"v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


class InvalidVersion(errors.WindlassError):
    """A version that is none."""


@dataclass(frozen=True, slots=True)
class DegradedHistory:
    """What was wrong so far."""

    failures: int = 0
    counted_s: float | None = None


@dataclass(frozen=True, slots=True)
class ClusterOperatorReport:
    """What is said, and what is remembered."""

    is_well: bool
    conditions: tuple[unstructured.Condition, ...]
    versions: tuple[ApiObject, ...]
    memory: DegradedHistory


@dataclass(frozen=True, slots=True)
class _OperatorCondition:
    """One condition that says more than that it is True or False, and the version, if it is told."""

    kind: str
    reason: str
    message: str
    version: str | None = None
    is_well: bool = False


def report_cluster_operator(
    seen: model.ObservedClusterOperators, memory: DegradedHistory, version: str, now_s: float
) -> ClusterOperatorReport:
    trouble = find_degradation(seen, version)
    if trouble is None:
        return _build_report(seen, _progress_condition(seen, version), DegradedHistory(), now_s)
    count = memory.failures
    if memory.counted_s is None or abs(now_s - memory.counted_s) >= STATUS_INTERVAL_S:  # clocks are set back as well
        memory = DegradedHistory(min(count + 1, DEGRADED_AFTER_FAILURES), now_s)
    said = trouble
    if memory.failures < DEGRADED_AFTER_FAILURES:
        said = _OperatorCondition(
            model.AVAILABLE, model.AS_EXPECTED, "available, but observed potential degradations.", version
        )
    return _build_report(seen, said, memory, now_s)


def find_degradation(seen: model.ObservedClusterOperators, version: str) -> _OperatorCondition | None:
    """What keeps the operator from doing its work; None if nothing does."""
    if seen.machine_api is None:
        missing = f'clusteroperators.config.openshift.io "{model.MACHINE_API_OPERATOR}" not found'
        return _OperatorCondition(
            model.DEGRADED, model.MISSING_DEPENDENCY, f"error checking machine-api status: {missing}"
        )
    if not is_operator_available(seen.machine_api):
        return _OperatorCondition(model.DEGRADED, model.MISSING_DEPENDENCY, "machine-api not ready")
    if not is_deployment_synced(seen, version):
        return None
    try:
        is_upgrade(version, _reported_version(seen.own))
    except InvalidVersion as unreadable:
        return _OperatorCondition(model.DEGRADED, model.CHECK_FAILED, f"error checking version upgrade: {unreadable}")
    return None


def _progress_condition(seen: model.ObservedClusterOperators, version: str) -> _OperatorCondition:
    if not is_deployment_synced(seen, version):
        return _OperatorCondition(model.PROGRESSING, model.SYNCING, f"updating to {version}")
    if is_upgrade(version, _reported_version(seen.own)):
        return _OperatorCondition(model.PROGRESSING, model.SYNCING, f"upgrading operator version to {version}", version)
    return _OperatorCondition(model.AVAILABLE, model.AS_EXPECTED, f"at version {version}", version, is_well=True)


def is_operator_available(operator: ApiObject) -> bool:
    """Whether a ClusterOperator says that it is available, and not degraded."""
    found = (operator.get("status") or {}).get("conditions")
    degraded = unstructured.find_condition(found, model.DEGRADED)
    return unstructured.is_condition_true(found, model.AVAILABLE) and (degraded or {}).get("status") == "False"


def is_deployment_synced(seen: model.ObservedClusterOperators, version: str) -> bool:
    """Whether the autoscaler runs, at this version; or there is to be none."""
    if not seen.has_autoscaler:
        return True
    found = seen.deployment
    return found is not None and manifests.has_version(found, version) and manifests.is_rolled_out(found)


def is_upgrade(new: str, reported: str | None) -> bool:
    """Whether a version is another one but for its last number. `Unreadable` if one of them is no version."""
    after = _parse_version(new, "new")
    return reported is not None and _parse_version(reported, "current") != after


def _parse_version(version: str, which: str) -> tuple[str, str]:
    match = _SEMANTIC_VERSION.fullmatch(version)
    if match is None:
        raise InvalidVersion(f'failed to parse {which} version "{version}": expected major.minor.patch')
    return match[1], match[2]


def _reported_version(own: ApiObject | None) -> str | None:
    versions = ((own or {}).get("status") or {}).get("versions") or ()
    return next((each.get("version") for each in versions if each.get("name") == OPERATOR_VERSION_NAME), None)


def _build_report(
    seen: model.ObservedClusterOperators, said: _OperatorCondition, memory: DegradedHistory, now_s: float
) -> ClusterOperatorReport:
    status = (seen.own or {}).get("status") or {}
    before = tuple(status.get("versions") or ())
    versions = before if said.version is None else ({"name": OPERATOR_VERSION_NAME, "version": said.version},)
    found = list(status.get("conditions") or ())
    if versions != before:  # the time of a new version is that of its progress, whether or not there was any to make
        found = [{**each, "status": "Unknown"} if each.get("type") == model.PROGRESSING else each for each in found]
    for kind in (model.AVAILABLE, model.PROGRESSING, model.DEGRADED, model.UPGRADEABLE):
        is_true = kind in (model.AVAILABLE, model.UPGRADEABLE) or kind == said.kind
        reason, message = (said.reason, said.message) if kind == said.kind else ("", "")
        found = list(unstructured.set_condition(found, kind, is_true, reason, message, now_s))
    kept = [_without_empty(each) for each in found]
    return ClusterOperatorReport(said.is_well, tuple(kept), versions, memory)


def _without_empty(condition: ApiObject) -> ApiObject:
    return {name: value for name, value in condition.items() if value != ""}


def related_objects(seen: model.ObservedClusterOperators, namespace: str) -> list[dict[str, str]]:
    """What someone who gathers what is known should look at as well."""
    group, roles = "autoscaling.openshift.io", "rbac.authorization.k8s.io"
    return [
        {"group": group, "resource": "machineautoscalers", "name": "", "namespace": namespace},
        {"group": group, "resource": "clusterautoscalers", "name": "", "namespace": namespace},
        *(
            {"group": roles, "resource": resource, "name": name}
            for resource in ("clusterroles", "clusterrolebindings")
            for name in ("cluster-autoscaler-operator", model.AUTOSCALER)
        ),
        *(
            {"group": group_, "resource": "machinesets", "name": name, "namespace": where}
            for group_, where, name in sorted(set(seen.targets))
        ),
        *({"group": "", "resource": "namespaces", "name": each} for each in _related_namespaces(seen, namespace)),
    ]


def _related_namespaces(seen: model.ObservedClusterOperators, namespace: str) -> list[str]:
    return sorted({namespace, *(where for _, where, _ in seen.targets if where != machine_apis.MACHINE_API.namespace)})


def conditions_patch(before: tuple[model.Json, ...], after: tuple[model.Json, ...]) -> Json:
    """The merge patch from some conditions to others; empty if they say the same."""
    return {} if before == after else {"status": {"conditions": [dict(each) for each in after]}}


def cluster_operator_patch(own: model.Json | None, said: ClusterOperatorReport, related: list[dict[str, str]]) -> Json:
    """The merge patch of a ClusterOperator; empty if it says all that already."""
    before = (own or {}).get("status") or {}
    after: Json = {
        "conditions": [dict(each) for each in said.conditions],
        "versions": [dict(each) for each in said.versions],
        "relatedObjects": related,
    }
    changed = {name: value for name, value in after.items() if (before.get(name) or []) != value}
    return {"status": changed} if changed else {}
