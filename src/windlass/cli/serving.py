"""Serving the dashboard of a simulation: in a thread of its own, because time in the story is not the page's."""

import asyncio
import contextlib
import os
import queue
import secrets
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from windlass import errors

if TYPE_CHECKING:
    from windlass.simulator.watched import Watched

ADDRESS = "127.0.0.1:8086"
STORY_NICENESS = 10
"""Of the thread that plays, on Linux. The browser is mostly on the same machine: whoever clicks comes first."""


@contextlib.contextmanager
def serve(watched: "Watched", address: str) -> Iterator[str]:
    """Serve until this ends, and give the address to open. InvalidInput if it cannot be served there."""
    began: queue.SimpleQueue[str | errors.WindlassError] = queue.SimpleQueue()
    loop, is_over = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(_serve(watched, address, began, is_over)))
    thread.start()
    try:
        place = began.get()
        if isinstance(place, errors.WindlassError):
            raise place
        _give_way()
        yield place
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join()
        loop.close()


def _give_way() -> None:
    """Let the page's server and everything else of the machine run before this thread. It cannot be undone.

    Elsewhere than on Linux niceness is a process's, and the server would be as slow as the story.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(STORY_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))


async def _serve(
    watched: "Watched",
    address: str,
    began: "queue.SimpleQueue[str | errors.WindlassError]",
    is_over: asyncio.Event,
) -> None:
    from windlass.autoscaler.wiring import Dashboard
    from windlass.web import access, serving

    token = "" if serving.is_loopback(address) else secrets.token_urlsafe()
    allowed = access.Token(given=token) if token else access.Loopback()
    try:
        async with serving.serve(Dashboard(address), watched.published, watched, allowed) as place:
            began.put(f"{place}#token={token}" if token else place)
            await is_over.wait()
    except errors.WindlassError as error:
        began.put(error)
