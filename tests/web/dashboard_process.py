"""A stage: what serves a dashboard, as a process of its own."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[2]


class Stage:
    """Serves until the end of the block. The first that it says on standard error is `dashboard: URL`."""

    def __init__(self, *words: str) -> None:
        self._home = tempfile.TemporaryDirectory()
        self._words = [sys.executable, *words]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))}
        self.url = ""

    def __enter__(self) -> "Stage":
        self._process = subprocess.Popen(
            self._words,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._home.name,
            env=self._environment,
        )
        assert self._process.stderr is not None
        first = self._process.stderr.readline()
        if not first.startswith("dashboard: "):
            raise AssertionError(f"it did not begin: {first}{self._process.stderr.read()}")
        self.url = first.removeprefix("dashboard: ").strip()
        self._reading = threading.Thread(target=self._process.stderr.read)  # so that it never waits for a reader
        self._reading.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.kill(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reading.join()
        assert self._process.stderr is not None
        self._process.stderr.close()
        self._home.cleanup()


def play(story: Path, speed: float) -> Stage:
    """`windlass simulate --serve`, as a user would run it."""
    words = ("--serve", "--serve-address", "127.0.0.1:0", "--speed", f"{speed:g}", "--report", "")
    return Stage("-m", "windlass", "simulate", str(story), *words)
