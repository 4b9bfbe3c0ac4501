"""Objects of recorded cases as facts, read by the same door that real objects come through."""

from typing import Any

from windlass.autoscaler.observe import nodes, pods, workloads
from windlass.engine import facts
from windlass.kube import models
from windlass.kube.models import apps, batch, core, policy
from windlass.kube.models import pods as pod_models

Json = dict[str, Any]


def pod(json: Json, *, pending: bool = False) -> facts.Pod:
    return pods.read(models.decode_as(pod_models.Pod, json), pending=pending)


def node(json: Json) -> facts.Node:
    return nodes.read(models.decode_as(core.Node, json))


def pdb(json: Json) -> facts.PodDisruptionBudget:
    return workloads.read_budget(models.decode_as(policy.PodDisruptionBudget, json))


def controller(kind: str, json: Json) -> facts.Controller:
    """A ReplicaSet, StatefulSet, ReplicationController, Job or DaemonSet."""
    if kind == "Job":
        return workloads.read_job(models.decode_as(batch.Job, json))
    if kind == "DaemonSet":
        return workloads.read_daemon_set(models.decode_as(apps.DaemonSet, json))
    scaled: dict[str, type[workloads.Scaled]] = {
        "ReplicaSet": apps.ReplicaSet,
        "StatefulSet": apps.StatefulSet,
        "ReplicationController": core.ReplicationController,
    }
    return workloads.read_scaled(models.decode_as(scaled[kind], json))
