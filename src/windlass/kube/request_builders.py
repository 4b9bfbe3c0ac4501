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
"""JSON is YAML: this is the type that every server knows."""

Body = Mapping[str, Any]
Query = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which objects of a resource: of one namespace or all, with these labels, with these fields."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    @property
    def query(self) -> Query:
        return _query(labelSelector=self.labels, fieldSelector=self.fields)


ALL_OBJECTS = ListOptions()


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Who writes, and whether for real."""

    manager: str = ""
    """Owner of the fields, in managedFields; empty lets the server derive it from the user agent."""
    dry_run: bool = False
    """Do everything but keep the result: a way to ask what would happen."""

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
    """A page of a list. Without a resourceVersion it is the newest state; with `0` any that the server has at hand.

    `match` is `Exact` or `NotOlderThan`. The pages after the first are of the first one's resourceVersion.
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
    """A stream of changes after a resourceVersion, with bookmarks, which the server ends after `timeout_s`.

    With `initial_events` the stream begins with everything there is, and a bookmark that says where this ends.
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
    """Replace an object. With the resourceVersion it was read at, it is refused if someone was faster."""
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
    """Change the fields named; null removes one. Lists are replaced whole."""
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
    """Change step by step; a `test` that fails refuses the whole."""
    path = resource.path(namespace, name, subresource)
    return Request("PATCH", path, writer.query, _headers(JSON_PATCH), _encode(patch))


def build_apply(
    resource: Resource[Any], body: Body, *, writer: WriteOptions, subresource: str = "", force: bool = False
) -> Request:
    """Server-side apply: these fields, and no others, are what this manager wants.

    What it applied before and leaves out now is removed. `force` takes fields from other managers instead of failing.
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
    """Set the number of replicas through the scale subresource, if the object is still at that resourceVersion."""
    patch: dict[str, Any] = {"spec": {"replicas": replicas}}
    if resource_version:
        patch["metadata"] = {"resourceVersion": resource_version}
    return build_merge_patch(resource, name, patch, namespace, subresource="scale", writer=writer)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How something is to go."""

    uid: str = ""
    """Only if it is still the one of this uid."""
    resource_version: str = ""
    """Only if it did not change since."""
    grace_s: int | None = None
    """What a pod gets to end; its own grace period if None."""
    propagation: str = ""
    """What becomes of what it owns: `Foreground`, `Background` or `Orphan`; the resource's own way if empty."""


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
    """Ask for a pod to leave, if disruption budgets allow it."""
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
