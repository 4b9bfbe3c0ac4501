"""Custom resources: what deploy/crds defines, field by field."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tools import markdown_tables, source_analysis

Json = Mapping[str, Any]
_DEEP = 6
"""Levels of fields that are listed; pod templates go deeper and are Kubernetes' own."""
_OTHERS = ("podTemplate", "template", "labelSelector")


def find() -> list[tuple[str, Json]]:
    """(file, definition), in the order of files."""
    folder = source_analysis.ROOT / "deploy" / "crds"
    return [(path.name, yaml.safe_load(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.yaml"))]


def page() -> str:
    lines = markdown_tables.begin(
        "Custom resources",
        "The definitions are in `deploy/crds`. The API server refuses what does not fit them; the rules that it checks "
        "beside types are listed with each.",
    )
    for file, definition in find():
        lines += _report(file, definition)
    return "\n".join(lines)


def find_undescribed() -> Iterator[str]:
    """Kinds whose schema says nothing of itself."""
    for _, definition in find():
        for version in definition["spec"]["versions"]:
            if not version["schema"]["openAPIV3Schema"].get("description"):
                yield f"{definition['spec']['names']['kind']} {version['name']}"


def _report(file: str, definition: Json) -> Iterator[str]:
    spec = definition["spec"]
    scope = "in namespaces" if spec["scope"] == "Namespaced" else "for the whole cluster"
    versions = ", ".join(f"`{spec['group']}/{version['name']}`" for version in spec["versions"])
    yield from (f"## {spec['names']['kind']}", "")
    newest = next(version for version in spec["versions"] if version.get("storage"))
    schema = newest["schema"]["openAPIV3Schema"]
    yield from (f"{schema.get('description', '')} {versions}, {scope}; `deploy/crds/{file}`.", "")
    rows = [row for part in ("spec", "status") if part in schema.get("properties", {}) for row in _fields(schema, part)]
    yield from markdown_tables.table(("field", "type", "what it says"), rows)


def _fields(schema: Json, part: str) -> Iterator[tuple[str, str, str]]:
    yield from _walk(part, schema["properties"][part], _DEEP)


def _walk(path: str, schema: Json, levels: int) -> Iterator[tuple[str, str, str]]:
    for name, field in schema.get("properties", {}).items():
        inside = field.get("items", field)
        here = f"{path}.{name}" + ("[]" if "items" in field else "")
        needed = ", required" if name in schema.get("required", ()) else ""
        yield markdown_tables.code(here), _type(field) + needed, _describe(field)
        if levels and "properties" in inside:
            yield from _walk(here, inside, levels - 1)


def _type(field: Json) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "number or text"
    if choices := field.get("enum"):
        return " or ".join(map(markdown_tables.code, choices))
    if "additionalProperties" in field:
        return "map"
    return {"array": "list"}.get(str(field.get("type", "object")), str(field.get("type", "object")))


def _describe(field: Json) -> str:
    rules = [item["message"] for item in field.get("x-kubernetes-validations", ()) if "message" in item]
    bounds = [f"{word} {field[key]}" for key, word in (("minimum", "at least"), ("maximum", "at most")) if key in field]
    said = [str(field.get("description", "")).rstrip("."), *bounds, *rules]
    return "; ".join(part for part in said if part)
