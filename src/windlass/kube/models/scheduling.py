"""scheduling.k8s.io: who goes first."""

from __future__ import annotations

from windlass.kube.models.meta import Object


class PriorityClass(Object, frozen=True):
    value: int | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None
