"""HTTP request builders, one per API verb. No I/O.

The client sends the requests that these functions return. Writes take objects as JSON, so that fields that windlass
does not know survive.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.kube.resources import Resource
from windlass.kube.transport import Request

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
"""Content type of apply patches, which every server supports. JSON is valid YAML."""

Body = Mapping[str, Any]
Query = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Selection of a list or watch: namespace, label selector, field selector."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    @property
    def query(self) -> Query:
        return _query(labelSelector=self.labels, fieldSelector=self.fields)


ALL_OBJECTS = ListOptions()


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Field manager and dry-run of a write."""

    manager: str = ""
    """Field manager; empty lets the server derive it from the user agent."""
    dry_run: bool = False
    """Execute without storing the result."""

    @property
    def query(self) -> Query:
        return _query(fieldManager=self.manager, dryRun="All" if self.dry_run else "")


DEFAULT_WRITE_OPTIONS = WriteOptions()


def build_get(resource: Resource[Any], name: str, namespace: str = "", subresource: str = "") -> Request:
    return Request("GET", resource.path(namespace, name, subresource), headers=_headers())


def build_list(
    resource: Resource[Any],
    selection: ListOptions = ALL_OBJECTS,
    *,
    limit: int = 0,
    continue_token: str = "",
    resource_version: str = "",
    match: str = "",
) -> Request:
    """A page of a list. Without resourceVersion the newest state; with `0` any cached one.

    `match` is `Exact` or `NotOlderThan`. Later pages have the resourceVersion of the first.
    """
    if continue_token:
        resource_version = match = ""
    query = selection.query + _query(
        limit=str(limit or ""),
        **{"continue": continue_token},
        resourceVersion=resource_version,
        resourceVersionMatch=match,
    )
    return Request("GET", resource.path(selection.namespace), query, _headers())


def build_watch(
    resource: Resource[Any],
    selection: ListOptions = ALL_OBJECTS,
    *,
    resource_version: str = "",
    timeout_s: int,
    silence_s: float,
    initial_events: bool = False,
) -> Request:
    """A watch after a resourceVersion, with bookmarks and a server-side timeout.

    With `initial_events` the stream begins with all objects, followed by a bookmark (streaming list).
    """
    query = selection.query + _query(
        watch="true",
        allowWatchBookmarks="true",
        resourceVersion=resource_version,
        timeoutSeconds=str(timeout_s),
        sendInitialEvents="true" if initial_events else "",
        resourceVersionMatch="NotOlderThan" if initial_events else "",
    )
    return Request("GET", resource.path(selection.namespace), query, _headers(), timeout_s=silence_s)


def build_create(
    resource: Resource[Any], body: Body, namespace: str = "", *, writer: WriteOptions = DEFAULT_WRITE_OPTIONS
) -> Request:
    path = resource.path(namespace or _namespace(body))
    return Request("POST", path, writer.query, _headers(JSON), _encode(body))


def build_update(
    resource: Resource[Any], body: Body, *, subresource: str = "", writer: WriteOptions = DEFAULT_WRITE_OPTIONS
) -> Request:
    """Replace an object. An outdated resourceVersion is a conflict."""
    path = resource.path(_namespace(body), body["metadata"]["name"], subresource)
    return Request("PUT", path, writer.query, _headers(JSON), _encode(body))


def build_merge_patch(
    resource: Resource[Any],
    name: str,
    patch: Body,
    namespace: str = "",
    *,
    subresource: str = "",
    writer: WriteOptions = DEFAULT_WRITE_OPTIONS,
) -> Request:
    """Merge patch (RFC 7386): null removes a field, and lists are replaced whole."""
    path = resource.path(namespace, name, subresource)
    return Request("PATCH", path, writer.query, _headers(MERGE_PATCH), _encode(patch))


def build_json_patch(
    resource: Resource[Any],
    name: str,
    patch: Sequence[Body],
    namespace: str = "",
    *,
    subresource: str = "",
    writer: WriteOptions = DEFAULT_WRITE_OPTIONS,
) -> Request:
    """JSON patch (RFC 6902): a failed `test` rejects it."""
    path = resource.path(namespace, name, subresource)
    return Request("PATCH", path, writer.query, _headers(JSON_PATCH), _encode(patch))


def build_apply(
    resource: Resource[Any], body: Body, *, writer: WriteOptions, subresource: str = "", force: bool = False
) -> Request:
    """Server-side apply of the fields that the manager wants.

    Fields of its last apply that are missing now are removed. `force` takes fields from other managers.
    """
    whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    path = resource.path(_namespace(body), body["metadata"]["name"], subresource)
    query = writer.query + _query(force="true" if force else "")
    return Request("PATCH", path, query, _headers(APPLY_PATCH), _encode(whole))


def build_scale(
    resource: Resource[Any],
    name: str,
    replicas: int,
    namespace: str = "",
    *,
    resource_version: str = "",
    writer: WriteOptions = DEFAULT_WRITE_OPTIONS,
) -> Request:
    """Set replicas through the scale subresource, with a resourceVersion precondition."""
    patch: dict[str, Any] = {"spec": {"replicas": replicas}}
    if resource_version:
        patch["metadata"] = {"resourceVersion": resource_version}
    return build_merge_patch(resource, name, patch, namespace, subresource="scale", writer=writer)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a deletion."""

    uid: str = ""
    """Precondition: uid."""
    resource_version: str = ""
    """Precondition: resourceVersion."""
    grace_s: int | None = None
    """Grace period of a pod; None for its own."""
    propagation: str = ""
    """Propagation policy: `Foreground`, `Background` or `Orphan`; empty for the resource's default."""


DEFAULT_DELETE_OPTIONS = DeleteOptions()


def build_delete(
    resource: Resource[Any],
    name: str,
    namespace: str = "",
    how: DeleteOptions = DEFAULT_DELETE_OPTIONS,
    *,
    writer: WriteOptions = DEFAULT_WRITE_OPTIONS,
) -> Request:
    body = _encode(_delete_options(how, writer))
    return Request("DELETE", resource.path(namespace, name), (), _headers(JSON), body)


def build_evict(
    pods: Resource[Any],
    name: str,
    namespace: str,
    how: DeleteOptions = DEFAULT_DELETE_OPTIONS,
    *,
    writer: WriteOptions = DEFAULT_WRITE_OPTIONS,
) -> Request:
    """Evict a pod, subject to PodDisruptionBudgets."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": _delete_options(how, writer),
    }
    return Request("POST", pods.path(namespace, name, "eviction"), (), _headers(JSON), _encode(body))


def _delete_options(how: DeleteOptions, writer: WriteOptions) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = dict(_query(uid=how.uid, resourceVersion=how.resource_version))
    if preconditions:
        options["preconditions"] = preconditions
    if how.grace_s is not None:
        options["gracePeriodSeconds"] = how.grace_s
    if how.propagation:
        options["propagationPolicy"] = how.propagation
    if writer.dry_run:
        options["dryRun"] = ["All"]
    return options


def _namespace(body: Body) -> str:
    namespace = body.get("metadata", {}).get("namespace")
    return namespace if isinstance(namespace, str) else ""


def _query(**parameters: str) -> Query:
    return tuple((name, value) for name, value in parameters.items() if value)


def _headers(content: str = "") -> dict[str, str]:
    return {"accept": JSON, **({"content-type": content} if content else {})}


def _encode(body: object) -> bytes:
    return msgspec.json.encode(body)
