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
    observed_cluster_autoscaler: model.ObservedClusterAutoscaler, settings: ClusterAutoscalerSettings, now_s: float
) -> ClusterAutoscalerPlan:
    """Plan for a ClusterAutoscaler. Invalid: nothing changes. Being deleted: the Deployment is deleted."""
    autoscaler = observed_cluster_autoscaler.autoscaler
    findings = webhook.validate_cluster_autoscaler(autoscaler.name, autoscaler.spec, settings.name)
    if not findings.is_valid:
        message = f"ClusterAutoscaler validation error: {findings.text}"
        event = Event("Warning", model.FAILED_VALIDATION, message, "Validate")
        return _rejected_plan(autoscaler, model.INVALID, findings.text, event, now_s)
    if observed_cluster_autoscaler.sync_error:
        message = f"Error getting cluster-autoscaler deployment: {observed_cluster_autoscaler.sync_error}"
        event = Event("Warning", model.FAILED_GET_DEPLOYMENT, message, "GetDeployment")
        return _rejected_plan(autoscaler, model.FAILED, message, event, now_s)
    if autoscaler.is_deleting:
        return ClusterAutoscalerPlan(tuple(_plan_deletion(observed_cluster_autoscaler)), autoscaler.conditions)
    steps = tuple(_plan_ensures(observed_cluster_autoscaler, settings))
    conditions = ready_conditions(autoscaler, True, model.IS_READY, model.IS_READY_MESSAGE, now_s)
    return ClusterAutoscalerPlan(steps, conditions, tuple(_deployment_events(steps)))


def desired_objects(
    autoscaler: model.ClusterAutoscaler,
    settings: ClusterAutoscalerSettings,
    observed_cluster_autoscaler: model.ObservedClusterAutoscaler,
) -> Iterator[tuple[Resource[Any], Json]]:
    """All desired objects; monitoring and policies come before the Deployment."""
    name, namespace = autoscaler.name, settings.namespace
    yield model.SERVICE, manifests.build_service(name, namespace)
    yield model.SERVICE_MONITOR, manifests.build_service_monitor(name, namespace)
    yield model.PROMETHEUS_RULE, manifests.build_prometheus_rule(name, namespace)
    for policy in manifests.build_network_policies(name, namespace, settings.webhooks_port):
        yield model.NETWORK_POLICY, policy
    yield model.DEPLOYMENT, manifests.build_deployment(autoscaler, settings, observed_cluster_autoscaler.gates)


def _plan_ensures(
    observed_cluster_autoscaler: model.ObservedClusterAutoscaler, settings: ClusterAutoscalerSettings
) -> Iterator[EnsureObject]:
    for resource, body in desired_objects(
        observed_cluster_autoscaler.autoscaler, settings, observed_cluster_autoscaler
    ):
        metadata = {**body["metadata"], "ownerReferences": [_owner_reference(observed_cluster_autoscaler.autoscaler)]}
        desired = {"apiVersion": resource.api_version, "kind": resource.kind, **body, "metadata": metadata}
        live = observed_cluster_autoscaler.live.get((resource.kind, metadata["name"]))
        if live is None or not unstructured.is_subset(live, desired):
            yield EnsureObject(resource, desired, live)


def _owner_reference(autoscaler: model.ClusterAutoscaler) -> Json:
    named = {"apiVersion": model.API_VERSION, "kind": model.KIND, "name": autoscaler.name, "uid": autoscaler.uid}
    return {**named, "controller": True, "blockOwnerDeletion": True}


def _plan_deletion(observed_cluster_autoscaler: model.ObservedClusterAutoscaler) -> Iterator[DeleteObject]:
    """Delete the Deployment; garbage collection deletes the other objects."""
    name = model.deployment_name(observed_cluster_autoscaler.autoscaler.name)
    live = observed_cluster_autoscaler.live.get((model.DEPLOYMENT.kind, name))
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
    """Change nothing; record the error once."""
    before = unstructured.find_condition(autoscaler.conditions, model.READY) or {}
    is_known = (before.get("reason"), before.get("message")) == (reason, message)
    conditions = ready_conditions(autoscaler, False, reason, message, now_s)
    return ClusterAutoscalerPlan(
        (), conditions, () if is_known else (event,), message if reason == model.FAILED else ""
    )


