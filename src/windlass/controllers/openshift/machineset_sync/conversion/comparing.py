"""Comparing: what differs between two objects of one kind, in words for the log.

What the server fills in, and what a mirror has of its own, is left out. Conditions are compared by type, whatever their
order, and not by their times.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]
Path = tuple[str, ...]

_SERVER = (
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
ALWAYS: tuple[Path, ...] = (
    ("kind",),
    ("apiVersion",),
    ("metadata", "annotations", "cluster.x-k8s.io/conversion-data"),
    *(("metadata", name) for name in _SERVER),
)
MACHINE_API: tuple[Path, ...] = (
    *ALWAYS,
    *(
        ("status", name)
        for name in ("replicas", "observedGeneration", "authoritativeAPI", "synchronizedGeneration", "conditions")
    ),
)
CLUSTER_API = ALWAYS
OWN_CONDITIONS = ("Paused", "Remediating")
"""Of a MachineSet of Cluster API: its own controllers write them."""

_CONDITIONS = (("status", "conditions"), ("status", "deprecated", "v1beta1", "conditions"))
_NOTHING = object()


class NotAlike(TypeError):
    """Two kinds are not compared."""


def compare(a: Json, b: Json, ignored: Sequence[Path] = (), passed_over: Sequence[str] = ()) -> str:
    """What differs, sorted; empty if nothing does. `passed_over`: types of conditions that do not count."""
    if a.get("kind") != b.get("kind") and ("kind",) not in ignored:
        raise NotAlike(f"objects to diff are not of the same type: {a.get('kind')} != {b.get('kind')}")
    one, other = (_prepare(each, ignored, passed_over) for each in (a, b))
    found = []
    for key in one.keys() | other.keys():
        found += [f".[{key}]{text}" for text in _differ(one.get(key), other.get(key), top=True)]
    return ", ".join(sorted(found))


def _prepare(given: Json, ignored: Sequence[Path], passed_over: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = copy.deepcopy(dict(given))
    for *path, last in ignored:
        if isinstance(owner := _look_up(found, path), dict):
            owner.pop(last, None)
    for *path, last in _CONDITIONS:
        owner = _look_up(found, path)
        if isinstance(owner, dict) and isinstance(owner.get(last), list):
            kept = [each for each in owner[last] if each.get("type") not in passed_over]
            owner[last] = {f"type={each.get('type')}": {**each, "lastTransitionTime": ""} for each in kept}
    return found


def _look_up(found: Any, path: Sequence[str]) -> Any:
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _differ(a: Any, b: Any, *, top: bool = False) -> Iterator[str]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in a.keys() | b.keys():
            yield from (f".[{key}]{text}" for text in _differ(a.get(key, _NOTHING), b.get(key, _NOTHING)))
    elif isinstance(a, list) and isinstance(b, list):
        for place in range(max(len(a), len(b))):
            one, other = (each[place] if place < len(each) else _NOTHING for each in (a, b))
            yield from (f"[{place}]{text}" for text in _differ_in_list(one, other))
    elif a != b:
        missing = "<nil pointer>" if top else "<does not have key>"
        yield f": {_spell(a, missing)} != {_spell(b, missing)}"


def _differ_in_list(a: Any, b: Any) -> Iterator[str]:
    if a is _NOTHING or b is _NOTHING:
        yield f": {_spell(a, '<no value>')} != {_spell(b, '<no value>')}"
    else:
        yield from _differ(a, b)


def _spell(value: Any, missing: str) -> str:
    if value is _NOTHING or value is None:
        return missing
    if isinstance(value, dict):
        return "[" + " ".join(f"{key}:{_spell(value[key], missing)}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(_spell(each, missing) for each in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
