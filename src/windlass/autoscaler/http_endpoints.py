"""HTTP endpoints of the autoscaler, at Cluster Autoscaler's paths.

/metrics         Prometheus metrics
/health-check    liveness for the kubelet; /healthz, /livez and /readyz as in Kubernetes' components
/snapshotz       debugging snapshot, with --debugging-snapshot-enabled
/explain/…       verdicts for a pod, node or group; /statusz for the cluster
/published       status as JSON, and as server-sent events at /published/stream
/recording       the recording, for `windlass capture`; without --record, of one moment. ?part=older: what was rotated
/debug/pprof/    profiles, with --profiling

Health and metrics are public. The rest is served to loopback callers (`kubectl port-forward`) and to those who have the
token of --dashboard-token-file, such as through the API server's proxy, and not at all with
--enable-debugging-handlers=false.
"""

import asyncio
import collections
import gc
import hmac
import logging
import resource
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType

import prometheus_client
from aiohttp import web
from aiohttp.typedefs import Middleware

from windlass import errors
from windlass.autoscaler.record_replay import recorder, recording_file
from windlass.kube import time_formats
from windlass.observability import debugging_snapshot, options, status_publisher, status_routes
from windlass.runtime import health, http_server

_SAMPLE_PERIOD_S = 0.01

_MAX_LINES = 50
"""Maximum number of types in a heap profile."""


def sample_profile(seconds: float, is_over: Callable[[], bool] = lambda: False) -> str:
    """Sample the stacks of all threads a hundred times per second. Blocks for the given time: call it in a thread."""
    seen: collections.Counter[str] = collections.Counter()
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s and not is_over():
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            if ident != threading.get_ident():
                seen[";".join((names.get(ident, str(ident)), *_name_calls(frame)))] += 1
        time.sleep(_SAMPLE_PERIOD_S)
    return "".join(f"{stack} {count}\n" for stack, count in sorted(seen.items()))


def format_threads() -> str:
    """Format the stacks of all threads and tasks. Call it on the event loop."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        parts.append(f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}")
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        stack = [line for frame in task.get_stack() for line in traceback.format_stack(frame, limit=1)]
        parts.append(f"task {task.get_name()}:\n{''.join(stack)}")
    return "\n".join(parts)


def format_heap() -> str:
    """Format the peak memory of the process and its most frequent types of objects."""
    counts = collections.Counter(type(found).__qualname__ for found in gc.get_objects())
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = [f"peak resident set: {peak_kib} KiB", f"objects under garbage collection: {counts.total()}"]
    return "\n".join((*lines, *(f"{count:9d} {name}" for name, count in counts.most_common(_MAX_LINES)), ""))


def _name_calls(frame: FrameType) -> list[str]:
    calls = [
        f"{found.f_code.co_qualname} ({found.f_code.co_filename.rpartition('/')[2]}:{line})"
        for found, line in traceback.walk_stack(frame)
    ]
    return calls[::-1]


HEALTH_CHECK_PATH = "/health-check"

SNAPSHOT_PATH = "/snapshotz"

PROFILE_PATH = "/debug/pprof/"

RECORDING_PATH = "/recording"

TOKEN_HEADER = "windlass-token"
"""Header with the token of --dashboard-token-file. Not Authorization, which the API server's proxy removes."""

_SHORTEST_TOKEN = 16

_log = logging.getLogger(__name__)

_PUBLIC_PATHS = {*health.LIVE_PATHS, health.READY_PATH, health.METRICS_PATH, HEALTH_CHECK_PATH}

_DEFAULT_PROFILE_S = 30.0

_MAX_PROFILE_S = 600.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(
    state: health.Health,
    registry: prometheus_client.CollectorRegistry,
    activity: health.LoopActivity,
    *,
    snapshots: debugging_snapshot.DebuggingSnapshotter | None = None,
    profiling: bool = False,
    answering: status_routes.ExplainSource | None = None,
    published: status_publisher.StatusPublisher | None = None,
    token_file: str = "",
    recording: Path | None = None,
    write: health.MetricsWriter = prometheus_client.generate_latest,
    debugging: bool = True,
) -> web.Application:
    """Return the HTTP application. `snapshots`, `answering`: None disables their endpoints.

    Without `debugging` only health and metrics are served. `recording`: the file that is written, if any.
    """
    app = health.make_health_app(state, registry, write)
    app.middlewares.append(_require_local_or_token(token_file) if debugging else _reject_debugging)
    app.on_response_prepare.append(http_server.add_security_headers)

    async def answer_health(_: web.Request) -> web.Response:
        complaint = describe_health(activity)
        return web.Response(status=500 if complaint else 200, text=complaint or "OK")

    app.router.add_get(HEALTH_CHECK_PATH, answer_health)
    if snapshots is not None:
        app.router.add_get(SNAPSHOT_PATH, snapshots.handle)
        app.on_shutdown.append(_close_on_shutdown(snapshots))
    if profiling:
        _add_profiles(app)
    if answering is not None:
        status_routes.add_explain_routes(app, answering)
        _add_recording(app, answering, recording)
        if published is not None:
            status_routes.add_status_routes(app, published, answering)
    return app


