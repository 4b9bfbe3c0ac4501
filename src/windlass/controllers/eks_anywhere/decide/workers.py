"""WorkersReady: whether static groups are complete, and autoscaled ones in their bounds. The first match decides."""

from collections.abc import Mapping, Sequence

from windlass.controllers.eks_anywhere import facts, names
from windlass.controllers.eks_anywhere.decide import conditions
from windlass.controllers.worker_pools.machine_deployments import MachineDeployment


def judge(
    initialized: facts.Condition,
    groups: Sequence[facts.Group],
    found: Sequence[MachineDeployment],
    troubles: Mapping[str, str],
) -> facts.Condition:
    """Autoscaled groups are left out of every sum. They are looked at when nothing else is wrong."""
    if initialized.status != "True":
        return _false(names.CONTROL_PLANE_NOT_INITIALIZED)
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
        _judge_news(ordered)
        or _judge_upgrade(static, {group.machine_deployment for group in groups if group.is_in_place})
        or _judge_counts(static, expected)
        or _judge_bounds(usable, by_name)
        or _judge_deployments(ordered, static)
        or _judge_troubles(troubles)
        or conditions.true(names.WORKERS_READY)
    )


def _judge_news(found: Sequence[MachineDeployment]) -> facts.Condition | None:
    for each in found:
        if each.observed_generation != each.generation:
            return _false(names.OUTDATED_INFORMATION, f"Worker node group {each.name} status not up to date yet")
    return None


def _judge_upgrade(static: Sequence[MachineDeployment], in_place: set[str]) -> facts.Condition | None:
    current, up_to_date = sum(each.current for each in static), sum(each.up_to_date for each in static)
    if current <= up_to_date:
        return None
    is_in_place = any(each.name in in_place for each in static if each.current > each.up_to_date)
    reason = names.IN_PLACE_UPGRADE if is_in_place else names.ROLLING_UPGRADE
    return _false(reason, f"Worker nodes not up-to-date yet, {current} upgrading ({up_to_date} up to date)")


def _judge_counts(static: Sequence[MachineDeployment], expected: int) -> facts.Condition | None:
    current, ready = sum(each.current for each in static), sum(each.ready for each in static)
    if current < expected:
        return _false(names.SCALING_UP, f"Scaling up worker nodes, {expected} expected ({current} actual)")
    if current > expected:
        return _false(names.SCALING_DOWN, f"Scaling down worker nodes, {expected} expected ({current} actual)")
    if ready != expected:
        return _false(names.NODES_NOT_READY, f"Worker nodes not ready yet, {expected} expected ({ready} ready)")
    return None


def _judge_bounds(groups: Sequence[facts.Group], found: Mapping[str, MachineDeployment]) -> facts.Condition | None:
    """A group whose MachineDeployment is not there has no worker."""
    for group in groups:
        name, limits = group.machine_deployment, group.size.limits
        current = found[name].current if name in found else 0
        if limits is not None and not limits.allow(current):
            bounds = f"between {limits.min} and {limits.max}"
            return _false(
                names.CONSTRAINT_NOT_MET, f"Worker nodes count for {name} not {bounds} yet ({current} actual)"
            )
    return None


def _judge_deployments(
    found: Sequence[MachineDeployment], static: Sequence[MachineDeployment]
) -> facts.Condition | None:
    """v1beta2 says Available and not Ready. An autoscaled group is not available whenever a node is on its way."""
    for each in found:
        is_unavailable = each in static and each.conditions.get("Available") == "False"
        if each.conditions.get("Ready") == "False" or is_unavailable:
            message = f"Machine deployment {each.name} not ready yet"
            return _false(names.MACHINE_DEPLOYMENT_NOT_READY, message, names.ERROR)
    return None


def _judge_troubles(troubles: Mapping[str, str]) -> facts.Condition | None:
    return _false(names.GROUPS_INVALID, "; ".join(troubles.values()), names.ERROR) if troubles else None


def _false(reason: str, message: str = "", severity: str = names.INFO) -> facts.Condition:
    return conditions.false(names.WORKERS_READY, reason, severity, message)
