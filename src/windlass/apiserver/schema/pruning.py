"""Pruning: fields that a schema does not know are dropped, and reported by path."""

from collections.abc import Mapping
from typing import Any

from windlass.apiserver.schema.shapes import EMBEDDED, PRESERVE, Schema

_META = ("apiVersion", "kind", "metadata")


def prune(obj: dict[str, Any], schema: Schema) -> list[str]:
    """Drop unknown fields of a whole object, in place; their paths, sorted."""
    unknown: list[str] = []
    _prune(obj, {**schema, EMBEDDED: True}, "", unknown)
    return sorted(unknown)


def _prune(value: Any, schema: Schema | None, at: str, unknown: list[str]) -> None:
    preserves = schema is not None and schema.get(PRESERVE) is True
    if isinstance(value, dict):
        _prune_map(value, schema or {}, at, unknown, preserves=preserves)
    elif isinstance(value, list):
        items = schema.get("items") if schema else None
        if preserves and items is None:
            return
        for i, item in enumerate(value):
            _prune(item, {**items, PRESERVE: True} if preserves and items else items, f"{at}[{i}]", unknown)


def _prune_map(value: dict[str, Any], schema: Schema, at: str, unknown: list[str], *, preserves: bool) -> None:
    properties = schema.get("properties", {})
    additional = schema.get("additionalProperties")
    for name in list(value):
        if schema.get(EMBEDDED) and name in _META:
            continue
        path = f"{at}.{name}" if at else name
        if name in properties:
            _prune(value[name], properties[name], path, unknown)
        elif additional is not None and additional is not False:
            if isinstance(additional, Mapping):
                _prune(value[name], additional, path, unknown)
        elif not preserves:
            unknown.append(path)
            del value[name]


def drop_nulls(value: Any, schema: Schema | None) -> None:
    """Drop nulls where the schema neither allows them nor has a default to put in their place."""
    if isinstance(value, dict):
        for name in list(value):
            part = field_schema(schema, name)
            if value[name] is None and part is not None and not part.get("nullable") and "default" not in part:
                del value[name]
            else:
                drop_nulls(value[name], part)
    elif isinstance(value, list):
        items = schema.get("items") if schema else None
        for item in value:
            drop_nulls(item, items)


def field_schema(schema: Schema | None, name: str) -> Schema | None:
    """The schema of a field, declared or additional."""
    if schema is None:
        return None
    declared: Schema | None = schema.get("properties", {}).get(name)
    if declared is not None:
        return declared
    additional = schema.get("additionalProperties")
    return additional if isinstance(additional, Mapping) else None
