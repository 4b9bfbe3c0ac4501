"""The API server: routing, and one method that answers a request value with a response value."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib import parse

from windlass import clock
from windlass.apiserver import (
    delete_handlers,
    discovery,
    disruption_controller,
    embedded_controllers,
    list_handlers,
    patch_handlers,
    registry,
    responses,
    status_errors,
    storage,
    subresource_handlers,
    watch,
    write_handlers,
)
from windlass.apiserver.registry import Registry, Resource, ServerSettings
from windlass.apiserver.responses import ApiCall, ApiResponse
from windlass.apiserver.value_types import Json
from windlass.kube import time_formats, transport

_LEFT_TO_THE_REAL_ONE = {
    "admissionregistration.k8s.io": "admission policies and webhooks",
    "rbac.authorization.k8s.io": "RBAC",
    "authorization.k8s.io": "authorization",
    "authentication.k8s.io": "authentication",
    "apiregistration.k8s.io": "API aggregation",
}

_OF_A_NAMESPACE = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The target of a path: a collection, an object, or a subresource."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def split_path(path: str) -> list[str]:
    """The segments of a path, decoded."""
    segments = path.strip("/").split("/")
    return [parse.unquote(segment) for segment in segments] if "%" in path else segments


def find_target(registry: Registry, segments: list[str]) -> RequestTarget:
    """The target of a path under /api or /apis. StatusError if it is not served."""
    if segments[0] == "api":
        group, version, rest = "", segments[1], segments[2:]
    else:
        if len(segments) < 4:
            raise _not_served(segments[1] if len(segments) > 1 else "")
        group, version, rest = segments[1], segments[2], segments[3:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and (group or rest[2] not in _OF_A_NAMESPACE):
        namespace, rest = rest[1], rest[2:]
    resource = registry.find(group, version, rest[0])
    if resource is None or len(rest) > 3:
        raise _not_served(group)
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if resource.is_namespaced is not bool(namespace) and (namespace or name):
        raise _not_served(group)
    if subresource and subresource not in resource.subresources:
        raise status_errors.no_such_path() if not resource.is_custom else status_errors.not_found(resource, name)
    return RequestTarget(resource, namespace, name, subresource)


def _not_served(group: str) -> status_errors.StatusError:
    if explanation := _LEFT_TO_THE_REAL_ONE.get(group):
        return status_errors.no_such_path(
            f"the server could not find the requested resource ({explanation}: left to a real kube-apiserver)"
        )
    return status_errors.no_such_path()


_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

_MOST_BODY_BYTES = 3 * 1024 * 1024

_MALFORMED = (ValueError, TypeError, AttributeError, KeyError, IndexError, OverflowError)
"""Exceptions of values of the wrong type before validation."""

_MOST_WARNED, _LONGEST_WARNING = 4096, 256
"""Most characters of all warnings, and of one warning beyond that."""

_HEALTH = ("healthz", "livez", "readyz")


class Server:
    """An API server in memory. Not thread-safe."""

    def __init__(self, clock_: clock.Clock, settings: ServerSettings | None = None) -> None:
        self.settings = settings or ServerSettings()
        self._core = registry.make_server_state(clock_, self.settings)
        self._pager = list_handlers.ListPager(self._core.store)
        self._expiry = embedded_controllers.EventExpiry(self._core)
        self._disruption = disruption_controller.DisruptionController(self._core)
        self._collect = embedded_controllers.GarbageCollector(self._core).handle_event
        self._reactors = self._make_reactors()
        for name in _NAMESPACES:
            self._request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self._core.store.compact()

    def _make_reactors(self) -> list[Callable[[storage.StorageEvent], None]]:
        off = self.settings.disabled_controllers
        core = self._core
        reactors: list[Callable[[storage.StorageEvent], None]] = [
            embedded_controllers.CrdController(core).handle_event,
            self._expiry.handle_event,
        ]
        if "namespace" not in off:
            reactors.append(embedded_controllers.NamespaceController(core).handle_event)
        if "disruption" not in off:
            reactors.append(self._disruption.handle_event)
        if "garbage-collector" not in off:
            reactors.append(self._collect)
        return reactors

    # ── Direct access ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def version(self) -> int:
        """The resourceVersion of the last write."""
        return self._core.store.version

    @property
    def core(self) -> registry.ServerState:
        """State for controllers in the same process that write without requests and then call `run_controllers`."""
        return self._core

    def run_controllers(self) -> None:
        """Run the server's own controllers after direct writes."""
        self._run_controllers()

    @contextlib.contextmanager
    def without_garbage_collection(self) -> Iterator[None]:
        """Keep objects written meanwhile even if their owners do not exist."""
        reactors, self._reactors = self._reactors, [react for react in self._reactors if react != self._collect]
        try:
            yield
        finally:
            self._reactors = reactors

    def compact(self) -> None:
        """Compact the history, as etcd does every few minutes: older versions return 410."""
        self._core.store.compact()

    def bookmark(self, watched: watch.Watch) -> None:
        """Send a watch a bookmark, if its client wants them."""
        if watched.sends_bookmarks:
            watched.send_bookmark(self._core.store.version)

    def load(self, text: str, manager: str = "windlass") -> None:
        """Apply YAML documents by force, definitions of kinds before objects of those kinds.

        Raises StatusError for the first that is refused.
        """
        for document in responses.parse_documents(text):
            self.apply(document, manager)

    def apply(self, obj: Json, manager: str = "windlass") -> Json:
        """Apply one object by force and return it."""
        path = f"{self.collection(obj)}/{obj['metadata']['name']}"
        query = (("fieldManager", manager), ("force", "true"))
        return self._request("PATCH", path, obj, query, patch_handlers.APPLY)

    def find_resource(self, obj: Json) -> Resource:
        """The resource of an object. StatusError if its kind is not served."""
        resource = self._core.registry.find_kind(obj["apiVersion"], obj["kind"])
        if resource is None:
            raise status_errors.no_such_path(f'no matches for kind "{obj["kind"]}" in version "{obj["apiVersion"]}"')
        return resource

    def collection(self, obj: Json) -> str:
        """The path of the collection that an object belongs to."""
        resource = self.find_resource(obj)
        root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        within = f"/namespaces/{obj['metadata'].get('namespace', 'default')}" if resource.is_namespaced else ""
        return f"{root}{within}/{resource.plural}"

    def create(self, obj: Json) -> Json:
        """Create one object and return it. StatusError if it is refused."""
        return self._request("POST", self.collection(obj), obj)

    def _request(
        self, method: str, path: str, obj: Json, query: tuple[tuple[str, str], ...] = (), kind: str = ""
    ) -> Json:
        headers = {"content-type": kind or "application/json", "user-agent": "kube-apiserver"}
        answer = self._handle_checked(transport.Request(method, path, query, headers, storage.encode_json(obj)))
        made: Json = storage.decode_json(answer.body)
        return made

    # ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────

    def handle(self, request: transport.Request) -> ApiResponse:
        """Handle any request."""
        try:
            return self._handle_checked(request)
        except status_errors.StatusError as refused:
            return _error_response(refused)
        except RecursionError:
            return _error_response(
                status_errors.bad_request("the object provided is nested too deeply for this server")
            )

    def _handle_checked(self, request: transport.Request) -> ApiResponse:
        now_s = self._core.clock.now_s()
        self._expiry.expire(now_s)
        self._disruption.recheck(now_s)
        try:
            if len(request.body) > _MOST_BODY_BYTES:
                raise status_errors.too_large(f"limit is {_MOST_BODY_BYTES}")
            return self._dispatch(request, now_s)
        except _MALFORMED as error:
            if not (request.body or request.query):
                raise  # without client input, this is an error of the server
            raise status_errors.bad_request(f"the request is malformed: {type(error).__name__}: {error}") from error
        finally:
            self._run_controllers()

    def _run_controllers(self) -> None:
        """Pass every write to every controller, even if one of them fails."""
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

    def _dispatch(self, request: transport.Request, now_s: float) -> ApiResponse:
        segments = split_path(request.path)
        if segments[0] in ("api", "apis") and len(segments) > (2 if segments[0] == "api" else 3):
            if segments[:3] == ["apis", responses.EVENTS_GROUP, responses.EVENTS_VERSION]:
                return self._dispatch_view(request, segments, now_s)
            return self._dispatch_call(self._make_call(request, find_target(self._core.registry, segments), now_s))
        return self._dispatch_document(request, segments)

    def _make_call(self, request: transport.Request, target: RequestTarget, now_s: float) -> ApiCall:
        return ApiCall(
            request.method,
            target.resource,
            target.namespace,
            target.name,
            target.subresource,
            dict(request.query),
            request.headers,
            request.body,
            now_s,
            time_formats.format_time(now_s),
        )

    def _dispatch_call(self, call: ApiCall) -> ApiResponse:
        answer = self._run(call)
        if call.warnings:
            answer.headers["warning"] = _join_warnings(call.warnings)
        return answer

    def _run(self, call: ApiCall) -> ApiResponse:
        core, method = self._core, call.method
        if call.subresource:
            return self._run_subresource(call)
        if call.name:
            match method:
                case "GET":
                    return (
                        list_handlers.start_watch(core, call)
                        if list_handlers.is_watch(call)
                        else list_handlers.get_object(core, call)
                    )
                case "PUT":
                    return write_handlers.handle_update(core, call)
                case "PATCH":
                    return patch_handlers.handle_patch(core, call)
                case "DELETE":
                    return delete_handlers.handle_delete(core, call)
            raise status_errors.method_not_allowed(call.resource, method.lower())
        match method:
            case "GET":
                return list_handlers.list_objects(core, call, self._pager)
            case "POST" if call.namespace or not call.resource.is_namespaced:
                return write_handlers.handle_create(core, call)
            case "DELETE":
                return delete_handlers.handle_delete_collection(core, call)
        raise status_errors.StatusError(
            405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
        )

    def _run_subresource(self, call: ApiCall) -> ApiResponse:
        core = self._core
        match call.subresource, call.method:
            case "scale", "GET":
                return subresource_handlers.handle_scale_get(core, call)
            case "scale", "PUT" | "PATCH":
                return subresource_handlers.handle_scale_update(core, call)
            case "binding", "POST":
                return subresource_handlers.handle_binding(core, call)
            case "eviction", "POST":
                return subresource_handlers.handle_eviction(core, call)
            case "status", "GET":
                return list_handlers.get_object(core, call)
            case "status" | "finalize", "PUT":
                return write_handlers.handle_update(core, call)
            case "status", "PATCH":
                return patch_handlers.handle_patch(core, call)
        raise status_errors.method_not_allowed(call.resource, call.method.lower())

    def _dispatch_view(self, request: transport.Request, segments: list[str], now_s: float) -> ApiResponse:
        """events.k8s.io: the same request on core/v1 events, with translated bodies."""
        target = find_target(self._core.registry, ["api", "v1", *segments[3:]])
        if target.resource.key != ("", "events"):
            raise status_errors.no_such_path()
        call = self._make_call(request, target, now_s)
        call.body = responses.translate_event_body(request.body) if request.method != "DELETE" else request.body
        call.render = responses.render_events_line
        answer = self._dispatch_call(call)
        if answer.watch is None:
            answer.body = responses.translate_event_response(answer.body)
        return answer

    # ── Documents ────────────────────────────────────────────────────────────────────────────────────────────────

    def _dispatch_document(self, request: transport.Request, segments: list[str]) -> ApiResponse:
        if request.method != "GET":
            raise status_errors.no_such_path()
        if segments[0] in _HEALTH:
            return ApiResponse(200, b"ok", {"content-type": "text/plain; charset=utf-8"})
        accept = request.headers.get("accept", "")
        document = self._find_document(segments, wants_all="as=APIGroupDiscoveryList" in accept)
        if document is None:
            raise status_errors.no_such_path()
        answer = responses.json_response(200, document)
        if document.get("kind") == "APIGroupDiscoveryList":
            kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            answer.headers["content-type"] = kind
        return answer

    def _find_document(self, segments: list[str], *, wants_all: bool) -> Json | None:
        registry = self._core.registry
        match segments:
            case ["version"]:
                return discovery.version_info(self.settings.version)
            case ["api"]:
                return (
                    discovery.aggregated_discovery(registry, is_core=True)
                    if wants_all
                    else discovery.core_version_list()
                )
            case ["apis"]:
                return (
                    discovery.aggregated_discovery(registry, is_core=False)
                    if wants_all
                    else discovery.group_list(registry)
                )
            case ["api", version]:
                return discovery.resource_list(registry, "", version)
            case ["apis", group]:
                return discovery.group_document(registry, group)
            case ["apis", group, version]:
                return discovery.resource_list(registry, group, version)
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
    """The value of the Warning header. Long warnings are truncated, then dropped, as in kube-apiserver."""
    if sum(map(len, warnings)) > _MOST_WARNED:
        kept = _MOST_WARNED // _LONGEST_WARNING
        warnings = [warning[:_LONGEST_WARNING] for warning in warnings[:kept]]
    printable = ("".join(letter if letter.isprintable() else " " for letter in warning) for warning in warnings)
    quoted = (warning.replace("\\", "\\\\").replace('"', '\\"') for warning in printable)
    return ", ".join(f'299 - "{warning}"' for warning in quoted)


def _error_response(refused: status_errors.StatusError) -> ApiResponse:
    answer = responses.json_response(refused.code, refused.body())
    if refused.retry_after_s:
        answer.headers["retry-after"] = str(refused.retry_after_s)
    return answer
