"""Shutdown: signal handling with a grace period and a watchdog.

The first signal cancels the main task, whose `finally` blocks release leases and write recordings. After the grace
period, or at a second signal, the process exits at once. If a thread or the event loop hangs, a watchdog thread exits
the process with EXIT_STUCK.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, NoReturn

GRACE_S = 25.0
"""Grace period; the kubelet kills after 30 s."""
EXIT_STUCK = 3
"""Exit code of a process that did not shut down in time; its last log message gives the cause."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_HARD_AFTER_S = 0.5
"""Time after the grace period until the watchdog exits the process."""
_LOGGING_S = 0.3
_log = logging.getLogger(__name__)


def execute(main: Coroutine[Any, Any, None], *, grace_s: float = GRACE_S) -> bool:
    """Run the coroutine in an event loop; after a signal the process exits within the grace period."""
    global _watchdog  # one per process, as signal handlers are
    watchdog = _watchdog = _Watchdog(grace_s + _HARD_AFTER_S)
    try:
        with asyncio.Runner() as runner:
            return runner.run(run(main, grace_s=grace_s))
    finally:
        _watchdog = None
        watchdog.disarm()


def exit_process(code: int) -> NoReturn:
    """Exit at once with this code, without freeing memory, which would take seconds."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def arm_watchdog() -> None:
    """Start the watchdog, as after a signal."""
    if _watchdog is not None:
        _watchdog.arm()


class _Watchdog:
    """A thread that exits the process after a timeout, unless disarmed. A thread, since the event loop may hang."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._timer: threading.Timer | None = None

    def arm(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._after_s, _exit_hard, (self._after_s,))
            self._timer.daemon = True
            self._timer.start()

    def disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


_watchdog: _Watchdog | None = None


def _exit_hard(after_s: float) -> None:
    # A hanging thread may hold the lock of a log handler.
    telling = threading.Thread(target=_log_stuck_threads, args=(after_s,), daemon=True)
    telling.start()
    telling.join(_LOGGING_S)
    os._exit(EXIT_STUCK)


def _log_stuck_threads(after_s: float) -> None:
    _log.error("process did not shut down, exiting without waiting for threads: timeout_s=%g", after_s)
    for handler in logging.getLogger().handlers:
        handler.flush()


async def run(main: Coroutine[Any, Any, None], *, grace_s: float = GRACE_S) -> bool:
    """Run until the program ends or a signal arrives; returns whether it ended in time.

    Exceptions of `main` are raised.
    """
    try:
        return await _run(main, grace_s)
    finally:
        arm_watchdog()


async def _run(main: Coroutine[Any, Any, None], grace_s: float) -> bool:
    first_signal = asyncio.Event()
    second_signal = asyncio.Event()
    running = asyncio.ensure_future(main)
    with _handling_signals(first_signal, second_signal):
        await _wait_any(running, first_signal)
        if running.done():
            running.result()
            return True
        running.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await _wait_any(running, second_signal)
        if not running.done():
            _log.error("shutdown timed out or was requested twice, exiting: grace_s=%g", grace_s)
            return False
        return _stopped_cleanly(running)


def _stopped_cleanly(running: asyncio.Future[None]) -> bool:
    if running.cancelled() or running.exception() is None:
        return True
    _log.error("shutdown failed", exc_info=running.exception())
    return False


@contextlib.contextmanager
def _handling_signals(first: asyncio.Event, second: asyncio.Event) -> Iterator[None]:
    def on_signal(name: str) -> None:
        _log.info("received signal, shutting down: signal=%s immediately=%s", name, str(first.is_set()).lower())
        (second if first.is_set() else first).set()

    loop = asyncio.get_running_loop()

    def handle(number: int, _: object) -> None:
        arm_watchdog()  # before the event loop runs the handler: it may hang
        loop.call_soon_threadsafe(on_signal, signal.Signals(number).name)

    before = {item: signal.signal(item, handle) for item in _SIGNALS}
    try:
        yield
    finally:
        for entry, handler in before.items():
            signal.signal(entry, handler)


async def _wait_any(running: asyncio.Future[None], event: asyncio.Event) -> None:
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
