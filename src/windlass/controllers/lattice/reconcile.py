"""Lattice reconcile: MachineDeployments of the pools, pool status, events; the autoscaler's manifests. Pure.

Each pool is reconciled by itself: an invalid one keeps its MachineDeployment unchanged and says why. The
MachineDeployments of a LatticeCluster of lattice.dev are adopted. The autoscaler runs in the cluster that it scales,
without kubeconfig, with the RBAC rules given in the settings.
"""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass.controllers import machine_deployments
from windlass.controllers.controller_interface import Event
from windlass.controllers.lattice import model
from windlass.controllers.lattice.model import LatticePlan, LatticeSettings
from windlass.controllers.machine_deployments import MachineDeployment
from windlass.kube import rbac
from windlass.kube.resources import DEPLOYMENTS, NAMESPACES, Resource, Unstructured


@dataclass(frozen=True, slots=True)
class PoolResult:
    """Step, status and events of one pool."""

    status: model.WorkerPoolStatus
    step: machine_deployments.ApplyMachineDeployment | None = None
    event: Event | None = None
    is_usable: bool = True


def reconcile_lattice_cluster(observed_lattice_cluster: model.ObservedLatticeCluster) -> LatticePlan:
    """Reconcile each pool separately; an invalid pool keeps its MachineDeployment."""
    if observed_lattice_cluster.cluster.is_adopted:
        return _reconcile_adopted_cluster(observed_lattice_cluster)
    verdicts = {
        pool.id: reconcile_pool(observed_lattice_cluster, pool) for pool in observed_lattice_cluster.cluster.pools
    }
    is_autoscaled = {pool.id: pool.size.is_autoscaled for pool in observed_lattice_cluster.cluster.pools}
    return LatticePlan(
        model.LatticeClusterStatus(
            observed_lattice_cluster.cluster.generation,
            {name: pool_result.status for name, pool_result in verdicts.items()},
        ),
        tuple(each.step for each in verdicts.values() if each.step is not None),
        tuple(each.event for each in verdicts.values() if each.event is not None),
        any(each.is_usable and is_autoscaled[name] for name, each in verdicts.items()),
    )


def _reconcile_adopted_cluster(observed: model.ObservedLatticeCluster) -> LatticePlan:
    """Steps and events of a LatticeCluster that Lattice's own operator reconciles. Its status is not ours."""
    cluster = observed.cluster
    troubles = {pool.id: trouble for pool in cluster.pools if (trouble := validate_adopted_pool(pool))}
    usable = [pool for pool in cluster.pools if pool.id not in troubles]
    found = [(pool, observed.machine_deployments.get(_deployment_name(cluster, pool))) for pool in usable]
    present = [(pool, live) for pool, live in found if live is not None and not live.is_deleting]
    steps = [machine_deployments.plan_adoption(live, pool.size, model.ADOPTION_MANAGER) for pool, live in present]
    events = [
        _warning(model.POOL_INVALID, f"worker pool '{name}': {trouble}") for name, trouble in sorted(troubles.items())
    ]
    if cluster.control_plane_replicas % 2 == 0:
        events.append(_warning(model.CONTROL_PLANE_INVALID, "control plane count must be odd for HA (1, 3, 5, ...)"))
    is_autoscaled = any(pool.size.is_autoscaled for pool, _ in present)
    if is_autoscaled and observed.undiscovered_warning:
        events.append(_warning(model.POOLS_NOT_DISCOVERED, observed.undiscovered_warning))
    return LatticePlan(cluster.status, tuple(step for step in steps if step is not None), tuple(events), is_autoscaled)


def _warning(reason: str, message: str) -> Event:
    return Event("Warning", reason, message, model.RECONCILING)


def _deployment_name(cluster: model.LatticeCluster, pool: model.WorkerPool) -> str:
    return model.machine_deployment_name(cluster.name, pool.id)


