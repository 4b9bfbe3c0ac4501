"""The plan: what is to be done about a LatticeCluster, as values."""

from dataclasses import dataclass

from windlass.controllers.lattice import facts
from windlass.controllers.telling import Event
from windlass.controllers.worker_pools import applying


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, and what is then said of it."""

    status: facts.Status
    steps: tuple[applying.Step, ...] = ()
    events: tuple[Event, ...] = ()
    wants_autoscaler: bool = False
