"""Status publisher: keeps the last status and recent changes for any number of watchers."""

import asyncio
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from windlass.engine.drain_loop import DrainLoopResult
from windlass.engine.loop import Decision
from windlass.engine.model.drains import ENDED_PHASES
from windlass.engine.observation import Observation
from windlass.observability import status_builder, status_model
from windlass.observability.decision_log import DecisionLog
from windlass.observability.status_model import (
    MAX_DECISIONS,
    MAX_SAMPLES,
    ClusterCost,
    ClusterSample,
    PublishedDecision,
    PublishedStatus,
)

SAMPLE_INTERVAL_S = 10.0
"""Between two points of the lines."""
_MAX_CHANGES = 64
_MAX_CHANGE_BYTES = 4 * 2**20
"""Changes that are kept for those who fell behind."""
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class StatusMessage:
    """What a watcher is to be sent. `id` is what it names when it comes back."""

    id: str
    event: str
    """`status`: everything; `change`: what differs from the message before."""
    data: bytes


@dataclass(slots=True)
class StatusWatcher:
    """Somebody who watches."""

    _wake: Callable[[], None]
    _is_news: asyncio.Event
    at: int = -1
    """The number of the last message that it was sent; -1: none yet."""

    async def wait(self) -> None:
        """Until there may be something new."""
        await self._is_news.wait()
        self._is_news.clear()


@dataclass(slots=True)
class _StatusHistory:
    """What is kept from loop to loop."""

    every_s: float
    samples: deque[ClusterSample] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))
    cost: ClusterCost = field(default_factory=ClusterCost)
    _last: ClusterSample | None = None

    def note(self, figures: status_builder.ClusterMeasurements) -> None:
        now, before = figures.sample, self._last
        spent, since_s = self.cost.spent, self.cost.since_s if before is not None else now.at_s
        if before is not None:
            spent += before.cost_per_hour * max(now.at_s - before.at_s, 0.0) / _HOUR_S
        self.cost = ClusterCost(now.cost_per_hour, round(spent, 6), since_s, figures.unpriced)
        self._last = now
        if not self.samples or now.at_s - self.samples[-1].at_s >= self.every_s:
            self.samples.append(now)


