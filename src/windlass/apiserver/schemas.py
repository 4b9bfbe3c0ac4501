"""Schemas as OpenAPI has them, for `kubectl explain`: fields and types, without descriptions."""

from windlass.apiserver.kinds import custom
from windlass.apiserver.registry import Resource
from windlass.apiserver.types import builtin, model
from windlass.apiserver.types.model import Json

_SCALARS = {"string": "string", "numeric": "integer", "boolean": "boolean"}
_DEEPEST = 24
"""Levels that are spelled out; the few types that contain themselves end there."""


def describe(resource: Resource) -> Json:
    """The schema of a kind: as its definition has it, or as its built-in type says."""
    if not isinstance(resource.strategy, custom.Custom):
        return _describe(resource.strategy.struct.type)
    schema = dict(resource.strategy.schema)
    metadata = _describe(builtin.find("meta", "ObjectMeta").type)
    named = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": metadata}
    schema["properties"] = {**named, **schema.get("properties", {}), "metadata": metadata}
    return schema


def _describe(type_: model.Type, depth: int = 0) -> Json:
    if type_.scalar == "untyped" or depth > _DEEPEST:
        return {"type": "object"}
    if type_.scalar:
        return {"type": _SCALARS[type_.scalar]}
    if type_.list is not None:
        return {"type": "array", "items": _describe(type_.list.element, depth + 1)}
    described: Json = {"type": "object"}
    if type_.map is not None and type_.map.fields:
        fields = type_.map.fields.items()
        described["properties"] = {name: _describe(field, depth + 1) for name, field in sorted(fields)}
    elif type_.map is not None and type_.map.element is not None:
        described["additionalProperties"] = _describe(type_.map.element, depth + 1)
    return described
