"""The gate: buffers changes of the snapshot while a decision runs, so that it cannot change under it.

A decision takes a while, in a thread of its own. Whatever changes the snapshot goes through the gate: at once while it
is open; when it opens and in the same order if it is closed. A change that fails then costs nobody but the object that
it is about.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from windlass import unexpected

Change = Callable[..., object]


class Gate:
    """Open or closed. Used from one thread, that of the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Change, tuple[Any, ...]]] = deque()
        self._closed = 0
        self.failed = 0
        """Changes that waited and could not be made."""

    @property
    def is_closed(self) -> bool:
        """Then a thread may be working on what changes go to: the event loop must not even read it."""
        return self._closed > 0

    def do(self, change: Change, *arguments: Any) -> None:
        """Change something: now, or after all that waits. What fails now is raised."""
        if self._closed or self._waiting:
            self._waiting.append((change, arguments))
        else:
            change(*arguments)

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Let nothing through meanwhile."""
        self._closed += 1
        try:
            yield
        finally:
            self._closed -= 1
            if not self._closed:
                self._let_through()

    def _let_through(self) -> None:
        """Make every change that waits, those included that come meanwhile. The first one stays until it is made, so
        that none can overtake it.
        """
        while self._waiting:
            change, arguments = self._waiting[0]
            try:
                change(*arguments)
            except Exception as error:
                self.failed += 1
                unexpected.report(unexpected.Place.INFORMER, _describe(change, arguments), "", error)
            finally:
                self._waiting.popleft()


def _describe(change: Change, arguments: tuple[Any, ...]) -> str:
    """What changes, and of which object: changes are given its key first."""
    key = arguments[0] if arguments and isinstance(arguments[0], str) else ""
    return f"{getattr(change, '__qualname__', repr(change))} {key}".strip()