class StatusPublisher:
    """One autoscaler's status."""

    def __init__(
        self,
        now_s: Callable[[], float],
        setting: status_builder.PublisherInfo = status_builder.LIVE_PUBLISHER,
        *,
        sample_s: float = SAMPLE_INTERVAL_S,
        pause_s: float = 0.0,
    ) -> None:
        """`pause_s`: real seconds between two statuses at least, where loops come faster than anybody can look."""
        self.setting = setting
        self.now_s = now_s
        self._chronicle = DecisionLog(now_s, MAX_DECISIONS)
        self._history = _StatusHistory(sample_s)
        self._pause_s, self._made_s = pause_s, float("-inf")
        self._lock = threading.Lock()
        self._watchers: list[StatusWatcher] = []
        self._epoch = secrets.token_hex(4)
        self._number = 0
        self._row: deque[tuple[int, bytes]] = deque(maxlen=_MAX_CHANGES)
        self._status: PublishedStatus | None = None
        self._whole: bytes | None = None
        self._decision: Decision | None = None
        self._phases: dict[str, str] = {}

    # Being told, by the loop

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    def on_decision(self, seen: Observation, decision: Decision, now_s: float) -> None:
        """A loop has decided. To be called while the snapshot is as it was decided on."""
        self._chronicle.add_decision(decision)
        self._decision = decision
        figures = status_builder.measure_cluster(seen, now_s)
        self._history.note(figures)
        self._phases = {name: phase for name, phase in self._phases.items() if name in decision.memory.durable.drains}
        if self.is_watched and self._is_time():
            self._put(status_builder.build_status(seen, decision, figures, self.setting, self._phases))
        elif not self.is_watched:
            self._forget()

    def on_advance(self, seen: Observation, advanced: DrainLoopResult, now_s: float) -> None:
        """Drains have moved on."""
        self._chronicle.add_drains(advanced)
        self._phases = {one.node: str(one.phase) for one in advanced.story if one.phase not in ENDED_PHASES}
        before, decision = self._status, self._decision
        if self.is_watched and before is not None and decision is not None and self._is_time():
            durable = advanced.memory.durable
            self._put(status_builder.update_drains(before, seen, decision, durable, self._phases, now_s))

    def refresh(self, seen: Observation, decision: Decision, now_s: float) -> None:
        """Somebody has begun to watch between two loops: `decision` is what the next would be."""
        self._put(
            status_builder.build_status(
                seen, decision, status_builder.measure_cluster(seen, now_s), self.setting, self._phases
            )
        )

    def end(self) -> None:
        """Nothing more will come."""
        if self._status is not None:
            cluster = msgspec.structs.replace(self._status.cluster, is_over=True)
            self._put(msgspec.structs.replace(self._status, cluster=cluster))

    # Being watched

    @property
    def status(self) -> PublishedStatus | None:
        """The last that was made; None while nobody watched, or nothing was decided."""
        return self._status

    @contextmanager
    def watch(self, last_id: str = "") -> Iterator[StatusWatcher]:
        """Within an event loop. `last_id`: the message from which a reader that came back goes on."""
        is_news, loop = asyncio.Event(), asyncio.get_running_loop()
        watcher = StatusWatcher(lambda: _call_in_loop(loop, is_news.set), is_news, self._find(last_id))
        is_news.set()
        with self._lock:
            self._watchers.append(watcher)
        try:
            yield watcher
        finally:
            with self._lock:
                self._watchers.remove(watcher)

    def take_messages(self, watcher: StatusWatcher) -> list[StatusMessage]:
        """What the watcher has not been sent yet: the changes since, or everything."""
        with self._lock:
            if self._status is None or watcher.at == self._number:
                return []
            first = self._row[0][0] if self._row else self._number + 1
            if watcher.at >= 0 and first <= watcher.at + 1:
                missed = [StatusMessage(self._id(n), "change", data) for n, data in self._row if n > watcher.at]
            else:
                if self._whole is None:
                    self._whole = msgspec.json.encode(self._status)
                missed = [StatusMessage(self._id(self._number), "status", self._whole)]
            watcher.at = self._number
            return missed

    # Inside

    def _is_time(self) -> bool:
        if not self._pause_s or self._status is None:
            return True
        now_s = time.monotonic()
        if now_s - self._made_s < self._pause_s:
            return False
        self._made_s = now_s
        return True

    def _put(self, made: PublishedStatus) -> None:
        made = self._fill(made)
        with self._lock:
            if self._status is not None:
                self._number += 1
                self._row.append((self._number, msgspec.json.encode(status_model.diff_status(self._status, made))))
                while sum(len(data) for _, data in self._row) > _MAX_CHANGE_BYTES:
                    self._row.popleft()
            self._status, self._whole = made, None
            watchers = list(self._watchers)
        for watcher in watchers:
            watcher._wake()

    def _fill(self, made: PublishedStatus) -> PublishedStatus:
        told, first = self._chronicle.entries, self._chronicle.count - len(self._chronicle.entries)
        decisions = tuple(
            PublishedDecision(first + place, one.at_s, one.kind, one.said, one.why, one.groups, one.nodes)
            for place, one in enumerate(told)
        )
        cluster = msgspec.structs.replace(made.cluster, cost=self._history.cost)
        samples = tuple(self._history.samples)
        return msgspec.structs.replace(made, cluster=cluster, decisions=decisions, samples=samples)

    def _forget(self) -> None:
        """Nobody watches: what was made for those who did is not kept up to date, and must not be sent any more."""
        with self._lock:
            if self._watchers or self._status is None:
                return
            self._number += 1
            self._status, self._whole = None, None
            self._row.clear()

    def _id(self, number: int) -> str:
        return f"{self._epoch}-{number}"

    def _find(self, last_id: str) -> int:
        """The number in an id of this process's; -1 for any other."""
        epoch, _, number = last_id.partition("-")
        known = epoch == self._epoch and number.isascii() and number.isdigit() and len(number) < 19
        return int(number) if known and int(number) <= self._number else -1


def _call_in_loop(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    """From whatever thread; nothing if the loop has ended meanwhile."""
    try:
        loop.call_soon_threadsafe(act)
    except RuntimeError:
        if not loop.is_closed():
            raise
