"""The expander server in Go (`server/`): built once for each version of its source, started for tests that ask for it.

It lies in the test bed's cache. Without Go, or without its modules, such tests are skipped and one red line says so.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import building, cache
from windlass.autoscaler import grpc_expander

Json = dict[str, Any]

SOURCE = Path(__file__).parent / "server"
PROTO = Path(grpc_expander.__file__).parent / "expander.proto"
ABSENT = "the expander server in Go is not built"
_BUILT_FROM = ("main.go", "go.mod", "go.sum")
_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w")
_WITHIN_S = 60.0
"""For what takes milliseconds on a machine that is not busy."""


class Served:
    """A server that runs."""

    def __init__(self, binary: Path, certificate: tuple[Path, Path] | None = None, port: int = 0) -> None:
        self._process = subprocess.Popen(
            [str(binary), str(PROTO), *map(str, certificate or ())],
            env={**os.environ, "PORT": str(port)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[Json] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port: int = self._lines.get(timeout=_WITHIN_S)["port"]

    def tell(self, what: str) -> None:
        """Say what to answer from now on. Calls that nobody looked at are forgotten."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        while "told" not in self._lines.get(timeout=_WITHIN_S):
            pass

    def on_event(self) -> Json:
        """What it was asked, the oldest call first."""
        return self._lines.get(timeout=_WITHIN_S)

    def count_calls(self) -> int:
        """Calls that nobody looked at."""
        return self._lines.qsize()

    def end(self) -> None:
        """At once, with all its connections."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))


@contextlib.contextmanager
def serving(binary: Path, certificate: tuple[Path, Path] | None = None, port: int = 0) -> Iterator[Served]:
    served = Served(binary, certificate, port)
    try:
        yield served
    finally:
        served.end()


@pytest.fixture(scope="session")
def expander_binary() -> Path:
    found = find()
    if isinstance(found, str):
        pytest.skip(f"{ABSENT}: {found}")
    return found


def find() -> Path | str:
    """The server, built if it was not yet; or why it cannot be."""
    digest = hashlib.sha256(b"\0".join((SOURCE / name).read_bytes() for name in _BUILT_FROM)).hexdigest()
    binary = cache.root() / f"expander-server-{digest[:12]}"
    if binary.exists():
        return binary
    if not building.has_go():
        return "there is no `go` on the PATH"
    binary.parent.mkdir(parents=True, exist_ok=True)
    with binary.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return binary if binary.exists() else _build(binary)


def _build(binary: Path) -> Path | str:
    fetched = _go("mod", "download")
    if fetched.returncode:
        return f"its modules cannot be fetched: {fetched.stderr.strip()[-300:]}"
    fresh = binary.with_suffix(".fresh")
    built = _go("build", *_FLAGS, "-o", str(fresh), ".")
    assert built.returncode == 0, built.stderr
    fresh.rename(binary)  # at once: nobody sees half of it
    return binary


def _go(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    command = ["nice", "-n", "19", "go", *words]
    return subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One loud line for all the tests that need the server and did not get it."""
    skipped = [item for item in terminalreporter.stats.get("skipped", ()) if ABSENT in str(item.longrepr)]
    if skipped:
        why = str(skipped[0].longrepr).partition(ABSENT)[2].strip(": \n')")
        terminalreporter.write_line(f"SKIPPED {len(skipped)} TESTS: {ABSENT}: {why}", red=True, bold=True)
