"""Answers in the form that the client accepts: the plain object, a table, or metadata alone."""

import re
from dataclasses import dataclass

from windlass.apiserver import status, storage, tables, watch
from windlass.apiserver.call import Answer, Call
from windlass.apiserver.core import Core
from windlass.apiserver.registry import Resource
from windlass.apiserver.types.model import Json

JSON_HEADERS = {"content-type": "application/json"}
_AS = re.compile(r"\bas=(?P<kind>\w+)")
_VERSION = re.compile(r"\bv=(?P<version>\w+)")
_PLAIN = ("", "*/*", "application/json")


@dataclass(frozen=True, slots=True)
class Form:
    """The form that a client wants: `Table`, `PartialObjectMetadata`, or empty for the object itself."""

    kind: str = ""
    version: str = "v1"


PLAIN = Form()


def negotiate(call: Call) -> Form:
    """The first form of the Accept header that can be served."""
    accept = call.headers.get("accept", "")
    if accept in _PLAIN:
        return PLAIN
    for media in accept.split(","):
        kind, _, _ = media.strip().partition(";")
        if kind not in ("application/json", "application/*", "*/*"):
            continue
        if not (wanted := _AS.search(media)):
            return PLAIN
        version = _VERSION.search(media)
        if wanted["kind"] in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
            return Form(wanted["kind"].removesuffix("List"), version["version"] if version else "v1")
    raise status.not_acceptable(("application/json",))


def answer_json(code: int, body: Json) -> Answer:
    return Answer(code, storage.encode(body), dict(JSON_HEADERS))


def answer_object(call: Call, code: int, raw: bytes) -> Answer:
    """An object that was read or written, in the form that the client wants."""
    form = negotiate(call)
    if form is not PLAIN:
        raw = storage.encode(_shape(call, form, [storage.decode(raw)], {}, is_list=False))
    return Answer(code, raw, dict(JSON_HEADERS))


def list_head(resource: Resource, version: int, next_page: str = "", remaining: int | None = None) -> Json:
    """Kind and metadata of a list."""
    metadata: Json = {"resourceVersion": str(version)}
    if next_page or resource.is_custom:
        metadata["continue"] = next_page
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    return {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata}


def answer_list(core: Core, call: Call, head: Json, items: list[storage.Stored]) -> Answer:
    form = negotiate(call)
    table = core.table(call.resource)
    if form is PLAIN:
        if call.resource.is_custom:
            body = storage.join_list(head, [stored.raw for stored in items])
        else:
            body = storage.join_list(head, [table.item(stored) for stored in items])
        return Answer(200, body, dict(JSON_HEADERS))
    objects = [stored.decode() for stored in items]
    return answer_json(200, _shape(call, form, objects, head["metadata"], is_list=True))


def _shape(call: Call, form: Form, objects: list[Json], metadata: Json, *, is_list: bool) -> Json:
    if form.kind == "Table":
        include = call.query.get("includeObject", "Metadata")
        return tables.make(call.resource, objects, metadata, call.now_s, include, form.version)
    partial = [_partial(obj, form.version) for obj in objects]
    if not is_list:
        return partial[0]
    api_version = f"meta.k8s.io/{form.version}"
    head: Json = {"kind": "PartialObjectMetadataList", "apiVersion": api_version, "metadata": metadata}
    return head | {"items": partial}


def _partial(obj: Json, version: str) -> Json:
    named = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}"}
    return {**named, "metadata": obj["metadata"]}


def render_event(call: Call, form: Form) -> watch.Render | None:
    """How a watch's lines are made, where the client does not want plain objects."""
    if form is PLAIN:
        return None
    is_first = True

    def render(type_: str, stored: storage.Stored) -> bytes:
        nonlocal is_first
        shaped = _shape(call, form, [stored.decode()], {"resourceVersion": str(stored.version)}, is_list=False)
        if form.kind == "Table" and not is_first:
            shaped["columnDefinitions"] = None
        is_first = False
        return storage.make_line(type_, storage.encode(shaped))

    return render
