"""The plan: what is to be done about a Cluster, as values."""

from dataclasses import dataclass

from windlass.controllers.eks_anywhere import facts
from windlass.controllers.worker_pools import applying


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, and what is then said of it."""

    status: facts.Status
    steps: tuple[applying.Step, ...] = ()
    again_s: float | None = None
    """When to look again in any case."""