def reconcile_pool(observed_lattice_cluster: model.ObservedLatticeCluster, pool: model.WorkerPool) -> PoolResult:
    name = model.machine_deployment_name(observed_lattice_cluster.cluster.name, pool.id)
    live = observed_lattice_cluster.machine_deployments.get(name)
    before = observed_lattice_cluster.cluster.status.pools.get(pool.id)
    step = None
    trouble = validate_pool_id(pool.id) or validate_pool(pool)
    if live is not None and live.cluster not in ("", observed_lattice_cluster.cluster.name):
        # Names may collide: cluster `a` with pool `b-pool-c`, and cluster `a-pool-b` with pool `c`.
        trouble = f"MachineDeployment {name} belongs to Cluster {live.cluster}; choose another id"
        live = None
    if not trouble and (live is None or not live.is_deleting):
        desired = machine_deployments.DesiredMachineDeployment(
            observed_lattice_cluster.api_version,
            observed_lattice_cluster.cluster.namespace,
            name,
            observed_lattice_cluster.cluster.name,
            pool.machine,
            pool.size.limits,
            pool.labels,
        )
        try:
            step = machine_deployments.plan_apply(desired, pool.size, initial_replicas(pool), live, model.MANAGER)
        except machine_deployments.IncompleteMachineDeployment as incomplete:
            trouble = str(incomplete)
    if trouble:
        message, event = f"pool '{pool.id}': {trouble}", model.POOL_INVALID
    elif pool.size.is_autoscaled and observed_lattice_cluster.undiscovered_warning:
        message, event = observed_lattice_cluster.undiscovered_warning, model.POOLS_NOT_DISCOVERED
    else:
        message, event = ignored_replicas_warning(pool) or "", model.REPLICAS_IGNORED
    is_news = bool(message) and (before is None or before.message != message)
    event_to_record = Event("Warning", event, message, model.RECONCILING) if is_news else None
    return PoolResult(build_pool_status(pool, live, message or None), step, event_to_record, not trouble)


def initial_replicas(pool: model.WorkerPool) -> int:
    """Replicas of a new pool; an autoscaled pool starts with its minimum at least."""
    limits = pool.size.limits
    return pool.size.replicas if limits is None else max(limits.min, pool.size.replicas)


def ignored_replicas_warning(pool: model.WorkerPool) -> str | None:
    """A warning if `replicas` of an autoscaled pool is outside its limits, and so has no effect."""
    limits = pool.size.limits
    if limits is None or pool.replicas is None or limits.allow(pool.replicas):
        return None
    bounds = f"[{limits.min}, {limits.max}]"
    return f"pool '{pool.id}': replicas ({pool.replicas}) ignored, autoscaler will manage within {bounds}"


def build_pool_status(
    pool: model.WorkerPool, live: MachineDeployment | None, message: str | None
) -> model.WorkerPoolStatus:
    """Status of a pool. Counts always come from the MachineDeployment, also for autoscaled pools."""
    return model.WorkerPoolStatus(
        desired_replicas=0 if live is None else live.replicas or 0,
        current_replicas=0 if live is None else live.current,
        ready_replicas=0 if live is None else live.ready,
        autoscaling_enabled=pool.size.is_autoscaled,
        autoscaling_min=pool.min,
        autoscaling_max=pool.max,
        message=message,
    )


_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)

_MAX_LABEL_CHARACTERS = 63


def validate_pool(pool: model.WorkerPool) -> str:
    """The error in a pool's spec; empty if it is valid."""
    if (pool.min is None) != (pool.max is None):
        return "min and max must both be set or both unset"
    for name, found in (("replicas", pool.replicas), ("min", pool.min), ("max", pool.max)):
        if found is not None and found < 0:
            return f"{name} ({found}) must be greater than or equal to 0"
    if pool.min is not None and pool.max is not None:
        if pool.min > pool.max:
            return f"min ({pool.min}) cannot exceed max ({pool.max})"
        if pool.min == 0:
            return "scale-from-zero not supported (min must be >= 1)"
    return ""


def validate_adopted_pool(pool: model.WorkerPool) -> str:
    """The error in a pool of lattice.dev, in the words of Lattice's own operator; empty if it is valid."""
    if (pool.min is None) != (pool.max is None):
        return "min and max must both be set or both unset"
    if pool.min is None or pool.max is None:
        return ""
    if pool.min > pool.max:
        return f"min ({pool.min}) cannot exceed max ({pool.max})"
    if pool.min == 0 and not pool.has_instance_type:
        return "scale-from-zero (min=0) requires instance_type to be set"
    if pool.min == 0 and not pool.is_capacity_known:
        return "scale-from-zero with named instance types requires capacity hints"
    return ""


def validate_pool_id(name: str) -> str:
    if _DNS_LABEL.fullmatch(name) and len(name) <= _MAX_LABEL_CHARACTERS:
        return ""
    return f"pool id '{name}' is not a valid DNS label"


Json = dict[str, Any]

Manifest = tuple[Resource[Unstructured], Json]

_AUTOSCALER_LABELS = {"app": model.AUTOSCALER}

_AUTOSCALER_PROGRAM = "/cluster-autoscaler"
"""In windlass' image and in Cluster Autoscaler's; both take the flags."""

