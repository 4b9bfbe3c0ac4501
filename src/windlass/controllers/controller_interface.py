"""Controller interface: what the operator runs, and what a reconcile gives back.

`Event` is recorded about the reconciled object. `RequeueError` retries the key with backoff. No I/O.
"""

from dataclasses import dataclass
from typing import Protocol

from windlass import errors


@dataclass(frozen=True, slots=True)
class Event:
    """An event to record about the reconciled object."""

    type: str
    """`Normal` or `Warning`."""
    reason: str
    message: str
    action: str = ""
    """The `action` field of the event; empty if the event has none."""


class Controller(Protocol):
    """A controller of the operator: reconciles the objects of one kind."""

    name: str
    """The name in `--controllers`."""

    async def run(self) -> None:
        """Run until cancelled."""

    def check_ready(self) -> str:
        """Readiness: the reason why a watch is not in sync; empty if the controller is ready."""


class RequeueError(errors.WindlassError):
    """The reconcile failed: the work queue retries the key with backoff."""


class NotServedError(errors.WindlassError):
    """The server does not serve what a controller needs; the message says what."""
