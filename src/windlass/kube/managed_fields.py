"""managedFields: who owns what in an object, and what a refused apply says about it.

A path is a tuple of steps: a field's name, an item's keys (`{"name": "c"}`), or an item's value or index:

    owners(node, ("spec", "taints"))
    owners(pod, ("spec", "containers", {"name": "app"}, "image"))
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.kube import errors

Step = str | int | Mapping[str, Any]
Path = tuple[Step, ...]

_CONFLICT = re.compile(
    r'conflict with "(?P<manager>[^"]*)"(?: with subresource "(?P<subresource>[^"]*)")?'
    r"(?: using (?P<api_version>\S+))?(?: at (?P<time>\S+))?"
)


@dataclass(frozen=True, slots=True)
class Owner:
    """An entry of managedFields."""

    manager: str
    operation: str
    """`Apply` or `Update`: one manager may have an entry of each, and they own apart."""
    subresource: str = ""
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field that a server-side apply would have taken from someone."""

    field: str
    """As the server prints it: `.spec.replicas`."""
    owner: Owner


def owners(found: Mapping[str, Any], path: Path) -> list[Owner]:
    """Who owns a field. Whoever owns a list or map as one piece owns all that is in it."""
    entries = (found.get("metadata") or {}).get("managedFields") or ()
    return [_name(entry) for entry in entries if _owns(entry.get("fieldsV1") or {}, path)]


def owned(found: Mapping[str, Any], owner: Owner) -> Iterator[Path]:
    """The paths of everything that an owner owns."""
    for entry in (found.get("metadata") or {}).get("managedFields") or ():
        if _name(entry) == owner:
            yield from _leaves(entry.get("fieldsV1") or {}, ())


def conflicts(refused: errors.Conflict) -> list[Conflict]:
    """What stood in the way of an apply; empty if it was refused for another reason."""
    found = []
    for cause in refused.status.causes:
        match = _CONFLICT.fullmatch(cause.message or "")
        if cause.reason == "FieldManagerConflict" and match:
            # Only an Update is told with its version.
            operation = "Update" if match["api_version"] else "Apply"
            owner = Owner(match["manager"], operation, match["subresource"] or "", match["api_version"] or "")
            found.append(Conflict(cause.field or "", owner))
    return found


def _name(entry: Mapping[str, Any]) -> Owner:
    return Owner(
        entry.get("manager") or "",
        entry.get("operation") or "",
        entry.get("subresource") or "",
        entry.get("apiVersion") or "",
    )


def _owns(fields: Mapping[str, Any], path: Path) -> bool:
    for step in path:
        key = _find(fields, step)
        if key is None:
            return False
        fields = fields[key] or {}
        if not fields:
            return True
    return "." in fields


def _find(fields: Mapping[str, Any], step: Step) -> str | None:
    """The key under which a set of fields has a step."""
    if isinstance(step, str):
        if (key := f"f:{step}") in fields:
            return key
        return key if (key := f'v:"{step}"') in fields else None
    if isinstance(step, int):
        return next((key for key in (f"i:{step}", f"v:{step}") if key in fields), None)
    wanted = dict(step)
    return next((key for key in fields if key.startswith("k:") and msgspec.json.decode(key[2:]) == wanted), None)


def _leaves(fields: Mapping[str, Any], path: Path) -> Iterator[Path]:
    if not fields and path:
        yield path
    for key, below in fields.items():
        if key == ".":
            yield path
        else:
            yield from _leaves(below or {}, (*path, _read_step(key)))


def _read_step(key: str) -> Step:
    kind, _, rest = key.partition(":")
    if kind == "f":
        return rest
    step: Step = msgspec.json.decode(rest)
    return step
