"""Shutdown: asked to end, end well, and soon.

The first signal cancels the main task, whose own `finally` blocks put things in order: leases are released, what was
recorded is written. That takes its time, up to a limit; a second signal ends it at once.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Coroutine, Iterator
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = logging.getLogger(__name__)


async def run(main: Coroutine[Any, Any, None], *, grace_s: float = 25.0) -> bool:
    """Run a program to its end, or until it is asked to end. Whether it came to its end in good order.

    What `main` raises on its own is raised. `grace_s` is less than the 30 s after which the kubelet kills.
    """
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
    for each in _SIGNALS:
        loop.add_signal_handler(each, hear, each.name)
    try:
        yield
    finally:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)


async def _wait_any(running: asyncio.Future[None], event: asyncio.Event) -> None:
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
