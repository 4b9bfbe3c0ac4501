"""The plan: what is to be done about a ClusterAutoscaler, as values."""

from dataclasses import dataclass
from typing import Any

from windlass.controllers.openshift.cluster_autoscaler.facts import Json
from windlass.controllers.telling import Event
from windlass.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class Ensure:
    """An object that is to be made, or, if `live` is there, to be replaced."""

    resource: Resource[Any]
    body: dict[str, Any]
    live: Json | None = None

    @property
    def name(self) -> str:
        name: str = self.body["metadata"]["name"]
        return name


@dataclass(frozen=True, slots=True)
class Delete:
    """An object that is to go."""

    resource: Resource[Any]
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in this order, and what is then said of it. What fails keeps the rest from being done."""

    steps: tuple[Ensure | Delete, ...] = ()
    conditions: tuple[Json, ...] = ()
    events: tuple[Event, ...] = ()
    """What is told when all is done."""
    failure: str = ""
    """Why nothing can be done now, and must be later; empty if there is no such thing."""
