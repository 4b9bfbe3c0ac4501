"""Runs on this machine: one process for each core, each started afresh, so that they share nothing.

A process that is killed takes only its run with it: the run is tried again in a new one, and reported if that is
killed, too. Closing the iterator ends all of them.
"""

import collections
import contextlib
import multiprocessing
import os
import signal
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from multiprocessing.process import BaseProcess

from windlass.sweep import playing
from windlass.sweep.plan import Plan, Task
from windlass.sweep.playing import Outcome
from windlass.sweep.worlds import pack

_TRIES = 2
_PATIENCE_S = 5.0
"""How long a process that was asked to end may take before it is killed."""

Job = tuple[dict[str, str], int]
"""Flags and seed."""


@dataclass(slots=True)
class _Hand:
    """A process, the wire to it, and what it is at."""

    process: BaseProcess
    wire: "connection.Connection[Job, Outcome]"
    task: Task | None = None


@dataclass(frozen=True, slots=True)
class Processes:
    """So many processes for the runs of a plan."""

    count: int

    def play(self, plan: Plan, tasks: Sequence[Task]) -> Generator[tuple[Task, Outcome]]:
        """Each task with its outcome, as they end."""
        crew = _Crew(plan, pack(plan.world), min(self.count, len(tasks)))
        try:
            yield from crew.play(tasks)
        finally:
            crew.end()


def find_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Crew:
    def __init__(self, plan: Plan, packed: bytes, count: int) -> None:
        self._plan, self._packed = plan, packed
        self._hands: list[_Hand] = []
        self._killed: collections.Counter[Task] = collections.Counter()
        resource_tracker.ensure_running()  # before signals are held back, for it lets them go again
        for _ in range(count):
            self._hands.append(self._start())

    def _start(self) -> _Hand:
        spawning = multiprocessing.get_context("spawn")
        ours, theirs = spawning.Pipe()
        process = spawning.Process(target=_work, args=(theirs, self._packed), daemon=True)
        with _interrupts_held_back():
            process.start()
        theirs.close()
        return _Hand(process, ours)

    def play(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
        waiting = collections.deque(tasks)
        while waiting or any(hand.task for hand in self._hands):
            for hand in self._hands:
                if hand.task is None and waiting:
                    self._give(hand, waiting.popleft())
            ready = connection.wait([hand.wire for hand in self._hands if hand.task])
            for hand in [one for one in self._hands if one.wire in ready]:
                task, hand.task = hand.task, None
                assert task is not None
                try:
                    outcome = hand.wire.recv()
                except (EOFError, OSError):
                    self._killed[task] += 1
                    said = _tell_end(hand)
                    self._replace(hand)
                    if self._killed[task] < _TRIES:
                        waiting.appendleft(task)
                        continue
                    outcome = Outcome(failed=f"its process {said}, {_TRIES} times")
                yield task, outcome

    def _give(self, hand: _Hand, task: Task) -> None:
        job = dict(self._plan.settings[task.settings]), task.seed
        try:
            hand.wire.send(job)
        except OSError:  # it was killed while it had nothing to do
            self._replace(hand)
            hand.wire.send(job)
        hand.task = task

    def _replace(self, hand: _Hand) -> None:
        hand.wire.close()
        hand.process.close()
        fresh = self._start()
        hand.process, hand.wire = fresh.process, fresh.wire

    def end(self) -> None:
        for hand in self._hands:
            hand.wire.close()
            hand.process.terminate()
        for hand in self._hands:
            hand.process.join(_PATIENCE_S)
            if hand.process.is_alive():
                hand.process.kill()
                hand.process.join()
            hand.process.close()


def _tell_end(hand: _Hand) -> str:
    hand.process.join(_PATIENCE_S)
    if hand.process.exitcode is None:
        hand.process.kill()
        hand.process.join()
    code = hand.process.exitcode or 0
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """What is started meanwhile never hears of Ctrl-C: whoever started it ends it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(wire: "connection.Connection[Outcome, Job]", packed: bytes) -> None:
    """In the new process: play what comes, until nobody is at the other end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        while True:
            wire.send(playing.play(packed, *wire.recv()))
