"""Workload controllers, disruption budgets and priority classes.

API groups: apps, batch, policy, scheduling.k8s.io.
"""

from __future__ import annotations

from windlass.kube.models import core, meta, pods
from windlass.kube.models.meta import Condition, Model, Object


class ReplicaSet(Object, frozen=True):
    spec: core.Scale | None = None
    status: core.Scale | None = None


class StatefulSetSpec(core.Scale, frozen=True):
    pod_management_policy: str | None = None


class StatefulSet(Object, frozen=True):
    spec: StatefulSetSpec | None = None
    status: core.Scale | None = None


class Deployment(Object, frozen=True):
    spec: core.Scale | None = None
    status: core.Scale | None = None


class DaemonSetSpec(Model, frozen=True):
    template: pods.PodTemplateSpec | None = None


class DaemonSet(Object, frozen=True):
    spec: DaemonSetSpec | None = None


class JobSpec(Model, frozen=True):
    parallelism: int | None = None
    completions: int | None = None


class JobStatus(Model, frozen=True):
    active: int | None = None
    terminating: int | None = None
    succeeded: int | None = None
    conditions: list[Condition] | None = None


class Job(Object, frozen=True):
    spec: JobSpec | None = None
    status: JobStatus | None = None


class PodDisruptionBudgetSpec(Model, frozen=True):
    selector: meta.LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Model, frozen=True):
    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    observed_generation: int | None = None


class PodDisruptionBudget(Object, frozen=True):
    spec: PodDisruptionBudgetSpec | None = None
    status: PodDisruptionBudgetStatus | None = None


class PriorityClass(Object, frozen=True):
    value: int | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None
