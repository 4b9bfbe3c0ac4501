"""Conditions: what is the case with an object, and since when.

`lastTransitionTime` says when the status last changed: a new reason or message does not move it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from windlass.kube import times

Condition = Mapping[str, Any]


def find(conditions: Iterable[Condition] | None, kind: str) -> Condition | None:
    """The condition of a type, if the object has it."""
    return next((condition for condition in conditions or () if condition.get("type") == kind), None)


def is_true(conditions: Iterable[Condition] | None, kind: str) -> bool:
    found = find(conditions, kind)
    return found is not None and found.get("status") == "True"


def put(
    conditions: Iterable[Condition] | None,
    kind: str,
    status: bool | None,
    reason: str,
    message: str,
    now_s: float,
    *,
    observed_generation: int | None = None,
) -> list[Condition]:
    """The conditions with this one in its place, or behind the others if it is new. A status of None is `Unknown`."""
    before = list(conditions or ())
    new: dict[str, Any] = {
        "type": kind,
        "status": "Unknown" if status is None else str(status),
        "reason": reason,
        "message": message,
    }
    if observed_generation is not None:
        new["observedGeneration"] = observed_generation
    old = find(before, kind)
    same = old is not None and old.get("status") == new["status"] and old.get("lastTransitionTime")
    new["lastTransitionTime"] = same or times.spell(now_s)
    if old is None:
        return [*before, new]
    return [new if condition is old else condition for condition in before]


def drop(conditions: Iterable[Condition] | None, kind: str) -> list[Condition]:
    """The conditions without those of a type."""
    return [condition for condition in conditions or () if condition.get("type") != kind]
