"""The command as a process of its own, its children, and a small Dask cluster beside it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

PATIENCE_S = 300.0


def wait_until(is_so: Callable[[], bool]) -> None:
    """Fails if it does not come about in five minutes."""
    ends_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < ends_s, "it did not come about"
        time.sleep(0.02)


def start_sweep(arguments: Sequence[str | Path]) -> subprocess.Popen[str]:
    """In a process group of its own, as a shell starts it."""
    command = [sys.executable, "-m", "windlass", "sweep", *map(str, arguments)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_hear_ctrl_c,
    )


def _hear_ctrl_c() -> None:
    """Shells let what they start in the background hear of no Ctrl-C, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def find_workers(parent: int) -> list[int]:
    """Processes that play runs for it."""
    found = []
    for number in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        with contextlib.suppress(OSError):
            if b"spawn_main" in Path(f"/proc/{number}/cmdline").read_bytes():
                found.append(int(number))
    return found


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def interrupt(running: subprocess.Popen[str]) -> tuple[int, str]:
    """As Ctrl-C does: everything in the group hears of it. The exit code, and what it said."""
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=PATIENCE_S)
    return running.returncode, said


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def find_port() -> int:
    """One that nobody has at the moment."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextlib.contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[str]:
    """A scheduler and workers as processes of their own; the scheduler's address."""
    address, processes = f"tcp://127.0.0.1:{find_port()}", list[subprocess.Popen[bytes]]()
    common = ["--host", "127.0.0.1", "--no-dashboard"]
    scheduler = ["dask_scheduler", "--port", address.rpartition(":")[2], *common]
    worker = ["dask_worker", address, "--nthreads", "1", "--no-nanny", *common]
    try:
        for number, words in enumerate([scheduler, *([worker] * workers)]):
            place = folder / f"dask-{number}"
            place.mkdir()
            with (place / "log").open("wb") as log:
                command = [sys.executable, "-m", f"distributed.cli.{words[0]}", *words[1:]]
                processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=place))
        logs = [folder / f"dask-{number}" / "log" for number in range(1, workers + 1)]
        wait_until(lambda: all(b"Registered to" in log.read_bytes() for log in logs))
        yield address
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()
