"""batch: what runs pods to their end."""

from __future__ import annotations

from windlass.kube.models.meta import Model, Object


class JobSpec(Model, frozen=True):
    parallelism: int | None = None


class Job(Object, frozen=True):
    spec: JobSpec | None = None
