"""Controller interface: what the operator runs, and what a reconcile gives back.

`Event` is recorded about the reconciled object. `RequeueError` retries the key with backoff. No I/O.
"""

from dataclasses import dataclass
from typing import Protocol

from windlass import errors


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell."""

    type: str
    """`Normal` or `Warning`."""
    reason: str
    message: str
    action: str = ""
    """What was being done; empty where nobody asks for it."""


class Controller(Protocol):
    """Keeps one kind of object as it should be."""

    name: str
    """As it is spelled in `--controllers`."""

    async def run(self) -> None:
        """Until cancelled."""

    def check_ready(self) -> str:
        """Why it does not know what is the case; empty if it does."""


class RequeueError(errors.WindlassError):
    """An object is not as it should be, and cannot be made so now: looked at again later, and later each time."""
