"""Conditions: kept in order, with the time of their last change; mirrored from providers; summed up as Ready."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from windlass.controllers.machine_pool import names
from windlass.controllers.machine_pool.facts import Condition

INFO, WARNING, ERROR = "Info", "Warning", "Error"

_PRIORITY = {ERROR: 0, WARNING: 1, INFO: 2}
_SUMMED_UP = (names.BOOTSTRAP_READY, names.INFRASTRUCTURE_READY, names.REPLICAS_READY)
"""In the order in which they are named as the reason, among those that are equally bad."""


def true(kind: str) -> Condition:
    return Condition(kind, "True")


def false(kind: str, reason: str, severity: str, message: str = "") -> Condition:
    return Condition(kind, "False", reason, message, severity)


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == kind), None)


def drop(conditions: Iterable[Condition], kind: str) -> tuple[Condition, ...]:
    return tuple(condition for condition in conditions if condition.type != kind)


def put_old(conditions: tuple[Condition, ...], new: Condition, now: str) -> tuple[Condition, ...]:
    """With this one of the old kind in its place: Ready first, the others by name. Any change moves its time."""
    before = find(conditions, new.type)
    if before is not None and dataclasses.replace(before, since=new.since) == new:
        new = before
    elif not new.since:
        new = dataclasses.replace(new, since=now)
    others = [condition for condition in conditions if condition.type != new.type]
    return tuple(sorted([*others, new], key=lambda condition: (condition.type != names.READY, condition.type)))


def put(conditions: tuple[Condition, ...], new: Condition, now: str) -> tuple[Condition, ...]:
    """With this one of the new kind in its place, or behind the others. Only a change of status moves its time."""
    before = find(conditions, new.type)
    since = before.since if before is not None and before.status == new.status and before.since else now
    new = dataclasses.replace(new, since=since)
    if before is None:
        return (*conditions, new)
    return tuple(new if condition.type == new.type else condition for condition in conditions)


def mirror(ready: Mapping[str, Any] | None, kind: str, fallback: Condition) -> Condition:
    """A provider's own Ready condition under another name, or the fallback if it has none.

    A condition of the new kind has no severity. One that is False gets the mildest, so that the summary does not
    pass it over.
    """
    if ready is None:
        return fallback
    status = str(ready.get("status") or "Unknown")
    severity = str(ready.get("severity") or "")
    return Condition(
        kind,
        status,
        str(ready.get("reason") or ""),
        str(ready.get("message") or ""),
        severity or (INFO if status == "False" else ""),
        since=str(ready.get("lastTransitionTime") or ""),
    )


def summarize(conditions: tuple[Condition, ...]) -> Condition | None:
    """Ready: False for the worst reason there is; True if nothing is False; None if there is nothing to sum up."""
    known = [found for kind in _SUMMED_UP if (found := find(conditions, kind)) is not None]
    if not known:
        return None
    bad = [condition for condition in known if condition.status == "False"]
    if bad:
        worst = min(bad, key=lambda condition: _PRIORITY.get(condition.severity, 2))
        return false(names.READY, worst.reason, worst.severity or INFO, worst.message)
    if any(condition.status == "True" for condition in known):
        return true(names.READY)
    return Condition(names.READY, "Unknown", known[0].reason, known[0].message)