def _require_local_or_token(token_file: str) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in _PUBLIC_PATHS:
            return await handler(request)
        if token_file and _has_token(request, Path(token_file)):
            return await handler(request)  # no page of another site can send this header: any Host will do
        if http_server.is_loopback_request(request):
            http_server.check_host(request)
            return await handler(request)
        how = "use `kubectl port-forward`, or the token of --dashboard-token-file"
        return web.Response(status=403, text=f"{request.path} is served on this machine alone: {how}\n")

    return guard


def _has_token(request: web.Request, file: Path) -> bool:
    """Does the request prove knowledge of the token? Compared in constant time."""
    offered = request.headers.get(TOKEN_HEADER, "")
    try:
        token = file.read_text(encoding="utf-8").strip() if offered else ""
    except (OSError, UnicodeDecodeError) as error:
        _log.error("cannot read token file: error=%s", error)
        return False
    is_long = len(token) >= _SHORTEST_TOKEN
    return is_long and hmac.compare_digest(offered.encode(errors="surrogatepass"), token.encode())


@web.middleware
async def _reject_debugging(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.path in _PUBLIC_PATHS:
        return await handler(request)
    return web.Response(status=403, text=f"{request.path} is turned off: --enable-debugging-handlers=false\n")


def find_serving_certificate(reporting_options: options.ReportingOptions) -> http_server.CertificateFiles | None:
    """Return the certificate for --address. InvalidInput if only one of certificate and key is set."""
    certificate, key = reporting_options.tls_cert_file, reporting_options.tls_private_key_file
    if not certificate and not key:
        return None
    if not certificate or not key:
        raise errors.InvalidInput("--tls-cert-file: found one of it and --tls-private-key-file, expected both")
    return http_server.CertificateFiles(Path(certificate), Path(key), "--tls-cert-file")


def describe_health(activity: health.LoopActivity) -> str:
    """Describe why the loop is unhealthy, in Cluster Autoscaler's words; empty if it is healthy."""
    if not activity():
        return ""
    loop, now_s = activity.loop, activity.clock.monotonic_s()
    times_s = [at_s for at_s in (loop.first_at_s, loop.begun_at_s, loop.succeeded_at_s) if at_s is not None]
    succeeded_s = loop.succeeded_at_s if loop.succeeded_at_s is not None else min(times_s)
    return (
        f"Error: last activity more {time_formats.format_duration(now_s - max(times_s))} ago, "
        f"last success more than {time_formats.format_duration(now_s - succeeded_s)} ago"
    )


def _close_on_shutdown(
    snapshots: debugging_snapshot.DebuggingSnapshotter,
) -> Callable[[web.Application], Awaitable[None]]:
    async def close(_: web.Application) -> None:
        snapshots.close()

    return close


def _add_profiles(app: web.Application) -> None:
    is_ending = asyncio.Event()

    async def end(_: web.Application) -> None:
        is_ending.set()

    async def answer_profile(request: web.Request) -> web.Response:
        seconds = _read_seconds(request.query.get("seconds", ""))
        return web.Response(text=await asyncio.to_thread(sample_profile, seconds, is_ending.is_set))

    async def answer_threads(_: web.Request) -> web.Response:
        return web.Response(text=format_threads())

    async def answer_heap(_: web.Request) -> web.Response:
        return web.Response(text=format_heap())

    async def answer_words(_: web.Request) -> web.Response:
        return web.Response(text="\0".join(sys.argv))

    pages: dict[str, Handler] = {
        "profile": answer_profile,  # ?seconds=30
        "goroutine": answer_threads,
        "heap": answer_heap,
        "cmdline": answer_words,
    }

    async def answer_index(_: web.Request) -> web.Response:
        return web.Response(text="".join(f"{PROFILE_PATH}{name}\n" for name in pages))

    app.on_shutdown.append(end)
    app.router.add_get(PROFILE_PATH, answer_index)
    for name, page in pages.items():
        app.router.add_get(PROFILE_PATH + name, page)


def _add_recording(app: web.Application, asked: status_routes.ExplainSource, recording: Path | None) -> None:
    async def answer_recording(request: web.Request) -> web.StreamResponse:
        wants_older = request.query.get("part") == "older"
        if recording is not None:
            path = recording_file.rotated_path(recording) if wants_older else recording
            if path.exists():
                return web.FileResponse(path, headers={"Content-Type": "application/octet-stream"})
        if wants_older:
            return web.Response(status=404, text="no older part of the recording exists\n")
        with tempfile.TemporaryDirectory(prefix="windlass-recording-") as folder:
            moment = Path(folder) / "moment.rec"
            try:
                await asked.query(lambda *inputs: recorder.record_moment(moment, *inputs))
            except errors.WindlassError as error:
                return web.Response(status=503, text=f"{error}\n")
            return web.Response(body=moment.read_bytes(), content_type="application/octet-stream")

    app.router.add_get(RECORDING_PATH, answer_recording)


def _read_seconds(text: str) -> float:
    try:
        seconds = float(text or _DEFAULT_PROFILE_S)
    except ValueError:
        seconds = -1.0
    if not 0.0 < seconds <= _MAX_PROFILE_S:
        accepted = f"found {text!r}, expected more than 0 and at most {_MAX_PROFILE_S:g} seconds"
        raise web.HTTPBadRequest(text=f"seconds: {accepted}")
    return seconds
