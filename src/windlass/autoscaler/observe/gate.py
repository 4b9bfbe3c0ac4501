"""The gate: while a decision is made, what is seen meanwhile waits.

A decision is made on a snapshot that must not change under it, and takes a while, in a thread of its own. Whatever
changes the snapshot goes through the gate: at once while it is open, afterwards and in the same order if it is closed.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

Change = Callable[..., object]


class Gate:
    """Open or closed. Used from one thread, that of the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Change, tuple[Any, ...]]] = deque()
        self._closed = 0

    def do(self, change: Change, *arguments: Any) -> None:
        """Change something, now or when the gate opens."""
        if self._closed:
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
            while self._waiting and not self._closed:
                change, arguments = self._waiting.popleft()
                change(*arguments)
