"""The plan: what is to be done about a MachineAutoscaler, as values."""

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.controllers import telling
from windlass.controllers.openshift import apis
from windlass.controllers.openshift.machine_autoscaler import facts


@dataclass(frozen=True, slots=True)
class Annotate:
    """Annotations of one MachineSet that are to be set, or, where None, taken away; nothing else of it is touched."""

    api: apis.Api
    name: str
    annotations: Mapping[str, str | None]
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Event(telling.Event):
    """Something to tell of a MachineAutoscaler, or of its target."""

    of_target: apis.Api | None = None
    """Told of the target in this API, not of the MachineAutoscaler."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in this order, and what is then said of it. What fails keeps the rest from being done."""

    status: facts.Status
    release: Annotate | None = None
    """What was scaled before, and is no longer."""
    finalizers: tuple[str, ...] | None = None
    """Those that it should have; None: those that it has."""
    target: Annotate | None = None
    events: tuple[Event, ...] = ()
    again_s: float | None = None
    """When to look again in any case."""
