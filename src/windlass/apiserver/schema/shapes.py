"""The shape that a CRD's schema gives an object, for server-side apply."""

from collections.abc import Mapping
from typing import Any

from windlass.apiserver.types import builtin, model

Schema = Mapping[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
LIST_MAP_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"


def mentions(schema: Any, word: str) -> bool:
    """Does a schema use a keyword, anywhere? A field of that name counts as well, which does no harm."""
    if isinstance(schema, Mapping):
        return word in schema or any(mentions(part, word) for part in schema.values())
    return isinstance(schema, list | tuple) and any(mentions(part, word) for part in schema)


def of_object(schema: Schema) -> model.Type:
    """The shape of a whole custom object: the schema's, with Kubernetes' own metadata."""
    shape = of(schema)
    fields = dict(shape.map.fields) if shape.map is not None else {}
    element = shape.map.element if shape.map is not None else model.DEDUCED
    return model.Type(map_=model.Map(fields | _meta(), element))


def of(schema: Schema, preserves: bool = False) -> model.Type:
    """The shape of one value. Below a schema that preserves unknown fields, everything may be there."""
    preserves = preserves or schema.get(PRESERVE) is True
    match schema.get("type", ""):
        case "object":
            return model.Type(map_=_map(schema, preserves))
        case "array":
            return model.Type(list_=_list(schema, preserves))
        case "integer" | "number":
            return model.Type("numeric")
        case "boolean":
            return model.Type("boolean")
        case "string":
            return model.Type("string" if schema.get("format", "") in ("", "byte") else "untyped")
        case _:
            return model.Type("untyped", _list(schema, preserves), _map(schema, preserves))


def _map(schema: Schema, preserves: bool) -> model.Map:
    fields = {name: of(part, preserves) for name, part in schema.get("properties", {}).items()}
    if schema.get(EMBEDDED):
        fields |= _meta()
    return model.Map(fields, _element(schema, preserves), schema.get(MAP_TYPE) == "atomic")


def _element(schema: Schema, preserves: bool) -> model.Type | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        return of(additional, preserves)
    if additional is None:
        return model.DEDUCED if preserves or not schema.get("properties") else None
    return model.DEDUCED if additional else None


def _list(schema: Schema, preserves: bool) -> model.List:
    items = schema.get("items")
    kind = schema.get(LIST_TYPE, "atomic")
    keys = tuple(schema.get(LIST_MAP_KEYS, ())) if kind == "map" else ()
    shape = model.List(model.ATOMIC if items is None else of(items, preserves), kind in ("set", "map"), keys)
    properties = items.get("properties", {}) if items else {}
    shape.key_defaults = {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}
    return shape


def _meta() -> dict[str, model.Type]:
    metadata = builtin.find("meta", "ObjectMeta").type
    return {"apiVersion": model.Type("string"), "kind": model.Type("string"), "metadata": metadata}
