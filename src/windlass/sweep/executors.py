"""Executors of runs: one process per core on this machine, or a Dask cluster.

Each local process is started afresh. One that is killed loses only its run, which is retried once in a new process and
then reported. Closing the iterator ends all of them. On Dask the serialized input travels with each task, so that
workers need windlass and no files.
"""

import collections
import contextlib
import importlib
import itertools
import multiprocessing
import os
import signal
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from multiprocessing.process import BaseProcess
from typing import Any

from windlass import errors
from windlass.sweep import run_outcomes, sweep_plan
from windlass.sweep.run_outcomes import RunOutcome
from windlass.sweep.sweep_plan import SweepPlan, SweepTask, serialize

_MAX_ATTEMPTS = 2

_EXIT_TIMEOUT_S = 5.0
"""How long a process that was asked to end may take before it is killed."""

RunRequest = tuple[dict[str, str], int]
"""Flags and seed."""


@dataclass(slots=True)
class _Worker:
    """A process, the wire to it, and what it is at."""

    process: BaseProcess
    wire: "connection.Connection[RunRequest, RunOutcome]"
    task: SweepTask | None = None


@dataclass(frozen=True, slots=True)
class ProcessExecutor:
    """So many processes for the runs of a plan."""

    count: int

    def run(self, plan: SweepPlan, tasks: Sequence[SweepTask]) -> Generator[tuple[SweepTask, RunOutcome]]:
        """Each task with its outcome, as they end."""
        crew = _WorkerPool(plan, serialize(plan.world), min(self.count, len(tasks)))
        try:
            yield from crew.run(tasks)
        finally:
            crew.stop()


def count_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _WorkerPool:
    def __init__(self, plan: SweepPlan, packed: bytes, count: int) -> None:
        self._plan, self._packed = plan, packed
        self._workers: list[_Worker] = []
        self._killed: collections.Counter[SweepTask] = collections.Counter()
        resource_tracker.ensure_running()  # before signals are held back, for it lets them go again
        for _ in range(count):
            self._workers.append(self._start())

    def _start(self) -> _Worker:
        spawning = multiprocessing.get_context("spawn")
        ours, theirs = spawning.Pipe()
        process = spawning.Process(target=_run_worker, args=(theirs, self._packed), daemon=True)
        with _ignoring_interrupts():
            process.start()
        theirs.close()
        return _Worker(process, ours)

    def run(self, tasks: Sequence[SweepTask]) -> Iterator[tuple[SweepTask, RunOutcome]]:
        waiting = collections.deque(tasks)
        while waiting or any(hand.task for hand in self._workers):
            for hand in self._workers:
                if hand.task is None and waiting:
                    self._give(hand, waiting.popleft())
            ready = connection.wait([hand.wire for hand in self._workers if hand.task])
            for hand in [one for one in self._workers if one.wire in ready]:
                task, hand.task = hand.task, None
                assert task is not None
                try:
                    outcome = hand.wire.recv()
                except (EOFError, OSError):
                    self._killed[task] += 1
                    said = _describe_exit(hand)
                    self._replace(hand)
                    if self._killed[task] < _MAX_ATTEMPTS:
                        waiting.appendleft(task)
                        continue
                    outcome = RunOutcome(failed=f"its process {said}, {_MAX_ATTEMPTS} times")
                yield task, outcome

    def _give(self, hand: _Worker, task: SweepTask) -> None:
        job = dict(self._plan.settings[task.settings]), task.seed
        try:
            hand.wire.send(job)
        except OSError:  # it was killed while it had nothing to do
            self._replace(hand)
            hand.wire.send(job)
        hand.task = task

    def _replace(self, hand: _Worker) -> None:
        hand.wire.close()
        hand.process.close()
        fresh = self._start()
        hand.process, hand.wire = fresh.process, fresh.wire

    def stop(self) -> None:
        for hand in self._workers:
            hand.wire.close()
            hand.process.terminate()
        for hand in self._workers:
            hand.process.join(_EXIT_TIMEOUT_S)
            if hand.process.is_alive():
                hand.process.kill()
                hand.process.join()
            hand.process.close()


