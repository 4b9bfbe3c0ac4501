"""A stage: `windlass simulate --serve` as a process of its own, as a user would run it."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType


class Stage:
    """A story that is played and shown, until the end of the block."""

    def __init__(self, story: Path, speed: float) -> None:
        self._home = tempfile.TemporaryDirectory()
        self._words = [
            sys.executable, "-m", "windlass.cli", "simulate", str(story), "--serve", "--serve-address", "127.0.0.1:0",
            "--speed", f"{speed:g}", "--report", "",
        ]  # fmt: skip
        self.url = ""

    def __enter__(self) -> "Stage":
        self._process = subprocess.Popen(
            self._words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self._home.name
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
