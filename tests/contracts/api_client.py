"""The tiny client of the contract tests: paths, verbs and watches, nothing hidden."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from windlass.kube import transport

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_PATIENCE_S = 120.0

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Kind:
    """Where a kind is served."""

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


PODS = Kind("", "v1", "pods", "Pod")
NODES = Kind("", "v1", "nodes", "Node", False)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", False)
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap")
SECRETS = Kind("", "v1", "secrets", "Secret")
EVENTS = Kind("", "v1", "events", "Event")
DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet")
BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease")
PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
STORAGE_CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
DEFINITIONS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)
POLICIES = Kind("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, whole."""

    code: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def obj(self) -> Json:
        decoded: Json = msgspec.json.decode(self.raw)
        return decoded

    @property
    def message(self) -> str:
        return str(self.obj.get("message", ""))

    @property
    def reason(self) -> str:
        return str(self.obj.get("reason", ""))

    @property
    def metadata(self) -> Json:
        found: Json = self.obj["metadata"]
        return found

    @property
    def version(self) -> str:
        return str(self.metadata["resourceVersion"])

    @property
    def managed(self) -> list[Json]:
        return list(self.metadata.get("managedFields") or ())

    @property
    def causes(self) -> list[Json]:
        return list((self.obj.get("details") or {}).get("causes") or ())

    def expect(self, code: int) -> "Reply":
        assert self.code == code, f"{self.code}, not {code}: {self.raw[:2000]!r}"
        return self


class Events:
    """A watch's events, one after the other."""

    def __init__(self, response: transport.Response) -> None:
        self.code = response.status
        self._stream = response.stream
        self._chunks = aiter(response.stream)
        self._buffer = b""
        self._lines: list[bytes] = []

    async def next(self, patience_s: float = _PATIENCE_S) -> Json:
        """The next event, or TimeoutError; StopAsyncIteration at the end of the stream."""
        while not self._lines:
            async with asyncio.timeout(patience_s):
                self._buffer += await anext(self._chunks)
            *self._lines, self._buffer = self._buffer.split(b"\n")
        event: Json = msgspec.json.decode(self._lines.pop(0))
        return event

    async def is_silent(self, seconds: float = 0.3) -> bool:
        """Does nothing come for a while? The stream cannot be read any further afterwards."""
        try:
            await self.next(seconds)
        except TimeoutError:
            return True
        return False

    async def close(self) -> None:
        await self._stream.aclose()


@dataclass(frozen=True, slots=True)
class Api:
    """One server, one namespace of our own, one name for who we are."""

    carrier: transport.Transport
    namespace: str
    is_real: bool
    agent: str = "contracts"
    made: list[str] = field(default_factory=list)
    """Paths of what has no namespace and must be removed in the end."""

    def acting_as(self, agent: str) -> "Api":
        return replace(self, agent=agent)

    def name(self, base: str = "thing") -> str:
        """A name that nothing else has, for what has no namespace."""
        return f"{base}-{self.namespace}-{next(_numbers)}"

    def path(self, kind: Kind, name: str = "", sub: str = "", namespace: str | None = None) -> str:
        where = self.namespace if namespace is None else namespace
        within = f"/namespaces/{where}" if kind.is_namespaced and where else ""
        return f"{kind.root}{within}/{kind.plural}" + (f"/{name}" if name else "") + (f"/{sub}" if sub else "")

    async def open(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> transport.Response:
        headers = {"accept": accept, "user-agent": f"{self.agent}/1.0 (tests)"}
        raw = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        if raw:
            headers["content-type"] = content_type
        pairs = tuple((name, str(value)) for name, value in (query or {}).items())
        return await self.carrier.send(transport.Request(method, path, pairs, headers, raw))

    async def call(self, method: str, path: str, body: Any = None, **how: Any) -> Reply:
        response = await self.open(method, path, body, **how)
        raw = b"".join([chunk async for chunk in response.stream])
        await response.stream.aclose()
        return Reply(response.status, response.headers, raw)

    # ── Verbs ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, kind: Kind, name: str, sub: str = "", **query: Any) -> Reply:
        return await self.call("GET", self.path(kind, name, sub), query=query)

    async def list(self, kind: Kind, namespace: str | None = None, **query: Any) -> Reply:
        return await self.call("GET", self.path(kind, namespace=namespace), query=query)

    async def create(self, kind: Kind, obj: Json, **query: Any) -> Reply:
        named = {"apiVersion": kind.api_version, "kind": kind.kind}
        reply = await self.call("POST", self.path(kind), named | obj, query=query)
        if reply.code == 201 and not kind.is_namespaced:
            self.made.append(self.path(kind, reply.metadata["name"]))
        return reply

    async def put(self, kind: Kind, obj: Json, sub: str = "", **query: Any) -> Reply:
        named = {"apiVersion": kind.api_version, "kind": kind.kind}
        return await self.call("PUT", self.path(kind, obj["metadata"]["name"], sub), named | obj, query=query)

    async def merge(self, kind: Kind, name: str, patch: Any, sub: str = "", **query: Any) -> Reply:
        return await self.call("PATCH", self.path(kind, name, sub), patch, query=query, content_type=MERGE)

    async def json_patch(self, kind: Kind, name: str, *operations: Json, sub: str = "", **query: Any) -> Reply:
        path = self.path(kind, name, sub)
        return await self.call("PATCH", path, list(operations), query=query, content_type=JSON_PATCH)

    async def apply(
        self, kind: Kind, obj: Json, manager: str = "applier", force: bool | None = None, sub: str = "", **query: Any
    ) -> Reply:
        named = {"apiVersion": kind.api_version, "kind": kind.kind}
        asked = {"fieldManager": manager, **query} | ({} if force is None else {"force": str(force).lower()})
        path = self.path(kind, obj["metadata"]["name"], sub)
        reply = await self.call("PATCH", path, named | obj, query=asked, content_type=APPLY)
        if reply.code == 201 and not kind.is_namespaced:
            self.made.append(path)
        return reply

    async def delete(self, kind: Kind, name: str, options: Json | None = None, **query: Any) -> Reply:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else None
        return await self.call("DELETE", self.path(kind, name), body, query=query)

    async def scale(self, kind: Kind, name: str, replicas: int | None, **query: Any) -> Reply:
        return await self.merge(kind, name, {"spec": {"replicas": replicas}}, "scale", **query)

    async def evict(self, name: str, **options: Any) -> Reply:
        body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        if options:
            body["deleteOptions"] = options
        return await self.call("POST", self.path(PODS, name, "eviction"), body)

    async def bind(self, name: str, node: str, **metadata: Any) -> Reply:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, **metadata},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        return await self.call("POST", self.path(PODS, name, "binding"), body)

    @contextlib.asynccontextmanager
    async def watch(self, kind: Kind, namespace: str | None = None, **query: Any) -> AsyncIterator[Events]:
        asked = {"watch": "true", **query}
        events = Events(await self.open("GET", self.path(kind, namespace=namespace), query=asked))
        try:
            yield events
        finally:
            await events.close()


async def eventually(check: Callable[[], Awaitable[bool]], patience_s: float = _PATIENCE_S) -> None:
    """Wait until something holds: what the real server's controllers do takes them a moment."""
    async with asyncio.timeout(patience_s):
        while not await check():
            await asyncio.sleep(0.05)
