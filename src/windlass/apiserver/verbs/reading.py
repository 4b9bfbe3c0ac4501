"""GET: one object, a list, or a watch."""

from windlass.apiserver import paging, rendering, selecting, status, watch
from windlass.apiserver.call import Answer, Call
from windlass.apiserver.core import Core

_TRUE = ("true", "1", "True")


def get(core: Core, call: Call) -> Answer:
    version = paging.parse_version(call.query.get("resourceVersion", ""))
    if version > core.store.version:
        raise status.too_large_resource_version(version, core.store.version)
    stored = core.find(call.resource, call.namespace, call.name)
    if stored is None:
        raise status.not_found(call.resource, call.name)
    return rendering.answer_object(call, 200, stored.raw)


def list_objects(core: Core, call: Call, pager: paging.Pager) -> Answer:
    if is_watch(call):
        return start_watch(core, call)
    if "sendInitialEvents" in call.query:
        error = status.forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")
        raise status.invalid_kind("ListOptions", "meta.k8s.io", "", [error])
    query = call.query
    wish = paging.Wish(
        _read_limit(query.get("limit", "")),
        query.get("continue", ""),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
    )
    page = pager.cut(core.table(call.resource), call.namespace, _make_filter(call, is_within=True), wish)
    head = rendering.list_head(call.resource, page.version, page.next_page, page.remaining)
    return rendering.answer_list(core, call, head, page.items)


def _read_limit(text: str) -> int:
    try:
        return int(text or 0)
    except ValueError:
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _make_filter(call: Call, *, is_within: bool = False) -> selecting.Filter | None:
    labels = selecting.read_labels(call.query.get("labelSelector", ""))
    fields = selecting.read_fields(call.query.get("fieldSelector", ""), call.resource.selectable)
    if call.name:
        fields = (*fields, selecting.FieldRequirement("metadata.name", call.name, True))
    return selecting.make_filter("" if is_within else call.namespace, labels, fields)


# ── Watching ─────────────────────────────────────────────────────────────────────────────────────────────────────


def is_watch(call: Call) -> bool:
    return call.query.get("watch") in _TRUE


def start_watch(core: Core, call: Call) -> Answer:
    """A watch from a version; from now, after all there is, if none is given."""
    query = call.query
    version_text = query.get("resourceVersion", "")
    initial = _wants_initial_events(call, version_text)
    version = paging.parse_version(version_text)
    table = core.table(call.resource)
    accepts = _make_filter(call)
    started = watch.Watch(
        table,
        accepts,
        most_unread=core.settings.most_unread,
        zero=call.resource.zero,
        render=call.render or rendering.render_event(call, rendering.negotiate(call)),
    )
    started.sends_bookmarks = query.get("allowWatchBookmarks") in _TRUE
    started.timeout_s = float(query.get("timeoutSeconds") or 0)
    answer = Answer(200, headers=dict(rendering.JSON_HEADERS), watch=started)
    if version > core.store.version:
        started.refuse(status.too_large_resource_version(version, core.store.version))
        return answer
    if initial:
        started.introduce([stored for stored in table.within(call.namespace) if accepts is None or accepts(stored)])
        if started.sends_bookmarks:
            started.bookmark(core.store.version, ends_initial_events=True)
    elif version_text not in ("", "0"):
        if version < table.floor:
            started.refuse(status.expired(f"too old resource version: {version} ({table.floor})"))
            return answer
        started.replay(table.since(version))
    started.start()
    return answer


def _wants_initial_events(call: Call, version_text: str) -> bool:
    asked, match = call.query.get("sendInitialEvents"), call.query.get("resourceVersionMatch", "")
    errors = []
    if asked is not None and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(status.forbidden_field("resourceVersionMatch", why))
    if asked is None and match:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        errors.append(status.forbidden_field("resourceVersionMatch", why))
    if errors:
        raise status.invalid_kind("ListOptions", "meta.k8s.io", "", errors)
    if asked is not None:
        return asked in _TRUE
    return version_text in ("", "0")
