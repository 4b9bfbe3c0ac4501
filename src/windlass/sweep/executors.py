"""Executors of runs: one process per core on this machine, or a Dask cluster.

Local processes are spawned. If one is killed, only its run is lost: it is retried once in a new process, and then
reported as failed. Closing the iterator ends all processes. On Dask the serialized input is sent with each task, so
that workers need windlass and no files.
"""

import collections
import contextlib
import importlib
import itertools
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from multiprocessing.process import BaseProcess
from typing import Any

import msgspec

from windlass import errors, product
from windlass.simulator import autoscaler_run
from windlass.simulator.simulation import Simulation
from windlass.sweep import sweep_plan
from windlass.sweep.sweep_plan import RunOutcome, SweepInput, SweepPlan, SweepTask, deserialize, serialize

_MAX_ATTEMPTS = 2

_EXIT_TIMEOUT_S = 5.0
"""Seconds between SIGTERM and SIGKILL."""

_ONE_RUN_AT_A_TIME = threading.Lock()
"""One run at a time in a process: a simulation changes the process's garbage collection thresholds."""

_MAX_VIOLATION_TEXTS = 5
"""Violations that are kept as text; all are counted."""


def run_task(packed: bytes, flags: dict[str, str], seed: int) -> RunOutcome:
    """Run one task; the outcome does not depend on the executor. Errors are returned as a failed outcome."""
    try:
        with _ONE_RUN_AT_A_TIME:
            return _run_simulation(deserialize(packed), flags, seed)
    except Exception as error:  # any error concerns this run only
        where = traceback.extract_tb(error.__traceback__)[-1]
        return RunOutcome(failed=f"{type(error).__name__}: {error} ({where.name})")


def _run_simulation(sweep_input: SweepInput, flags: dict[str, str], seed: int) -> RunOutcome:
    scenario = msgspec.structs.replace(sweep_input.scenario, seed=seed, flags={**sweep_input.scenario.flags, **flags})
    result = Simulation(scenario, sweep_input.trace).run(autoscaler_run.run_autoscaler)
    return RunOutcome(
        result.totals,
        tuple(str(expectation_result) for expectation_result in result.outcomes if not expectation_result.is_met),
        tuple(str(violation) for violation in result.violations[:_MAX_VIOLATION_TEXTS]),
    )


RunRequest = tuple[dict[str, str], int]
"""Flags and seed."""


@dataclass(slots=True)
class _Worker:
    """A process, its connection, and its current task."""

    process: BaseProcess
    connection: "connection.Connection[RunRequest, RunOutcome]"
    task: SweepTask | None = None


@dataclass(frozen=True, slots=True)
class ProcessExecutor:
    """Runs a plan in this number of local processes."""

    count: int

    def run(self, plan: SweepPlan, tasks: Sequence[SweepTask]) -> Generator[tuple[SweepTask, RunOutcome]]:
        """Tasks with their outcomes, in order of completion."""
        pool = _WorkerPool(plan, serialize(plan.sweep_input), min(self.count, len(tasks)))
        try:
            yield from pool.run(tasks)
        finally:
            pool.stop()


