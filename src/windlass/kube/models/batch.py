"""batch: what runs pods to their end."""

from __future__ import annotations

from windlass.kube.models.meta import Condition, Model, Object


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