_METRICS_PORT = 8085
"""The port of health and metrics that both listen on by default."""

_USER = 65532


def autoscaler_flags(settings: LatticeSettings) -> list[str]:
    return [
        "--cloud-provider=clusterapi",
        f"--node-group-auto-discovery=clusterapi:namespace={settings.autoscaler_discovery}",
        "--scale-down-delay-after-add=5m",
        "--scale-down-unneeded-time=5m",
        "--skip-nodes-with-local-storage=false",
        f"--namespace={model.SYSTEM_NAMESPACE}",
    ]


_DISCOVERY_FLAG = "--node-group-auto-discovery"


def parse_discovered_namespaces(deployment: Mapping[str, Any], cluster: str) -> frozenset[str]:
    """The namespaces in which an autoscaler's Deployment discovers a cluster's pools, `""` for all.

    Without the flag it discovers pools in all namespaces; without replicas, in none.
    """
    spec = deployment.get("spec") or {}
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or ()
    words = [word for item in containers for word in (*(item.get("command") or ()), *(item.get("args") or ()))]
    values = [word.partition("=")[2] for word in words if word.startswith(f"{_DISCOVERY_FLAG}=")]
    values += [after for word, after in itertools.pairwise(words) if word == _DISCOVERY_FLAG]
    if spec.get("replicas") == 0:
        return frozenset()
    found = set()
    for value in values or [""]:
        pairs = dict(pair.partition("=")[::2] for pair in value.partition(":")[2].split(","))
        if pairs.get("clusterName") in (None, "", cluster):
            found.add(pairs.get("namespace") or "")
    return frozenset(found)


def autoscaler_manifests(settings: LatticeSettings) -> list[Manifest]:
    """All manifests of the autoscaler, ordered so that each depends on earlier ones only."""
    handed = settings.autoscaler_rights
    subject = {"kind": "ServiceAccount", "name": model.AUTOSCALER, "namespace": model.SYSTEM_NAMESPACE}
    return [
        (NAMESPACES.untyped(), {"metadata": {"name": model.SYSTEM_NAMESPACE}}),
        _named_object("v1", "ServiceAccount", True),
        _named_object(rbac.VERSION, "ClusterRole", False, rules=rbac.to_policy_rules(handed.cluster)),
        _role_binding("ClusterRole", subject, is_namespaced=False),
        _named_object(rbac.VERSION, "Role", True, rules=rbac.to_policy_rules(handed.own)),
        _role_binding("Role", subject, is_namespaced=True),
        (DEPLOYMENTS.untyped(), {"metadata": _metadata(True), "spec": _build_deployment_spec(settings)}),
    ]


def _named_object(version: str, kind: str, is_namespaced: bool, **fields: Any) -> Manifest:
    resource = Resource(version, f"{kind.lower()}s", kind, is_namespaced, Unstructured)
    return resource, {"metadata": _metadata(is_namespaced), **fields}


def _role_binding(role: str, subject: Json, *, is_namespaced: bool) -> Manifest:
    reference = {"apiGroup": rbac.GROUP, "kind": role, "name": model.AUTOSCALER}
    return _named_object(rbac.VERSION, f"{role}Binding", is_namespaced, roleRef=reference, subjects=[subject])


def _metadata(is_namespaced: bool) -> Json:
    named = {"name": model.AUTOSCALER, "labels": _AUTOSCALER_LABELS}
    return {**named, "namespace": model.SYSTEM_NAMESPACE} if is_namespaced else named


def _build_deployment_spec(settings: LatticeSettings) -> Json:
    seccomp = {"seccompProfile": {"type": "RuntimeDefault"}, "runAsNonRoot": True}
    container = {
        "name": model.AUTOSCALER,
        "image": settings.autoscaler_image,
        "command": [_AUTOSCALER_PROGRAM, *autoscaler_flags(settings)],
        "ports": [{"name": "metrics", "containerPort": _METRICS_PORT, "protocol": "TCP"}],
        "livenessProbe": {"httpGet": {"path": "/health-check", "port": "metrics"}, "initialDelaySeconds": 10},
        "resources": {"requests": {"cpu": "100m", "memory": "300Mi"}, "limits": {"memory": "600Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    pod = {
        "serviceAccountName": model.AUTOSCALER,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {**seccomp, "runAsUser": _USER, "runAsGroup": _USER},
        "containers": [container],
    }
    template = {"metadata": {"labels": _AUTOSCALER_LABELS}, "spec": pod}
    return {"replicas": 1, "selector": {"matchLabels": _AUTOSCALER_LABELS}, "template": template}
