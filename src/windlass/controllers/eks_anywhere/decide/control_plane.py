"""The control plane's conditions, in EKS Anywhere's order and words."""

from windlass.controllers.eks_anywhere import facts, names
from windlass.controllers.eks_anywhere.decide import conditions


def judge_initialized(seen: facts.Seen, before: facts.Condition | None) -> facts.Condition:
    """Once it is so, it stays so."""
    kind, found = names.CONTROL_PLANE_INITIALIZED, seen.control_plane
    if (before is not None and before.status == "True") or seen.is_initialized_by_other:
        return conditions.true(kind)
    if found is not None and found.observed_generation != found.generation:
        return conditions.false(kind, names.OUTDATED_INFORMATION)
    if found is None or not found.is_available:
        message = "The first control plane instance is not available yet"
        return conditions.false(kind, names.INITIALIZATION_IN_PROGRESS, names.INFO, message)
    return conditions.true(kind)


def judge_ready(
    seen: facts.Seen, initialized: facts.Condition, before: facts.Condition | None
) -> facts.Condition | None:
    """None: nothing is known, and nothing was."""
    if seen.cluster.has_external_etcd and (unready := _judge_etcd(seen.etcd)):
        return unready
    if initialized.status != "True":
        return _false(initialized.reason, initialized.message, initialized.severity)
    found = seen.control_plane
    if found is None:
        return conditions.true(names.CONTROL_PLANE_READY) if seen.is_initialized_by_other else before
    return _judge_nodes(seen.cluster, found) or _judge_health(found) or conditions.true(names.CONTROL_PLANE_READY)


def judge_cni(ready: facts.Condition | None, before: facts.Condition | None) -> facts.Condition | None:
    """The CNI is not ours. Until the control plane is ready nobody can say anything of it; then someone else does."""
    is_ready = ready is not None and ready.status == "True"
    if before is None:
        kind, reason = names.DEFAULT_CNI_CONFIGURED, names.CONTROL_PLANE_NOT_READY
        return None if is_ready else conditions.false(kind, reason)
    return None if is_ready and before.reason == names.CONTROL_PLANE_NOT_READY else before


def _judge_etcd(found: facts.Etcd | None) -> facts.Condition | None:
    if found is None:
        return _false(names.ETCD_NOT_AVAILABLE, "Etcd cluster is not available")
    is_ready = found.is_current and found.is_ready
    return None if is_ready else _false(names.ROLLING_UPGRADE, "Etcd is not ready")


def _judge_nodes(cluster: facts.Cluster, found: facts.ControlPlane) -> facts.Condition | None:
    expected = cluster.control_plane_count
    if found.observed_generation != found.generation:
        return _false(names.OUTDATED_INFORMATION)
    if found.current > found.up_to_date:
        reason = names.IN_PLACE_UPGRADE if cluster.is_in_place else names.ROLLING_UPGRADE
        counts = f"{found.current} upgrading ({found.up_to_date} up to date)"
        return _false(reason, f"Control plane nodes not up-to-date yet, {counts}")
    if found.current != expected:
        word, reason = ("up", names.SCALING_UP) if found.current < expected else ("down", names.SCALING_DOWN)
        return _false(reason, f"Scaling {word} control plane nodes, {expected} expected ({found.current} actual)")
    if found.ready != expected:
        message = f"Control plane nodes not ready yet, {expected} expected ({found.ready} ready)"
        return _false(names.NODES_NOT_READY, message)
    return None


def _judge_health(found: facts.ControlPlane) -> facts.Condition | None:
    if found.unhealthy is not None:
        return _false(names.CONTROL_PLANE_UNHEALTHY, found.unhealthy, names.ERROR)
    if not found.is_available:
        message = f"Kubeadm control plane {found.name} not ready yet"
        return _false(names.KUBEADM_CONTROL_PLANE_NOT_READY, message, names.ERROR)
    return None


def _false(reason: str, message: str = "", severity: str = names.INFO) -> facts.Condition:
    return conditions.false(names.CONTROL_PLANE_READY, reason, severity, message)
