"""Runs on a Dask cluster: the world travels with each of them, so that workers need windlass and no file."""

import contextlib
import importlib
import itertools
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from windlass import errors
from windlass.sweep import identity, playing, worlds
from windlass.sweep.plan import Plan, Task
from windlass.sweep.playing import Outcome

_WITHIN_S = 5.0
"""For a scheduler to answer, and for a first worker to be there."""
_AHEAD = 2
"""Runs that each thread of a worker has at hand."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A scheduler that answers, and workers that have this very windlass."""

    address: str
    client: Any
    """Of `distributed`, most of which has no types."""

    def play(self, plan: Plan, tasks: Sequence[Task]) -> Generator[tuple[Task, Outcome]]:
        """Each task with its outcome, as they end. Closing the iterator takes back what has not begun."""
        packed, waiting = worlds.pack(plan.world), iter(tasks)
        under_way: dict[Any, Task] = {}

        def hand_in(count: int) -> list[Any]:
            handed = [(self._submit(plan, packed, task), task) for task in itertools.islice(waiting, count)]
            under_way.update(handed)
            return [future for future, _ in handed]

        ended = _import().as_completed(hand_in(_AHEAD * self._count_threads()))
        for future in ended:
            task = under_way.pop(future)
            yield task, self._read(future)
            for another in hand_in(1):
                ended.add(another)

    def _submit(self, plan: Plan, packed: bytes, task: Task) -> Any:
        return self.client.submit(playing.play, packed, dict(plan.settings[task.settings]), task.seed, pure=False)

    def _read(self, future: Any) -> Outcome:
        if future.status in ("cancelled", "lost"):
            raise errors.InvalidInput(f"--dask {self.address}: the scheduler is gone; what was played is kept")
        error = future.exception()
        if error is not None:  # the run itself never fails: its worker did
            return Outcome(failed=f"{type(error).__name__}: {error}")
        outcome: Outcome = future.result()
        return outcome

    def _count_threads(self) -> int:
        threads: dict[str, int] = self.client.nthreads()
        return max(sum(threads.values()), 1)


@contextlib.contextmanager
def reach(address: str) -> Iterator[Cluster]:
    """InvalidInput if there is no Dask here, no scheduler there, no worker, or one with another windlass."""
    distributed = _import()
    try:
        client = distributed.Client(address, timeout=_WITHIN_S)
    except (OSError, ValueError, TypeError) as error:
        said = f"no Dask scheduler answers there within {_WITHIN_S:g} s"
        raise errors.InvalidInput(f"--dask {address}: {said}: {error}") from None
    try:
        _check_workers(client, address)
        yield Cluster(address, client)
    finally:
        client.close()


def _import() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise errors.InvalidInput("--dask: found no Dask here, accepted is pip install 'windlass[dask]'") from None


def _check_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_WITHIN_S)
    except TimeoutError:
        raise errors.InvalidInput(f"--dask {address}: the scheduler has no workers") from None
    ours = identity.find()
    for worker, theirs in client.run(identity.find, on_error="return").items():
        if theirs != ours:
            said = theirs if isinstance(theirs, str) else f"none that can be used: {theirs}"
            raise errors.InvalidInput(f"--dask {address}: found windlass {said} on worker {worker}, accepted is {ours}")
