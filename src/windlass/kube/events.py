"""Event recorder: writes Events (v1) about objects, with correlation as in client-go.

The same reason about the same object is written once per window; repetitions are counted, and the count is written with
the next one. For objects that stand for many things, such as a controller's status, messages distinguish events as
well. A failed write is logged and dropped.
"""

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from windlass import clock
from windlass.errors import WindlassError
from windlass.kube import client, errors, time_formats
from windlass.kube.resources import EVENTS

NORMAL = "Normal"
WARNING = "Warning"

WINDOW_S = 300.0
"""Correlation window: equal events are written once."""
_REMEMBERED = 8192
_REMEMBERED_S = 3600.0
"""Retention of counts: kube-apiserver deletes events after an hour."""
_QUEUED = 1000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InvolvedObject:
    """The object of an event."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""

    def reference(self) -> dict[str, str]:
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class EventOccurrence:
    """An occurrence. `type` is Normal or Warning, `reason` is CamelCase, `message` a sentence."""

    about: InvolvedObject
    type: str
    reason: str
    message: str
    action: str = ""
    """The action, in CamelCase; optional."""


@dataclass(slots=True)
class _Record:
    """A written event and its count."""

    name: str
    first_s: float
    count: int = 0
    written: bool = False
    noted_s: float = 0.0
    """Monotonic time of the last occurrence."""


@dataclass(frozen=True, slots=True)
class EventWrite:
    """An event to create, or the new count of an existing one."""

    occurrence: EventOccurrence
    name: str
    first_s: float
    last_s: float
    count: int
    exists: bool

    @property
    def namespace(self) -> str:
        """The namespace of the object; `default` for cluster-scoped objects."""
        return self.occurrence.about.namespace or "default"

    def patch(self) -> dict[str, Any]:
        return {"count": self.count, "lastTimestamp": time_formats.format_time(self.last_s)}

    def body(self, component: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "involvedObject": self.occurrence.about.reference(),
            "type": self.occurrence.type,
            "reason": self.occurrence.reason,
            "message": self.occurrence.message,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            **({"action": self.occurrence.action} if self.occurrence.action else {}),
            "firstTimestamp": time_formats.format_time(self.first_s),
            **self.patch(),
        }


class EventCorrelator:
    """Decides which occurrences are written. No I/O."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._records: OrderedDict[EventOccurrence, _Record] = OrderedDict()
        self._quiet_until_s: OrderedDict[tuple[InvolvedObject, str, str], float] = OrderedDict()
        self._made = 0

    def correlate(
        self, occurrence: EventOccurrence, now_s: float, monotonic_s: float, by_message: bool = False
    ) -> EventWrite | None:
        """Count an occurrence; returns the write that is due, or None."""
        self._forget(monotonic_s - _REMEMBERED_S)
        record = self._remember(occurrence, now_s)
        record.count, record.noted_s = record.count + 1, monotonic_s
        topic = (occurrence.about, occurrence.reason, occurrence.message if by_message else "")
        if monotonic_s < self._quiet_until_s.get(topic, monotonic_s):
            return None
        self._quiet_until_s[topic] = monotonic_s + self._window_s
        _bound(self._quiet_until_s, topic)
        exists, record.written = record.written, True
        return EventWrite(occurrence, record.name, record.first_s, now_s, record.count, exists)

    def recreate(self, write: EventWrite) -> EventWrite:
        """The event to create if the server has deleted the one to patch."""
        before = self._records.pop(write.occurrence, None)
        record = self._remember(write.occurrence, write.last_s)
        record.count, record.written = 1, True
        record.noted_s = record.noted_s if before is None else before.noted_s
        return EventWrite(write.occurrence, record.name, record.first_s, write.last_s, 1, exists=False)

    def _forget(self, before_s: float) -> None:
        """Forget expired records; both maps are in order of last use."""
        while self._records and next(iter(self._records.values())).noted_s < before_s:
            self._records.popitem(last=False)
        while self._quiet_until_s and next(iter(self._quiet_until_s.values())) < before_s:
            self._quiet_until_s.popitem(last=False)

    def _remember(self, occurrence: EventOccurrence, now_s: float) -> _Record:
        record = self._records.get(occurrence)
        if record is None:
            self._made += 1
            record = _Record(f"{occurrence.about.name}.{int(now_s * 1e9) + self._made:x}", now_s)
            self._records[occurrence] = record
        _bound(self._records, occurrence)
        return record


class EventRecorder:
    """Writes events in the background, in order. `window_s` 0 writes every occurrence."""

    def __init__(self, api: client.Client, component: str, *, window_s: float = WINDOW_S) -> None:
        self._client = api
        self._component = component
        self._correlator = EventCorrelator(window_s)
        self._queue: asyncio.Queue[EventWrite] = asyncio.Queue(_QUEUED)
        self.dropped = 0
        """Events that were dropped: rejected by the server, or in excess of the queue."""

    def record(
        self,
        about: InvolvedObject,
        type_: str,
        reason: str,
        message: str,
        *,
        by_message: bool = False,
        action: str = "",
        at_s: float | None = None,
    ) -> None:
        """Queue an occurrence. Never blocks, never fails.

        `by_message`: different messages are different events. `at_s`: time of the occurrence; default now.
        """
        time: clock.Clock = self._client.clock
        occurrence = EventOccurrence(about, type_, reason, message, action)
        happened_s = time.now_s() if at_s is None else at_s
        write = self._correlator.correlate(occurrence, happened_s, time.monotonic_s(), by_message)
        if write is None:
            return
        try:
            self._queue.put_nowait(write)
        except asyncio.QueueFull:
            self.dropped += 1

    async def run(self) -> None:
        """Write queued events until cancelled."""
        while True:
            write = await self._queue.get()
            try:
                await self._write(write)
            except Exception as error:  # any error drops one event only
                self.dropped += 1
                about, is_unexpected = write.occurrence.about, not isinstance(error, WindlassError)
                _log.warning(
                    "failed to write event: reason=%s object=%s error=%s",
                    write.occurrence.reason,
                    about.name,
                    error,
                    exc_info=is_unexpected,
                )
            finally:
                self._queue.task_done()

    async def wait_written(self) -> None:
        """Wait until all queued events are written or dropped."""
        await self._queue.join()

    async def _write(self, write: EventWrite) -> None:
        if write.exists:
            try:
                await self._client.merge_patch(EVENTS, write.name, write.patch(), write.namespace)
                return
            except errors.NotFound:
                write = self._correlator.recreate(write)
        await self._client.create(EVENTS, write.body(self._component))


def _bound(remembered: OrderedDict[Any, Any], key: object) -> None:
    """Move a key to the end, and drop the least recently used one if the map is full."""
    remembered.move_to_end(key)
    if len(remembered) > _REMEMBERED:
        remembered.popitem(last=False)
