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


def reconcile_cluster(observed: model.ObservedCluster, now_s: float) -> ClusterPlan:
    """Plan the groups' MachineDeployments; conditions describe the observed state, before the plan is applied."""
    steps, troubles = _plan_steps(observed)
    judged = _compute_conditions(observed, troubles)
    conditions = merge_conditions(observed.cluster.status.conditions, judged, now_s)
    return ClusterPlan(_compute_status(observed, conditions, troubles), steps, _requeue_after_s(observed, judged))


def _compute_status(
    observed: model.ObservedCluster, conditions: tuple[model.Condition, ...], troubles: dict[str, str]
) -> model.ClusterStatus:
    """The status. EKS Anywhere's own controller skips a generation that is marked as reconciled, so its fields stay."""
    cluster = observed.cluster
    if cluster.is_adopted:
        return dataclasses.replace(cluster.status, conditions=conditions)
    return model.ClusterStatus(
        conditions=conditions,
        observed_generation=cluster.generation,
        reconciled_generation=_reconciled_generation(observed, troubles),
        failure_reason=model.CLUSTER_INVALID if troubles else "",
        failure_message="; ".join(troubles.values()),
    )


def _compute_conditions(observed: model.ObservedCluster, troubles: dict[str, str]) -> list[model.Condition]:
    """The conditions of this controller in the order of their summary, and Ready."""
    before = {condition.type: condition for condition in observed.cluster.status.conditions}
    initialized = control_plane_initialized_condition(observed, before.get(model.CONTROL_PLANE_INITIALIZED))
    ready = control_plane_ready_condition(observed, initialized, before.get(model.CONTROL_PLANE_READY))
    working = workers_ready_condition(initialized, observed.cluster.groups, observed.machine_deployments, troubles)
    cni = cni_configured_condition(ready, before.get(model.DEFAULT_CNI_CONFIGURED))
    conditions = [each for each in (initialized, ready, working, cni) if each is not None]
    return [*conditions, summarize_ready(conditions)]


def _plan_steps(
    observed: model.ObservedCluster,
) -> tuple[tuple[machine_deployments.MachineDeploymentStep, ...], dict[str, str]]:
    """Steps, and errors by group."""
    if observed.older_namesake:
        return (), {"": f"Cluster {observed.older_namesake} has the same name, and is older"}
    return _plan_groups(observed) if observed.has_capi_cluster else ((), _validate_groups(observed.cluster))


def _plan_groups(
    observed: model.ObservedCluster,
) -> tuple[tuple[machine_deployments.MachineDeploymentStep, ...], dict[str, str]]:
    """Steps of all groups, and errors by group. An invalid group keeps its MachineDeployment."""
    live = {deployment.name: deployment for deployment in observed.machine_deployments}
    steps: list[machine_deployments.MachineDeploymentStep] = []
    troubles = _validate_groups(observed.cluster)
    by_group = group_deployments(observed.cluster.groups, observed.machine_deployments)
    for group in observed.cluster.groups:
        if group.is_adopted:
            steps += [] if group.name in troubles else _plan_adoptions(observed, group, by_group[group.name])
            continue
        if owner := observed.foreign_owners.get(group.machine_deployment):
            reason = f"MachineDeployment {group.machine_deployment} belongs to Cluster {owner}; choose another name"
            troubles[group.name] = group_error(group, reason)
        machine_deployment = live.get(group.machine_deployment)
        if group.name in troubles or (machine_deployment is not None and machine_deployment.is_deleting):
            continue
        try:
            step = machine_deployments.plan_apply(
                _desired_machine_deployment(observed, group), group.size, None, machine_deployment, model.MANAGER
            )
        except machine_deployments.IncompleteMachineDeployment as incomplete:
            troubles[group.name] = group_error(group, str(incomplete))
            continue
        if step is not None:
            steps.append(step)
    return (*steps, *_plan_deletions(observed)), troubles


def _plan_adoptions(
    observed: model.ObservedCluster, group: model.WorkerNodeGroup, deployments: Sequence[MachineDeployment]
) -> list[machine_deployments.ApplyMachineDeployment]:
    """Steps for the MachineDeployments that EKS Anywhere's own controller made for a group."""
    planned = [
        machine_deployments.plan_adoption(
            deployment,
            group.size,
            model.ADOPTION_MANAGER,
            settled=observed.settled_replicas.get(deployment.name),
            is_whole_pool=len(deployments) == 1,
        )
        for deployment in deployments
        if not deployment.is_deleting
    ]
    return [step for step in planned if step is not None]


