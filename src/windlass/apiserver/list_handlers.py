"""GET handlers: one object, a list in pages, or a watch.

All pages of a list show the same resourceVersion. Once the history no longer reaches back to it the list cannot
continue; the 410 response carries a token that continues with the current state.
"""

import base64
import bisect
from collections import OrderedDict
from dataclasses import dataclass

import msgspec

from windlass.apiserver import responses, status_errors, storage, watch
from windlass.apiserver.registry import ServerState
from windlass.apiserver.responses import ApiCall, ApiResponse

_LIST_TOO_OLD = "The resourceVersion for the provided list is too old."

_PAGE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)

_MOST_SNAPSHOTS = 8

_INCONSISTENT = -1


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page."""

    items: list[storage.StoredObject]
    version: int
    next_page: str = ""
    remaining: int | None = None


class _ContinueToken(msgspec.Struct):
    v: str
    rv: int
    start: str


@dataclass(frozen=True, slots=True)
class ListRequest:
    """Parameters of a list request."""

    limit: int = 0
    token: str = ""
    version: str = ""
    match: str = ""


class ListPager:
    """Serves lists, and keeps the versions that continue tokens refer to."""

    def __init__(self, store: storage.ObjectStore) -> None:
        self._store = store
        self._snapshots: OrderedDict[tuple[int, int], tuple[list[str], dict[str, storage.StoredObject]]] = OrderedDict()

    def list_page(
        self, table: storage.ResourceTable, namespace: str, accepts: storage.ObjectFilter | None, request: ListRequest
    ) -> ListPage:
        _check_list_request(request)
        if request.token:
            return self._continue_list(table, namespace, accepts, request)
        version = parse_version(request.version)
        if version > self._store.version:
            raise status_errors.too_large_resource_version(version, self._store.version)
        is_exact = request.match == "Exact" or (not request.match and request.limit > 0 and version > 0)
        # resourceVersion=0 returns the whole list: kube-apiserver's cache does not page.
        limit = 0 if request.version == "0" else request.limit
        if is_exact:
            if version < table.floor:
                raise status_errors.expired(_LIST_TOO_OLD)
            return self._cut_at(table, namespace, accepts, limit, version, "")
        if limit:
            return self._cut_at(table, namespace, accepts, limit, self._store.version, "")
        items = [stored for stored in table.list_namespace(namespace) if accepts is None or accepts(stored)]
        return ListPage(items, self._store.version)

    def _continue_list(
        self, table: storage.ResourceTable, namespace: str, accepts: storage.ObjectFilter | None, request: ListRequest
    ) -> ListPage:
        token = _read_token(request.token)
        if token.rv == _INCONSISTENT:
            return self._cut_at(table, namespace, accepts, request.limit, self._store.version, token.start)
        if token.rv < table.floor:
            anew = _write_token(_INCONSISTENT, token.start)
            raise status_errors.expired(_PAGE_TOO_OLD, anew)
        return self._cut_at(table, namespace, accepts, request.limit, token.rv, token.start)

    def _cut_at(
        self,
        table: storage.ResourceTable,
        namespace: str,
        accepts: storage.ObjectFilter | None,
        limit: int,
        version: int,
        start: str,
    ) -> ListPage:
        keys, objects = self._at(table, version)
        first, end = 0, len(keys)
        if namespace:
            first, end = bisect.bisect_left(keys, namespace + "/"), bisect.bisect_left(keys, namespace + "0")
        if start:
            first = bisect.bisect_left(keys, start, first, end)
        items: list[storage.StoredObject] = []
        for i in range(first, end):
            stored = objects[keys[i]]
            if accepts is None or accepts(stored):
                items.append(stored)
            if limit and len(items) >= limit and i + 1 < end:
                remaining = end - i - 1 if accepts is None else None
                return ListPage(items, version, _write_token(version, keys[i] + "\0"), remaining)
        return ListPage(items, version)

    def _at(self, table: storage.ResourceTable, version: int) -> tuple[list[str], dict[str, storage.StoredObject]]:
        remembered = self._snapshots.get((id(table), version))
        if remembered is not None:
            self._snapshots.move_to_end((id(table), version))
            return remembered
        if version == self._store.version:
            keys_and_objects = (table.keys(), dict(table.objects))
        else:
            objects = table.at(version)
            keys_and_objects = (sorted(objects), objects)
        self._snapshots[id(table), version] = keys_and_objects
        while len(self._snapshots) > _MOST_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return keys_and_objects


def _check_list_request(request: ListRequest) -> None:
    errors = []
    if request.match:
        if not request.version:
            reason = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            errors.append(status_errors.field_forbidden("resourceVersionMatch", reason))
        if request.token:
            reason = "resourceVersionMatch is forbidden when continue is provided"
            errors.append(status_errors.field_forbidden("resourceVersionMatch", reason))
        if request.match not in ("Exact", "NotOlderThan"):
            supported = ("Exact", "NotOlderThan", "")
            errors.append(status_errors.field_not_supported("resourceVersionMatch", request.match, supported))
        if request.match == "Exact" and request.version == "0":
            reason = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(status_errors.field_forbidden("resourceVersionMatch", reason))
    if errors:
        raise status_errors.invalid_kind("ListOptions", "meta.k8s.io", "", errors)
    if request.token and request.version not in ("", "0"):
        raise status_errors.bad_request("specifying resource version is not allowed when using continue")


def parse_version(version: str) -> int:
    """Parse a resourceVersion; 0 if empty."""
    if not version.isdigit() and version:
        reason = f'strconv.ParseUint: parsing "{version}": invalid syntax'
        raise status_errors.bad_request(f'resourceVersion: Invalid value: "{version}": {reason}')
    return int(version or 0)


def _write_token(version: int, start: str) -> str:
    encoded = msgspec.json.encode(_ContinueToken("meta.k8s.io/v1", version, start))
    return base64.urlsafe_b64encode(encoded).rstrip(b"=").decode()


def _read_token(text: str) -> _ContinueToken:
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_ContinueToken)
    except ValueError as error:
        raise status_errors.bad_request(f"continue key is not valid: {error}") from None


_TRUE = ("true", "1", "True")


def get_object(core: ServerState, call: ApiCall) -> ApiResponse:
    version = parse_version(call.query.get("resourceVersion", ""))
    if version > core.store.version:
        raise status_errors.too_large_resource_version(version, core.store.version)
    stored = core.find(call.resource, call.namespace, call.name)
    if stored is None:
        raise status_errors.not_found(call.resource, call.name)
    return responses.object_response(call, 200, stored.raw)


def list_objects(core: ServerState, call: ApiCall, pager: ListPager) -> ApiResponse:
    if is_watch(call):
        return start_watch(core, call)
    if "sendInitialEvents" in call.query:
        error = status_errors.field_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
        raise status_errors.invalid_kind("ListOptions", "meta.k8s.io", "", [error])
    query = call.query
    request = ListRequest(
        _read_limit(query.get("limit", "")),
        query.get("continue", ""),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
    )
    page = pager.list_page(core.table(call.resource), call.namespace, _make_filter(call, is_within=True), request)
    head = responses.make_list_head(call.resource, page.version, page.next_page, page.remaining)
    return responses.list_response(core, call, head, page.items)


def _read_limit(text: str) -> int:
    try:
        return int(text or 0)
    except ValueError:
        raise status_errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _make_filter(call: ApiCall, *, is_within: bool = False) -> storage.ObjectFilter | None:
    labels = storage.parse_label_query(call.query.get("labelSelector", ""))
    fields = storage.parse_field_query(call.query.get("fieldSelector", ""), call.resource.selectable)
    if call.name:
        fields = (*fields, storage.FieldRequirement("metadata.name", call.name, True))
    return storage.make_object_filter("" if is_within else call.namespace, labels, fields)


# ── Watching ─────────────────────────────────────────────────────────────────────────────────────────────────────


def is_watch(call: ApiCall) -> bool:
    return call.query.get("watch") in _TRUE


def start_watch(core: ServerState, call: ApiCall) -> ApiResponse:
    """A watch from a version; without one, from the current state with initial events."""
    query = call.query
    version_text = query.get("resourceVersion", "")
    initial = _wants_initial_events(call, version_text)
    version = parse_version(version_text)
    table = core.table(call.resource)
    accepts = _make_filter(call)
    started = watch.Watch(
        table,
        accepts,
        most_unread=core.settings.most_unread,
        zero=call.resource.zero,
        render=call.render or responses.make_line_renderer(call, responses.negotiate_form(call)),
    )
    started.sends_bookmarks = query.get("allowWatchBookmarks") in _TRUE
    started.timeout_s = float(query.get("timeoutSeconds") or 0)
    answer = ApiResponse(200, headers=dict(responses.JSON_HEADERS), watch=started)
    if version > core.store.version:
        started.send_error(status_errors.too_large_resource_version(version, core.store.version))
        return answer
    if initial:
        started.send_initial(
            [stored for stored in table.list_namespace(call.namespace) if accepts is None or accepts(stored)]
        )
        if started.sends_bookmarks:
            started.send_bookmark(core.store.version, ends_initial_events=True)
    elif version_text not in ("", "0"):
        if version < table.floor:
            started.send_error(status_errors.expired(f"too old resource version: {version} ({table.floor})"))
            return answer
        started.replay(table.since(version))
    started.start()
    return answer


def _wants_initial_events(call: ApiCall, version_text: str) -> bool:
    asked, match = call.query.get("sendInitialEvents"), call.query.get("resourceVersionMatch", "")
    errors = []
    if asked is not None and match != "NotOlderThan":
        reason = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(status_errors.field_forbidden("resourceVersionMatch", reason))
    if asked is None and match:
        reason = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        errors.append(status_errors.field_forbidden("resourceVersionMatch", reason))
    if errors:
        raise status_errors.invalid_kind("ListOptions", "meta.k8s.io", "", errors)
    if asked is not None:
        return asked in _TRUE
    return version_text in ("", "0")
