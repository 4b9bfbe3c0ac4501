"""Processes are ended by their ids, all of ours and no others, however their user ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed import keeper, processes

_ROOT = Path(processes.__file__).parent.parent
_SLEEP = ("sleep", "300")

_USER = """
import pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # whom a shell puts into the background does not hear it
from testbed import keeper, parts, processes, sharing
directory = pathlib.Path(sys.argv[1])
with keeper.using(directory):
    sharing._spawn_keeper(directory)
    processes.start(directory, "one", ("sleep", "300"), {})
    processes.start(directory, "two", ("sleep", "300"), {})
    print("ready", flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    processes.end(tmp_path)


def _wait(until: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 120.0
    while not until():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_a_process_is_alive_until_it_is_ended(directory: Path) -> None:
    process = processes.start(directory, "one", _SLEEP, {})
    assert processes.alive(directory) == [process]
    processes.end(directory)
    assert processes.alive(directory) == []
    assert not process.is_alive()


def test_only_the_process_named_is_ended(directory: Path) -> None:
    processes.start(directory, "one", _SLEEP, {})
    two = processes.start(directory, "two", _SLEEP, {})
    processes.end(directory, "one")
    assert processes.alive(directory) == [two]


def test_a_process_that_has_the_id_of_an_ended_one_is_left_alone(directory: Path) -> None:
    stranger = subprocess.Popen(_SLEEP)
    record = {"name": "one", "pid": stranger.pid, "began": "long before"}
    (directory / "processes.jsonl").write_text(json.dumps(record) + "\n")
    processes.end(directory)
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_what_a_process_says_is_in_its_log(directory: Path) -> None:
    process = processes.start(directory, "one", ("sh", "-c", "echo $WHO has to go >&2"), {"WHO": "everyone"})
    _wait(lambda: not process.is_alive())
    assert processes.last_words(directory, "one") == "everyone has to go"


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_user_that_is_ended_leaves_nothing_running(directory: Path, end: signal.Signals) -> None:
    user = subprocess.Popen(
        [sys.executable, "-c", _USER, str(directory), "300"],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert user.stdout is not None
    with user.stdout as output:
        assert output.readline() == b"ready\n"
    assert len(processes.alive(directory)) == 2
    started = processes.recorded(directory)
    os.killpg(user.pid, end)
    user.wait()
    _wait(lambda: not any(process.is_alive() for process in started))


def test_a_user_that_leaves_the_rest_to_the_keeper_ends_without_a_complaint(directory: Path) -> None:
    command = [sys.executable, "-W", "always", "-c", _USER, str(directory), "0"]
    left = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
    assert left.stderr == ""
    _wait(lambda: not processes.alive(directory))


def test_the_bed_stays_while_anyone_uses_it(directory: Path) -> None:
    process = processes.start(directory, "one", _SLEEP, {})
    with keeper.using(directory):
        with keeper.using(directory):
            waiting = subprocess.Popen([sys.executable, "-m", "testbed", "keep", str(directory)], cwd=_ROOT)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1.0)
        assert process.is_alive()
    assert waiting.wait(120) == 0
    assert not process.is_alive()
