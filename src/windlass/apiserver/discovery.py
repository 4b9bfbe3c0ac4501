"""Discovery documents (/api, /apis, aggregated), and a minimal OpenAPI for `kubectl explain`."""

from windlass.apiserver import builtin_types, custom_resources, value_types
from windlass.apiserver.registry import ALL_VERBS, Registry, Resource
from windlass.apiserver.value_types import Json

_SCALARS = {"string": "string", "numeric": "integer", "boolean": "boolean"}

_DEEPEST = 24
"""Levels of nesting in schemas; recursive types end there."""


def openapi_schema(resource: Resource) -> Json:
    """The schema of a kind, from its CRD or its built-in type."""
    if not isinstance(resource.strategy, custom_resources.CustomResourceStrategy):
        return _openapi_type(resource.strategy.struct.type)
    schema = dict(resource.strategy.schema)
    metadata = _openapi_type(builtin_types.find_struct("meta", "ObjectMeta").type)
    named = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": metadata}
    schema["properties"] = {**named, **schema.get("properties", {}), "metadata": metadata}
    return schema


def _openapi_type(type_: value_types.ValueType, depth: int = 0) -> Json:
    if type_.scalar == "untyped" or depth > _DEEPEST:
        return {"type": "object"}
    if type_.scalar:
        return {"type": _SCALARS[type_.scalar]}
    if type_.list is not None:
        return {"type": "array", "items": _openapi_type(type_.list.element, depth + 1)}
    described: Json = {"type": "object"}
    if type_.map is not None and type_.map.fields:
        fields = type_.map.fields.items()
        described["properties"] = {name: _openapi_type(field, depth + 1) for name, field in sorted(fields)}
    elif type_.map is not None and type_.map.element is not None:
        described["additionalProperties"] = _openapi_type(type_.map.element, depth + 1)
    return described


_SUBRESOURCES = {
    "status": ("", ("get", "patch", "update")),
    "scale": ("Scale", ("get", "patch", "update")),
    "binding": ("Binding", ("create",)),
    "eviction": ("Eviction", ("create",)),
    "finalize": ("", ("update",)),
}

_KINDS = {"Scale": ("autoscaling", "v1"), "Eviction": ("policy", "v1"), "Binding": ("", "v1")}


def core_version_list() -> Json:
    """/api"""
    address = {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}


def group_list(registry: Registry) -> Json:
    """/apis"""
    groups = [_group_entry(group, versions) for group, versions in _versions(registry).items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group_document(registry: Registry, name: str) -> Json | None:
    """/apis/GROUP"""
    versions = _versions(registry).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group_entry(name, versions)} if versions else None


def _versions(registry: Registry) -> dict[str, list[str]]:
    versions_by_group: dict[str, list[str]] = {}
    for name, version in registry.versions():
        versions_by_group.setdefault(name, []).append(version)
    return versions_by_group


def _group_entry(name: str, versions: list[str]) -> Json:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def resource_list(registry: Registry, name: str, version: str) -> Json | None:
    """/api/v1 and /apis/GROUP/VERSION"""
    served = registry.versions().get((name, version))
    if served is None:
        return None
    listed = [entry for resource in served for entry in _list_resource(resource)]
    message = f"{name}/{version}" if name else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": message, "resources": listed}


def _list_resource(resource: Resource) -> list[Json]:
    entry: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.is_namespaced,
        "kind": resource.kind,
        "verbs": list(ALL_VERBS),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return [entry, *(_list_subresource(resource, name) for name in resource.subresources)]


def _list_subresource(resource: Resource, name: str) -> Json:
    kind, verbs = _SUBRESOURCES[name]
    entry: Json = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.is_namespaced,
        "kind": kind or resource.kind,
        "verbs": list(verbs),
    }
    if kind and _KINDS[kind] != (resource.group, resource.version):
        group_name, version = _KINDS[kind]
        entry |= {"group": group_name, "version": version}
    return entry


def aggregated_discovery(registry: Registry, *, is_core: bool, version: str = "v2") -> Json:
    """Aggregated discovery of /api or /apis."""
    grouped: dict[str, list[Json]] = {}
    for (name, served_version), served in registry.versions().items():
        if (name == "") is is_core:
            entry = {
                "version": served_version,
                "resources": [_aggregated_resource(r) for r in served],
                "freshness": "Current",
            }
            grouped.setdefault(name, []).append(entry)
    items = [{"metadata": {"name": name} if name else {}, "versions": versions} for name, versions in grouped.items()]
    named = {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}"}
    return {**named, "metadata": {}, "items": items}


def _aggregated_resource(resource: Resource) -> Json:
    entry: Json = {
        "resource": resource.plural,
        "responseKind": _gvk(resource),
        "scope": "Namespaced" if resource.is_namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(ALL_VERBS),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [_aggregated_subresource(resource, name) for name in resource.subresources]
    return entry


def _gvk(resource: Resource) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _aggregated_subresource(resource: Resource, name: str) -> Json:
    kind, verbs = _SUBRESOURCES[name]
    gvk = _gvk(resource)
    if kind:
        group_name, version = _KINDS[kind]
        gvk = {"group": group_name, "version": version, "kind": kind}
    return {"subresource": name, "responseKind": gvk, "verbs": list(verbs)}


# ── OpenAPI: that field validation and dry run are done here, and the fields that `kubectl explain` lists ─────────


def openapi_v3(registry: Registry) -> Json:
    """/openapi/v3"""
    paths = [f"apis/{name}/{version}" if name else f"api/{version}" for name, version in registry.versions()]
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash=embedded"} for path in paths}}


def openapi_v3_of(registry: Registry, name: str, version: str) -> Json | None:
    """/openapi/v3/apis/GROUP/VERSION"""
    served = registry.versions().get((name, version))
    if served is None:
        return None
    root = f"/apis/{name}/{version}" if name else f"/api/{version}"
    document: Json = {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.3"}, "paths": {}}
    document["components"] = {"schemas": {}}
    for resource in served:
        within = "/namespaces/{namespace}" if resource.is_namespaced else ""
        document["paths"][f"{root}{within}/{resource.plural}/{{name}}"] = {"patch": _patch_operation(resource)}
        key = f"{name or 'core'}.{version}.{resource.kind}"
        schema = openapi_schema(resource)
        document["components"]["schemas"][key] = {**schema, "x-kubernetes-group-version-kind": [_gvk(resource)]}
    return document


def _patch_operation(resource: Resource) -> Json:
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string"}}
        for name in ("dryRun", "fieldManager", "fieldValidation", "force")
    ]
    return {
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _gvk(resource),
    }


def openapi_v2() -> Json:
    """/openapi/v2"""
    info = {"title": "Kubernetes", "version": "v1.36.3"}
    return {"swagger": "2.0", "info": info, "paths": {}, "definitions": {}}


def version_info(git_version: str) -> Json:
    """/version"""
    major, minor, _ = git_version.removeprefix("v").split(".", 2)
    return {
        "major": major,
        "minor": minor,
        "gitVersion": git_version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "windlass",
        "platform": "embedded",
    }
