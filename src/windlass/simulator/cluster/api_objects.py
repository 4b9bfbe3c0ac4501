"""API objects as parsed JSON: accessors, changed copies, an index of pods by node, and a cache keyed by identity."""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

Json = dict[str, Any]

FINISHED = ("Succeeded", "Failed")


def key_of(obj: Json) -> str:
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def with_part(obj: Json, part: str, **changes: Any) -> Json:
    """The object with some fields of `metadata`, `spec` or `status` replaced; None drops a field."""
    merged = {**(obj.get(part) or {}), **changes}
    return {**obj, part: {name: value for name, value in merged.items() if value is not None}}


def with_annotation(obj: Json, name: str, value: str | None) -> Json:
    annotations = {**(obj["metadata"].get("annotations") or {}), name: value}
    return with_part(obj, "metadata", annotations={key: text for key, text in annotations.items() if text is not None})


def controller_of(obj: Json) -> Json | None:
    """The owner reference of the object's controller."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: Json = owner
            return found
    return None


def owned_by(owner: Json) -> Json:
    """A reference to an object as controller of others."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_deleting(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_finished(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in FINISHED


def is_active(pod: Json) -> bool:
    """Is the pod neither finished nor being deleted?"""
    return not is_deleting(pod) and not is_finished(pod)


def node_of(pod: Json) -> str:
    return str(pod["spec"].get("nodeName") or "")


def condition_of(obj: Json, type_: str) -> Json | None:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition["type"] == type_:
            found: Json = condition
            return found
    return None


def is_ready(obj: Json) -> bool:
    """Does the Ready condition of a pod or node hold?"""
    found = condition_of(obj, "Ready")
    return found is not None and found["status"] == "True"


def with_conditions(obj: Json, conditions: Iterable[Json], now: str) -> list[Json]:
    """The object's conditions with these set. A transition time changes only with the status."""
    found = {condition["type"]: condition for condition in (obj.get("status") or {}).get("conditions") or ()}
    for condition in conditions:
        old = found.get(condition["type"])
        since = old.get("lastTransitionTime", now) if old and old["status"] == condition["status"] else now
        found[condition["type"]] = {**condition, "lastTransitionTime": since}
    return list(found.values())


class PodsByNode:
    """Keys of pods by node, in insertion order."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, None]] = {}

    def add(self, node: str, pod: str) -> None:
        self._by_node.setdefault(node, {})[pod] = None

    def remove(self, node: str, pod: str) -> None:
        held = self._by_node.get(node)
        if held is not None:
            held.pop(pod, None)
            if not held:
                del self._by_node[node]

    def pods_on(self, node: str) -> list[str]:
        return list(self._by_node.get(node, ()))


Value = TypeVar("Value")

_MAX_ENTRIES = 256
"""Few parts are shared at one time. The others belong to one Job each, or to a pod that was decoded again."""


class IdentityCache(Generic[Value]):
    """Values by the identity of an object, which is kept alive with its value, so that its id is not reused."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Value]] = {}

    def get(self, part: object) -> Value | None:
        known = self._known.get(id(part))
        return None if known is None else known[1]

    def put(self, part: object, value: Value) -> Value:
        if len(self._known) >= _MAX_ENTRIES:
            self._known.clear()  # nearly all of these belong to deleted pods
        self._known[id(part)] = part, value
        return value
