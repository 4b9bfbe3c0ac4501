"""Status: the API's answer when it has no object to give."""

from __future__ import annotations

from windlass.kube.models.meta import Model


class Cause(Model, frozen=True):
    reason: str | None = None
    message: str | None = None
    field: str | None = None


class Details(Model, frozen=True):
    name: str | None = None
    group: str | None = None
    kind: str | None = None
    uid: str | None = None
    causes: list[Cause] | None = None
    retry_after_seconds: int | None = None


class Status(Model, frozen=True):
    status: str | None = None
    """`Success` or `Failure`."""
    message: str | None = None
    reason: str | None = None
    """In a word, for programs."""
    details: Details | None = None
    code: int | None = None

    @property
    def causes(self) -> list[Cause]:
        return (self.details.causes if self.details else None) or []

    def has_cause(self, reason: str) -> bool:
        return any(cause.reason == reason for cause in self.causes)
