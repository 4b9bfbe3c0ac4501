"""What every object has: names, labels, owners. And the selectors and conditions that many have.

Fields are as narrow as what anyone here reads; the rest of an object is passed over while decoding. Whatever the API
may leave out or spell as null is None here.
"""

import datetime
from typing import Annotated

import msgspec

Time = Annotated[datetime.datetime, msgspec.Meta(tz=True)]
Amounts = dict[str, str | int | float | None]
"""Quantities by resource name, as spelled."""


class Model(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all models. Without garbage-collector tracking: models are trees."""


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
        """The owner that manages the object, if any."""
        for owner in self.owner_references or ():  # a generator would cost three times as much, for every pod
            if owner.controller:
                return owner
        return None


NO_META = ObjectMeta()


class Object(Model, frozen=True):
    """A stored object: it has metadata."""

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
