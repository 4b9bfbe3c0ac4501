"""List types: no two items of a set are equal, no two of a map have the same keys."""

from collections.abc import Mapping
from typing import Any

from windlass.apiserver import status
from windlass.apiserver.schema import pruning
from windlass.apiserver.schema.shapes import LIST_MAP_KEYS, LIST_TYPE, Schema

_UNSAID = object()


def validate(value: Any, schema: Schema | None, at: str = "") -> list[status.FieldError]:
    """Complaints about items that are there twice."""
    if schema is None:
        return []
    errors: list[status.FieldError] = []
    if isinstance(value, dict):
        declared = schema.get("properties", {})
        for name, item in value.items():
            path = (f"{at}.{name}" if at else name) if name in declared else f"{at}[{name}]"
            errors += validate(item, pruning.field_schema(schema, name), path)
    elif isinstance(value, list):
        errors += _validate_items(value, schema, at)
        for i, item in enumerate(value):
            errors += validate(item, schema.get("items"), f"{at}[{i}]")
    return errors


def _validate_items(items: list[Any], schema: Schema, at: str) -> list[status.FieldError]:
    if schema.get(LIST_TYPE) == "set":
        return [status.duplicate(f"{at}[{i}]", items[i]) for i in _find_repeated(items)]
    if schema.get(LIST_TYPE) != "map":
        return []
    for i, item in enumerate(items):
        if item is not None and not isinstance(item, Mapping):
            said = "must be an object for an array of list-type map"
            return [status.wrong(f"{at}[{i}]", item, said)]
    keys = schema.get(LIST_MAP_KEYS, [])
    values = [[(item or {}).get(key, _UNSAID) for key in keys] for item in items]
    return [
        status.duplicate(f"{at}[{i}]", {key: items[i][key] for key in keys if key in (items[i] or {})})
        for i in _find_repeated(values)
    ]


def _find_repeated(items: list[Any]) -> list[int]:
    """Indices at which something is seen for the second time."""
    seen: list[tuple[Any, int]] = []
    repeated = []
    for i, item in enumerate(items):
        for j, (other, count) in enumerate(seen):
            if other == item and type(other) is type(item):
                seen[j] = (other, count + 1)
                if count == 1:
                    repeated.append(i)
                break
        else:
            seen.append((item, 1))
    return repeated