def group_deployments(
    groups: Sequence[model.WorkerNodeGroup], deployments: Sequence[MachineDeployment]
) -> dict[str, list[MachineDeployment]]:
    """The MachineDeployments of each group, by the group's name; those of no group are left out.

    A group that is spread over failure domains has one MachineDeployment for each: `<cluster>-<group>-<domain>`.
    """
    found: dict[str, list[MachineDeployment]] = {group.name: [] for group in groups}
    owner = {group.machine_deployment: group.name for group in groups}
    spread = {group.machine_deployment: group.name for group in groups if group.is_adopted}
    for deployment in deployments:
        prefix = deployment.name.removesuffix(f"-{deployment.failure_domain}") if deployment.failure_domain else ""
        name = owner.get(deployment.name) or spread.get(prefix)
        if name is not None:
            found[name].append(deployment)
    return found


def _desired_machine_deployment(
    observed: model.ObservedCluster, group: model.WorkerNodeGroup
) -> machine_deployments.DesiredMachineDeployment:
    return machine_deployments.DesiredMachineDeployment(
        observed.api_version,
        observed.namespace,
        group.machine_deployment,
        observed.cluster.name,
        group.machine,
        group.size.limits,
        group.labels,
    )


def _plan_deletions(observed: model.ObservedCluster) -> list[machine_deployments.DeleteMachineDeployment]:
    """Deletions of MachineDeployments whose group was removed. Only those that this controller applied are deleted."""
    desired = {group.machine_deployment for group in observed.cluster.groups}
    return [
        machine_deployments.DeleteMachineDeployment(deployment.name, deployment.body["metadata"].get("uid") or "")
        for deployment in observed.machine_deployments
        if deployment.name not in desired and not deployment.is_deleting and _is_applied_by_us(deployment)
    ]


def _is_applied_by_us(deployment: MachineDeployment) -> bool:
    """True if it was made here.

    EKS Anywhere's own controller has the same field manager, but leaves this label to Cluster API's webhook.
    """
    label = ("spec", "template", "metadata", "labels", machine_deployments.DEPLOYMENT_NAME_LABEL)
    owners = unstructured.find_field_owners(deployment.body, label)
    return any((owner.manager, owner.operation) == (model.MANAGER, "Apply") for owner in owners)


def _validate_groups(cluster: model.Cluster) -> dict[str, str]:
    """Errors of invalid groups, by name."""
    return {group.name: group_error(group, reason) for group in cluster.groups if (reason := validate_size(group.size))}


def _reconciled_generation(observed: model.ObservedCluster, troubles: dict[str, str]) -> int | None:
    is_done = observed.has_capi_cluster and not troubles
    return observed.cluster.generation if is_done else observed.cluster.status.reconciled_generation


def _requeue_after_s(observed: model.ObservedCluster, judged: list[model.Condition]) -> float | None:
    if not observed.has_capi_cluster:
        return NO_CLUSTER_REQUEUE_S
    return NOT_READY_REQUEUE_S if judged[-1].status == "False" else None


def validate_size(size: PoolSize) -> str:
    """The error in a size; empty if it is valid."""
    if size.limits is None:
        return "" if size.replicas >= 0 else "worker node count must be zero or greater if autoscaling is not enabled"
    if size.limits.min < 0:
        return "min count must be non negative"
    if size.limits.min > size.limits.max:
        return "min count must be no greater than max count"
    return ""


def group_error(group: model.WorkerNodeGroup, reason: str) -> str:
    """An error message with the name of its group."""
    return f"workerNodeGroupConfigurations[{group.name}]: {reason}"


def control_plane_initialized_condition(
    observed: model.ObservedCluster, before: model.Condition | None
) -> model.Condition:
    """ControlPlaneInitialized. Once True, it stays True."""
    kind, control_plane = model.CONTROL_PLANE_INITIALIZED, observed.control_plane
    if (before is not None and before.status == "True") or observed.is_initialized_by_other:
        return true_condition(kind)
    if control_plane is not None and control_plane.observed_generation != control_plane.generation:
        return false_condition(kind, model.OUTDATED_INFORMATION)
    if control_plane is None or not control_plane.is_available:
        message = "The first control plane instance is not available yet"
        return false_condition(kind, model.INITIALIZATION_IN_PROGRESS, model.INFO, message)
    return true_condition(kind)


