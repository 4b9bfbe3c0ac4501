"""The keeper: waits until nobody uses a test bed any more, then ends its processes.

    python -m testbed keep DIRECTORY

Users hold a shared lock on a file, the keeper asks for the exclusive one. The kernel drops the lock of a user that
ends, however it ends: a test run that is interrupted, or killed outright, leaves nothing running.
"""

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

from testbed import processes, site

_USERS = "users.lock"
_DATA = ("etcd", "kubeconfig", "kwok", "pki")


@contextlib.contextmanager
def using(directory: Path) -> Iterator[None]:
    """Keep the bed from being taken down. Waits while it is being taken down."""
    with (directory / _USERS).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def take_down(directory: Path) -> None:
    """End the processes and drop their data and keys. Logs stay."""
    (directory / site.DESCRIPTION).unlink(missing_ok=True)
    processes.end(directory)
    processes.forget(directory)
    for name in _DATA:
        shutil.rmtree(directory / name, ignore_errors=True)


def keep(directory: Path) -> None:
    """Wait for the last user to leave, then take the bed down. Two keepers do no harm: one finds the work done."""
    with (directory / _USERS).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        take_down(directory)