def _describe_exit(hand: _Worker) -> str:
    hand.process.join(_EXIT_TIMEOUT_S)
    if hand.process.exitcode is None:
        hand.process.kill()
        hand.process.join()
    code = hand.process.exitcode or 0
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """What is started meanwhile never hears of Ctrl-C: whoever started it ends it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_worker(wire: "connection.Connection[RunOutcome, RunRequest]", packed: bytes) -> None:
    """In the new process: play what comes, until nobody is at the other end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        while True:
            wire.send(run_outcomes.run_task(packed, *wire.recv()))


_CONNECT_TIMEOUT_S = 5.0
"""For a scheduler to answer, and for a first worker to be there."""

_QUEUED_PER_THREAD = 2
"""Runs that each thread of a worker has at hand."""


@dataclass(frozen=True, slots=True)
class DaskExecutor:
    """A scheduler that answers, and workers that have this very windlass."""

    address: str
    client: Any
    """Of `distributed`, most of which has no types."""

    def run(self, plan: SweepPlan, tasks: Sequence[SweepTask]) -> Generator[tuple[SweepTask, RunOutcome]]:
        """Each task with its outcome, as they end. Closing the iterator takes back what has not begun."""
        packed, waiting = sweep_plan.serialize(plan.world), iter(tasks)
        under_way: dict[Any, SweepTask] = {}

        def hand_in(count: int) -> list[Any]:
            handed = [(self._submit(plan, packed, task), task) for task in itertools.islice(waiting, count)]
            under_way.update(handed)
            return [future for future, _ in handed]

        ended = _import_dask().as_completed(hand_in(_QUEUED_PER_THREAD * self._count_threads()))
        for future in ended:
            task = under_way.pop(future)
            yield task, self._read(future)
            for another in hand_in(1):
                ended.add(another)

    def _submit(self, plan: SweepPlan, packed: bytes, task: SweepTask) -> Any:
        return self.client.submit(
            run_outcomes.run_task, packed, dict(plan.settings[task.settings]), task.seed, pure=False
        )

    def _read(self, future: Any) -> RunOutcome:
        if future.status in ("cancelled", "lost"):
            raise errors.InvalidInput(f"--dask {self.address}: the scheduler is gone; what was played is kept")
        error = future.exception()
        if error is not None:  # the run itself never fails: its worker did
            return RunOutcome(failed=f"{type(error).__name__}: {error}")
        outcome: RunOutcome = future.result()
        return outcome

    def _count_threads(self) -> int:
        threads: dict[str, int] = self.client.nthreads()
        return max(sum(threads.values()), 1)


@contextlib.contextmanager
def connect(address: str) -> Iterator[DaskExecutor]:
    """InvalidInput if there is no Dask here, no scheduler there, no worker, or one with another windlass."""
    distributed = _import_dask()
    try:
        client = distributed.Client(address, timeout=_CONNECT_TIMEOUT_S)
    except (OSError, ValueError, TypeError) as error:
        said = f"no Dask scheduler answers there within {_CONNECT_TIMEOUT_S:g} s"
        raise errors.InvalidInput(f"--dask {address}: {said}: {error}") from None
    try:
        _check_workers(client, address)
        yield DaskExecutor(address, client)
    finally:
        client.close()


def _import_dask() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise errors.InvalidInput("--dask: found no Dask here, accepted is pip install 'windlass[dask]'") from None


def _check_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_CONNECT_TIMEOUT_S)
    except TimeoutError:
        raise errors.InvalidInput(f"--dask {address}: the scheduler has no workers") from None
    ours = sweep_plan.program_version()
    for worker, theirs in client.run(sweep_plan.program_version, on_error="return").items():
        if theirs != ours:
            said = theirs if isinstance(theirs, str) else f"none that can be used: {theirs}"
            raise errors.InvalidInput(f"--dask {address}: found windlass {said} on worker {worker}, accepted is {ours}")