def control_plane_ready_condition(
    observed: model.ObservedCluster, initialized: model.Condition, before: model.Condition | None
) -> model.Condition | None:
    """ControlPlaneReady; None if the control plane is unknown and the condition was absent."""
    if observed.cluster.has_external_etcd and (unready := _etcd_condition(observed.etcd)):
        return unready
    if initialized.status != "True":
        return _control_plane_not_ready(initialized.reason, initialized.message, initialized.severity)
    control_plane = observed.control_plane
    if control_plane is None:
        return true_condition(model.CONTROL_PLANE_READY) if observed.is_initialized_by_other else before
    return (
        _control_plane_nodes_condition(observed.cluster, control_plane)
        or _control_plane_health_condition(control_plane)
        or true_condition(model.CONTROL_PLANE_READY)
    )


def cni_configured_condition(ready: model.Condition | None, before: model.Condition | None) -> model.Condition | None:
    """DefaultCNIConfigured, which EKS Anywhere's CLI sets. It is written only until the control plane is ready."""
    is_ready = ready is not None and ready.status == "True"
    if before is None:
        kind, reason = model.DEFAULT_CNI_CONFIGURED, model.CONTROL_PLANE_NOT_READY
        return None if is_ready else false_condition(kind, reason)
    return None if is_ready and before.reason == model.CONTROL_PLANE_NOT_READY else before


def _etcd_condition(etcd: model.Etcd | None) -> model.Condition | None:
    if etcd is None:
        return _control_plane_not_ready(model.ETCD_NOT_AVAILABLE, "Etcd cluster is not available")
    is_ready = etcd.is_current and etcd.is_ready
    return None if is_ready else _control_plane_not_ready(model.ROLLING_UPGRADE, "Etcd is not ready")


def _control_plane_nodes_condition(cluster: model.Cluster, control_plane: model.ControlPlane) -> model.Condition | None:
    expected = cluster.control_plane_count
    if control_plane.observed_generation != control_plane.generation:
        return _control_plane_not_ready(model.OUTDATED_INFORMATION)
    if control_plane.current > control_plane.up_to_date:
        reason = model.IN_PLACE_UPGRADE if cluster.is_in_place else model.ROLLING_UPGRADE
        counts = f"{control_plane.current} upgrading ({control_plane.up_to_date} up to date)"
        return _control_plane_not_ready(reason, f"Control plane nodes not up-to-date yet, {counts}")
    if control_plane.current != expected:
        word, reason = ("up", model.SCALING_UP) if control_plane.current < expected else ("down", model.SCALING_DOWN)
        return _control_plane_not_ready(
            reason, f"Scaling {word} control plane nodes, {expected} expected ({control_plane.current} actual)"
        )
    if control_plane.ready != expected:
        message = f"Control plane nodes not ready yet, {expected} expected ({control_plane.ready} ready)"
        return _control_plane_not_ready(model.NODES_NOT_READY, message)
    return None


def _control_plane_health_condition(control_plane: model.ControlPlane) -> model.Condition | None:
    if control_plane.unhealthy is not None:
        return _control_plane_not_ready(model.CONTROL_PLANE_UNHEALTHY, control_plane.unhealthy, model.ERROR)
    if not control_plane.is_available:
        message = f"Kubeadm control plane {control_plane.name} not ready yet"
        return _control_plane_not_ready(model.KUBEADM_CONTROL_PLANE_NOT_READY, message, model.ERROR)
    return None


def _control_plane_not_ready(reason: str, message: str = "", severity: str = model.INFO) -> model.Condition:
    return false_condition(model.CONTROL_PLANE_READY, reason, severity, message)


def workers_ready_condition(
    initialized: model.Condition,
    groups: Sequence[model.WorkerNodeGroup],
    deployments: Sequence[MachineDeployment],
    troubles: Mapping[str, str],
) -> model.Condition:
    """WorkersReady. Autoscaled groups are excluded from counts; their limits are checked last."""
    if initialized.status != "True":
        return _workers_not_ready(model.CONTROL_PLANE_NOT_INITIALIZED)
    # The expected replicas of an invalid group are unknown.
    usable = [group for group in groups if group.name not in troubles]
    by_group = group_deployments(groups, deployments)
    grouped = {each.name: group for group in groups for each in by_group[group.name]}
    ordered = [deployment for group in groups for deployment in by_group[group.name]]
    ordered += [deployment for deployment in deployments if deployment.name not in grouped]
    static = [each for each in ordered if _is_counted(grouped.get(each.name), troubles)]
    expected = sum(group.size.replicas for group in usable if not group.size.is_autoscaled)
    in_place = {name for name, group in grouped.items() if group.is_in_place}
    return (
        _outdated_condition(ordered)
        or _upgrade_condition(static, in_place)
        or _replicas_condition(static, expected)
        or _limits_condition(usable, by_group, in_place)
        or _machine_deployments_condition(ordered, static)
        or _invalid_groups_condition(troubles)
        or true_condition(model.WORKERS_READY)
    )


