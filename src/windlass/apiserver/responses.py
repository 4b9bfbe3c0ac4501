"""Content negotiation: a response as the plain object, a Table, metadata alone, or an events.k8s.io Event.

One API call: the resource and object that it addresses, its options and body, and the response.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from windlass import errors
from windlass.apiserver import status_errors, storage, watch
from windlass.apiserver.registry import Resource, ServerState
from windlass.apiserver.value_types import Json
from windlass.apiserver.watch import RenderLine, Watch
from windlass.kube import yaml_documents

_LONGEST_MANAGER = 128
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")

_decode = msgspec.json.Decoder().decode


@dataclass(slots=True)
class ApiResponse:
    """A response: bytes, or a watch that produces them."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    watch: Watch | None = None


@dataclass(slots=True)
class ApiCall:
    """A request on a resource."""

    method: str
    resource: Resource
    namespace: str
    name: str
    subresource: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    now_s: float
    now: str
    """The same time in the format of API objects."""
    warnings: list[str] = field(default_factory=list)
    render: RenderLine | None = None
    """Form of objects in a watch, unless the client negotiates another."""

    @property
    def is_dry_run(self) -> bool:
        asked = self.query.get("dryRun", "")
        if asked and asked != "All":
            raise status_errors.invalid_kind(
                "", "", "", [status_errors.field_not_supported("dryRun", [asked], ["All"])]
            )
        return bool(asked)

    @property
    def field_validation(self) -> str:
        asked = self.query.get("fieldValidation", "")
        if asked not in _VALIDATIONS:
            errors = [status_errors.field_not_supported("fieldValidation", asked, _VALIDATIONS)]
            raise status_errors.invalid_kind(self._options, "meta.k8s.io", "", errors)
        return asked or "Warn"

    @property
    def _options(self) -> str:
        return {"POST": "CreateOptions", "PUT": "UpdateOptions"}.get(self.method, "PatchOptions")

    @property
    def manager(self) -> str:
        """The field manager of the request, or else its user agent."""
        asked = self.query.get("fieldManager", "")
        if len(asked) > _LONGEST_MANAGER:
            errors = [status_errors.field_too_long("fieldManager", _LONGEST_MANAGER)]
            raise status_errors.invalid_kind(self._options, "meta.k8s.io", "", errors)
        if asked:
            return asked
        agent = self.headers.get("user-agent", "").split("/")[0]
        return "".join(letter for letter in agent if letter.isprintable())[:_LONGEST_MANAGER]

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip()

    def read_body(self) -> Any:
        """The body as JSON or YAML."""
        return parse_document(self.body, self.content_type)

    def read_object(self) -> Json:
        obj = self.read_body()
        if not isinstance(obj, dict):
            kind = self.resource.kind
            raise status_errors.bad_request(f"the object provided is unrecognized (must be of type {kind}): no object")
        return obj

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)


def parse_document(body: bytes, content_type: str) -> Any:
    """Parse JSON, or YAML by content type."""
    is_yaml = content_type in ("application/yaml", "application/apply-patch+yaml")
    if content_type in ("", "application/json") or body[:1] == b"{":
        try:
            return _decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            if not is_yaml:
                raise status_errors.bad_request(f"the object provided is unrecognized: {error}") from None
    if is_yaml:
        try:
            documents = [
                _with_string_keys(document) for document in yaml_documents.read_documents(body, "error decoding YAML")
            ]
        except errors.InvalidInput as error:
            raise status_errors.bad_request(str(error)) from None
        if len(documents) > 1:
            raise status_errors.bad_request("error decoding YAML: found several documents, expected one")
        return documents[0] if documents else None
    aside = " (protobuf is left to a real kube-apiserver)" if "protobuf" in content_type else ""
    raise status_errors.unsupported_media_type(("application/json", "application/yaml"), aside)


def parse_documents(text: str) -> list[Json]:
    """YAML documents, those that are empty left out."""
    return [_with_string_keys(document) for document in yaml_documents.read_documents(text, "manifest") if document]


def _with_string_keys(value: Any) -> Any:
    """YAML has keys of any type, JSON has strings: `on: x` is a key `true`."""
    if isinstance(value, dict):
        return {_key_text(key): _with_string_keys(item) for key, item in value.items()}
    return [_with_string_keys(item) for item in value] if isinstance(value, list) else value


def _key_text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


EVENTS_GROUP, EVENTS_VERSION = "events.k8s.io", "v1"

_EVENT_FIELDS = {
    "message": "note",
    "involvedObject": "regarding",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}

_CORE_EVENT_FIELDS = {new: old for old, new in _EVENT_FIELDS.items()}


def event_to_core(event: Json) -> Json:
    """An events.k8s.io Event, or a patch of one, as a core Event."""
    renamed = {_CORE_EVENT_FIELDS.get(name, name): value for name, value in event.items()}
    return renamed | {"apiVersion": "v1"} if "apiVersion" in event else renamed


def event_from_core(event: Json) -> Json:
    renamed = {_EVENT_FIELDS.get(name, name): value for name, value in event.items()}
    return {**renamed, "kind": "Event", "apiVersion": f"{EVENTS_GROUP}/{EVENTS_VERSION}"}


def translate_event_body(body: bytes) -> bytes:
    """A request's body with the field names of core/v1."""
    document = storage.decode_json(body) if body else None
    return storage.encode_json(event_to_core(document)) if isinstance(document, dict) else body


