"""What the provider knows, and how it changes it: the newest state seen of every object, kept by watches."""

import time
from collections.abc import Iterator
from typing import Any

from testbed.infrastructure import api, definitions

Object = dict[str, Any]
Key = tuple[str, str, str]
"""Resource, namespace, name."""

_INFRASTRUCTURE = f"/apis/{definitions.GROUP}/{definitions.VERSION}"
_CLUSTER_API = "/apis/cluster.x-k8s.io/v1beta2"

RESOURCES = {
    "fakeclusters": _INFRASTRUCTURE,
    "fakemachinetemplates": _INFRASTRUCTURE,
    "fakemachines": _INFRASTRUCTURE,
    "fakemachinepools": _INFRASTRUCTURE,
    "machines": _CLUSTER_API,
    "machinedeployments": _CLUSTER_API,
    "machinepools": _CLUSTER_API,
}
"""All that is watched."""


class World:
    """Objects by resource, and since when they are as they are."""

    def __init__(self, server: api.Api) -> None:
        self.api = server
        self._known: dict[str, dict[tuple[str, str], Object]] = {resource: {} for resource in RESOURCES}
        self._since_s: dict[tuple[str, str], float] = {}
        self._done: dict[str, str] = {}
        self._registered: set[str] = set()

    def find(self, resource: str, namespace: str, name: str) -> Object | None:
        return self._known[resource].get((namespace, name))

    def all(self, resource: str, namespace: str) -> Iterator[Object]:
        return (body for (where, _), body in self._known[resource].items() if where == namespace)

    def put(self, resource: str, body: Object) -> None:
        """Take note of a state, unless a newer one is known: answers and watch events overtake each other."""
        metadata = body["metadata"]
        known = self.find(resource, metadata["namespace"], metadata["name"])
        if known is None or known["metadata"]["uid"] != metadata["uid"] or _version(known) < _version(body):
            self._known[resource][metadata["namespace"], metadata["name"]] = body

    def replace(self, resource: str, bodies: list[Object]) -> None:
        """Take note of a whole list: what is not on it is gone."""
        uids = {body["metadata"]["uid"] for body in bodies}
        for known in list(self._known[resource].values()):
            if known["metadata"]["uid"] not in uids:
                self.drop(resource, known)
        for body in bodies:
            self.put(resource, body)

    def drop(self, resource: str, body: Object) -> None:
        metadata = body["metadata"]
        known = self.find(resource, metadata["namespace"], metadata["name"])
        if known is not None and known["metadata"]["uid"] == metadata["uid"]:
            del self._known[resource][metadata["namespace"], metadata["name"]]

    def left_s(self, body: Object, stage: str, lasts_s: float) -> float:
        """How much longer an object stays in a stage that lasts so long; it entered it when this was first asked."""
        since_s = self._since_s.setdefault((body["metadata"]["uid"], stage), time.monotonic())
        return max(0.0, since_s + lasts_s - time.monotonic())

    def note_registered(self, body: Object) -> None:
        """There is a Node of this machine, though its status does not say so yet."""
        self._registered.add(body["metadata"]["uid"])

    def is_registered(self, body: Object) -> bool:
        return body["metadata"]["uid"] in self._registered

    def note_done(self, body: Object, what: str) -> None:
        """What was wanted last of an object has been done: it need not be looked into again."""
        self._done[body["metadata"]["uid"]] = what

    def is_done(self, body: Object, what: str) -> bool:
        return self._done.get(body["metadata"]["uid"]) == what

    async def patch(self, resource: str, body: Object, change: Object, subresource: str = "") -> Object:
        """Merge a change into an object. Returns its new state."""
        path = "/".join(filter(None, [path_of(resource, body), subresource]))
        after = await self.api.call("PATCH", path, change, api.MERGE)
        if after["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers"):
            self.drop(resource, after)
        else:
            self.put(resource, after)
        return after

    async def create(self, resource: str, namespace: str, body: Object) -> None:
        self.put(
            resource, await self.api.call("POST", f"{RESOURCES[resource]}/namespaces/{namespace}/{resource}", body)
        )

    async def delete(self, resource: str, body: Object) -> None:
        """Delete an object; what is known of it says so at once, if it lives on for its finalizers."""
        answer = await self.api.call("DELETE", path_of(resource, body))
        if answer["kind"] != "Status":
            self.put(resource, answer)


def path_of(resource: str, body: Object) -> str:
    metadata = body["metadata"]
    return f"{RESOURCES[resource]}/namespaces/{metadata['namespace']}/{resource}/{metadata['name']}"


def _version(body: Object) -> int:
    return int(body["metadata"]["resourceVersion"])
