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
from windlass.engine.model.drains import ENDED_PHASES
from windlass.engine.observation import Observation
from windlass.explain.decision_view import DecisionView
from windlass.observability import status_builder, status_model
from windlass.observability.decision_log import DecisionLog, LogEntry
from windlass.observability.history import HISTORY_INTERVAL_S, HistoryBuffer
from windlass.observability.status_model import (
    MAX_DECISIONS,
    MAX_SAMPLES,
    ClusterCost,
    ClusterSample,
    DecisionReport,
    PublishedDecision,
    PublishedHistory,
    PublishedStatus,
)

SAMPLE_INTERVAL_S = 10.0
"""Minimum interval between samples."""
MAX_HISTORY_DECISIONS = 1000
"""Maximum number of decisions in the history; the status has the last MAX_DECISIONS of them."""
_MAX_CHANGES = 64
_MAX_CHANGE_BYTES = 4 * 2**20
"""Maximum total size of changes kept for slow watchers."""
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class StatusMessage:
    """A message for watchers. `id`: event id with which a watcher resumes."""

    id: str
    event: str
    """`status`: complete; `change`: difference from the previous message."""
    data: bytes


@dataclass(slots=True)
class StatusWatcher:
    """A subscription to the status."""

    _wake: Callable[[], None]
    _is_news: asyncio.Event
    at: int = -1
    """Number of the last message sent; -1: none."""

    async def wait(self) -> None:
        """Wait until there may be a new message."""
        await self._is_news.wait()
        self._is_news.clear()


