"""Telling: an event as a value, before anyone records it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell."""

    type: str
    """`Normal` or `Warning`."""
    reason: str
    message: str
    action: str = ""
    """What was being done; empty where nobody asks for it."""
