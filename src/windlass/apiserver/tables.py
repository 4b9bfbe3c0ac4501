"""Tables: what `kubectl get` prints, with the columns that the kind has."""

from typing import Any

from windlass.apiserver.registry import Resource
from windlass.apiserver.types.model import Json


def make(resource: Resource, objects: list[Json], metadata: Json, now_s: float, include: str, version: str) -> Json:
    """A Table of objects. `include` says how much of each object comes along: None, Metadata or Object."""
    definitions = [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in resource.columns
    ]
    rows = [_row(resource, obj, now_s, include, version) for obj in objects]
    if not metadata and len(objects) == 1:
        metadata = {"resourceVersion": objects[0]["metadata"].get("resourceVersion", "")}
    named = {"kind": "Table", "apiVersion": f"meta.k8s.io/{version}"}
    return {**named, "metadata": metadata, "columnDefinitions": definitions, "rows": rows}


def _row(resource: Resource, obj: Json, now_s: float, include: str, version: str) -> Json:
    cells: list[Any] = [column.render(obj, now_s) for column in resource.columns]
    row: Json = {"cells": cells}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        named = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}"}
        row["object"] = {**named, "metadata": obj["metadata"]}
    return row
