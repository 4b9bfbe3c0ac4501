"""The server: a request value in, an answer out."""

import contextlib
from collections.abc import Callable, Iterator

from windlass import clock
from windlass.apiserver import call as calls
from windlass.apiserver import core as cores
from windlass.apiserver import discovery, paging, rendering, routing, status, storage, times, views, watch
from windlass.apiserver.call import Answer, Call
from windlass.apiserver.controllers import disruption, garbage, lifecycle
from windlass.apiserver.core import Settings
from windlass.apiserver.registry import Resource
from windlass.apiserver.subresources import binding, eviction, scale
from windlass.apiserver.types.model import Json
from windlass.apiserver.verbs import creating, deleting, patching, reading, updating
from windlass.kube import transport

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_MOST_BODY_BYTES = 3 * 1024 * 1024
_MALFORMED = (ValueError, TypeError, AttributeError, KeyError, IndexError, OverflowError)
"""What a value of the wrong type raises where no schema was looked at before."""
_MOST_WARNED, _LONGEST_WARNING = 4096, 256
"""Characters of all warnings together, and of one where there are more."""
_HEALTH = ("healthz", "livez", "readyz")


class Server:
    """An API server in memory. Not for several threads."""

    def __init__(self, clock_: clock.Clock, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._core = cores.make(clock_, self.settings)
        self._pager = paging.Pager(self._core.store)
        self._expiry = lifecycle.Expiry(self._core)
        self._disruption = disruption.Disruption(self._core)
        self._collect = garbage.Collector(self._core).react
        self._reactors = self._make_reactors()
        for name in _NAMESPACES:
            self._request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self._core.store.compact()

    def _make_reactors(self) -> list[Callable[[storage.Event], None]]:
        off = self.settings.disabled_controllers
        core = self._core
        reactors: list[Callable[[storage.Event], None]] = [lifecycle.Definitions(core).react, self._expiry.react]
        if "namespace" not in off:
            reactors.append(lifecycle.Namespaces(core).react)
        if "disruption" not in off:
            reactors.append(self._disruption.react)
        if "garbage-collector" not in off:
            reactors.append(self._collect)
        return reactors

    # ── Around requests ──────────────────────────────────────────────────────────────────────────────────────────

    @property
    def version(self) -> int:
        """The resourceVersion of the last write."""
        return self._core.store.version

    @property
    def core(self) -> cores.Core:
        """For controllers that run in the same process and write without a request; they `settle` afterwards."""
        return self._core

    def settle(self) -> None:
        """Let the server's own controllers react to what was written past `handle`."""
        self._react()

    @contextlib.contextmanager
    def without_garbage_collection(self) -> Iterator[None]:
        """Objects written meanwhile are kept even if an owner that they name does not exist."""
        reactors, self._reactors = self._reactors, [react for react in self._reactors if react != self._collect]
        try:
            yield
        finally:
            self._reactors = reactors

    def compact(self) -> None:
        """Forget all history, as etcd does every few minutes: older versions are answered 410 from now on."""
        self._core.store.compact()

    def bookmark(self, watched: watch.Watch) -> None:
        """Send a watch a bookmark, if its client wants them."""
        if watched.sends_bookmarks:
            watched.bookmark(self._core.store.version)

    def load(self, text: str, manager: str = "windlass") -> None:
        """Apply YAML documents by force, definitions of kinds before objects of those kinds.

        Raises `status.Refused` at the first that is refused.
        """
        for document in calls.read_documents(text):
            self.apply(document, manager)

    def apply(self, obj: Json, manager: str = "windlass") -> Json:
        """Apply one object by force; the object as it is then."""
        path = f"{self.collection(obj)}/{obj['metadata']['name']}"
        query = (("fieldManager", manager), ("force", "true"))
        return self._request("PATCH", path, obj, query, patching.APPLY)

    def find_resource(self, obj: Json) -> Resource:
        """What an object says it is. `status.Refused` if nothing of that kind is served."""
        found = self._core.registry.find_kind(obj["apiVersion"], obj["kind"])
        if found is None:
            raise status.no_such_path(f'no matches for kind "{obj["kind"]}" in version "{obj["apiVersion"]}"')
        return found

    def collection(self, obj: Json) -> str:
        """The path of the collection that an object belongs to."""
        resource = self.find_resource(obj)
        root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        within = f"/namespaces/{obj['metadata'].get('namespace', 'default')}" if resource.is_namespaced else ""
        return f"{root}{within}/{resource.plural}"

    def create(self, obj: Json) -> Json:
        """Create one object; the object as it is then. `status.Refused` if it is refused."""
        return self._request("POST", self.collection(obj), obj)

    def _request(
        self, method: str, path: str, obj: Json, query: tuple[tuple[str, str], ...] = (), kind: str = ""
    ) -> Json:
        headers = {"content-type": kind or "application/json", "user-agent": "kube-apiserver"}
        answer = self._answer(transport.Request(method, path, query, headers, storage.encode(obj)))
        made: Json = storage.decode(answer.body)
        return made

    # ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────

    def handle(self, request: transport.Request) -> Answer:
        """Answer a request, whatever it is."""
        try:
            return self._answer(request)
        except status.Refused as refused:
            return _refuse(refused)
        except RecursionError:
            return _refuse(status.bad_request("the object provided is nested too deeply for this server"))

    def _answer(self, request: transport.Request) -> Answer:
        now_s = self._core.clock.now_s()
        self._expiry.expire(now_s)
        self._disruption.recheck(now_s)
        try:
            if len(request.body) > _MOST_BODY_BYTES:
                raise status.too_large(f"limit is {_MOST_BODY_BYTES}")
            return self._dispatch(request, now_s)
        except _MALFORMED as error:
            if not (request.body or request.query):
                raise  # nothing of the client's can be at fault
            raise status.bad_request(f"the request is malformed: {type(error).__name__}: {error}") from error
        finally:
            self._react()

    def _react(self) -> None:
        """Let every controller see every write, also where one of them fails."""
        pending, failed = self._core.store.pending, []
        while pending:
            event = pending.popleft()
            for react in self._reactors:
                try:
                    react(event)
                except Exception as error:
                    failed.append(error)
        if failed:
            raise failed[0]

    def _dispatch(self, request: transport.Request, now_s: float) -> Answer:
        segments = routing.split(request.path)
        if segments[0] in ("api", "apis") and len(segments) > (2 if segments[0] == "api" else 3):
            if segments[:3] == ["apis", views.GROUP, views.VERSION]:
                return self._dispatch_view(request, segments, now_s)
            return self._dispatch_call(self._make_call(request, routing.find(self._core.registry, segments), now_s))
        return self._dispatch_document(request, segments)

    def _make_call(self, request: transport.Request, target: routing.Target, now_s: float) -> Call:
        return Call(
            request.method,
            target.resource,
            target.namespace,
            target.name,
            target.subresource,
            dict(request.query),
            request.headers,
            request.body,
            now_s,
            times.spell(now_s),
        )

    def _dispatch_call(self, call: Call) -> Answer:
        answer = self._run(call)
        if call.warnings:
            answer.headers["warning"] = _join_warnings(call.warnings)
        return answer

    def _run(self, call: Call) -> Answer:
        core, method = self._core, call.method
        if call.subresource:
            return self._run_subresource(call)
        if call.name:
            match method:
                case "GET":
                    return reading.start_watch(core, call) if reading.is_watch(call) else reading.get(core, call)
                case "PUT":
                    return updating.update(core, call)
                case "PATCH":
                    return patching.patch_object(core, call)
                case "DELETE":
                    return deleting.delete(core, call)
            raise status.method_not_allowed(call.resource, method.lower())
        match method:
            case "GET":
                return reading.list_objects(core, call, self._pager)
            case "POST" if call.namespace or not call.resource.is_namespaced:
                return creating.create(core, call)
            case "DELETE":
                return deleting.delete_collection(core, call)
        raise status.Refused(
            405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
        )

    def _run_subresource(self, call: Call) -> Answer:
        core = self._core
        match call.subresource, call.method:
            case "scale", "GET":
                return scale.get(core, call)
            case "scale", "PUT" | "PATCH":
                return scale.update(core, call)
            case "binding", "POST":
                return binding.bind(core, call)
            case "eviction", "POST":
                return eviction.evict(core, call)
            case "status", "GET":
                return reading.get(core, call)
            case "status" | "finalize", "PUT":
                return updating.update(core, call)
            case "status", "PATCH":
                return patching.patch_object(core, call)
        raise status.method_not_allowed(call.resource, call.method.lower())

    def _dispatch_view(self, request: transport.Request, segments: list[str], now_s: float) -> Answer:
        """events.k8s.io: the same request on core events, with other names in body and answer."""
        target = routing.find(self._core.registry, ["api", "v1", *segments[3:]])
        if target.resource.key != ("", "events"):
            raise status.no_such_path()
        call = self._make_call(request, target, now_s)
        call.body = views.translate_body(request.body) if request.method != "DELETE" else request.body
        call.render = views.render
        answer = self._dispatch_call(call)
        if answer.watch is None:
            answer.body = views.translate_answer(answer.body)
        return answer

    # ── Documents ────────────────────────────────────────────────────────────────────────────────────────────────

    def _dispatch_document(self, request: transport.Request, segments: list[str]) -> Answer:
        if request.method != "GET":
            raise status.no_such_path()
        if segments[0] in _HEALTH:
            return Answer(200, b"ok", {"content-type": "text/plain; charset=utf-8"})
        accept = request.headers.get("accept", "")
        found = self._find_document(segments, wants_all="as=APIGroupDiscoveryList" in accept)
        if found is None:
            raise status.no_such_path()
        answer = rendering.answer_json(200, found)
        if found.get("kind") == "APIGroupDiscoveryList":
            kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            answer.headers["content-type"] = kind
        return answer

    def _find_document(self, segments: list[str], *, wants_all: bool) -> Json | None:
        registry = self._core.registry
        match segments:
            case ["version"]:
                return discovery.version(self.settings.version)
            case ["api"]:
                return discovery.aggregated(registry, is_core=True) if wants_all else discovery.core_versions()
            case ["apis"]:
                return discovery.aggregated(registry, is_core=False) if wants_all else discovery.groups(registry)
            case ["api", version]:
                return discovery.resources(registry, "", version)
            case ["apis", group]:
                return discovery.group(registry, group)
            case ["apis", group, version]:
                return discovery.resources(registry, group, version)
            case ["openapi", "v2"]:
                return discovery.openapi_v2()
            case ["openapi", "v3"]:
                return discovery.openapi_v3(registry)
            case ["openapi", "v3", "api", version]:
                return discovery.openapi_v3_of(registry, "", version)
            case ["openapi", "v3", "apis", group, version]:
                return discovery.openapi_v3_of(registry, group, version)
        return None


def _join_warnings(warnings: list[str]) -> str:
    """A header's value. Many are cut short, and then left out, as the real server does it."""
    if sum(map(len, warnings)) > _MOST_WARNED:
        kept = _MOST_WARNED // _LONGEST_WARNING
        warnings = [warning[:_LONGEST_WARNING] for warning in warnings[:kept]]
    printable = ("".join(letter if letter.isprintable() else " " for letter in warning) for warning in warnings)
    quoted = (warning.replace("\\", "\\\\").replace('"', '\\"') for warning in printable)
    return ", ".join(f'299 - "{warning}"' for warning in quoted)


def _refuse(refused: status.Refused) -> Answer:
    answer = rendering.answer_json(refused.code, refused.body())
    if refused.retry_after_s:
        answer.headers["retry-after"] = str(refused.retry_after_s)
    return answer
