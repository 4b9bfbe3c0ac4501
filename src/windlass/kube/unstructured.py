"""Helpers for objects read as JSON: status conditions, subset comparison, managedFields.

`lastTransitionTime` moves only when the status of a condition changes. A path in managedFields is a tuple of steps: a
field's name, an item's keys (`{"name": "c"}`), or an item's value or index:

    find_field_owners(node, ("spec", "taints"))
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.kube import errors, time_formats

Condition = Mapping[str, Any]


def find_condition(conditions: Iterable[Condition] | None, kind: str) -> Condition | None:
    """The condition of a type, if the object has it."""
    return next((condition for condition in conditions or () if condition.get("type") == kind), None)


def is_condition_true(conditions: Iterable[Condition] | None, kind: str) -> bool:
    found = find_condition(conditions, kind)
    return found is not None and found.get("status") == "True"


def set_condition(
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
    old = find_condition(before, kind)
    same = old is not None and old.get("status") == new["status"] and old.get("lastTransitionTime")
    new["lastTransitionTime"] = same or time_formats.format_time(now_s)
    if old is None:
        return [*before, new]
    return [new if condition is old else condition for condition in before]


def remove_condition(conditions: Iterable[Condition] | None, kind: str) -> list[Condition]:
    """The conditions without those of a type."""
    return [condition for condition in conditions or () if condition.get("type") != kind]


def is_subset(found: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there. Maps may have more than that; lists have each item in its place, no more."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(is_subset(found.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(is_subset, found, wanted))
    return bool(found == wanted)


FieldStep = str | int | Mapping[str, Any]

FieldPath = tuple[FieldStep, ...]

_CONFLICT = re.compile(
    r'conflict with "(?P<manager>[^"]*)"(?: with subresource "(?P<subresource>[^"]*)")?'
    r"(?: using (?P<api_version>\S+))?(?: at (?P<time>\S+))?"
)


@dataclass(frozen=True, slots=True)
class FieldOwner:
    """An entry of managedFields."""

    manager: str
    operation: str
    """`Apply` or `Update`: one manager may have an entry of each, and they own apart."""
    subresource: str = ""
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class ApplyConflict:
    """A field that a server-side apply would have taken from someone."""

    field: str
    """As the server prints it: `.spec.replicas`."""
    owner: FieldOwner


def find_field_owners(found: Mapping[str, Any], path: FieldPath) -> list[FieldOwner]:
    """Who owns a field. Whoever owns a list or map as one piece owns all that is in it."""
    entries = (found.get("metadata") or {}).get("managedFields") or ()
    return [_read_owner(entry) for entry in entries if _owns(entry.get("fieldsV1") or {}, path)]


def owned_paths(found: Mapping[str, Any], owner: FieldOwner) -> Iterator[FieldPath]:
    """The paths of everything that an owner owns."""
    for entry in (found.get("metadata") or {}).get("managedFields") or ():
        if _read_owner(entry) == owner:
            yield from _leaves(entry.get("fieldsV1") or {}, ())


def parse_apply_conflicts(refused: errors.Conflict) -> list[ApplyConflict]:
    """What stood in the way of an apply; empty if it was refused for another reason."""
    found = []
    for cause in refused.status.causes:
        match = _CONFLICT.fullmatch(cause.message or "")
        if cause.reason == "FieldManagerConflict" and match:
            # Only an Update is told with its version.
            operation = "Update" if match["api_version"] else "Apply"
            owner = FieldOwner(match["manager"], operation, match["subresource"] or "", match["api_version"] or "")
            found.append(ApplyConflict(cause.field or "", owner))
    return found


def _read_owner(entry: Mapping[str, Any]) -> FieldOwner:
    return FieldOwner(
        entry.get("manager") or "",
        entry.get("operation") or "",
        entry.get("subresource") or "",
        entry.get("apiVersion") or "",
    )


def _owns(fields: Mapping[str, Any], path: FieldPath) -> bool:
    for step in path:
        key = _find_key(fields, step)
        if key is None:
            return False
        fields = fields[key] or {}
        if not fields:
            return True
    return "." in fields


def _find_key(fields: Mapping[str, Any], step: FieldStep) -> str | None:
    """The key under which a set of fields has a step."""
    if isinstance(step, str):
        if (key := f"f:{step}") in fields:
            return key
        return key if (key := f'v:"{step}"') in fields else None
    if isinstance(step, int):
        return next((key for key in (f"i:{step}", f"v:{step}") if key in fields), None)
    wanted = dict(step)
    return next((key for key in fields if key.startswith("k:") and msgspec.json.decode(key[2:]) == wanted), None)


def _leaves(fields: Mapping[str, Any], path: FieldPath) -> Iterator[FieldPath]:
    if not fields and path:
        yield path
    for key, below in fields.items():
        if key == ".":
            yield path
        else:
            yield from _leaves(below or {}, (*path, _read_step(key)))


def _read_step(key: str) -> FieldStep:
    kind, _, rest = key.partition(":")
    if kind == "f":
        return rest
    step: FieldStep = msgspec.json.decode(rest)
    return step
