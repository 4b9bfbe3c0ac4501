"""Restoring: objects as another server returned them, status, uid and age included."""

from collections.abc import Iterable
from typing import Any

from windlass.apiserver import server, status, storage
from windlass.apiserver.types.model import Json
from windlass.kube import transport

_FIRST = ("CustomResourceDefinition", "Namespace", "PriorityClass")
"""Kinds without which others are refused, in order."""
_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
"""Metadata that a server sets for itself, and that clients may refer to."""
_DROPPED = ("resourceVersion", "managedFields", "generation", "selfLink")
_PRIORITY = ("priority", "priorityClassName", "preemptionPolicy")
"""Of a pod: whether or not its PriorityClass is among the objects."""


class Unusable(Exception):
    """An object that cannot be created; the message names it."""


def restore(served: server.Server, objects: Iterable[Any]) -> int:
    """Create objects, kinds and namespaces before what needs them, and return how many. Unusable at the first refusal.

    Lists are taken apart. An owner that is not among them counts as alive: nothing is collected because of it.
    """
    found = [_check(each) for each in _flatten(objects)]
    found.sort(key=lambda obj: _FIRST.index(obj["kind"]) if obj["kind"] in _FIRST else len(_FIRST))
    with served.without_garbage_collection():
        for obj in found:
            try:
                _restore_one(served, obj)
            except status.Refused as refused:
                raise Unusable(f"{_name(obj)}: {refused.message}") from None
            except RecursionError:
                raise Unusable(f"{_name(obj)}: it is nested too deeply") from None
    return len(found)


def _flatten(objects: Iterable[Any]) -> Iterable[Any]:
    for each in objects:
        items = each.get("items") if isinstance(each, dict) else None
        if isinstance(items, list) and str(each.get("kind", "")).endswith("List"):
            named = {"apiVersion": each.get("apiVersion"), "kind": each["kind"].removesuffix("List")}
            yield from ({**named, **item} if isinstance(item, dict) else item for item in items)
        else:
            yield each


def _check(obj: Any) -> Json:
    """An object that says what it is and what it is called."""
    if not isinstance(obj, dict) or not all(isinstance(obj.get(key), str) for key in ("apiVersion", "kind")):
        raise Unusable(f"found {_shorten(obj)}, expected an object with apiVersion and kind")
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name", metadata.get("generateName")), str):
        raise Unusable(f"{obj['kind']}: found metadata {_shorten(metadata)}, expected a name")
    if not isinstance(metadata.get("namespace", ""), str):
        raise Unusable(f"{_name(obj)}: found namespace {_shorten(metadata['namespace'])}, expected a string")
    return obj


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _name(obj: Json) -> str:
    metadata = obj["metadata"]
    name = metadata.get("name") or metadata.get("generateName")
    return f"{obj['kind']} {metadata['namespace']}/{name}" if metadata.get("namespace") else f"{obj['kind']} {name}"


def _restore_one(served: server.Server, obj: Json) -> None:
    resource = served.find_resource(obj)
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _DROPPED}
    if resource.is_namespaced:
        _ensure_namespace(served, metadata.setdefault("namespace", "default"))
    kept = {name: metadata.pop(name) for name in _KEPT if name in metadata}
    spec, priority = obj.get("spec"), {}
    if resource.key == ("", "pods") and isinstance(spec, dict):
        priority = {name: spec[name] for name in _PRIORITY if name in spec}
        spec = {name: value for name, value in spec.items() if name not in _PRIORITY}
    body = {**obj, "metadata": metadata, **({} if spec is None else {"spec": spec})}
    if resource.key == ("", "namespaces") and served.core.find(resource, "", metadata["name"]):
        return
    created = served.create(body)
    if isinstance(obj.get("status"), dict) and resource.has_status:
        created = _set_status(served, created, obj["status"])
    if kept or priority:
        _overwrite(served, created, kept, priority)


def _ensure_namespace(served: server.Server, name: str) -> None:
    if served.core.find(served.core.resource("", "namespaces"), "", name) is None:
        served.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def _set_status(served: server.Server, created: Json, wanted: Json) -> Json:
    path = f"{served.collection(created)}/{created['metadata']['name']}/status"
    body = storage.encode({**created, "status": wanted})
    answer = served.handle(transport.Request("PUT", path, (), {"content-type": "application/json"}, body))
    found: Json = storage.decode(answer.body)
    if answer.status >= 300:
        raise status.Refused(answer.status, "", str(found.get("message")))
    return found


def _overwrite(served: server.Server, created: Json, metadata: Json, spec: Json) -> None:
    """Write past the server's own rules what only the server may say."""
    obj = {**created, "metadata": {**created["metadata"], **metadata}}
    if spec:
        obj["spec"] = {**created["spec"], **spec}
    table = served.core.table(served.find_resource(obj))
    served.core.store.write(table, storage.key_of(obj["metadata"].get("namespace", ""), obj["metadata"]["name"]), obj)
    served.settle()
