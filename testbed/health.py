"""Waiting until a process is well."""

import http.client
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path

from testbed import processes
from testbed.parts import Part

_POLL_S = 0.05
_ANSWER_S = 10.0


def wait_well(part: Part, directory: Path, ca: Path, within_s: float = 240.0) -> None:
    """Return once a part is well. `processes.DidNotStart` if it ends before, or is not well in time."""
    tls = ssl.create_default_context(cafile=ca)
    deadline_s = time.monotonic() + within_s
    while part.health and not _is_well(part.health, tls):
        if not processes.alive(directory, part.name):
            raise processes.DidNotStart(f"{part.name} ended:\n{processes.last_words(directory, part.name)}")
        if time.monotonic() > deadline_s:
            words = processes.last_words(directory, part.name)
            raise processes.DidNotStart(f"{part.name} is not well after {within_s:g} s:\n{words}")
        time.sleep(_POLL_S)


def _is_well(address: str, tls: ssl.SSLContext) -> bool:
    context = tls if address.startswith("https:") else None
    try:
        with urllib.request.urlopen(address, timeout=_ANSWER_S, context=context) as answer:
            return bool(answer.status == 200)
    except (OSError, http.client.HTTPException):
        return False
