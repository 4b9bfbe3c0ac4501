"""Comparing: whether an object holds what is wanted of it. Besides, it may hold what was filled in."""

from collections.abc import Mapping
from typing import Any


def holds(found: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there. Maps may have more than that; lists have each item in its place, no more."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(holds(found.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(holds, found, wanted))
    return bool(found == wanted)
