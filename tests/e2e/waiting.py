"""Waiting for what is to come, by looking again and again: nothing here waits a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

WITHIN_S = 90.0
_POLL_S = 0.25
"""The control plane has two cores at best: looking often makes everything slower."""

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T], until: Callable[[T], object] = bool, within_s: float = WITHIN_S) -> T:
    """What is seen, as soon as it is what is waited for."""
    deadline_s = time.monotonic() + within_s
    while not until(seen := look()):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"not within {within_s:g} s: {what}; last seen: {seen!r:.2000}")
        time.sleep(_POLL_S)
    return seen
