"""apps: what keeps pods in number."""

from __future__ import annotations

from windlass.kube.models import core
from windlass.kube.models.meta import Object


class ReplicaSet(Object, frozen=True):
    spec: core.Scale | None = None
    status: core.Scale | None = None


class StatefulSet(Object, frozen=True):
    spec: core.Scale | None = None
    status: core.Scale | None = None


class Deployment(Object, frozen=True):
    spec: core.Scale | None = None
    status: core.Scale | None = None


class DaemonSet(Object, frozen=True):
    """That it exists is all that anyone reads."""
