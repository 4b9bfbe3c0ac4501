"""What the autoscaler serves over HTTP, at the paths and in the words of Cluster Autoscaler.

/metrics         for Prometheus
/health-check    for the kubelet; /healthz, /livez and /readyz as Kubernetes' own components have them
/snapshotz       what the next loop sees, with --debugging-snapshot-enabled
/explain/…       why, for a pod, a node or a group; /statusz for the cluster (see `explaining`)
/published       how everything stands, as JSON, and as a stream at /published/stream (see `published.routes`)
/debug/pprof/    profiles, with --profiling

Health and metrics are for everybody, as with Cluster Autoscaler. The rest tells of pods and nodes by name: it is for
callers on this machine that call it localhost, as `kubectl port-forward` does, and --enable-debugging-handlers=false
turns it off, as behind a sidecar that makes every caller one of this machine. The dashboard has it for those who know
a token.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import prometheus_client
from aiohttp import web

from windlass import errors
from windlass.autoscaler import explaining, profiles, wiring
from windlass.autoscaler.published import publisher
from windlass.autoscaler.published import routes as published_routes
from windlass.kube import durations
from windlass.runtime import health, same_origin, serving, tls

HEALTH_CHECK_PATH = "/health-check"
SNAPSHOT_PATH = "/snapshotz"
PROFILE_PATH = "/debug/pprof/"

_FOR_EVERYBODY = {*serving.LIVE_PATHS, serving.READY_PATH, serving.METRICS_PATH, HEALTH_CHECK_PATH}
_DEFAULT_PROFILE_S = 30.0
_LONGEST_PROFILE_S = 600.0
_SNAPSHOT_S = 60.0
"""Several loops of the default interval."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Snapshots:
    """Hands what a loop saw to whoever asked for it, one at a time. Where no loop runs, the caller is told so."""

    def __init__(self, is_leading: Callable[[], bool] = lambda: True, within_s: float = _SNAPSHOT_S) -> None:
        self._is_leading, self._within_s = is_leading, within_s
        self._asked: asyncio.Future[bytes] | None = None

    @property
    def is_wanted(self) -> bool:
        """Does somebody wait? Making a snapshot nobody wants would cost every loop its time."""
        return self._asked is not None and not self._asked.done()

    def offer(self, snapshot: bytes) -> None:
        """What the loop that just ended saw, as JSON."""
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(snapshot)

    def close(self) -> None:
        """Nobody need wait any longer."""
        if self._asked is not None:
            self._asked.cancel()

    async def answer(self, _: web.Request) -> web.Response:
        if self._asked is not None:
            text = "Another debugging snapshot request is being processed. Concurrent requests not supported"
            return web.Response(status=429, text=text)
        if not self._is_leading():
            return web.Response(status=503, text="this replica does not lead, so no loop runs here; ask the leader\n")
        self._asked = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait((self._asked,), timeout=self._within_s)
            if not self._asked.done():
                return web.Response(status=503, text=f"no loop ended within {self._within_s:g} s\n")
            if self._asked.cancelled():
                return web.Response(status=503, text="the autoscaler ends\n")
            return web.Response(body=self._asked.result(), content_type="application/json")
        finally:
            self._asked = None


def make_app(
    state: health.Health,
    registry: prometheus_client.CollectorRegistry,
    activity: health.Activity,
    *,
    snapshots: Snapshots | None = None,
    profiling: bool = False,
    answering: explaining.Answering | None = None,
    published: publisher.Publisher | None = None,
    write: serving.Write = prometheus_client.generate_latest,
    debugging: bool = True,
) -> web.Application:
    """Everything that is to be served. `snapshots`: None where nobody may ask for them; `answering` alike.

    Without `debugging` health and metrics are all.
    """
    app = serving.make_app(state, registry, write)
    app.middlewares.append(_keep_near if debugging else _keep_off)
    app.on_response_prepare.append(same_origin.add_headers)

    async def answer_health(_: web.Request) -> web.Response:
        complaint = complain(activity)
        return web.Response(status=500 if complaint else 200, text=complaint or "OK")

    app.router.add_get(HEALTH_CHECK_PATH, answer_health)
    if snapshots is not None:
        app.router.add_get(SNAPSHOT_PATH, snapshots.answer)
        app.on_shutdown.append(_closing(snapshots))
    if profiling:
        _add_profiles(app)
    if answering is not None:
        explaining.add_routes(app, answering)
        if published is not None:
            published_routes.add_routes(app, published, answering)
    return app


@web.middleware
async def _keep_near(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.path in _FOR_EVERYBODY:
        return await handler(request)
    if serving.is_near(request):
        same_origin.check_host(request)
        return await handler(request)
    how = "use `kubectl port-forward`, or --dashboard-address with --dashboard-token-file"
    return web.Response(status=403, text=f"{request.path} is served on this machine alone: {how}\n")


@web.middleware
async def _keep_off(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.path in _FOR_EVERYBODY:
        return await handler(request)
    return web.Response(status=403, text=f"{request.path} is turned off: --enable-debugging-handlers=false\n")


def find_certificate(chosen: wiring.Reporting) -> tls.Files | None:
    """InvalidInput for half of one."""
    certificate, key = chosen.tls_cert_file, chosen.tls_private_key_file
    if not certificate and not key:
        return None
    if not certificate or not key:
        raise errors.InvalidInput("--tls-cert-file: found one of it and --tls-private-key-file, expected both")
    return tls.Files(Path(certificate), Path(key), "--tls-cert-file")


def complain(activity: health.Activity) -> str:
    """What is wrong with the loop, as the peer says it; empty if all is well."""
    if not activity():
        return ""
    loop, now_s = activity.loop, activity.clock.monotonic_s()
    times_s = [at_s for at_s in (loop.first_at_s, loop.begun_at_s, loop.succeeded_at_s) if at_s is not None]
    succeeded_s = loop.succeeded_at_s if loop.succeeded_at_s is not None else min(times_s)
    return (
        f"Error: last activity more {durations.spell(now_s - max(times_s))} ago, "
        f"last success more than {durations.spell(now_s - succeeded_s)} ago"
    )


def _closing(snapshots: Snapshots) -> Callable[[web.Application], Awaitable[None]]:
    async def close(_: web.Application) -> None:
        snapshots.close()

    return close


def _add_profiles(app: web.Application) -> None:
    is_ending = asyncio.Event()

    async def end(_: web.Application) -> None:
        is_ending.set()

    async def answer_profile(request: web.Request) -> web.Response:
        seconds = _read_seconds(request.query.get("seconds", ""))
        return web.Response(text=await asyncio.to_thread(profiles.sample, seconds, is_ending.is_set))

    async def answer_threads(_: web.Request) -> web.Response:
        return web.Response(text=profiles.tell_threads())

    async def answer_heap(_: web.Request) -> web.Response:
        return web.Response(text=profiles.tell_heap())

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


def _read_seconds(text: str) -> float:
    try:
        seconds = float(text or _DEFAULT_PROFILE_S)
    except ValueError:
        seconds = -1.0
    if not 0.0 < seconds <= _LONGEST_PROFILE_S:
        accepted = f"found {text!r}, expected more than 0 and at most {_LONGEST_PROFILE_S:g} seconds"
        raise web.HTTPBadRequest(text=f"seconds: {accepted}")
    return seconds