def ready_conditions(
    autoscaler: model.ClusterAutoscaler, is_ready: bool, reason: str, message: str, now_s: float
) -> tuple[unstructured.Condition, ...]:
    """The conditions of the new status: Ready."""
    return tuple(unstructured.set_condition(autoscaler.conditions, model.READY, is_ready, reason, message, now_s))


ApiObject = Mapping[str, Any]

DEGRADED_AFTER_FAILURES = 3
"""Consecutive failed checks before Degraded."""

STATUS_INTERVAL_S = 15.0
"""Minimum interval of counted checks."""

OPERATOR_VERSION_NAME = "operator"

_SEMANTIC_VERSION = re.compile(
    r"v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


class InvalidVersion(errors.WindlassError):
    """A string is not a version."""


@dataclass(frozen=True, slots=True)
class DegradedHistory:
    """Consecutive failures so far."""

    failures: int = 0
    counted_s: float | None = None


@dataclass(frozen=True, slots=True)
class ClusterOperatorReport:
    """The ClusterOperator's new status, and the new failure history."""

    is_well: bool
    conditions: tuple[unstructured.Condition, ...]
    versions: tuple[ApiObject, ...]
    memory: DegradedHistory


@dataclass(frozen=True, slots=True)
class _OperatorCondition:
    """Condition of the ClusterOperator that depends on the check, and the version to report."""

    kind: str
    reason: str
    message: str
    version: str | None = None
    is_well: bool = False


def report_cluster_operator(
    observed: model.ObservedClusterOperators, memory: DegradedHistory, version: str, now_s: float
) -> ClusterOperatorReport:
    trouble = find_degradation(observed, version)
    if trouble is None:
        return _build_report(observed, _progress_condition(observed, version), DegradedHistory(), now_s)
    count = memory.failures
    if memory.counted_s is None or abs(now_s - memory.counted_s) >= STATUS_INTERVAL_S:  # abs: the clock may be set back
        memory = DegradedHistory(min(count + 1, DEGRADED_AFTER_FAILURES), now_s)
    condition = trouble
    if memory.failures < DEGRADED_AFTER_FAILURES:
        condition = _OperatorCondition(
            model.AVAILABLE, model.AS_EXPECTED, "available, but observed potential degradations.", version
        )
    return _build_report(observed, condition, memory, now_s)


def find_degradation(observed: model.ObservedClusterOperators, version: str) -> _OperatorCondition | None:
    """The reason for Degraded; None if there is none."""
    if observed.machine_api is None:
        missing = f'clusteroperators.config.openshift.io "{model.MACHINE_API_OPERATOR}" not found'
        return _OperatorCondition(
            model.DEGRADED, model.MISSING_DEPENDENCY, f"error checking machine-api status: {missing}"
        )
    if not is_operator_available(observed.machine_api):
        return _OperatorCondition(model.DEGRADED, model.MISSING_DEPENDENCY, "machine-api not ready")
    if not is_deployment_synced(observed, version):
        return None
    try:
        is_upgrade(version, _reported_version(observed.own))
    except InvalidVersion as unreadable:
        return _OperatorCondition(model.DEGRADED, model.CHECK_FAILED, f"error checking version upgrade: {unreadable}")
    return None


def _progress_condition(observed: model.ObservedClusterOperators, version: str) -> _OperatorCondition:
    if not is_deployment_synced(observed, version):
        return _OperatorCondition(model.PROGRESSING, model.SYNCING, f"updating to {version}")
    if is_upgrade(version, _reported_version(observed.own)):
        return _OperatorCondition(model.PROGRESSING, model.SYNCING, f"upgrading operator version to {version}", version)
    return _OperatorCondition(model.AVAILABLE, model.AS_EXPECTED, f"at version {version}", version, is_well=True)


def is_operator_available(operator: ApiObject) -> bool:
    """True if a ClusterOperator is Available and not Degraded."""
    found = (operator.get("status") or {}).get("conditions")
    degraded = unstructured.find_condition(found, model.DEGRADED)
    return unstructured.is_condition_true(found, model.AVAILABLE) and (degraded or {}).get("status") == "False"


def is_deployment_synced(observed: model.ObservedClusterOperators, version: str) -> bool:
    """True if the autoscaler is rolled out at this version, or if no ClusterAutoscaler exists."""
    if not observed.has_autoscaler:
        return True
    found = observed.deployment
    return found is not None and manifests.has_version(found, version) and manifests.is_rolled_out(found)


def is_upgrade(new: str, reported: str | None) -> bool:
    """True if major or minor version differ. InvalidVersion if one is not a version."""
    after = _parse_version(new, "new")
    return reported is not None and _parse_version(reported, "current") != after


def _parse_version(version: str, which: str) -> tuple[str, str]:
    match = _SEMANTIC_VERSION.fullmatch(version)
    if match is None:
        raise InvalidVersion(f'failed to parse {which} version "{version}": expected major.minor.patch')
    return match[1], match[2]


def _reported_version(own: ApiObject | None) -> str | None:
    versions = ((own or {}).get("status") or {}).get("versions") or ()
    return next((item.get("version") for item in versions if item.get("name") == OPERATOR_VERSION_NAME), None)


def _build_report(
    observed: model.ObservedClusterOperators, condition: _OperatorCondition, memory: DegradedHistory, now_s: float
) -> ClusterOperatorReport:
    status = (observed.own or {}).get("status") or {}
    before = tuple(status.get("versions") or ())
    versions = before if condition.version is None else ({"name": OPERATOR_VERSION_NAME, "version": condition.version},)
    found = list(status.get("conditions") or ())
    if versions != before:  # a new version sets the transition time of Progressing, even without progress to report
        found = [{**item, "status": "Unknown"} if item.get("type") == model.PROGRESSING else item for item in found]
    for kind in (model.AVAILABLE, model.PROGRESSING, model.DEGRADED, model.UPGRADEABLE):
        is_true = kind in (model.AVAILABLE, model.UPGRADEABLE) or kind == condition.kind
        reason, message = (condition.reason, condition.message) if kind == condition.kind else ("", "")
        found = list(unstructured.set_condition(found, kind, is_true, reason, message, now_s))
    kept = [_without_empty(entry) for entry in found]
    return ClusterOperatorReport(condition.is_well, tuple(kept), versions, memory)


def _without_empty(condition: ApiObject) -> ApiObject:
    return {name: value for name, value in condition.items() if value != ""}


_RELATED_ROLES = (
    "cluster-autoscaler-operator",
    model.AUTOSCALER,
    "windlass-cluster-autoscaler-operator",
    "windlass-machine-autoscaler",
    "windlass-cluster-autoscaler",
)
"""Names of roles that OpenShift ships, and of those of deploy/rbac. Names without an object are not collected."""


def related_objects(observed: model.ObservedClusterOperators, namespace: str) -> list[dict[str, str]]:
    """Objects that must-gather collects."""
    group, roles = "autoscaling.openshift.io", "rbac.authorization.k8s.io"
    return [
        {"group": group, "resource": "machineautoscalers", "name": "", "namespace": namespace},
        {"group": group, "resource": "clusterautoscalers", "name": "", "namespace": namespace},
        *(
            {"group": roles, "resource": resource, "name": name}
            for resource in ("clusterroles", "clusterrolebindings")
            for name in _RELATED_ROLES
        ),
        {"group": roles, "resource": "clusterroles", "name": "cluster-autoscaler-operator:cluster-reader"},
        *(
            {"group": group_, "resource": "machinesets", "name": name, "namespace": where}
            for group_, where, name in sorted(set(observed.targets))
        ),
        *({"group": "", "resource": "namespaces", "name": item} for item in _related_namespaces(observed, namespace)),
    ]


def _related_namespaces(observed: model.ObservedClusterOperators, namespace: str) -> list[str]:
    return sorted(
        {namespace, *(where for _, where, _ in observed.targets if where != machine_apis.MACHINE_API.namespace)}
    )


def conditions_patch(before: tuple[model.Json, ...], after: tuple[model.Json, ...]) -> Json:
    """The merge patch between two lists of conditions; empty if they are equal."""
    return {} if before == after else {"status": {"conditions": [dict(item) for item in after]}}


def cluster_operator_patch(
    own: model.Json | None, report: ClusterOperatorReport, related: list[dict[str, str]]
) -> Json:
    """The merge patch of a ClusterOperator; empty if it is up to date."""
    before = (own or {}).get("status") or {}
    after: Json = {
        "conditions": [dict(item) for item in report.conditions],
        "versions": [dict(entry) for entry in report.versions],
        "relatedObjects": related,
    }
    changed = {name: value for name, value in after.items() if (before.get(name) or []) != value}
    return {"status": changed} if changed else {}