def translate_event_response(body: bytes) -> bytes:
    """A response with the field names of events.k8s.io: events and lists of them; all else unchanged."""
    document = storage.decode_json(body)
    match document.get("kind"):
        case "Event":
            document = event_from_core(document)
        case "EventList":
            items = [event_from_core(item) for item in document["items"]]
            document = {**document, "apiVersion": f"{EVENTS_GROUP}/{EVENTS_VERSION}", "items": items}
    return storage.encode_json(document)


def render_events_line(type_: str, stored: storage.StoredObject) -> bytes:
    """A line of a watch."""
    return storage.make_watch_line(type_, storage.encode_json(event_from_core(stored.decode())))


def make_table(
    resource: Resource, objects: list[Json], metadata: Json, now_s: float, include: str, version: str
) -> Json:
    """A Table of objects. `include` is the part of each object in its row: None, Metadata or Object."""
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
    rows = [_make_row(resource, obj, now_s, include, version) for obj in objects]
    if not metadata and len(objects) == 1:
        metadata = {"resourceVersion": objects[0]["metadata"].get("resourceVersion", "")}
    named = {"kind": "Table", "apiVersion": f"meta.k8s.io/{version}"}
    return {**named, "metadata": metadata, "columnDefinitions": definitions, "rows": rows}


def _make_row(resource: Resource, obj: Json, now_s: float, include: str, version: str) -> Json:
    cells: list[Any] = [column.render(obj, now_s) for column in resource.columns]
    row: Json = {"cells": cells}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        named = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}"}
        row["object"] = {**named, "metadata": obj["metadata"]}
    return row


JSON_HEADERS = {"content-type": "application/json"}

_AS = re.compile(r"\bas=(?P<kind>\w+)")

_VERSION = re.compile(r"\bv=(?P<version>\w+)")

_PLAIN = ("", "*/*", "application/json")


@dataclass(frozen=True, slots=True)
class ResponseForm:
    """The requested form: `Table`, `PartialObjectMetadata`, or empty for the object itself."""

    kind: str = ""
    version: str = "v1"


PLAIN_FORM = ResponseForm()


def negotiate_form(call: ApiCall) -> ResponseForm:
    """The first form of the Accept header that can be served."""
    accept = call.headers.get("accept", "")
    if accept in _PLAIN:
        return PLAIN_FORM
    for media in accept.split(","):
        kind, _, _ = media.strip().partition(";")
        if kind not in ("application/json", "application/*", "*/*"):
            continue
        if not (desired := _AS.search(media)):
            return PLAIN_FORM
        version = _VERSION.search(media)
        if desired["kind"] in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
            return ResponseForm(desired["kind"].removesuffix("List"), version["version"] if version else "v1")
    raise status_errors.not_acceptable(("application/json",))


def json_response(code: int, body: Json) -> ApiResponse:
    return ApiResponse(code, storage.encode_json(body), dict(JSON_HEADERS))


def object_response(call: ApiCall, code: int, raw: bytes) -> ApiResponse:
    """A response with one object in the requested form."""
    form = negotiate_form(call)
    if form is not PLAIN_FORM:
        raw = storage.encode_json(_convert_form(call, form, [storage.decode_json(raw)], {}, is_list=False))
    return ApiResponse(code, raw, dict(JSON_HEADERS))


def make_list_head(resource: Resource, version: int, next_page: str = "", remaining: int | None = None) -> Json:
    """Kind and metadata of a list."""
    metadata: Json = {"resourceVersion": str(version)}
    if next_page or resource.is_custom:
        metadata["continue"] = next_page
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    return {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata}


def list_response(core: ServerState, call: ApiCall, head: Json, items: list[storage.StoredObject]) -> ApiResponse:
    form = negotiate_form(call)
    table = core.table(call.resource)
    if form is PLAIN_FORM:
        if call.resource.is_custom:
            body = storage.join_list_body(head, [stored.raw for stored in items])
        else:
            body = storage.join_list_body(head, [table.item(stored) for stored in items])
        return ApiResponse(200, body, dict(JSON_HEADERS))
    objects = [stored.decode() for stored in items]
    return json_response(200, _convert_form(call, form, objects, head["metadata"], is_list=True))


def _convert_form(call: ApiCall, form: ResponseForm, objects: list[Json], metadata: Json, *, is_list: bool) -> Json:
    if form.kind == "Table":
        include = call.query.get("includeObject", "Metadata")
        return make_table(call.resource, objects, metadata, call.now_s, include, form.version)
    partial = [_partial_metadata(obj, form.version) for obj in objects]
    if not is_list:
        return partial[0]
    api_version = f"meta.k8s.io/{form.version}"
    head: Json = {"kind": "PartialObjectMetadataList", "apiVersion": api_version, "metadata": metadata}
    return head | {"items": partial}


def _partial_metadata(obj: Json, version: str) -> Json:
    named = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}"}
    return {**named, "metadata": obj["metadata"]}


def make_line_renderer(call: ApiCall, form: ResponseForm) -> watch.RenderLine | None:
    """The renderer of a watch's lines for other forms than plain objects."""
    if form is PLAIN_FORM:
        return None
    is_first = True

    def render(type_: str, stored: storage.StoredObject) -> bytes:
        nonlocal is_first
        shaped = _convert_form(call, form, [stored.decode()], {"resourceVersion": str(stored.version)}, is_list=False)
        if form.kind == "Table" and not is_first:
            shaped["columnDefinitions"] = None
        is_first = False
        return storage.make_watch_line(type_, storage.encode_json(shaped))

    return render
