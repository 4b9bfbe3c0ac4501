"""Events: what happened to an object, for people to read."""

from __future__ import annotations

from windlass.kube.models.meta import Model, Object, Time


class InvolvedObject(Model, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class EventSource(Model, frozen=True):
    component: str | None = None
    host: str | None = None


class Event(Object, frozen=True):
    involved_object: InvolvedObject | None = None
    type: str | None = None
    """`Normal` or `Warning`."""
    reason: str | None = None
    message: str | None = None
    source: EventSource | None = None
    count: int | None = None
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    reporting_component: str | None = None
