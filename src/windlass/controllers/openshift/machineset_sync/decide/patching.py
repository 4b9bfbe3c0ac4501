"""Patching: the merge patch from what is there to what is wanted. Nothing and empty are the same."""

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]
Path = tuple[str, ...]

WHOLE: tuple[Path, ...] = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "template", "metadata", "labels"),
    ("spec", "template", "metadata", "annotations"),
    ("spec", "template", "spec", "providerSpec", "value"),
    ("spec", "template", "spec", "bootstrap"),
    ("status", "deprecated", "v1beta1"),
)
"""What is there besides what is wanted goes. Elsewhere it stays: it is someone else's, or was filled in."""


def patch(there: Json, wanted: Json) -> dict[str, Any]:
    """Empty if what is there will do. A field that is wanted to be None is taken away."""
    return _overlay(there, wanted, ())


def _overlay(there: Json, wanted: Json, at: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in wanted.items():
        path, was = (*at, name), there.get(name)
        if isinstance(value, Mapping) and (isinstance(was, Mapping) or was is None):
            if part := _overlay(was or {}, value, path):
                found[name] = part
        elif not _are_equal(was, value):
            found[name] = value
    if any(at[: len(whole)] == whole for whole in WHOLE):
        found |= {name: None for name in there if name not in wanted}
    return found


def _are_equal(was: Any, value: Any) -> bool:
    return bool(was == value) or (_is_nothing(was) and _is_nothing(value))


def _is_nothing(value: Any) -> bool:
    return not value and value is not False
