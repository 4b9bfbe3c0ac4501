"""Shutdown: asked to end, end well, and soon.

The first signal cancels the main task, whose own `finally` blocks put things in order: leases are released, what was
recorded is written. That takes its time, up to a limit; a second signal ends it at once.

A thread that does not end, or an event loop that stands still, would keep a process from ending for ever: `execute`
ends it hard then, with the exit code STUCK.
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
"""Less than the 30 s after which the kubelet kills."""
EXIT_STUCK = 3
"""Exit code: it was to end, and something in it did not. The log says so last."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_HARD_AFTER_S = 0.5
"""After the grace: what is left of an ended program takes no longer to take down."""
_LOGGING_S = 0.3
_log = logging.getLogger(__name__)


def execute(main: Coroutine[Any, Any, None], *, grace_s: float = GRACE_S) -> bool:
    """`run` in an event loop of its own. The process ends soon after it was asked to, whatever hangs in it."""
    global _watchdog  # of the process, as signals are
    watchdog = _watchdog = _Watchdog(grace_s + _HARD_AFTER_S)
    try:
        with asyncio.Runner() as runner:
            return runner.run(run(main, grace_s=grace_s))
    finally:
        _watchdog = None
        watchdog.disarm()


def exit_process(code: int) -> NoReturn:
    """Exit with this code at once: to take hundreds of megabytes apart would take seconds."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def arm_watchdog() -> None:
    """From now on the process is about to end: `execute` gives it as long as if it had been asked to."""
    if _watchdog is not None:
        _watchdog.arm()


class _Watchdog:
    """Ends the process, some time after it was armed, unless it is disarmed. A thread: the event loop may hang."""

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
    # Whoever hangs may hold the lock of a log handler.
    telling = threading.Thread(target=_log_stuck_threads, args=(after_s,), daemon=True)
    telling.start()
    telling.join(_LOGGING_S)
    os._exit(EXIT_STUCK)


def _log_stuck_threads(after_s: float) -> None:
    _log.error("the process did not end within %g s: exiting without waiting for its threads", after_s)
    for handler in logging.getLogger().handlers:
        handler.flush()


async def run(main: Coroutine[Any, Any, None], *, grace_s: float = GRACE_S) -> bool:
    """Run a program to its end, or until it is asked to end. Whether it came to its end in good order.

    What `main` raises on its own is raised.
    """
    try:
        return await _run(main, grace_s)
    finally:
        arm_watchdog()


async def _run(main: Coroutine[Any, Any, None], grace_s: float) -> bool:
    asked = asyncio.Event()
    insisted = asyncio.Event()
    running = asyncio.ensure_future(main)
    with _listening(asked, insisted):
        await _wait_any(running, asked)
        if running.done():
            running.result()
            return True
        running.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await _wait_any(running, insisted)
        if not running.done():
            _log.error("not ended within %g s, or asked twice: giving up", grace_s)
            return False
        return _ended_well(running)


def _ended_well(running: asyncio.Future[None]) -> bool:
    if running.cancelled() or running.exception() is None:
        return True
    _log.error("failed while ending", exc_info=running.exception())
    return False


@contextlib.contextmanager
def _listening(asked: asyncio.Event, insisted: asyncio.Event) -> Iterator[None]:
    def hear(name: str) -> None:
        _log.info("%s: ending%s", name, " at once" if asked.is_set() else "")
        (insisted if asked.is_set() else asked).set()

    loop = asyncio.get_running_loop()

    def handle(number: int, _: object) -> None:
        arm_watchdog()  # before the event loop hears of it: it may be busy, or hang
        loop.call_soon_threadsafe(hear, signal.Signals(number).name)

    before = {each: signal.signal(each, handle) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


async def _wait_any(running: asyncio.Future[None], event: asyncio.Event) -> None:
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
