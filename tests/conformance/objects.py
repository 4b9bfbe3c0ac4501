"""Objects of recorded cases as facts, read by the same door that real objects come through."""

from typing import Any

from windlass import errors, scheduler_releases
from windlass.autoscaler.readers import nodes, pods, workloads
from windlass.engine.model import facts
from windlass.kube import scheme
from windlass.kube.models import core
from windlass.kube.models import pods as pod_models

Json = dict[str, Any]


def pod(
    json: Json,
    *,
    pending: bool = False,
    release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE,
) -> facts.Pod:
    return pods.read_pod(scheme.decode_as(pod_models.Pod, json), pending=pending, release=release)


def node(json: Json) -> facts.Node:
    return nodes.read_node(scheme.decode_as(core.Node, json))


def pdb(json: Json) -> facts.PodDisruptionBudget:
    """A budget as the autoscaler keeps it: one that cannot be parsed allows nothing."""
    budget = scheme.decode_as(pod_models.PodDisruptionBudget, json)
    try:
        return workloads.read_budget(budget)
    except errors.InvalidObject as error:
        return workloads.salvage_budget(budget, str(error))


def controller(kind: str, json: Json) -> facts.Controller:
    """A ReplicaSet, StatefulSet, ReplicationController, Job or DaemonSet."""
    if kind == "Job":
        return workloads.read_job_controller(scheme.decode_as(pod_models.Job, json))
    if kind == "DaemonSet":
        return workloads.read_daemon_set_controller(scheme.decode_as(pod_models.DaemonSet, json))
    scaled: dict[str, type[workloads.ReplicaWorkload]] = {
        "ReplicaSet": pod_models.ReplicaSet,
        "StatefulSet": pod_models.StatefulSet,
        "ReplicationController": core.ReplicationController,
    }
    return workloads.read_replica_controller(scheme.decode_as(scaled[kind], json))
