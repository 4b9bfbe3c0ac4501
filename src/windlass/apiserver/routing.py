"""Routing: from a path to what it addresses."""

from dataclasses import dataclass
from urllib import parse

from windlass.apiserver import status
from windlass.apiserver.registry import Registry, Resource

_LEFT_TO_THE_REAL_ONE = {
    "admissionregistration.k8s.io": "admission policies and webhooks",
    "rbac.authorization.k8s.io": "RBAC",
    "authorization.k8s.io": "authorization",
    "authentication.k8s.io": "authentication",
    "apiregistration.k8s.io": "API aggregation",
}
_OF_A_NAMESPACE = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class Target:
    """What a path addresses: a collection, an object, or one of its subresources."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def split(path: str) -> list[str]:
    """The segments of a path, decoded."""
    segments = path.strip("/").split("/")
    return [parse.unquote(segment) for segment in segments] if "%" in path else segments


def find(registry: Registry, segments: list[str]) -> Target:
    """The target of a path under /api or /apis. Refused if nothing is served there."""
    if segments[0] == "api":
        group, version, rest = "", segments[1], segments[2:]
    else:
        if len(segments) < 4:
            raise _nowhere(segments[1] if len(segments) > 1 else "")
        group, version, rest = segments[1], segments[2], segments[3:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and (group or rest[2] not in _OF_A_NAMESPACE):
        namespace, rest = rest[1], rest[2:]
    resource = registry.find(group, version, rest[0])
    if resource is None or len(rest) > 3:
        raise _nowhere(group)
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if resource.is_namespaced is not bool(namespace) and (namespace or name):
        raise _nowhere(group)
    if subresource and subresource not in resource.subresources:
        raise status.no_such_path() if not resource.is_custom else status.not_found(resource, name)
    return Target(resource, namespace, name, subresource)


def _nowhere(group: str) -> status.Refused:
    if said := _LEFT_TO_THE_REAL_ONE.get(group):
        return status.no_such_path(
            f"the server could not find the requested resource ({said}: left to a real kube-apiserver)"
        )
    return status.no_such_path()
