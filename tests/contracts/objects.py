"""Builders of objects, and the custom kinds that the contracts are about."""

from typing import Any

from tests.contracts.api_client import Json, Kind

GROUP = "contracts.windlass.example"
GADGETS = Kind(GROUP, "v1", "gadgets", "Gadget")
"""Scale, status, defaults, every type of list and map."""
FREE = Kind(GROUP, "v1", "freeforms", "Freeform", False)
"""Cluster-scoped, without subresources, preserving unknown fields below spec."""
CUSTOM = (GADGETS, FREE)

_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}


def _object(*required: str, **properties: Any) -> Json:
    found: Json = {"type": "object", "properties": properties}
    return found | {"required": list(required)} if required else found


_GADGET_SPEC = _object(
    replicas={"type": "integer", "format": "int32"},
    size={"type": "integer", "minimum": 1, "maximum": 10},
    color={"type": "string", "enum": ["red", "green"]},
    code={"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
    when={"type": "string", "format": "date-time"},
    mode={"type": "string", "default": "auto"},
    limit={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    nullable={"type": "string", "nullable": True},
    tags={"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
    atoms={"type": "array", "items": _STRING, "maxItems": 3},
    ports={
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": _object(
            "port",
            port=_INTEGER,
            protocol={"type": "string", "default": "TCP"},
            name=_STRING,
            weight=_INTEGER,
        ),
    },
    settings={"type": "object", "additionalProperties": _STRING, "maxProperties": 3},
    block={**_object(x=_INTEGER, y=_INTEGER), "x-kubernetes-map-type": "atomic"},
    pair=_object(left=_INTEGER, right=_INTEGER),
    nested=_object(level={"type": "string", "default": "low"}, other=_STRING),
    strict=_object("must", must=_STRING, may=_STRING),
    template=_object(
        metadata=_object(labels={"type": "object", "additionalProperties": _STRING}),
        spec=_object(image=_STRING, extra=_STRING),
    ),
    embedded={
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
)
_GADGET_STATUS = _object(
    replicas=_INTEGER,
    selector=_STRING,
    phase=_STRING,
    conditions={
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": _object("type", "status", type=_STRING, status=_STRING),
    },
)


def _define(kind: Kind, schema: Json, version: Json) -> Json:
    return {
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.is_namespaced else "Cluster",
            "names": {"plural": kind.plural, "kind": kind.kind, "shortNames": [kind.plural[:3]]},
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


DEFINITIONS: tuple[Json, ...] = (
    _define(
        GADGETS,
        _object(spec=_GADGET_SPEC, status=_GADGET_STATUS),
        {
            "subresources": {
                "status": {},
                "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                },
            },
            "additionalPrinterColumns": [
                {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
                {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            ],
            "selectableFields": [{"jsonPath": ".spec.color"}],
        },
    ),
    _define(
        FREE,
        _object(
            spec={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            status={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        ),
        {},
    ),
)


def gadget(name: str = "g", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": spec}


def pod(name: str = "p", labels: Json | None = None, **spec: Any) -> Json:
    """A pod that no scheduler will touch."""
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "metadata": {"name": name, "labels": labels or {"app": "contracts"}},
        "spec": {"schedulerName": "nobody", "containers": [container], **spec},
    }


def node(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": spec}


def deployment(name: str = "d", **spec: Any) -> Json:
    template = pod()
    del template["metadata"]["name"]
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "contracts"}}, "template": template, **spec},
    }


def config_map(name: str = "c", **data: str) -> Json:
    return {"metadata": {"name": name}, "data": data}


def budget(name: str = "b", labels: Json | None = None, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels or {"app": "contracts"}}, **spec}}


def owner(found: Json, **more: Any) -> Json:
    """A reference to an object that owns another."""
    named = {key: found[key] for key in ("apiVersion", "kind")}
    return {**named, "name": found["metadata"]["name"], "uid": found["metadata"]["uid"], **more}
