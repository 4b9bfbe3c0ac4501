"""Candidates that are real processes, stopped and killed by signals, against a server over HTTP."""

import asyncio
import itertools
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from windlass import clock
from windlass.apiserver import http, server

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
            sys.executable, "-m", "tests.runtime.candidate", self._url, identity, str(self._path)
        )

    def send(self, identity: str, which: signal.Signals) -> None:
        self._processes[identity].send_signal(which)

    async def end(self) -> None:
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()

    def led(self) -> list[str]:
        """Who led, in the order of time, each once for as long as nobody else did."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        moments = sorted((float(line.split()[0]), line.split()[1]) for line in lines if len(line.split()) == 2)
        return [identity for identity, _ in itertools.groupby(identity for _, identity in moments)]


async def test_a_process_that_was_stopped_never_leads_beside_its_successor(tmp_path: Path) -> None:
    real = clock.Real()
    async with http.HttpServer(server.Server(real), real) as served:
        candidates = Candidates(served.url, tmp_path / "led")
        try:
            for identity in ("a", "b", "c"):
                await candidates.start(identity)
            await eventually(lambda: len(candidates.led()) == 1)
            (first,) = candidates.led()
            candidates.send(first, signal.SIGSTOP)
            await eventually(lambda: len(candidates.led()) == 2)
            candidates.send(first, signal.SIGCONT)
            await asyncio.sleep(0.5)
            second = candidates.led()[-1]
            candidates.send(second, signal.SIGKILL)
            await eventually(lambda: len(candidates.led()) == 3)
            await asyncio.sleep(0.5)
        finally:
            await candidates.end()
    led = candidates.led()
    assert len(led) == 3, f"two led at once: {led}"
    assert led[0] == first
    assert led[2] != second
