"""policy: how many pods may go at a time."""

from __future__ import annotations

from windlass.kube.models import meta
from windlass.kube.models.meta import Model, Object


class PodDisruptionBudgetSpec(Model, frozen=True):
    selector: meta.LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Model, frozen=True):
    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None


class PodDisruptionBudget(Object, frozen=True):
    spec: PodDisruptionBudgetSpec | None = None
    status: PodDisruptionBudgetStatus | None = None