def count_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _WorkerPool:
    def __init__(self, plan: SweepPlan, packed: bytes, count: int) -> None:
        self._plan, self._packed = plan, packed
        self._workers: list[_Worker] = []
        self._killed: collections.Counter[SweepTask] = collections.Counter()
        resource_tracker.ensure_running()  # before signals are blocked, because its start unblocks them
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
        while waiting or any(worker.task for worker in self._workers):
            for worker in self._workers:
                if worker.task is None and waiting:
                    self._give(worker, waiting.popleft())
            ready = connection.wait([worker.connection for worker in self._workers if worker.task])
            for worker in [worker for worker in self._workers if worker.connection in ready]:
                task, worker.task = worker.task, None
                assert task is not None
                try:
                    outcome = worker.connection.recv()
                except (EOFError, OSError):
                    self._killed[task] += 1
                    said = _describe_exit(worker)
                    self._replace(worker)
                    if self._killed[task] < _MAX_ATTEMPTS:
                        waiting.appendleft(task)
                        continue
                    outcome = RunOutcome(failed=f"its process {said}, {_MAX_ATTEMPTS} times")
                yield task, outcome

    def _give(self, worker: _Worker, task: SweepTask) -> None:
        job = dict(self._plan.settings[task.settings]), task.seed
        try:
            worker.connection.send(job)
        except OSError:  # the process was killed while idle
            self._replace(worker)
            worker.connection.send(job)
        worker.task = task

    def _replace(self, worker: _Worker) -> None:
        worker.connection.close()
        worker.process.close()
        fresh = self._start()
        worker.process, worker.connection = fresh.process, fresh.connection

    def stop(self) -> None:
        for worker in self._workers:
            worker.connection.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(_EXIT_TIMEOUT_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()


def _describe_exit(worker: _Worker) -> str:
    worker.process.join(_EXIT_TIMEOUT_S)
    if worker.process.exitcode is None:
        worker.process.kill()
        worker.process.join()
    code = worker.process.exitcode or 0
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Processes started meanwhile ignore SIGINT: the parent ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_worker(connection: "connection.Connection[RunOutcome, RunRequest]", packed: bytes) -> None:
    """Main function of a worker: run tasks until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        while True:
            connection.send(run_task(packed, *connection.recv()))


_CONNECT_TIMEOUT_S = 3.0
"""Timeout for the scheduler's answer and for the first worker."""

_QUEUED_PER_THREAD = 2
"""Queued runs per thread of a worker."""


@dataclass(frozen=True, slots=True)
class DaskExecutor:
    """Runs a plan on a Dask cluster whose workers have this version of windlass."""

    address: str
    client: Any
    """A `distributed.Client`, which has no types."""

    def run(self, plan: SweepPlan, tasks: Sequence[SweepTask]) -> Generator[tuple[SweepTask, RunOutcome]]:
        """Tasks with their outcomes, in order of completion. Closing the iterator cancels queued tasks."""
        packed, waiting = sweep_plan.serialize(plan.sweep_input), iter(tasks)
        under_way: dict[Any, SweepTask] = {}

        def submit(count: int) -> list[Any]:
            handed = [(self._submit(plan, packed, task), task) for task in itertools.islice(waiting, count)]
            under_way.update(handed)
            return [future for future, _ in handed]

        ended = _import_dask().as_completed(submit(_QUEUED_PER_THREAD * self._count_threads()))
        for future in ended:
            task = under_way.pop(future)
            yield task, self._read(future)
            for another in submit(1):
                ended.add(another)

    def _submit(self, plan: SweepPlan, packed: bytes, task: SweepTask) -> Any:
        return self.client.submit(run_task, packed, dict(plan.settings[task.settings]), task.seed, pure=False)

    def _read(self, future: Any) -> RunOutcome:
        if future.status in ("cancelled", "lost"):
            raise errors.InvalidInput(f"--dask {self.address}: the scheduler is gone; completed runs are kept")
        error = future.exception()
        if error is not None:  # a run never raises, so its worker failed
            return RunOutcome(failed=f"{type(error).__name__}: {error}")
        outcome: RunOutcome = future.result()
        return outcome

    def _count_threads(self) -> int:
        threads: dict[str, int] = self.client.nthreads()
        return max(sum(threads.values()), 1)


@contextlib.contextmanager
def connect(address: str) -> Iterator[DaskExecutor]:
    """InvalidInput if Dask is not installed, or the scheduler, a worker, or a worker with this windlass is missing."""
    distributed = _import_dask()
    try:
        client = distributed.Client(address, timeout=_CONNECT_TIMEOUT_S)
    except (OSError, ValueError, TypeError) as error:
        message = f"no Dask scheduler answers there within {_CONNECT_TIMEOUT_S:g} s"
        raise errors.InvalidInput(f"--dask {address}: {message}: {error}") from None
    try:
        _check_workers(client, address)
        yield DaskExecutor(address, client)
    finally:
        client.close()


def _import_dask() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise errors.InvalidInput(product.explain_missing_extra("--dask", "dask")) from None


def _check_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_CONNECT_TIMEOUT_S)
    except TimeoutError:
        raise errors.InvalidInput(f"--dask {address}: the scheduler has no workers") from None
    ours = sweep_plan.program_version()
    for worker, theirs in client.run(sweep_plan.program_version, on_error="return").items():
        if theirs != ours:
            message = theirs if isinstance(theirs, str) else f"none that can be used: {theirs}"
            raise errors.InvalidInput(
                f"--dask {address}: found windlass {message} on worker {worker}, accepted is {ours}"
            )
