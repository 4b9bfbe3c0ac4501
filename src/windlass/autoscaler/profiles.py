"""Profiles of the running process: where its time goes, what it does right now, what fills its memory.

Text, for `curl`. A profile is one line for each stack seen, outermost call first, and how often: what flame graphs are
drawn from.
"""

import asyncio
import collections
import gc
import resource
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType

_PERIOD_S = 0.01
_MOST = 50
"""Types told of a heap."""


def sample(seconds: float, is_over: Callable[[], bool] = lambda: False) -> str:
    """What all threads did, looked at a hundred times a second. Takes so long: call it in a thread of its own."""
    seen: collections.Counter[str] = collections.Counter()
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s and not is_over():
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            if ident != threading.get_ident():
                seen[";".join((names.get(ident, str(ident)), *_name_calls(frame)))] += 1
        time.sleep(_PERIOD_S)
    return "".join(f"{stack} {count}\n" for stack, count in sorted(seen.items()))


def tell_threads() -> str:
    """What every thread does, and what every task waits for. To be called on the event loop."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        parts.append(f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}")
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        stack = [line for frame in task.get_stack() for line in traceback.format_stack(frame, limit=1)]
        parts.append(f"task {task.get_name()}:\n{''.join(stack)}")
    return "\n".join(parts)


def tell_heap() -> str:
    """How much memory the process has had at most, and the kinds of objects that there are most of."""
    counts = collections.Counter(type(found).__qualname__ for found in gc.get_objects())
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = [f"peak resident set: {peak_kib} KiB", f"objects under garbage collection: {counts.total()}"]
    return "\n".join((*lines, *(f"{count:9d} {name}" for name, count in counts.most_common(_MOST)), ""))


def _name_calls(frame: FrameType) -> list[str]:
    calls = [
        f"{found.f_code.co_qualname} ({found.f_code.co_filename.rpartition('/')[2]}:{line})"
        for found, line in traceback.walk_stack(frame)
    ]
    return calls[::-1]
