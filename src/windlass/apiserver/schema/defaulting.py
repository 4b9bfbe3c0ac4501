"""Defaulting: fields that are missing, or null without leave, get the schema's default."""

import copy
from typing import Any

from windlass.apiserver.schema import pruning
from windlass.apiserver.schema.shapes import Schema


def default(value: Any, schema: Schema | None) -> None:
    """Fill in defaults, in place, those within defaults too."""
    if schema is None:
        return
    if isinstance(value, dict):
        for name, part in schema.get("properties", {}).items():
            if part.get("default") is not None and _is_wanted(value.get(name, _MISSING), part):
                value[name] = copy.deepcopy(part["default"])
        for name, item in value.items():
            part = pruning.field_schema(schema, name)
            if item is None and part is not None and not part.get("nullable") and "default" in part:
                value[name] = copy.deepcopy(part["default"])
            default(value[name], part)
    elif isinstance(value, list):
        items = schema.get("items")
        for i, item in enumerate(value):
            if item is None and items is not None and not items.get("nullable") and "default" in items:
                value[i] = copy.deepcopy(items["default"])
            default(value[i], items)


_MISSING: Any = object()


def _is_wanted(value: Any, schema: Schema) -> bool:
    return value is _MISSING or (value is None and not schema.get("nullable"))
