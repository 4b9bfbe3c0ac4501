"""A test bed for as long as someone uses it."""

import contextlib
import fcntl
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from testbed import bed, keeper, parts, processes
from testbed.site import Choice


@contextlib.contextmanager
def running(
    *, scheduler: bool = False, kwok: bool = False, capi: bool = False, capi_rate_limiting: bool = False
) -> Iterator[bed.Bed]:
    """A test bed of one's own, gone afterwards, however that comes. `site.Choice` says what the parts are."""
    with alone(Choice(scheduler, kwok, capi, capi_rate_limiting)) as found:
        yield found


@contextlib.contextmanager
def alone(choice: Choice) -> Iterator[bed.Bed]:
    """The same, of any choice."""
    directory = Path(tempfile.mkdtemp(prefix="windlass-testbed-"))
    try:
        with shared(directory, choice) as found:
            yield found
    finally:
        keeper.keep(directory)  # the one spawned does the same; here it is waited for
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def shared(directory: Path, choice: Choice) -> Iterator[bed.Bed]:
    """The test bed in a directory: the first user starts it, the keeper ends it after the last."""
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as use:
        with (directory / "start.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            use.enter_context(keeper.using(directory))
            found = bed.load(directory)
            if found is None:
                _spawn_keeper(directory)
                found = bed.up(directory, choice)
        yield found


def _spawn_keeper(directory: Path) -> None:
    command = (sys.executable, "-m", "testbed", "keep", str(directory))
    processes.spawn(directory, "keeper", command, parts.IMPORTABLE)
