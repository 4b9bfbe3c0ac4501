"""Structural schemas of CRDs: apply types, pruning, defaulting, list types and embedded metadata."""

import copy
from collections.abc import Mapping
from typing import Any

from windlass.apiserver import builtin_types, status_errors, value_types

Schema = Mapping[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"

EMBEDDED = "x-kubernetes-embedded-resource"

INT_OR_STRING = "x-kubernetes-int-or-string"

LIST_TYPE = "x-kubernetes-list-type"

LIST_MAP_KEYS = "x-kubernetes-list-map-keys"

MAP_TYPE = "x-kubernetes-map-type"


def mentions_keyword(schema: Any, word: str) -> bool:
    """Does a schema use a keyword anywhere? A field of that name also counts, which is harmless."""
    if isinstance(schema, Mapping):
        return word in schema or any(mentions_keyword(part, word) for part in schema.values())
    return isinstance(schema, list | tuple) and any(mentions_keyword(part, word) for part in schema)


def type_of_object(schema: Schema) -> value_types.ValueType:
    """The shape of a whole custom object: the schema's, with Kubernetes' own metadata."""
    shape = type_of_schema(schema)
    fields = dict(shape.map.fields) if shape.map is not None else {}
    element = shape.map.element if shape.map is not None else value_types.DEDUCED
    return value_types.ValueType(map_=value_types.MapType(fields | _meta_types(), element))


def type_of_schema(schema: Schema, preserves: bool = False) -> value_types.ValueType:
    """The shape of one value. Below a schema that preserves unknown fields, any value is allowed."""
    preserves = preserves or schema.get(PRESERVE) is True
    match schema.get("type", ""):
        case "object":
            return value_types.ValueType(map_=_map_type(schema, preserves))
        case "array":
            return value_types.ValueType(list_=_list_type(schema, preserves))
        case "integer" | "number":
            return value_types.ValueType("numeric")
        case "boolean":
            return value_types.ValueType("boolean")
        case "string":
            return value_types.ValueType("string" if schema.get("format", "") in ("", "byte") else "untyped")
        case _:
            return value_types.ValueType("untyped", _list_type(schema, preserves), _map_type(schema, preserves))


def _map_type(schema: Schema, preserves: bool) -> value_types.MapType:
    fields = {name: type_of_schema(part, preserves) for name, part in schema.get("properties", {}).items()}
    if schema.get(EMBEDDED):
        fields |= _meta_types()
    return value_types.MapType(fields, _element_type(schema, preserves), schema.get(MAP_TYPE) == "atomic")


def _element_type(schema: Schema, preserves: bool) -> value_types.ValueType | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        return type_of_schema(additional, preserves)
    if additional is None:
        return value_types.DEDUCED if preserves or not schema.get("properties") else None
    return value_types.DEDUCED if additional else None


def _list_type(schema: Schema, preserves: bool) -> value_types.ListType:
    items = schema.get("items")
    kind = schema.get(LIST_TYPE, "atomic")
    keys = tuple(schema.get(LIST_MAP_KEYS, ())) if kind == "map" else ()
    shape = value_types.ListType(
        value_types.ATOMIC if items is None else type_of_schema(items, preserves), kind in ("set", "map"), keys
    )
    properties = items.get("properties", {}) if items else {}
    shape.key_defaults = {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}
    return shape


def _meta_types() -> dict[str, value_types.ValueType]:
    metadata = builtin_types.find_struct("meta", "ObjectMeta").type
    return {
        "apiVersion": value_types.ValueType("string"),
        "kind": value_types.ValueType("string"),
        "metadata": metadata,
    }


_META_FIELDS = ("apiVersion", "kind", "metadata")


def prune_unknown(obj: dict[str, Any], schema: Schema) -> list[str]:
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
        if schema.get(EMBEDDED) and name in _META_FIELDS:
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


def set_defaults(value: Any, schema: Schema | None) -> None:
    """Set defaults in place, also within defaults."""
    if schema is None:
        return
    if isinstance(value, dict):
        for name, part in schema.get("properties", {}).items():
            if part.get("default") is not None and _needs_default(value.get(name, _MISSING), part):
                value[name] = copy.deepcopy(part["default"])
        for name, item in value.items():
            part = field_schema(schema, name)
            if item is None and part is not None and not part.get("nullable") and "default" in part:
                value[name] = copy.deepcopy(part["default"])
            set_defaults(value[name], part)
    elif isinstance(value, list):
        items = schema.get("items")
        for i, item in enumerate(value):
            if item is None and items is not None and not items.get("nullable") and "default" in items:
                value[i] = copy.deepcopy(items["default"])
            set_defaults(value[i], items)


_MISSING: Any = object()


def _needs_default(value: Any, schema: Schema) -> bool:
    return value is _MISSING or (value is None and not schema.get("nullable"))


_NO_KEY = object()


def validate_list_types(value: Any, schema: Schema | None, at: str = "") -> list[status_errors.FieldError]:
    """Errors for duplicate items."""
    if schema is None:
        return []
    errors: list[status_errors.FieldError] = []
    if isinstance(value, dict):
        declared = schema.get("properties", {})
        for name, item in value.items():
            path = (f"{at}.{name}" if at else name) if name in declared else f"{at}[{name}]"
            errors += validate_list_types(item, field_schema(schema, name), path)
    elif isinstance(value, list):
        errors += _validate_list_items(value, schema, at)
        for i, item in enumerate(value):
            errors += validate_list_types(item, schema.get("items"), f"{at}[{i}]")
    return errors


def _validate_list_items(items: list[Any], schema: Schema, at: str) -> list[status_errors.FieldError]:
    if schema.get(LIST_TYPE) == "set":
        return [status_errors.field_duplicate(f"{at}[{i}]", items[i]) for i in _find_repeated(items)]
    if schema.get(LIST_TYPE) != "map":
        return []
    for i, item in enumerate(items):
        if item is not None and not isinstance(item, Mapping):
            message = "must be an object for an array of list-type map"
            return [status_errors.field_invalid(f"{at}[{i}]", item, message)]
    keys = schema.get(LIST_MAP_KEYS, [])
    values = [[(item or {}).get(key, _NO_KEY) for key in keys] for item in items]
    return [
        status_errors.field_duplicate(f"{at}[{i}]", {key: items[i][key] for key in keys if key in (items[i] or {})})
        for i in _find_repeated(values)
    ]


def _find_repeated(items: list[Any]) -> list[int]:
    """Indices of repeated items."""
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


def coerce_embedded_metadata(obj: dict[str, Any], schema: Schema, *, embeds: bool = True) -> list[str]:
    """Normalize metadata in place; returns paths of unknown fields. ValueError if it cannot be read.

    `embeds`: may there be objects within the object?
    """
    unknown: list[str] = []
    if embeds:
        _coerce_value(obj, {**schema, EMBEDDED: True}, "", unknown)
    elif "metadata" in obj:
        _coerce_metadata(obj, "metadata", unknown)
    return sorted(unknown)


def _coerce_value(value: Any, schema: Schema | None, at: str, unknown: list[str]) -> None:
    if schema is None:
        return
    if isinstance(value, dict):
        if schema.get(EMBEDDED) and "metadata" in value:
            _coerce_metadata(value, f"{at}.metadata" if at else "metadata", unknown)
        for name, item in value.items():
            if not (schema.get(EMBEDDED) and name == "metadata"):
                _coerce_value(item, field_schema(schema, name), f"{at}.{name}" if at else name, unknown)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            _coerce_value(item, schema.get("items"), f"{at}[{i}]", unknown)


def _coerce_metadata(holder: dict[str, Any], at: str, unknown: list[str]) -> None:
    struct = builtin_types.find_struct("meta", "ObjectMeta")
    if holder["metadata"] is None:
        holder["metadata"] = {}
    warnings: list[str] = []
    read = struct.read(holder["metadata"], warnings)
    if warnings:
        unknown += [f"{at}.{path}" for path in builtin_types.find_unknown_fields(holder["metadata"], struct.type)]
    holder["metadata"] = read


def validate_embedded_metadata(value: Any, schema: Schema | None, at: str = "") -> list[status_errors.FieldError]:
    """Errors in embedded objects: each needs apiVersion and kind."""
    if schema is None:
        return []
    errors: list[status_errors.FieldError] = []
    if isinstance(value, dict):
        if schema.get(EMBEDDED):
            errors += [
                status_errors.field_required(f"{at}.{name}") for name in ("apiVersion", "kind") if name not in value
            ]
        for name, item in value.items():
            errors += validate_embedded_metadata(item, field_schema(schema, name), f"{at}.{name}" if at else name)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            errors += validate_embedded_metadata(item, schema.get("items"), f"{at}[{i}]")
    return errors