def _is_counted(group: model.WorkerNodeGroup | None, troubles: Mapping[str, str]) -> bool:
    """True unless the MachineDeployment's group is autoscaled or invalid. One without a group counts."""
    return group is None or not (group.size.is_autoscaled or group.name in troubles)


def _outdated_condition(deployments: Sequence[MachineDeployment]) -> model.Condition | None:
    for deployment in deployments:
        if deployment.observed_generation != deployment.generation:
            return _workers_not_ready(
                model.OUTDATED_INFORMATION, f"Worker node group {deployment.name} status not up to date yet"
            )
    return None


def _upgrade_condition(static: Sequence[MachineDeployment], in_place: set[str]) -> model.Condition | None:
    current, up_to_date = (
        sum(deployment.current for deployment in static),
        sum(machine_deployment.up_to_date for machine_deployment in static),
    )
    if current <= up_to_date:
        return None
    is_in_place = any(each.name in in_place for each in static if each.current > each.up_to_date)
    reason = model.IN_PLACE_UPGRADE if is_in_place else model.ROLLING_UPGRADE
    return _workers_not_ready(reason, f"Worker nodes not up-to-date yet, {current} upgrading ({up_to_date} up to date)")


def _replicas_condition(static: Sequence[MachineDeployment], expected: int) -> model.Condition | None:
    current, ready = (
        sum(deployment.current for deployment in static),
        sum(machine_deployment.ready for machine_deployment in static),
    )
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
    groups: Sequence[model.WorkerNodeGroup], by_group: Mapping[str, Sequence[MachineDeployment]], in_place: set[str]
) -> model.Condition | None:
    """Limits of autoscaled groups. A missing MachineDeployment counts as 0 replicas.

    Each MachineDeployment of a group that is spread over failure domains has the group's limits. One that has more
    Machines than its maximum because it replaces them is upgrading.
    """
    for group in groups:
        limits = group.size.limits
        for deployment in by_group[group.name] or [MachineDeployment(group.machine_deployment)]:
            if limits is None or limits.allow(deployment.current):
                continue
            is_surge = deployment.up_to_date < deployment.current > limits.max
            if is_surge and deployment.replicas is not None and limits.allow(deployment.replicas):
                return _upgrade_condition([deployment], in_place)
            bounds, current = f"between {limits.min} and {limits.max}", deployment.current
            return _workers_not_ready(
                model.CONSTRAINT_NOT_MET,
                f"Worker nodes count for {deployment.name} not {bounds} yet ({current} actual)",
            )
    return None


def _machine_deployments_condition(
    deployments: Sequence[MachineDeployment], static: Sequence[MachineDeployment]
) -> model.Condition | None:
    """MachineDeployments that are not ready.

    v1beta2 has the condition Available in place of Ready. Autoscaled groups are excluded: they are unavailable whenever
    a node is being added.
    """
    for deployment in deployments:
        is_unavailable = deployment in static and deployment.conditions.get("Available") == "False"
        if deployment.conditions.get("Ready") == "False" or is_unavailable:
            message = f"Machine deployment {deployment.name} not ready yet"
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
    """Ready: the worst condition by severity, the first of equals. A CNI that is not upgraded does not count."""
    failed = [condition for condition in judged if condition.status == "False" and not _is_expected_failure(condition)]
    for severity in _SEVERITIES:
        for each in failed:
            if each.severity == severity:
                return false_condition(model.READY, each.reason, each.severity, each.message)
    if failed:
        return false_condition(model.READY, failed[0].reason, failed[0].severity, failed[0].message)
    return true_condition(model.READY)


def _is_expected_failure(condition: model.Condition) -> bool:
    return condition.type == model.DEFAULT_CNI_CONFIGURED and condition.reason.startswith(model.SKIP_UPGRADES)


def merge_conditions(
    before: Sequence[model.Condition], judged: Sequence[model.Condition], now_s: float
) -> tuple[model.Condition, ...]:
    """Merge conditions: Ready first, the others by type. Conditions of other writers stay.

    The transition time changes with the status only.
    """
    old = {condition.type: condition for condition in before}
    kept = [each for each in before if each.type not in _OWN_CONDITIONS]
    new = [
        dataclasses.replace(each, last_transition_time=_transition_time(each, old.get(each.type), now_s))
        for each in judged
    ]
    return tuple(sorted((*kept, *new), key=lambda each: (each.type != model.READY, each.type)))


def _transition_time(condition: model.Condition, before: model.Condition | None, now_s: float) -> str:
    if before is not None and before.status == condition.status and before.last_transition_time:
        return before.last_transition_time
    return time_formats.format_time(now_s)
