"""Health checks behind /healthz and /readyz.

Live: the process must not be restarted. Ready: what it reports about the cluster is current. A candidate that waits for
leadership is both.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

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
