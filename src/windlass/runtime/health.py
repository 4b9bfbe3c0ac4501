"""Health: questions that the kubelet asks, and who answers them.

Live means: do not restart me. Ready means: what I say about the cluster is true. A candidate that waits to lead is
both.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from windlass import clock
from windlass.runtime import loop

HealthCheck = Callable[[], str]
"""Empty if all is well, otherwise why not."""


@dataclass(slots=True)
class Health:
    """Checks by name, in the order they were added."""

    live: dict[str, HealthCheck] = field(default_factory=dict)
    ready: dict[str, HealthCheck] = field(default_factory=dict)

    def failures(self, *, ready: bool) -> dict[str, str]:
        """What is not well, by the name of its check. Who is not live is not ready."""
        checks = {**self.live, **self.ready} if ready else self.live
        return {name: why for name, check in checks.items() if (why := check())}


@dataclass(frozen=True, slots=True)
class LoopActivity:
    """A loop is well if it turns, and if a turn succeeds from time to time."""

    loop: loop.Loop
    clock: clock.Clock
    max_inactivity_s: float = 600.0
    """A turn must begin or end at least this often."""
    max_failing_s: float = 900.0
    """A turn must succeed at least this often."""
    max_startup_s: float = 900.0
    """The first success may take this long, with cold caches."""
    leading_since_s: Callable[[], float | None] = lambda: None
    """Since when the loop may turn, monotonic; None: it may not, as another process leads."""

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
