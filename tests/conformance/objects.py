"""Objects of recorded cases as facts, read by the same door that real objects come through."""

from typing import Any

from windlass import errors, releases
from windlass.autoscaler.observe import nodes, pods, workloads
from windlass.engine import facts
from windlass.kube import models
from windlass.kube.models import apps, batch, core, policy
from windlass.kube.models import pods as pod_models

Json = dict[str, Any]


def pod(json: Json, *, pending: bool = False, release: releases.Release = releases.DEFAULT) -> facts.Pod:
    return pods.read(models.decode_as(pod_models.Pod, json), pending=pending, release=release)


def node(json: Json) -> facts.Node:
    return nodes.read(models.decode_as(core.Node, json))


def pdb(json: Json) -> facts.PodDisruptionBudget:
    """A budget as the autoscaler keeps it: one that cannot be parsed allows nothing."""
    budget = models.decode_as(policy.PodDisruptionBudget, json)
    try:
        return workloads.read_budget(budget)
    except errors.InvalidObject as error:
        return workloads.salvage_budget(budget, str(error))


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
