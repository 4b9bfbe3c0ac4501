"""Run outcomes: one run of a sweep, and the file of outcomes that lets an interrupted sweep continue."""

import fcntl
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from windlass import errors
from windlass.simulator import autoscaler_run
from windlass.simulator.metrics import Totals
from windlass.simulator.simulation import Simulation
from windlass.sweep import sweep_plan
from windlass.sweep.sweep_plan import SweepPlan, SweepTask

_ONE_RUN_AT_A_TIME = threading.Lock()
"""One run at a time in a process: a simulation changes the process's garbage collection thresholds."""

_MAX_VIOLATION_TEXTS = 5
"""Violations that are kept as text; all are counted."""


class RunOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored outcome of a run. Without totals it has failed, with the error in `failed`."""

    totals: Totals = {}
    missed: tuple[str, ...] = ()
    """Missed expectations of the scenario."""
    violations: tuple[str, ...] = ()
    """The first violations of invariants."""
    failed: str = ""


def run_task(packed: bytes, flags: dict[str, str], seed: int) -> RunOutcome:
    """Run one task; the outcome does not depend on the executor. Errors are returned as a failed outcome."""
    try:
        with _ONE_RUN_AT_A_TIME:
            return _run_simulation(sweep_plan.deserialize(packed), flags, seed)
    except Exception as error:  # any error concerns this run only
        where = traceback.extract_tb(error.__traceback__)[-1]
        return RunOutcome(failed=f"{type(error).__name__}: {error} ({where.name})")


def _run_simulation(world: sweep_plan.SweepInput, flags: dict[str, str], seed: int) -> RunOutcome:
    scenario = msgspec.structs.replace(world.scenario, seed=seed, flags={**world.scenario.flags, **flags})
    result = Simulation(scenario, world.trace).run(autoscaler_run.run_autoscaler)
    return RunOutcome(
        result.totals,
        tuple(str(expectation_result) for expectation_result in result.outcomes if not expectation_result.is_met),
        tuple(str(violation) for violation in result.violations[:_MAX_VIOLATION_TEXTS]),
    )


RESULTS_FILE = "runs.jsonl"


class _Header(msgspec.Struct, frozen=True):
    """The first line of the file: the sweep that the outcomes belong to."""

    sweep: str
    scenario: str
    windlass: str


class _OutcomeLine(msgspec.Struct, frozen=True):
    settings: int
    seed: int
    outcome: RunOutcome


class OutcomesFile:
    """Outcomes by task."""

    def __init__(self, file: BinaryIO, outcomes: dict[SweepTask, RunOutcome]) -> None:
        self._file = file
        self.outcomes = outcomes

    def add(self, task: SweepTask, outcome: RunOutcome) -> None:
        self.outcomes[task] = outcome
        _write_line(self._file, _OutcomeLine(task.settings, task.seed, outcome))


@contextmanager
def open_outcomes(folder: Path, plan: SweepPlan) -> Iterator[OutcomesFile]:
    """The outcomes file of a plan, with earlier outcomes. InvalidInput if it belongs to another sweep, or is in use."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RESULTS_FILE
    with path.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise errors.InvalidInput(f"{path}: another sweep is writing there; accepted is another --out") from None
        yield OutcomesFile(file, _read_outcomes(file, path, plan))


def _read_outcomes(file: BinaryIO, path: Path, plan: SweepPlan) -> dict[SweepTask, RunOutcome]:
    """Earlier outcomes. An incomplete last line, from an interrupted write, is cut off."""
    file.seek(0)
    raw = file.read()
    whole = raw[: raw.rfind(b"\n") + 1]
    file.truncate(len(whole))
    head = _Header(plan.fingerprint, plan.world.scenario.name, sweep_plan.program_version())
    if not whole:
        _write_line(file, head)
        return {}
    first, *lines = whole.splitlines()
    _check_header(first, head, path)
    try:
        outcome_lines = [msgspec.json.decode(line, type=_OutcomeLine) for line in lines]
    except msgspec.DecodeError as error:
        raise errors.InvalidInput(f"{path}: found a line that is no run: {error}") from None
    # Failed runs are retried: the cause may have been a lack of memory.
    return {
        SweepTask(outcome_line.settings, outcome_line.seed): outcome_line.outcome
        for outcome_line in outcome_lines
        if not outcome_line.outcome.failed
    }


def _check_header(first: bytes, head: _Header, path: Path) -> None:
    try:
        header = msgspec.json.decode(first, type=_Header)
    except msgspec.DecodeError as error:
        raise errors.InvalidInput(f"{path}: found no sweep in it: {error}; accepted is another --out") from None
    if header.windlass != head.windlass:
        said = f"runs of windlass {header.windlass}, and this is {head.windlass}"
        raise errors.InvalidInput(f"{path}: found {said}; accepted is another --out, or none of these runs")
    if header.sweep != head.sweep:
        said = f"a sweep of {header.scenario} with other arguments"
        raise errors.InvalidInput(f"{path}: found {said}; accepted are the same, or another --out")


def _write_line(file: BinaryIO, line: msgspec.Struct) -> None:
    file.write(msgspec.json.encode(line) + b"\n")
    file.flush()
