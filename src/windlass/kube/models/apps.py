"""apps: what keeps pods in number."""

from __future__ import annotations

from windlass.kube.models import core, templates
from windlass.kube.models.meta import Model, Object


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
    template: templates.PodTemplateSpec | None = None


class DaemonSet(Object, frozen=True):
    spec: DaemonSetSpec | None = None
