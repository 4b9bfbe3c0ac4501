"""Threads: work that reads what the event loop writes must have ended before the event loop goes on.

A thread cannot be cancelled. `asyncio.to_thread` leaves it running when its caller is cancelled; here the caller's
cancellation waits for the thread and is raised afterwards. How long that may take is bounded by whoever cancels
(`leader_election.Election`, `shutdown.execute`).
"""

import asyncio
import contextvars
import functools
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def run_to_end(work: Callable[[], T]) -> T:
    """The result of `work`, run in a thread. Returns or raises only when the thread has ended, however often it is
    cancelled meanwhile.
    """
    # A future and no task: when an event loop is closed, it cancels every task there is.
    run = functools.partial(contextvars.copy_context().run, work)
    running = asyncio.get_running_loop().run_in_executor(None, run)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await _wait_ended(running)
        raise


async def _wait_ended(running: "asyncio.Future[T]") -> None:
    while not running.done():
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            continue
    if not running.cancelled():
        running.exception()  # looked at: the cancellation is what the caller gets to know of
