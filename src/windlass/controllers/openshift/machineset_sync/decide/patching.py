"""Patching: the merge patch from what is there to what is wanted. Nothing and empty are the same."""

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]
Path = tuple[str, ...]

WHOLE: frozenset[Path] = frozenset(
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
"""What is there besides what is wanted goes. Elsewhere it stays: it is someone else's, or was filled in."""


def patch(there: Json, wanted: Json) -> dict[str, Any]:
    """Empty if what is there will do. A field that is wanted to be None is taken away."""
    return _overlay(there, wanted, (), is_whole=False)


def _overlay(there: Json, wanted: Json, at: Path, *, is_whole: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    is_whole = is_whole or at in WHOLE
    for name, value in wanted.items():
        was = there.get(name)
        if isinstance(value, dict) and (isinstance(was, dict) or was is None):
            if value != was and (part := _overlay(was or {}, value, (*at, name), is_whole=is_whole)):
                found[name] = part
        elif not _are_equal(was, value):
            found[name] = value
    if is_whole:
        found |= {name: None for name in there if name not in wanted}
    return found


def _are_equal(was: Any, value: Any) -> bool:
    return bool(was == value) or (_is_nothing(was) and _is_nothing(value))


def _is_nothing(value: Any) -> bool:
    return not value and value is not False
