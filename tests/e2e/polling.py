"""Waiting for what is to come, by looking again and again: nothing here waits a fixed time."""

from collections.abc import Callable
from typing import TypeVar

from testbed import api

WITHIN_S = 240.0
"""What takes seconds on an idle machine takes a minute on one that is busy. Only a failure waits so long."""
_POLL_S = 0.25
"""The control plane has two cores at best: looking often makes everything slower."""

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T], until: Callable[[T], object] = bool, within_s: float = WITHIN_S) -> T:
    """What is seen, as soon as it is what is waited for."""
    return api.wait_for(what, look, until, within_s, _POLL_S)
