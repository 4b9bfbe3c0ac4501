"""Custom resources: the strategy that a CRD's schema defines, scale paths and printer columns."""

from collections.abc import Mapping
from typing import Any

from windlass.apiserver import (
    builtin_types,
    printer_columns,
    registry,
    schema_validation,
    status_errors,
    structural_schema,
)
from windlass.apiserver.strategies import FieldErrors, Strategy
from windlass.apiserver.value_types import Json

_MOST_REPLICAS = 2**31 - 1


class CustomResourceStrategy(Strategy):
    """One version of a custom kind."""

    needs_version_to_update = True

    def __init__(
        self, schema: structural_schema.Schema, *, has_status: bool, scale: registry.ScalePaths | None
    ) -> None:
        super().__init__(builtin_types.find_struct("core", "ConfigMap"))
        self.schema = schema
        self.has_status = has_status
        self._scale = scale
        # Features that the schema does not use are skipped for every object.
        self._defaults, self._embeds = (
            structural_schema.mentions_keyword(schema, word) for word in ("default", structural_schema.EMBEDDED)
        )

    def default(self, obj: Json) -> None:
        if self._defaults:
            structural_schema.set_defaults(obj, self.schema)

    def coerce_metadata(self, obj: Json) -> list[str]:
        """Normalize metadata in place; returns paths of unknown fields."""
        return structural_schema.coerce_embedded_metadata(obj, self.schema, embeds=self._embeds)

    def coerce(self, obj: Json) -> list[str]:
        """Prune unknown fields in place; returns their paths."""
        unknown = self.coerce_metadata(obj)
        unknown += structural_schema.prune_unknown(obj, self.schema)
        structural_schema.drop_nulls(obj, self.schema)
        return unknown

    def prepare_create(self, obj: Json) -> None:
        if self.has_status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1

    def prepare_update(self, new: Json, old: Json) -> None:
        if self.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        if _beside_metadata(new) != _beside_metadata(old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_status(self, new: Json, old: Json) -> None:
        written, managed = new.pop("status", None), new["metadata"].get("managedFields")
        asked = new["metadata"].get("resourceVersion")
        new.clear()
        new |= {name: value for name, value in old.items() if name not in ("status", "metadata")}
        new["metadata"] = dict(old["metadata"])
        if asked is not None:
            new["metadata"]["resourceVersion"] = asked
        if managed is not None:
            new["metadata"]["managedFields"] = managed
        else:
            new["metadata"].pop("managedFields", None)
        if written is not None:
            new["status"] = written

    def validate(self, obj: Json) -> FieldErrors:
        errors = schema_validation.validate_schema(obj, self.schema)
        if self._scale is not None:
            errors += _validate_count(obj, self._scale.replicas)
            errors += _validate_count(obj, self._scale.status_replicas)
        if self._embeds:
            errors += structural_schema.validate_embedded_metadata(obj, self.schema)
        return errors + structural_schema.validate_list_types(obj, self.schema)

    def validate_status(self, new: Json, old: Json) -> FieldErrors:
        errors: FieldErrors = []
        if "status" in new:
            schema = structural_schema.field_schema(self.schema, "status") or {}
            for error in schema_validation.validate_schema(new["status"], schema):
                at = f"status.{error.field}" if error.field not in ("", schema_validation.NO_PATH) else "status"
                errors.append(status_errors.FieldError(error.type, at, error.value, error.detail))
        if self._scale is not None:
            errors += _validate_count(new, self._scale.status_replicas)
        return errors + structural_schema.validate_list_types(new, self.schema)


def _beside_metadata(obj: Json) -> Json:
    return {name: value for name, value in obj.items() if name != "metadata"}


def _validate_count(obj: Json, path: tuple[str, ...]) -> FieldErrors:
    """Errors in the value that /scale reads at a path."""
    at = "." + ".".join(path)
    value: Any = obj
    for name in path:
        if not isinstance(value, dict):
            return [_cannot_access(at, value, "map[string]interface {}")]
        if name not in value:
            return []
        value = value[name]
    if not isinstance(value, int) or isinstance(value, bool):
        return [_cannot_access(at, value, "int64")]
    if value < 0:
        return [status_errors.field_invalid(at, value, "should be a non-negative integer")]
    if value > _MOST_REPLICAS:
        return [status_errors.field_invalid(at, value, f"should be less than or equal to {_MOST_REPLICAS}")]
    return []


_GO_TYPES = {
    str: "string",
    bool: "bool",
    float: "float64",
    int: "int64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    type(None): "<nil>",
}


def _cannot_access(at: str, value: Any, expected: str) -> status_errors.FieldError:
    shown = "<nil>" if value is None else value
    reason = f"{at} accessor error: {shown} is of the type {_GO_TYPES[type(value)]}, expected {expected}"
    return status_errors.field_invalid(at, 0, reason)


def make_custom_resource(definition: Json) -> registry.Resource:
    """The resource that a definition defines: its one served version."""
    spec = definition["spec"]
    called = spec["names"]
    version = next(version for version in spec["versions"] if version.get("served"))
    schema = version["schema"]["openAPIV3Schema"]
    subresources = version.get("subresources") or {}
    scale = _read_scale(subresources.get("scale"))
    strategy = CustomResourceStrategy(schema, has_status="status" in subresources, scale=scale)
    is_namespaced = spec["scope"] == "Namespaced"
    selectable = {path.lstrip("."): path for path in _selectable_paths(version)}
    return registry.Resource(
        spec["group"],
        version["name"],
        called["plural"],
        called["kind"],
        is_namespaced,
        structural_schema.type_of_object(schema),
        strategy,
        {"apiVersion": f"{spec['group']}/{version['name']}", "kind": called["kind"]},
        singular=called["singular"],
        short_names=tuple(called.get("shortNames") or ()),
        categories=tuple(called.get("categories") or ()),
        list_kind=called["listKind"],
        is_custom=True,
        has_status="status" in subresources,
        scale=scale,
        extract=_make_extract(selectable) if selectable else None,
        selectable=("metadata.name", *(("metadata.namespace",) if is_namespaced else ()), *selectable),
        columns=_read_columns(version.get("additionalPrinterColumns")),
        uid=definition["metadata"].get("uid", ""),
    )


def _read_scale(spec: Json | None) -> registry.ScalePaths | None:
    if spec is None:
        return None

    def split(path: str | None) -> tuple[str, ...]:
        return tuple(path.lstrip(".").split(".")) if path else ()

    return registry.ScalePaths(
        split(spec["specReplicasPath"]), split(spec["statusReplicasPath"]), split(spec.get("labelSelectorPath"))
    )


def _selectable_paths(version: Json) -> list[str]:
    return [field["jsonPath"] for field in version.get("selectableFields") or ()]


def _make_extract(paths: Mapping[str, str]) -> Any:
    finders = {name: printer_columns.compile_json_path(path) for name, path in paths.items()}

    def extract(obj: Json) -> dict[str, str]:
        extracted = {name: find(obj) if find else [] for name, find in finders.items()}
        return {name: str(values[0]) if values and values[0] is not None else "" for name, values in extracted.items()}

    return extract


def _read_columns(specs: list[Json] | None) -> tuple[printer_columns.Column, ...]:
    if specs is None:
        return (printer_columns.NAME, printer_columns.AGE)
    return (printer_columns.NAME, *(printer_columns.custom_column(spec) for spec in specs))
