"""Free loopback ports for the processes of one test bed."""

import fcntl
import os
import random
import socket
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path

_FROM, _BELOW = 12000, 32000
"""Under the range from which operating systems take ports for outgoing connections, so that none is taken by chance
between choosing it here and binding it there."""
_CLAIMS = Path(tempfile.gettempdir()) / f"windlass-testbed-ports-{os.getuid()}"
_claims: list[int] = []
"""The file descriptor on `_CLAIMS`, opened once: to close any on that file would drop all locks."""
_claimed: set[int] = set()


@dataclass(frozen=True, slots=True)
class Ports:
    """Who listens where."""

    etcd: int
    etcd_peer: int
    apiserver: int
    scheduler: int
    controllers: int
    kwok: int
    capi_webhooks: int
    capi_health: int
    capi_diagnostics: int


def choose() -> Ports:
    chosen: list[int] = []
    candidates = iter(random.SystemRandom().sample(range(_FROM, _BELOW), k=1000))
    while len(chosen) < len(fields(Ports)):
        port = next(candidates)
        if _claim(port) and _is_free(port):
            chosen.append(port)
    return Ports(*chosen)


def _claim(port: int) -> bool:
    """Keep a port for this process, until it ends: a part binds it seconds later, and another bed chooses meanwhile.

    A claim is a lock on one byte of a file; those of the same process do not exclude each other.
    """
    if not _claims:
        _claims.append(os.open(_CLAIMS, os.O_RDWR | os.O_CREAT, 0o600))
    if port in _claimed:
        return False
    try:
        fcntl.lockf(_claims[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _claimed.add(port)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
