"""The ledger: outcomes in a file, a line for each as it comes, so that a sweep that ended early can go on."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from windlass import errors
from windlass.sweep import identity
from windlass.sweep.plan import Plan, Task
from windlass.sweep.playing import Outcome

NAME = "runs.jsonl"


class _Head(msgspec.Struct, frozen=True):
    """The first line: what the others belong to."""

    sweep: str
    scenario: str
    windlass: str


class _Line(msgspec.Struct, frozen=True):
    settings: int
    seed: int
    outcome: Outcome


class Ledger:
    """Outcomes by task."""

    def __init__(self, file: BinaryIO, outcomes: dict[Task, Outcome]) -> None:
        self._file = file
        self.outcomes = outcomes

    def add(self, task: Task, outcome: Outcome) -> None:
        self.outcomes[task] = outcome
        _write(self._file, _Line(task.settings, task.seed, outcome))


@contextmanager
def keep(folder: Path, plan: Plan) -> Iterator[Ledger]:
    """The ledger of a plan, with what was kept before. InvalidInput if the folder has another's, or is in use."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    with path.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise errors.InvalidInput(f"{path}: another sweep is writing there; accepted is another --out") from None
        yield Ledger(file, _read(file, path, plan))


def _read(file: BinaryIO, path: Path, plan: Plan) -> dict[Task, Outcome]:
    """What is there. A last line that is not whole was being written when its writer ended, and is cut off."""
    file.seek(0)
    raw = file.read()
    whole = raw[: raw.rfind(b"\n") + 1]
    file.truncate(len(whole))
    head = _Head(plan.fingerprint, plan.world.scenario.name, identity.find())
    if not whole:
        _write(file, head)
        return {}
    first, *lines = whole.splitlines()
    _check(first, head, path)
    try:
        found = [msgspec.json.decode(line, type=_Line) for line in lines]
    except msgspec.DecodeError as error:
        raise errors.InvalidInput(f"{path}: found a line that is no run: {error}") from None
    # A run that failed is tried again: perhaps there is more memory by now.
    return {Task(one.settings, one.seed): one.outcome for one in found if not one.outcome.failed}


def _check(first: bytes, head: _Head, path: Path) -> None:
    try:
        found = msgspec.json.decode(first, type=_Head)
    except msgspec.DecodeError as error:
        raise errors.InvalidInput(f"{path}: found no sweep in it: {error}; accepted is another --out") from None
    if found.windlass != head.windlass:
        said = f"runs of windlass {found.windlass}, and this is {head.windlass}"
        raise errors.InvalidInput(f"{path}: found {said}; accepted is another --out, or none of these runs")
    if found.sweep != head.sweep:
        said = f"a sweep of {found.scenario} with other arguments"
        raise errors.InvalidInput(f"{path}: found {said}; accepted are the same, or another --out")


def _write(file: BinaryIO, line: msgspec.Struct) -> None:
    file.write(msgspec.json.encode(line) + b"\n")
    file.flush()
