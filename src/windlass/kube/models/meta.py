"""Object metadata, label selectors, conditions and Status: meta/v1.

Fields are as narrow as what windlass reads; the rest of an object is skipped while decoding. A field that the API may
leave out or write as null is None here.
"""

from __future__ import annotations

import datetime
from typing import Annotated

import msgspec

Time = Annotated[datetime.datetime, msgspec.Meta(tz=True)]

Amounts = dict[str, str | int | float | None]
"""Unparsed quantities by resource."""


class Model(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all models. Not tracked by the garbage collector, since models are trees."""


class OwnerReference(Model, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class ObjectMeta(Model, frozen=True):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None

    @property
    def key(self) -> str:
        """`namespace/name`, or the bare name of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name or ""

    @property
    def controller(self) -> OwnerReference | None:
        """The controller owner; None if there is none."""
        for owner in self.owner_references or ():  # a generator would take three times as long, for every pod
            if owner.controller:
                return owner
        return None


NO_META = ObjectMeta()


class Object(Model, frozen=True):
    """An object with metadata."""

    metadata: ObjectMeta | None = None

    @property
    def meta(self) -> ObjectMeta:
        return self.metadata or NO_META


class Requirement(Model, frozen=True):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class LabelSelector(Model, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class Condition(Model, frozen=True):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    last_transition_time: Time | None = None


def seconds(time: datetime.datetime | None) -> float | None:
    """Seconds since the epoch."""
    return None if time is None else time.timestamp()


class StatusCause(Model, frozen=True):
    reason: str | None = None
    message: str | None = None
    field: str | None = None


class StatusDetails(Model, frozen=True):
    name: str | None = None
    group: str | None = None
    kind: str | None = None
    uid: str | None = None
    causes: list[StatusCause] | None = None
    retry_after_seconds: int | None = None


class Status(Model, frozen=True):
    status: str | None = None
    """`Success` or `Failure`."""
    message: str | None = None
    reason: str | None = None
    """CamelCase reason, for programs."""
    details: StatusDetails | None = None
    code: int | None = None

    @property
    def causes(self) -> list[StatusCause]:
        return (self.details.causes if self.details else None) or []

    def has_cause(self, reason: str) -> bool:
        return any(cause.reason == reason for cause in self.causes)
