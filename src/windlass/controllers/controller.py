"""What a controller is to the operator that runs it, and what it gets to run with."""

from dataclasses import dataclass
from typing import Protocol

from windlass import errors
from windlass.controllers import metrics
from windlass.kube import client


@dataclass(frozen=True, slots=True)
class Site:
    """Where controllers work."""

    api: client.Client
    measures: metrics.Metrics
    namespace: str = ""
    """The one namespace they look at; empty is all of them."""
    workers: int = 1
    """Objects of one controller that are reconciled at the same time."""


class Controller(Protocol):
    """Keeps one kind of object as it should be."""

    name: str
    """As it is spelled in `--controllers`."""

    async def run(self) -> None:
        """Until cancelled."""

    def complain(self) -> str:
        """Why it does not know what is the case; empty if it does."""


class NotYet(errors.WindlassError):
    """An object is not as it should be, and cannot be made so now: looked at again later, and later each time."""
