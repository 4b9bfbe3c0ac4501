"""Free loopback ports for the processes of one test bed."""

import random
import socket
from dataclasses import dataclass, fields

_FROM, _BELOW = 12000, 32000
"""Under the range from which operating systems take ports for outgoing connections, so that none is taken by chance
between choosing it here and binding it there."""


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
        if _is_free(port):
            chosen.append(port)
    return Ports(*chosen)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
