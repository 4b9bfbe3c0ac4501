"""Watches: bytes collect in an order that follows the writes; an adapter reads them when its client can receive.

A watch that is not read is ended when its buffer is full, as in kube-apiserver; its client then reconnects with
the last version it saw, or lists anew.
"""

from collections import deque
from collections.abc import Callable

from windlass.apiserver import status_errors, storage
from windlass.apiserver.value_types import Json

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

RenderLine = Callable[[str, storage.StoredObject], bytes]
"""An event's line where the client wants another form than the plain object."""


def _ignore_wakeup() -> None:
    """No reader waits yet."""


class Watch:
    """One client's view of a table from now on."""

    def __init__(
        self,
        table: storage.ResourceTable,
        accepts: storage.ObjectFilter | None,
        *,
        most_unread: int,
        zero: Json,
        render: RenderLine | None = None,
    ) -> None:
        self._table = table
        self._accepts = accepts
        self._render = render
        self._zero = zero
        """What a bookmark's object looks like but for its version."""
        self._most_unread = most_unread
        self._lines: deque[bytes] = deque()
        self.is_ended = False
        self.timeout_s = 0.0
        """The client's wish; zero leaves it to the adapter."""
        self.sends_bookmarks = False
        self.notify: Callable[[], None] = _ignore_wakeup
        """Called when there is something to take, or the end has come."""

    def start(self) -> None:
        self._table.watchers.append(self._offer)

    def stop(self) -> None:
        """Nothing more is collected. What was, can still be taken."""
        if not self.is_ended:
            self.is_ended = True
            if self._offer in self._table.watchers:
                self._table.watchers.remove(self._offer)
            self.notify()

    def take(self) -> bytes:
        """Everything collected since the last call; empty if there is nothing."""
        lines = self._lines
        if not lines:
            return b""
        taken = lines[0] if len(lines) == 1 else b"".join(lines)
        lines.clear()
        return taken

    def replay(self, events: list[storage.StorageEvent]) -> None:
        """Send past events that the client has not received."""
        for event in events:
            self._offer(event)

    def send_initial(self, objects: list[storage.StoredObject]) -> None:
        """Send existing objects as ADDED events."""
        self._lines.extend(self._render_line(storage.ADDED, stored) for stored in objects)

    def send_error(self, refused: status_errors.StatusError) -> None:
        """Send an ERROR event and end: the client's version cannot be served."""
        self._lines.append(storage.make_watch_line("ERROR", storage.encode_json(refused.body())))
        self.stop()

    def send_bookmark(self, version: int, *, ends_initial_events: bool = False) -> None:
        """Send a bookmark: the client has received everything up to a version."""
        if self.is_ended:
            return
        metadata: Json = {**self._zero.get("metadata", {}), "resourceVersion": str(version)}
        if ends_initial_events:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        self._push(storage.make_watch_line("BOOKMARK", storage.encode_json({**self._zero, "metadata": metadata})))

    def _offer(self, event: storage.StorageEvent) -> None:
        accepts = self._accepts
        if accepts is None and self._render is None:
            self._push(event.line(event.type, event.now))
            return
        if accepts is None:
            type_, stored = event.type, event.now
        else:
            is_now = event.type != storage.DELETED and accepts(event.now)
            was_before = event.before is not None and accepts(event.before)
            if not is_now and not was_before:
                return
            type_, stored = self._translate(event, is_now, was_before)
        line = event.line(type_, stored) if self._render is None else self._render(type_, stored)
        self._push(line)

    def _translate(
        self, event: storage.StorageEvent, is_now: bool, was_before: bool
    ) -> tuple[str, storage.StoredObject]:
        """The type of event for a watch with a selector."""
        if is_now:
            return (storage.MODIFIED if was_before else storage.ADDED), event.now
        if event.type == storage.DELETED or event.before is None:
            return storage.DELETED, event.now
        last = event.before
        return storage.DELETED, last.successor(event.version, self._table.reversioned(last.raw, event.version))

    def _render_line(self, type_: str, stored: storage.StoredObject) -> bytes:
        return storage.make_watch_line(type_, stored.raw) if self._render is None else self._render(type_, stored)

    def _push(self, line: bytes) -> None:
        lines = self._lines
        lines.append(line)
        if len(lines) == 1:
            self.notify()
        elif len(lines) > self._most_unread:
            lines.clear()
            self.stop()
