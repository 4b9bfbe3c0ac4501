"""events.k8s.io: the same events under other names of fields."""

from windlass.apiserver import storage
from windlass.apiserver.types.model import Json

GROUP, VERSION = "events.k8s.io", "v1"
_NAMES = {
    "message": "note",
    "involvedObject": "regarding",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_BACK = {new: old for old, new in _NAMES.items()}


def to_core(event: Json) -> Json:
    """An events.k8s.io Event, or a patch of one, as a core Event."""
    renamed = {_BACK.get(name, name): value for name, value in event.items()}
    return renamed | {"apiVersion": "v1"} if "apiVersion" in event else renamed


def from_core(event: Json) -> Json:
    renamed = {_NAMES.get(name, name): value for name, value in event.items()}
    return {**renamed, "kind": "Event", "apiVersion": f"{GROUP}/{VERSION}"}


def translate_body(body: bytes) -> bytes:
    """A request's body in core's names."""
    document = storage.decode(body) if body else None
    return storage.encode(to_core(document)) if isinstance(document, dict) else body


def translate_answer(body: bytes) -> bytes:
    """An answer in events.k8s.io's names: an event, a list of them, or anything else as it is."""
    document = storage.decode(body)
    match document.get("kind"):
        case "Event":
            document = from_core(document)
        case "EventList":
            items = [from_core(item) for item in document["items"]]
            document = {**document, "apiVersion": f"{GROUP}/{VERSION}", "items": items}
    return storage.encode(document)


def render(type_: str, stored: storage.Stored) -> bytes:
    """A watch's line."""
    return storage.make_line(type_, storage.encode(from_core(stored.decode())))
