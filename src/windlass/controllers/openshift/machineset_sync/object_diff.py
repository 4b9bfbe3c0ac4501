"""Object diff: differences between two API objects for the log, and the merge patch from live to desired. Pure.

Server-set fields and fields of the mirror's own are ignored. Conditions are compared by type, without times. In
patches, empty and absent are equal, and only `REPLACED_FIELDS` lose what is not desired.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]

FieldPath = tuple[str, ...]

_SERVER_FIELDS = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "managedFields",
)

IGNORED_FIELDS: tuple[FieldPath, ...] = (
    ("kind",),
    ("apiVersion",),
    ("metadata", "annotations", "cluster.x-k8s.io/conversion-data"),
    *(("metadata", name) for name in _SERVER_FIELDS),
)

MACHINE_API_IGNORED_FIELDS: tuple[FieldPath, ...] = (
    *IGNORED_FIELDS,
    *(
        ("status", name)
        for name in ("replicas", "observedGeneration", "authoritativeAPI", "synchronizedGeneration", "conditions")
    ),
)

CLUSTER_API_IGNORED_FIELDS = IGNORED_FIELDS

CLUSTER_API_OWN_CONDITIONS = ("Paused", "Remediating")
"""Conditions that Cluster API's controllers set on MachineSets."""

_CONDITION_PATHS = (("status", "conditions"), ("status", "deprecated", "v1beta1", "conditions"))

_ABSENT = object()


class KindMismatch(TypeError):
    """Objects of different kinds cannot be compared."""


def diff_objects(a: Json, b: Json, ignored: Sequence[FieldPath] = (), passed_over: Sequence[str] = ()) -> str:
    """Differences, sorted. `passed_over` are types of ignored conditions."""
    if a.get("kind") != b.get("kind") and ("kind",) not in ignored:
        raise KindMismatch(f"objects to diff are not of the same type: {a.get('kind')} != {b.get('kind')}")
    entry, other = (_normalize(item, ignored, passed_over) for item in (a, b))
    found = []
    for key in entry.keys() | other.keys():
        found += [f".[{key}]{text}" for text in _diff_values(entry.get(key), other.get(key), top=True)]
    return ", ".join(sorted(found))


def _normalize(given: Json, ignored: Sequence[FieldPath], passed_over: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = copy.deepcopy(dict(given))
    for *path, last in ignored:
        if isinstance(owner := _look_up(found, path), dict):
            owner.pop(last, None)
    for *path, last in _CONDITION_PATHS:
        owner = _look_up(found, path)
        if isinstance(owner, dict) and isinstance(owner.get(last), list):
            kept = [item for item in owner[last] if item.get("type") not in passed_over]
            owner[last] = {f"type={entry.get('type')}": {**entry, "lastTransitionTime": ""} for entry in kept}
    return found


def _look_up(found: Any, path: Sequence[str]) -> Any:
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _diff_values(a: Any, b: Any, *, top: bool = False) -> Iterator[str]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in a.keys() | b.keys():
            yield from (f".[{key}]{text}" for text in _diff_values(a.get(key, _ABSENT), b.get(key, _ABSENT)))
    elif isinstance(a, list) and isinstance(b, list):
        for place in range(max(len(a), len(b))):
            entry, other = (item[place] if place < len(item) else _ABSENT for item in (a, b))
            yield from (f"[{place}]{text}" for text in _diff_list_items(entry, other))
    elif a != b:
        missing = "<nil pointer>" if top else "<does not have key>"
        yield f": {_format_value(a, missing)} != {_format_value(b, missing)}"


def _diff_list_items(a: Any, b: Any) -> Iterator[str]:
    if a is _ABSENT or b is _ABSENT:
        yield f": {_format_value(a, '<no value>')} != {_format_value(b, '<no value>')}"
    else:
        yield from _diff_values(a, b)


def _format_value(value: Any, missing: str) -> str:
    if value is _ABSENT or value is None:
        return missing
    if isinstance(value, dict):
        return "[" + " ".join(f"{key}:{_format_value(value[key], missing)}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(_format_value(item, missing) for item in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


REPLACED_FIELDS: frozenset[FieldPath] = frozenset(
    {
        ("metadata", "labels"),
        ("metadata", "annotations"),
        ("spec", "template", "metadata", "labels"),
        ("spec", "template", "metadata", "annotations"),
        ("spec", "template", "spec", "providerSpec", "value"),
        ("spec", "template", "spec", "bootstrap"),
        ("status", "deprecated", "v1beta1"),
    }
)
"""Fields in which undesired entries are removed; in all others they are kept."""


def merge_patch(there: Json, desired: Json) -> dict[str, Any]:
    """The merge patch from live to desired; empty if nothing differs. A desired None removes a field."""
    return _overlay(there, desired, (), is_whole=False)


def _overlay(there: Json, desired: Json, at: FieldPath, *, is_whole: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    is_whole = is_whole or at in REPLACED_FIELDS
    for name, value in desired.items():
        was = there.get(name)
        if isinstance(value, dict) and (isinstance(was, dict) or was is None):
            if value != was and (part := _overlay(was or {}, value, (*at, name), is_whole=is_whole)):
                found[name] = part
        elif not _are_equal(was, value):
            found[name] = value
    if is_whole:
        found |= {name: None for name in there if name not in desired}
    return found


def _are_equal(was: Any, value: Any) -> bool:
    return bool(was == value) or (_is_empty(was) and _is_empty(value))


def _is_empty(value: Any) -> bool:
    return not value and value is not False
