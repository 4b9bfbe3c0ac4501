"""Processes of a test bed: started in the background, written down, and ended by process id, never by name.

The record outlives whoever started them, so that the keeper, or `python -m testbed down`, can end them later. A process
is known by its id together with the moment it began: an id that was given to another one meanwhile is left alone.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

_RECORD = "processes.jsonl"
_ENDING_S = 60.0
_LAST_WORDS = 20
_URGENT = -5
"""A niceness: three times the weight of a process that nobody speaks for."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
"""On Linux, moments are counted from the boot that this names."""

Command = Sequence[str]


@dataclass(frozen=True, slots=True)
class Process:
    """One that was started."""

    name: str
    pid: int
    began: str

    def is_alive(self) -> bool:
        return _began(self.pid) == self.began


class DidNotStart(Exception):
    """A process ended, or was not well in time; the message has the end of its log."""


def start(directory: Path, name: str, command: Command, environment: Mapping[str, str]) -> Process:
    """Start a process and write it down."""
    started = spawn(directory, name, command, environment)
    with (directory / _RECORD).open("a") as record:
        record.write(json.dumps(asdict(started)) + "\n")
    return started


def spawn(directory: Path, name: str, command: Command, environment: Mapping[str, str]) -> Process:
    """Start a process with its output in `log/NAME.log`.

    It gets a session of its own: an interrupt from the keyboard is for whoever runs the tests, who then ends it.
    """
    log = directory / "log" / f"{name}.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    child.returncode = 0  # it may outlive us, as the keeper does: Popen is not to look after it, nor to complain
    _children.add(child.pid)
    return Process(name, child.pid, _began(child.pid) or "")


def let_go_first(process: Process) -> None:
    """Let a process have a core when it wants one, where the system lets us say so.

    Linux weighs sessions first, where it is told to (autogroup), and niceness counts within a session only.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, _URGENT)
    with contextlib.suppress(OSError):
        Path(f"/proc/{process.pid}/autogroup").write_text(f"{_URGENT}")


def forget(directory: Path) -> None:
    (directory / _RECORD).unlink(missing_ok=True)


def recorded(directory: Path) -> list[Process]:
    """All that were ever started, the latest of a name last."""
    try:
        lines = (directory / _RECORD).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [Process(**json.loads(line)) for line in lines]


def alive(directory: Path, name: str = "") -> list[Process]:
    return [process for process in recorded(directory) if name in ("", process.name) and process.is_alive()]


def end(directory: Path, name: str = "") -> None:
    """End the processes of a name, or all, and wait until they are gone.

    At once: what they hold is disposable, and a polite API server waits for its watchers first.
    """
    for process in alive(directory, name):
        os.kill(process.pid, signal.SIGKILL)
    deadline_s = time.monotonic() + _ENDING_S
    while left := alive(directory, name):
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"could not end {left}")
        time.sleep(0.02)


def last_words(directory: Path, name: str) -> str:
    lines = (directory / "log" / f"{name}.log").read_text(errors="replace").splitlines()
    return "\n".join(lines[-_LAST_WORDS:])


_children: set[int] = set()
"""Ours, to be reaped: an ended child stays in the process table until its parent asks for it."""


def _reap(pid: int) -> bool:
    """Whether this was a child of ours, and has ended. Nobody else can have its id before it is reaped."""
    if pid not in _children:
        return False
    with contextlib.suppress(ChildProcessError):  # another thread was faster
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            return False
    _children.discard(pid)
    return True


def _began(pid: int) -> str | None:
    """When a process began, in the system's own words; None if there is none, or only its remains."""
    if _reap(pid):
        return None
    if not _BOOT.exists():
        asked = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
        return asked.stdout.strip() or None
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if state in "ZX" and not _has_threads(pid):
        return None
    return f"{fields[18]} after {_BOOT.read_text().strip()}"


def _has_threads(pid: int) -> bool:
    """Has an ended process threads that are still ending? They hold its ports."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def resident_mb(process: Process) -> float:
    """Memory in use, as far as the system tells."""
    asked = subprocess.run(["ps", "-o", "rss=", "-p", str(process.pid)], capture_output=True, text=True)
    return float(asked.stdout.strip() or 0) / 1024
