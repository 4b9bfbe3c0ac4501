"""Discovery of the resources that a server serves.

For kinds that are not known in advance, such as infrastructure templates, and for versions that differ between servers.
"""

from typing import Any

import msgspec

from windlass.kube import client, errors
from windlass.kube.models.meta import Model
from windlass.kube.resources import Resource, Unstructured, decoder
from windlass.kube.transport import Request

_JSON = {"accept": "application/json"}


class ApiResource(Model, frozen=True):
    """A resource or subresource (`nodes/status`) of a group version."""

    name: str
    kind: str
    namespaced: bool = False
    verbs: list[str] | None = None


class _ResourceList(Model, frozen=True):
    resources: list[ApiResource] | None = None


class _Version(Model, frozen=True):
    group_version: str
    version: str


class _Group(Model, frozen=True):
    name: str
    versions: list[_Version] | None = None
    preferred_version: _Version | None = None


class _GroupList(Model, frozen=True):
    groups: list[_Group] | None = None


async def list_resources(api: client.Client, api_version: str) -> list[ApiResource]:
    """The resources of a group version; empty if the server lacks it."""
    path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    resource_list = await _get(api, path, _ResourceList)
    return [] if resource_list is None else resource_list.resources or []


async def find_resource(api: client.Client, api_version: str, kind: str) -> Resource[Unstructured] | None:
    """The resource of a kind; None if the server lacks it."""
    for resource in await list_resources(api, api_version):
        if resource.kind == kind and "/" not in resource.name:
            return Resource(api_version, resource.name, kind, resource.namespaced, Unstructured)
    return None


async def has_resource(api: client.Client, resource: Resource[Any], subresource: str = "") -> bool:
    """True if the server serves a resource, and its subresource if given."""
    name = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return any(api_resource.name == name for api_resource in await list_resources(api, resource.api_version))


async def list_versions(api: client.Client, group: str) -> list[str]:
    """The served apiVersions of a group, the preferred one first."""
    groups = await _get(api, "/apis", _GroupList)
    for api_group in (groups.groups if groups else None) or ():
        if api_group.name == group:
            preferred = api_group.preferred_version.group_version if api_group.preferred_version else ""
            names = [version.group_version for version in api_group.versions or ()]
            return sorted(names, key=lambda name: name != preferred)
    return []


async def _get(api: client.Client, path: str, model: type[client.T]) -> client.T | None:
    request = Request("GET", path, headers=_JSON)
    try:
        return decoder(model).decode(await api.call(request))
    except errors.NotFound:
        return None
    except msgspec.MsgspecError as error:
        raise errors.InvalidResponse(request.call, str(error)) from error
