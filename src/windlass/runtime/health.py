"""Health: liveness and readiness checks behind /healthz and /readyz, and the application that serves them.

Live: the process must not be restarted. Ready: what it reports about the cluster is current. A candidate that waits for
leadership is both.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import prometheus_client
from aiohttp import web

from windlass import clock
from windlass.runtime import loop

HealthCheck = Callable[[], str]
"""A health check: returns the failure, or an empty string."""


@dataclass(slots=True)
class Health:
    """Liveness and readiness checks by name, in order of registration."""

    live: dict[str, HealthCheck] = field(default_factory=dict)
    ready: dict[str, HealthCheck] = field(default_factory=dict)

    def failures(self, *, ready: bool) -> dict[str, str]:
        """Failures by name of the check. Readiness includes liveness."""
        checks = {**self.live, **self.ready} if ready else self.live
        return {name: reason for name, check in checks.items() if (reason := check())}


@dataclass(frozen=True, slots=True)
class LoopActivity:
    """Health of a loop: iterations run, and succeed within the limits."""

    loop: loop.Loop
    clock: clock.Clock
    max_inactivity_s: float = 600.0
    """Maximum time without beginning or end of an iteration."""
    max_failing_s: float = 900.0
    """Maximum time without a successful iteration."""
    max_startup_s: float = 900.0
    """Maximum time until the first success, which fills caches."""
    leading_since_s: Callable[[], float | None] = lambda: None
    """Monotonic time when the process became leader; None while another process leads."""

    def __call__(self) -> str:
        first_s, begun_s, succeeded_s = self.loop.first_at_s, self.loop.begun_at_s, self.loop.succeeded_at_s
        now_s = self.clock.monotonic_s()
        if first_s is None or begun_s is None:
            leading_s = self.leading_since_s()
            if leading_s is None or now_s - leading_s <= self.max_startup_s:
                return ""
            return f"{self.loop.name}: leads for {now_s - leading_s:.0f} s and has not seen everything yet"
        active_s = max(begun_s, succeeded_s or begun_s)
        if now_s - active_s > (self.max_startup_s if succeeded_s is None else self.max_inactivity_s):
            return f"{self.loop.name}: no activity for {now_s - active_s:.0f} s"
        good_s = first_s if succeeded_s is None else succeeded_s
        if now_s - good_s > (self.max_startup_s if succeeded_s is None else self.max_failing_s):
            return f"{self.loop.name}: no success for {now_s - good_s:.0f} s"
        return ""


LIVE_PATHS = ("/healthz", "/livez")


READY_PATH = "/readyz"


METRICS_PATH = "/metrics"


MetricsWriter = Callable[[prometheus_client.CollectorRegistry], bytes]


def make_health_app(
    state: Health,
    registry: prometheus_client.CollectorRegistry,
    write: MetricsWriter = prometheus_client.generate_latest,
) -> web.Application:
    """Application with /healthz, /readyz and /metrics."""
    app = web.Application()

    async def answer_live(_: web.Request) -> web.Response:
        return _health_response(state.failures(ready=False))

    async def answer_ready(_: web.Request) -> web.Response:
        return _health_response(state.failures(ready=True))

    async def answer_metrics(_: web.Request) -> web.Response:
        # In a thread: rendering thousands of series must not delay the renewal of the lease.
        text = await asyncio.to_thread(write, registry)
        return web.Response(body=text, headers={"Content-Type": prometheus_client.CONTENT_TYPE_LATEST})

    app.router.add_get(READY_PATH, answer_ready)
    app.router.add_get(METRICS_PATH, answer_metrics)
    for path in LIVE_PATHS:
        app.router.add_get(path, answer_live)
    return app


def _health_response(complaints: dict[str, str]) -> web.Response:
    if not complaints:
        return web.Response(text="ok")
    return web.Response(status=500, text="".join(f"{name}: {reason}\n" for name, reason in complaints.items()))
