"""Services."""

from __future__ import annotations

from windlass.kube.models.meta import Model, Object


class ServiceSpec(Model, frozen=True):
    type: str | None = None
    selector: dict[str, str] | None = None


class Service(Object, frozen=True):
    spec: ServiceSpec | None = None
