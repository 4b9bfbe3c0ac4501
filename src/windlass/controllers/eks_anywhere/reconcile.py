"""EKS Anywhere reconcile: MachineDeployments to write, and the conditions of the Cluster. Pure.

ControlPlaneInitialized, ControlPlaneReady, WorkersReady and DefaultCNIConfigured follow EKS Anywhere's order and
wording; Ready summarizes them by severity. For WorkersReady the first matching check decides: static groups must have
all replicas, autoscaled ones must be within limits. An invalid group keeps its MachineDeployment unchanged.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from windlass.controllers import machine_deployments
from windlass.controllers.eks_anywhere import model
from windlass.controllers.eks_anywhere.model import ClusterPlan
from windlass.controllers.machine_deployments import MachineDeployment, PoolSize
from windlass.kube import time_formats, unstructured

NOT_READY_REQUEUE_S = 10.0

NO_CLUSTER_REQUEUE_S = 5.0


def reconcile_cluster(seen: model.ObservedCluster, now_s: float) -> ClusterPlan:
    """The groups are brought into shape; what is said of the workers is said of what is there now."""
    steps, troubles = _plan_steps(seen)
    judged = _compute_conditions(seen, troubles)
    cluster = seen.cluster
    status = model.ClusterStatus(
        conditions=merge_conditions(cluster.status.conditions, judged, now_s),
        observed_generation=cluster.generation,
        reconciled_generation=_reconciled_generation(seen, troubles),
        failure_reason=model.CLUSTER_INVALID if troubles else "",
        failure_message="; ".join(troubles.values()),
    )
    return ClusterPlan(status, steps, _requeue_after_s(seen, judged))


def _compute_conditions(seen: model.ObservedCluster, troubles: dict[str, str]) -> list[model.Condition]:
    """The conditions that are ours, in the order in which they are summed up, and the sum."""
    before = {each.type: each for each in seen.cluster.status.conditions}
    initialized = control_plane_initialized_condition(seen, before.get(model.CONTROL_PLANE_INITIALIZED))
    ready = control_plane_ready_condition(seen, initialized, before.get(model.CONTROL_PLANE_READY))
    working = workers_ready_condition(initialized, seen.cluster.groups, seen.machine_deployments, troubles)
    cni = cni_configured_condition(ready, before.get(model.DEFAULT_CNI_CONFIGURED))
    found = [each for each in (initialized, ready, working, cni) if each is not None]
    return [*found, summarize_ready(found)]


def _plan_steps(
    seen: model.ObservedCluster,
) -> tuple[tuple[machine_deployments.MachineDeploymentStep, ...], dict[str, str]]:
    """Steps, and what is wrong, by the group that it is wrong with."""
    if seen.older_namesake:
        return (), {"": f"Cluster {seen.older_namesake} has the same name, and is older"}
    return _plan_groups(seen) if seen.has_capi_cluster else ((), _validate_groups(seen.cluster))


def _plan_groups(
    seen: model.ObservedCluster,
) -> tuple[tuple[machine_deployments.MachineDeploymentStep, ...], dict[str, str]]:
    """Steps, and what is wrong with groups, by name. A group that cannot be used stays as it was."""
    live = {each.name: each for each in seen.machine_deployments}
    steps: list[machine_deployments.MachineDeploymentStep] = []
    troubles = _validate_groups(seen.cluster)
    for group in seen.cluster.groups:
        if owner := seen.foreign_owners.get(group.machine_deployment):
            why = f"MachineDeployment {group.machine_deployment} belongs to Cluster {owner}; choose another name"
            troubles[group.name] = group_error(group, why)
        found = live.get(group.machine_deployment)
        if group.name in troubles or (found is not None and found.is_deleting):
            continue
        try:
            step = machine_deployments.plan_apply(
                _desired_machine_deployment(seen, group), group.size, None, found, model.MANAGER
            )
        except machine_deployments.IncompleteMachineDeployment as incomplete:
            troubles[group.name] = group_error(group, str(incomplete))
            continue
        if step is not None:
            steps.append(step)
    return (*steps, *_plan_deletions(seen)), troubles


def _desired_machine_deployment(
    seen: model.ObservedCluster, group: model.WorkerNodeGroup
) -> machine_deployments.DesiredMachineDeployment:
    return machine_deployments.DesiredMachineDeployment(
        seen.api_version,
        seen.namespace,
        group.machine_deployment,
        seen.cluster.name,
        group.machine,
        group.size.limits,
        group.labels,
    )


def _plan_deletions(seen: model.ObservedCluster) -> list[machine_deployments.DeleteMachineDeployment]:
    """MachineDeployments of groups that are gone. What we did not make we do not delete."""
    wanted = {group.machine_deployment for group in seen.cluster.groups}
    return [
        machine_deployments.DeleteMachineDeployment(each.name, each.body["metadata"].get("uid") or "")
        for each in seen.machine_deployments
        if each.name not in wanted and not each.is_deleting and _is_applied_by_us(each)
    ]


def _is_applied_by_us(found: MachineDeployment) -> bool:
    owners = unstructured.find_field_owners(found.body, ("spec", "clusterName"))
    return any((owner.manager, owner.operation) == (model.MANAGER, "Apply") for owner in owners)


def _validate_groups(cluster: model.Cluster) -> dict[str, str]:
    """What is wrong with groups, by name."""
    return {group.name: group_error(group, why) for group in cluster.groups if (why := validate_size(group.size))}


def _reconciled_generation(seen: model.ObservedCluster, troubles: dict[str, str]) -> int | None:
    is_done = seen.has_capi_cluster and not troubles
    return seen.cluster.generation if is_done else seen.cluster.status.reconciled_generation


def _requeue_after_s(seen: model.ObservedCluster, judged: list[model.Condition]) -> float | None:
    if not seen.has_capi_cluster:
        return NO_CLUSTER_REQUEUE_S
    return NOT_READY_REQUEUE_S if judged[-1].status == "False" else None


def validate_size(size: PoolSize) -> str:
    """What is wrong with it; empty if nothing is."""
    if size.limits is None:
        return "" if size.replicas >= 0 else "worker node count must be zero or greater if autoscaling is not enabled"
    if size.limits.min < 0:
        return "min count must be non negative"
    if size.limits.min > size.limits.max:
        return "min count must be no greater than max count"
    return ""


def group_error(group: model.WorkerNodeGroup, why: str) -> str:
    """Which group it is that something is wrong with."""
    return f"workerNodeGroupConfigurations[{group.name}]: {why}"


def control_plane_initialized_condition(seen: model.ObservedCluster, before: model.Condition | None) -> model.Condition:
    """Once it is so, it stays so."""
    kind, found = model.CONTROL_PLANE_INITIALIZED, seen.control_plane
    if (before is not None and before.status == "True") or seen.is_initialized_by_other:
        return true_condition(kind)
    if found is not None and found.observed_generation != found.generation:
        return false_condition(kind, model.OUTDATED_INFORMATION)
    if found is None or not found.is_available:
        message = "The first control plane instance is not available yet"
        return false_condition(kind, model.INITIALIZATION_IN_PROGRESS, model.INFO, message)
    return true_condition(kind)


def control_plane_ready_condition(
    seen: model.ObservedCluster, initialized: model.Condition, before: model.Condition | None
) -> model.Condition | None:
    """None: nothing is known, and nothing was."""
    if seen.cluster.has_external_etcd and (unready := _etcd_condition(seen.etcd)):
        return unready
    if initialized.status != "True":
        return _control_plane_not_ready(initialized.reason, initialized.message, initialized.severity)
    found = seen.control_plane
    if found is None:
        return true_condition(model.CONTROL_PLANE_READY) if seen.is_initialized_by_other else before
    return (
        _control_plane_nodes_condition(seen.cluster, found)
        or _control_plane_health_condition(found)
        or true_condition(model.CONTROL_PLANE_READY)
    )


def cni_configured_condition(ready: model.Condition | None, before: model.Condition | None) -> model.Condition | None:
    """The CNI is not ours. Until the control plane is ready nobody can say anything of it; then someone else does."""
    is_ready = ready is not None and ready.status == "True"
    if before is None:
        kind, reason = model.DEFAULT_CNI_CONFIGURED, model.CONTROL_PLANE_NOT_READY
        return None if is_ready else false_condition(kind, reason)
    return None if is_ready and before.reason == model.CONTROL_PLANE_NOT_READY else before


def _etcd_condition(found: model.Etcd | None) -> model.Condition | None:
    if found is None:
        return _control_plane_not_ready(model.ETCD_NOT_AVAILABLE, "Etcd cluster is not available")
    is_ready = found.is_current and found.is_ready
    return None if is_ready else _control_plane_not_ready(model.ROLLING_UPGRADE, "Etcd is not ready")


def _control_plane_nodes_condition(cluster: model.Cluster, found: model.ControlPlane) -> model.Condition | None:
    expected = cluster.control_plane_count
    if found.observed_generation != found.generation:
        return _control_plane_not_ready(model.OUTDATED_INFORMATION)
    if found.current > found.up_to_date:
        reason = model.IN_PLACE_UPGRADE if cluster.is_in_place else model.ROLLING_UPGRADE
        counts = f"{found.current} upgrading ({found.up_to_date} up to date)"
        return _control_plane_not_ready(reason, f"Control plane nodes not up-to-date yet, {counts}")
    if found.current != expected:
        word, reason = ("up", model.SCALING_UP) if found.current < expected else ("down", model.SCALING_DOWN)
        return _control_plane_not_ready(
            reason, f"Scaling {word} control plane nodes, {expected} expected ({found.current} actual)"
        )
    if found.ready != expected:
        message = f"Control plane nodes not ready yet, {expected} expected ({found.ready} ready)"
        return _control_plane_not_ready(model.NODES_NOT_READY, message)
    return None


def _control_plane_health_condition(found: model.ControlPlane) -> model.Condition | None:
    if found.unhealthy is not None:
        return _control_plane_not_ready(model.CONTROL_PLANE_UNHEALTHY, found.unhealthy, model.ERROR)
    if not found.is_available:
        message = f"Kubeadm control plane {found.name} not ready yet"
        return _control_plane_not_ready(model.KUBEADM_CONTROL_PLANE_NOT_READY, message, model.ERROR)
    return None


def _control_plane_not_ready(reason: str, message: str = "", severity: str = model.INFO) -> model.Condition:
    return false_condition(model.CONTROL_PLANE_READY, reason, severity, message)


def workers_ready_condition(
    initialized: model.Condition,
    groups: Sequence[model.WorkerNodeGroup],
    found: Sequence[MachineDeployment],
    troubles: Mapping[str, str],
) -> model.Condition:
    """Autoscaled groups are left out of every sum. They are looked at when nothing else is wrong."""
    if initialized.status != "True":
        return _workers_not_ready(model.CONTROL_PLANE_NOT_INITIALIZED)
    # Of a group that cannot be used nobody knows what to expect.
    usable = [group for group in groups if group.name not in troubles]
    unusable = {group.machine_deployment for group in groups if group.name in troubles}
    by_name = {each.name: each for each in found}
    is_autoscaled = {group.machine_deployment: group.size.is_autoscaled for group in groups}
    ordered = [by_name[name] for name in is_autoscaled if name in by_name]
    ordered += [each for each in found if each.name not in is_autoscaled]
    static = [each for each in ordered if not is_autoscaled.get(each.name, False) and each.name not in unusable]
    expected = sum(group.size.replicas for group in usable if not group.size.is_autoscaled)
    return (
        _outdated_condition(ordered)
        or _upgrade_condition(static, {group.machine_deployment for group in groups if group.is_in_place})
        or _replicas_condition(static, expected)
        or _limits_condition(usable, by_name)
        or _machine_deployments_condition(ordered, static)
        or _invalid_groups_condition(troubles)
        or true_condition(model.WORKERS_READY)
    )


def _outdated_condition(found: Sequence[MachineDeployment]) -> model.Condition | None:
    for each in found:
        if each.observed_generation != each.generation:
            return _workers_not_ready(
                model.OUTDATED_INFORMATION, f"Worker node group {each.name} status not up to date yet"
            )
    return None


def _upgrade_condition(static: Sequence[MachineDeployment], in_place: set[str]) -> model.Condition | None:
    current, up_to_date = sum(each.current for each in static), sum(each.up_to_date for each in static)
    if current <= up_to_date:
        return None
    is_in_place = any(each.name in in_place for each in static if each.current > each.up_to_date)
    reason = model.IN_PLACE_UPGRADE if is_in_place else model.ROLLING_UPGRADE
    return _workers_not_ready(reason, f"Worker nodes not up-to-date yet, {current} upgrading ({up_to_date} up to date)")


def _replicas_condition(static: Sequence[MachineDeployment], expected: int) -> model.Condition | None:
    current, ready = sum(each.current for each in static), sum(each.ready for each in static)
    if current < expected:
        return _workers_not_ready(model.SCALING_UP, f"Scaling up worker nodes, {expected} expected ({current} actual)")
    if current > expected:
        return _workers_not_ready(
            model.SCALING_DOWN, f"Scaling down worker nodes, {expected} expected ({current} actual)"
        )
    if ready != expected:
        return _workers_not_ready(
            model.NODES_NOT_READY, f"Worker nodes not ready yet, {expected} expected ({ready} ready)"
        )
    return None


def _limits_condition(
    groups: Sequence[model.WorkerNodeGroup], found: Mapping[str, MachineDeployment]
) -> model.Condition | None:
    """A group whose MachineDeployment is not there has no worker."""
    for group in groups:
        name, limits = group.machine_deployment, group.size.limits
        current = found[name].current if name in found else 0
        if limits is not None and not limits.allow(current):
            bounds = f"between {limits.min} and {limits.max}"
            return _workers_not_ready(
                model.CONSTRAINT_NOT_MET, f"Worker nodes count for {name} not {bounds} yet ({current} actual)"
            )
    return None


def _machine_deployments_condition(
    found: Sequence[MachineDeployment], static: Sequence[MachineDeployment]
) -> model.Condition | None:
    """v1beta2 says Available and not Ready. An autoscaled group is not available whenever a node is on its way."""
    for each in found:
        is_unavailable = each in static and each.conditions.get("Available") == "False"
        if each.conditions.get("Ready") == "False" or is_unavailable:
            message = f"Machine deployment {each.name} not ready yet"
            return _workers_not_ready(model.MACHINE_DEPLOYMENT_NOT_READY, message, model.ERROR)
    return None


def _invalid_groups_condition(troubles: Mapping[str, str]) -> model.Condition | None:
    return _workers_not_ready(model.GROUPS_INVALID, "; ".join(troubles.values()), model.ERROR) if troubles else None


def _workers_not_ready(reason: str, message: str = "", severity: str = model.INFO) -> model.Condition:
    return false_condition(model.WORKERS_READY, reason, severity, message)


_OWN_CONDITIONS = (
    model.READY,
    model.CONTROL_PLANE_INITIALIZED,
    model.CONTROL_PLANE_READY,
    model.WORKERS_READY,
    model.DEFAULT_CNI_CONFIGURED,
)

_SEVERITIES = (model.ERROR, model.WARNING, model.INFO)


def true_condition(kind: str) -> model.Condition:
    return model.Condition(kind, "True")


def false_condition(kind: str, reason: str, severity: str = model.INFO, message: str = "") -> model.Condition:
    return model.Condition(kind, "False", reason, severity, message)


def summarize_ready(judged: Sequence[model.Condition]) -> model.Condition:
    """Ready: what is worst, and of several the first. A CNI that is not to be upgraded is no fault."""
    failed = [each for each in judged if each.status == "False" and not _is_expected_failure(each)]
    for severity in _SEVERITIES:
        for each in failed:
            if each.severity == severity:
                return false_condition(model.READY, each.reason, each.severity, each.message)
    if failed:
        return false_condition(model.READY, failed[0].reason, failed[0].severity, failed[0].message)
    return true_condition(model.READY)


def _is_expected_failure(found: model.Condition) -> bool:
    return found.type == model.DEFAULT_CNI_CONFIGURED and found.reason.startswith(model.SKIP_UPGRADES)


def merge_conditions(
    before: Sequence[model.Condition], judged: Sequence[model.Condition], now_s: float
) -> tuple[model.Condition, ...]:
    """Ready first, the others by name. Conditions that someone else wrote stay; a time moves with its status alone."""
    old = {each.type: each for each in before}
    kept = [each for each in before if each.type not in _OWN_CONDITIONS]
    new = [
        dataclasses.replace(each, last_transition_time=_transition_time(each, old.get(each.type), now_s))
        for each in judged
    ]
    return tuple(sorted((*kept, *new), key=lambda each: (each.type != model.READY, each.type)))


def _transition_time(found: model.Condition, before: model.Condition | None, now_s: float) -> str:
    if before is not None and before.status == found.status and before.last_transition_time:
        return before.last_transition_time
    return time_formats.format_time(now_s)
