"""coordination.k8s.io: who leads, and since when it was heard of."""

from __future__ import annotations

from windlass.kube.models.meta import Model, Object, Time


class LeaseSpec(Model, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True):
    spec: LeaseSpec | None = None
