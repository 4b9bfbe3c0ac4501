"""Metadata of custom objects, and of objects embedded in them: made to be what Kubernetes' own metadata is."""

from typing import Any

from windlass.apiserver import status
from windlass.apiserver.schema import pruning
from windlass.apiserver.schema.shapes import EMBEDDED, Schema
from windlass.apiserver.types import builtin, normalise


def coerce(obj: dict[str, Any], schema: Schema, *, embeds: bool = True) -> list[str]:
    """Bring metadata into its normal form, in place; paths of unknown fields in it. ValueError if it cannot be read.

    `embeds`: may there be objects within the object?
    """
    unknown: list[str] = []
    if embeds:
        _coerce(obj, {**schema, EMBEDDED: True}, "", unknown)
    elif "metadata" in obj:
        _coerce_metadata(obj, "metadata", unknown)
    return sorted(unknown)


def _coerce(value: Any, schema: Schema | None, at: str, unknown: list[str]) -> None:
    if schema is None:
        return
    if isinstance(value, dict):
        if schema.get(EMBEDDED) and "metadata" in value:
            _coerce_metadata(value, f"{at}.metadata" if at else "metadata", unknown)
        for name, item in value.items():
            if not (schema.get(EMBEDDED) and name == "metadata"):
                _coerce(item, pruning.field_schema(schema, name), f"{at}.{name}" if at else name, unknown)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            _coerce(item, schema.get("items"), f"{at}[{i}]", unknown)


def _coerce_metadata(holder: dict[str, Any], at: str, unknown: list[str]) -> None:
    struct = builtin.find("meta", "ObjectMeta")
    if holder["metadata"] is None:
        holder["metadata"] = {}
    found: list[str] = []
    read = struct.read(holder["metadata"], found)
    if found:
        unknown += [f"{at}.{path}" for path in normalise.find_unknown(holder["metadata"], struct.type)]
    holder["metadata"] = read


def validate(value: Any, schema: Schema | None, at: str = "") -> list[status.FieldError]:
    """Complaints about embedded objects: each must say what it is."""
    if schema is None:
        return []
    errors: list[status.FieldError] = []
    if isinstance(value, dict):
        if schema.get(EMBEDDED):
            errors += [status.required(f"{at}.{name}") for name in ("apiVersion", "kind") if name not in value]
        for name, item in value.items():
            errors += validate(item, pruning.field_schema(schema, name), f"{at}.{name}" if at else name)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            errors += validate(item, schema.get("items"), f"{at}[{i}]")
    return errors