@dataclass(slots=True)
class _StatusHistory:
    """State kept between loops."""

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
    """Publishes one autoscaler's status."""

    def __init__(
        self,
        now_s: Callable[[], float],
        setting: status_builder.PublisherInfo = status_builder.LIVE_PUBLISHER,
        *,
        sample_s: float = SAMPLE_INTERVAL_S,
        history_s: float = HISTORY_INTERVAL_S,
        pause_s: float = 0.0,
    ) -> None:
        """`history_s`: minimum seconds between two samples of the history. `pause_s`: minimum real seconds between two
        statuses, for fast simulations.
        """
        self.setting = setting
        self.now_s = now_s
        self._decision_log = DecisionLog(now_s, MAX_HISTORY_DECISIONS)
        self._history = _StatusHistory(sample_s)
        self._past = HistoryBuffer(history_s)
        self._pause_s, self._made_s = pause_s, float("-inf")
        self._lock = threading.Lock()
        self._watchers: list[StatusWatcher] = []
        self._epoch = secrets.token_hex(4)
        self._number = 0
        self._row: deque[tuple[int, bytes]] = deque(maxlen=_MAX_CHANGES)
        self._status: PublishedStatus | None = None
        self._whole: bytes | None = None
        self._view: DecisionView | None = None
        """View of the last decision."""
        self._phases: dict[str, str] = {}

    # Called by the loop

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    def on_decision(self, view: DecisionView, now_s: float) -> None:
        """Publish a decision. Must be called while the snapshot is unchanged since the decision."""
        with self._lock:
            self._decision_log.add_decision(view)
        self._view = view
        figures = status_builder.measure_cluster(view.observation, now_s)
        self._history.note(figures)
        with self._lock:
            self._past.note(view, figures)
        self._phases = {name: phase for name, phase in self._phases.items() if name in view.drains}
        if self.is_watched and self._is_time():
            self._put(status_builder.build_status(view, figures, self.setting, self._phases))
        elif not self.is_watched:
            self._forget()

    def on_advance(self, observation: Observation, advanced: DrainLoopResult, now_s: float) -> None:
        """Publish a drain step."""
        with self._lock:
            self._decision_log.add_drains(advanced)
        self._phases = {drain.node: str(drain.phase) for drain in advanced.story if drain.phase not in ENDED_PHASES}
        before, view = self._status, self._view
        if self.is_watched and before is not None and view is not None and self._is_time():
            durable = advanced.memory.durable
            self._put(status_builder.update_drains(before, observation, view, durable, self._phases, now_s))

    def refresh(self, view: DecisionView, now_s: float) -> None:
        """Publish between two loops for a new watcher: the view is of what the next loop would decide."""
        figures = status_builder.measure_cluster(view.observation, now_s)
        self._put(status_builder.build_status(view, figures, self.setting, self._phases))

    def end(self) -> None:
        """Publish the end."""
        if self._status is not None:
            cluster = msgspec.structs.replace(self._status.cluster, is_over=True)
            self._put(msgspec.structs.replace(self._status, cluster=cluster))

    # Watchers

    @property
    def status(self) -> PublishedStatus | None:
        """The last status; None without watchers or before the first decision."""
        return self._status

    @contextmanager
    def watch(self, last_id: str = "") -> Iterator[StatusWatcher]:
        """Subscribe, within an event loop. `last_id`: last event id of a resuming watcher."""
        is_news, loop = asyncio.Event(), asyncio.get_running_loop()
        watcher = StatusWatcher(lambda: _call_in_loop(loop, is_news.set), is_news, self._parse_event_id(last_id))
        is_news.set()
        with self._lock:
            self._watchers.append(watcher)
        try:
            yield watcher
        finally:
            with self._lock:
                self._watchers.remove(watcher)

    def take_messages(self, watcher: StatusWatcher) -> list[StatusMessage]:
        """Return messages that the watcher has not received: changes, or a complete status."""
        with self._lock:
            if self._status is None or watcher.at == self._number:
                return []
            first = self._row[0][0] if self._row else self._number + 1
            if watcher.at >= 0 and first <= watcher.at + 1:
                missed = [
                    StatusMessage(self._format_event_id(n), "change", data) for n, data in self._row if n > watcher.at
                ]
            else:
                if self._whole is None:
                    self._whole = msgspec.json.encode(self._status)
                missed = [StatusMessage(self._format_event_id(self._number), "status", self._whole)]
            watcher.at = self._number
            return missed

    # History

    def encode_history(self, after_s: float = float("-inf")) -> bytes:
        """What is kept of the past, samples and decisions after a time: a PublishedHistory as JSON."""
        with self._lock:
            log, past = self._decision_log, self._past
            samples = list(past.samples_after(after_s))
            decisions = [
                _publish_entry(log.first + place, entry)
                for place, entry in enumerate(log.entries)
                if entry.at_s > after_s
            ]
            now_s = self.now_s()
            from_s = now_s if past.from_s is None else past.from_s
            found = PublishedHistory(
                now_s, from_s, past.every_s, past.groups, past.namespaces, decisions=tuple(decisions), count=log.count
            )
        return msgspec.json.encode(msgspec.structs.asdict(found) | {"samples": samples})

    def find_decision(self, number: int) -> DecisionReport | None:
        """One decision with its detail and what followed; None if it is not kept."""
        with self._lock:
            log = self._decision_log
            entry = log.find(number)
            if entry is None:
                return None
            return DecisionReport(_publish_entry(number, entry), log.detail_of(number), log.outcomes_of(number))

    # Internals

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
        log = self._decision_log
        recent = list(log.entries)[-MAX_DECISIONS:]
        decisions = tuple(
            _publish_entry(log.count - len(recent) + place, log_entry) for place, log_entry in enumerate(recent)
        )
        cluster = msgspec.structs.replace(made.cluster, cost=self._history.cost)
        samples = tuple(self._history.samples)
        return msgspec.structs.replace(made, cluster=cluster, decisions=decisions, samples=samples)

    def _forget(self) -> None:
        """Drop the status and changes when the last watcher leaves: they are no longer updated and must not be sent."""
        with self._lock:
            if self._watchers or self._status is None:
                return
            self._number += 1
            self._status, self._whole = None, None
            self._row.clear()

    def _format_event_id(self, number: int) -> str:
        return f"{self._epoch}-{number}"

    def _parse_event_id(self, last_id: str) -> int:
        """Parse an event id of this process; -1 for any other."""
        epoch, _, number = last_id.partition("-")
        known = epoch == self._epoch and number.isascii() and number.isdigit() and len(number) < 19
        return int(number) if known and int(number) <= self._number else -1


def _publish_entry(number: int, entry: LogEntry) -> PublishedDecision:
    return PublishedDecision(
        number,
        entry.at_s,
        entry.kind,
        entry.said,
        entry.why,
        entry.groups,
        entry.nodes,
        entry.reason,
        entry.namespaces,
    )


def _call_in_loop(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    """Call a function on an event loop from any thread; ignored if the loop is closed."""
    try:
        loop.call_soon_threadsafe(act)
    except RuntimeError:
        if not loop.is_closed():
            raise
