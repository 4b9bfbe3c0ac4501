"""decide: what becomes of a Cluster's groups, and what is true of it. Pure."""

from windlass.controllers.eks_anywhere import facts, names
from windlass.controllers.eks_anywhere.decide import conditions, control_plane, validation, workers
from windlass.controllers.eks_anywhere.plan import Plan
from windlass.controllers.worker_pools import applying, manifest
from windlass.controllers.worker_pools.machine_deployments import MachineDeployment
from windlass.kube import managed_fields

NOT_READY_S = 10.0
NO_CLUSTER_S = 5.0


def decide(seen: facts.Seen, now_s: float) -> Plan:
    """The groups are brought into shape; what is said of the workers is said of what is there now."""
    steps, troubles = _plan(seen)
    judged = _judge(seen, troubles)
    cluster = seen.cluster
    status = facts.Status(
        conditions=conditions.merge(cluster.status.conditions, judged, now_s),
        observed_generation=cluster.generation,
        reconciled_generation=_reconciled(seen, troubles),
        failure_reason=names.CLUSTER_INVALID if troubles else "",
        failure_message="; ".join(troubles.values()),
    )
    return Plan(status, steps, _again_s(seen, judged))


def _judge(seen: facts.Seen, troubles: dict[str, str]) -> list[facts.Condition]:
    """The conditions that are ours, in the order in which they are summed up, and the sum."""
    before = {each.type: each for each in seen.cluster.status.conditions}
    initialized = control_plane.judge_initialized(seen, before.get(names.CONTROL_PLANE_INITIALIZED))
    ready = control_plane.judge_ready(seen, initialized, before.get(names.CONTROL_PLANE_READY))
    working = workers.judge(initialized, seen.cluster.groups, seen.machine_deployments, troubles)
    cni = control_plane.judge_cni(ready, before.get(names.DEFAULT_CNI_CONFIGURED))
    found = [each for each in (initialized, ready, working, cni) if each is not None]
    return [*found, conditions.sum_up(found)]


def _plan(seen: facts.Seen) -> tuple[tuple[applying.Step, ...], dict[str, str]]:
    """Steps, and what is wrong, by the group that it is wrong with."""
    if seen.rival:
        return (), {"": f"Cluster {seen.rival} has the same name, and is older"}
    return _plan_groups(seen) if seen.has_capi_cluster else ((), _complain(seen.cluster))


def _plan_groups(seen: facts.Seen) -> tuple[tuple[applying.Step, ...], dict[str, str]]:
    """Steps, and what is wrong with groups, by name. A group that cannot be used stays as it was."""
    live = {each.name: each for each in seen.machine_deployments}
    steps: list[applying.Step] = []
    troubles = _complain(seen.cluster)
    for group in seen.cluster.groups:
        if owner := seen.taken.get(group.machine_deployment):
            why = f"MachineDeployment {group.machine_deployment} belongs to Cluster {owner}; choose another name"
            troubles[group.name] = validation.name(group, why)
        found = live.get(group.machine_deployment)
        if group.name in troubles or (found is not None and found.is_deleting):
            continue
        try:
            step = applying.plan(_want(seen, group), group.size, None, found, names.MANAGER)
        except manifest.Incomplete as incomplete:
            troubles[group.name] = validation.name(group, str(incomplete))
            continue
        if step is not None:
            steps.append(step)
    return (*steps, *_clean_up(seen)), troubles


def _want(seen: facts.Seen, group: facts.Group) -> manifest.Wanted:
    return manifest.Wanted(
        seen.api_version,
        seen.namespace,
        group.machine_deployment,
        seen.cluster.name,
        group.machine,
        group.size.limits,
        group.labels,
    )


def _clean_up(seen: facts.Seen) -> list[applying.Delete]:
    """MachineDeployments of groups that are gone. What we did not make we do not delete."""
    wanted = {group.machine_deployment for group in seen.cluster.groups}
    return [
        applying.Delete(each.name, each.body["metadata"].get("uid") or "")
        for each in seen.machine_deployments
        if each.name not in wanted and not each.is_deleting and _is_ours(each)
    ]


def _is_ours(found: MachineDeployment) -> bool:
    owners = managed_fields.owners(found.body, ("spec", "clusterName"))
    return any((owner.manager, owner.operation) == (names.MANAGER, "Apply") for owner in owners)


def _complain(cluster: facts.Cluster) -> dict[str, str]:
    """What is wrong with groups, by name."""
    return {
        group.name: validation.name(group, why) for group in cluster.groups if (why := validation.check(group.size))
    }


def _reconciled(seen: facts.Seen, troubles: dict[str, str]) -> int | None:
    is_done = seen.has_capi_cluster and not troubles
    return seen.cluster.generation if is_done else seen.cluster.status.reconciled_generation


def _again_s(seen: facts.Seen, judged: list[facts.Condition]) -> float | None:
    if not seen.has_capi_cluster:
        return NO_CLUSTER_S
    return NOT_READY_S if judged[-1].status == "False" else None
