"""JSON Schema, as far as ours go: what is wrong with a value. A keyword that is not known here is a fault."""

from collections.abc import Iterator
from typing import Any

_KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
_NOTES = {"description", "default", "title", "format"}
_KNOWN = {
    *_NOTES,
    *("$ref", "type", "enum", "anyOf", "properties", "required", "items", "prefixItems", "minItems", "maxItems"),
    "additionalProperties",
}


def find_faults(value: Any, schema: dict[str, Any], definitions: dict[str, Any], at: str = "$") -> Iterator[str]:
    """What is wrong, by place. A field that the schema does not have is wrong as well."""
    if unknown := schema.keys() - _KNOWN:
        yield f"{at}: the schema has unknown keywords {sorted(unknown)}"
    if "$ref" in schema:
        yield from find_faults(value, definitions[schema["$ref"].rpartition("/")[2]], definitions, at)
        return
    if "anyOf" in schema:
        several = [list(find_faults(value, each, definitions, at)) for each in schema["anyOf"]]
        yield from [] if [] in several else several[0]
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if "type" in schema:
        kinds = _KINDS[schema["type"]]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            yield f"{at}: {value!r} is no {schema['type']}"
            return
    if isinstance(value, dict):
        yield from _find_in_object(value, schema, definitions, at)
    elif isinstance(value, list):
        first = schema.get("prefixItems", [])
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{at}: {len(value)} items"
        rest = schema.get("items", {})
        for number, item in enumerate(value):
            wanted = first[number] if number < len(first) else rest
            if wanted is False:
                yield f"{at}[{number}]: one too many"
            else:
                yield from find_faults(item, wanted or {}, definitions, f"{at}[{number}]")


def _find_in_object(
    value: dict[str, Any], schema: dict[str, Any], definitions: dict[str, Any], at: str
) -> Iterator[str]:
    known, rest = schema.get("properties", {}), schema.get("additionalProperties", False)
    for name in schema.get("required", []):
        if name not in value:
            yield f"{at}: {name} is missing"
    for name, item in value.items():
        wanted = known.get(name, rest)
        if wanted is False:
            yield f"{at}.{name}: not in the schema"
        elif isinstance(wanted, dict):
            yield from find_faults(item, wanted, definitions, f"{at}.{name}")
