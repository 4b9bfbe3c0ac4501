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
    """The condition of a type; None if there is none."""
    return next((condition for condition in conditions or () if condition.get("type") == kind), None)


def is_condition_true(conditions: Iterable[Condition] | None, kind: str) -> bool:
    condition = find_condition(conditions, kind)
    return condition is not None and condition.get("status") == "True"


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
    """Set a condition, in place or at the end. A status of None becomes `Unknown`."""
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


def is_subset(actual: Any, desired: Any) -> bool:
    """True if `desired` is a subset: maps may have more keys, lists must match item by item."""
    if isinstance(desired, Mapping):
        return isinstance(actual, Mapping) and all(
            is_subset(actual.get(name), value) for name, value in desired.items()
        )
    if isinstance(desired, list):
        return isinstance(actual, list) and len(actual) == len(desired) and all(map(is_subset, actual, desired))
    return bool(actual == desired)


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
    """`Apply` or `Update`: a manager may have an entry of each."""
    subresource: str = ""
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class ApplyConflict:
    """A field that another manager owns."""

    field: str
    """The path as the server prints it: `.spec.replicas`."""
    owner: FieldOwner


def find_field_owners(obj: Mapping[str, Any], path: FieldPath) -> list[FieldOwner]:
    """The owners of a field. Owners of an atomic list or map own everything in it."""
    entries = (obj.get("metadata") or {}).get("managedFields") or ()
    return [_read_owner(entry) for entry in entries if _owns(entry.get("fieldsV1") or {}, path)]


def owned_paths(obj: Mapping[str, Any], owner: FieldOwner) -> Iterator[FieldPath]:
    """All paths that an entry owns."""
    for entry in (obj.get("metadata") or {}).get("managedFields") or ():
        if _read_owner(entry) == owner:
            yield from _leaves(entry.get("fieldsV1") or {}, ())


def parse_apply_conflicts(refused: errors.Conflict) -> list[ApplyConflict]:
    """The conflicts of a rejected apply; empty if it was rejected for another reason."""
    apply_conflicts = []
    for cause in refused.status.causes:
        match = _CONFLICT.fullmatch(cause.message or "")
        if cause.reason == "FieldManagerConflict" and match:
            # only Update entries are printed with their version
            operation = "Update" if match["api_version"] else "Apply"
            owner = FieldOwner(match["manager"], operation, match["subresource"] or "", match["api_version"] or "")
            apply_conflicts.append(ApplyConflict(cause.field or "", owner))
    return apply_conflicts


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
    """The fieldsV1 key of a step."""
    if isinstance(step, str):
        if (key := f"f:{step}") in fields:
            return key
        return key if (key := f'v:"{step}"') in fields else None
    if isinstance(step, int):
        return next((key for key in (f"i:{step}", f"v:{step}") if key in fields), None)
    desired = dict(step)
    return next((key for key in fields if key.startswith("k:") and msgspec.json.decode(key[2:]) == desired), None)


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
