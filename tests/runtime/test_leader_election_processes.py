"""Candidates that are real processes, stopped and killed by signals, against a server over HTTP."""

import asyncio
import itertools
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests.runtime.candidate_process import LIMITS
from windlass import clock
from windlass.apiserver import embedded_server, server

PATIENCE_S = 60.0


async def eventually(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not check():
            await asyncio.sleep(0.01)


class Candidates:
    """Processes by identity, and the file in which they write when they led."""

    def __init__(self, url: str, path: Path) -> None:
        self._url = url
        self._path = path
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, identity: str) -> None:
        self._processes[identity] = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.runtime.candidate_process", self._url, identity, str(self._path)
        )

    def send(self, identity: str, which: signal.Signals) -> None:
        self._processes[identity].send_signal(which)

    async def end(self) -> None:
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()

    def led(self) -> list[tuple[float, str]]:
        """Who led when, in the order of time."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return sorted((float(line.split()[0]), line.split()[1]) for line in lines if len(line.split()) == 2)

    def last(self) -> str:
        """Who led last; empty if nobody did."""
        return self.led()[-1][1] if self.led() else ""


async def test_a_process_that_was_stopped_never_leads_beside_its_successor(tmp_path: Path) -> None:
    """On a busy machine more of them may come to lead than are stopped here: two at once never do."""
    real = clock.RealClock()
    async with embedded_server.HttpServer(server.Server(real), real) as served:
        candidates = Candidates(served.url, tmp_path / "led")
        try:
            for identity in ("a", "b", "c"):
                await candidates.start(identity)
            await eventually(lambda: bool(candidates.last()))
            first = candidates.last()
            candidates.send(first, signal.SIGSTOP)
            await eventually(lambda: candidates.last() != first)
            candidates.send(first, signal.SIGCONT)
            await asyncio.sleep(0.5)
            second = candidates.last()
            candidates.send(second, signal.SIGKILL)
            await eventually(lambda: candidates.last() != second)
            await asyncio.sleep(0.5)
        finally:
            await candidates.end()
    switches = [(item, other) for item, other in itertools.pairwise(candidates.led()) if item[1] != other[1]]
    assert len(switches) >= 2
    # The successor waits for lease_s, the leader stops renew_deadline_s after its last renewal began.
    apart_s = LIMITS.lease_s - LIMITS.renew_deadline_s
    assert [entry for entry in switches if entry[1][0] - entry[0][0] < 0.9 * apart_s] == [], "two led at once"
