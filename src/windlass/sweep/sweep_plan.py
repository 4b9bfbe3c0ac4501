"""Sweep plan: every run of a sweep, known before the first begins, and the serialized input of the runs.

The first settings are always the current ones. The same arguments make the same plan. A plan's fingerprint includes
the version and a digest of windlass itself, so that results of another version are not mixed in.
"""

import fcntl
import functools
import hashlib
import itertools
import math
import pickle
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np

import windlass
from windlass import errors, product
from windlass.autoscaler.options import command_line, flags
from windlass.simulator.metrics import Totals
from windlass.simulator.scenario import model
from windlass.simulator.workload_trace import Trace
from windlass.sweep import search_space

_UNRELATED_PACKAGES = frozenset({"cli", "controllers", "tui", "web"})
"""Packages that no simulation imports."""


@functools.cache
def program_version() -> str:
    """Version, and a digest of the source, because development versions change under one name."""
    root = Path(windlass.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        if place.parts[0] not in _UNRELATED_PACKAGES:
            digest.update(str(place).encode())
            digest.update(path.read_bytes())
    return f"{product.version()} ({digest.hexdigest()[:12]})"


@dataclass(frozen=True, slots=True)
class SweepInput:
    """A scenario without further flags, and its trace, if any."""

    scenario: model.Scenario
    trace: Trace | None = None


def serialize(sweep_input: SweepInput) -> bytes:
    return zlib.compress(pickle.dumps(sweep_input, protocol=5))


@functools.lru_cache(maxsize=2)
def deserialize(packed: bytes) -> SweepInput:
    """Deserialize the output of `serialize`: only trusted bytes."""
    sweep_input: SweepInput = pickle.loads(zlib.decompress(packed))
    return sweep_input


def input_digest(sweep_input: SweepInput) -> str:
    """A digest of the content of the input."""
    return hashlib.sha256(msgspec.json.encode(sweep_input, enc_hook=_plain)).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, model.Timing):
        return value.delay
    if isinstance(value, float):
        return float(value)
    raise NotImplementedError(type(value))


Flags = Mapping[str, str]
"""Values as text, by name of flag."""

_MAX_RUNS = 100_000

_DRAWS = 50
"""Rounds without new settings after which the search space counts as exhausted."""


@dataclass(frozen=True, slots=True, order=True)
class SweepTask:
    """One run: number of settings, and seed."""

    settings: int
    seed: int


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """All runs of a sweep. The same arguments make the same plan."""

    sweep_input: SweepInput
    tried: tuple[str, ...]
    """Flags of the search space, in the given order."""
    settings: tuple[Flags, ...]
    """Flags on top of the scenario's; the first entry is empty: the current settings."""
    seeds: tuple[int, ...]

    @property
    def tasks(self) -> list[SweepTask]:
        return [SweepTask(number, seed) for number in range(len(self.settings)) for seed in self.seeds]

    def flag_value(self, number: int, flag: str) -> str:
        """The value of a flag in these settings."""
        given = {**format_flags(self.sweep_input.scenario), **self.settings[number]}
        if flag in given:
            return given[flag]
        found = {**flags.DECISION_FLAGS, **flags.PROCESS_FLAGS}.get(flag)
        return "windlass" if found is None else _shorten(found)

    @property
    def fingerprint(self) -> str:
        """Identifies the plan, and the version of windlass."""
        told = [input_digest(self.sweep_input), self.tried, [dict(item) for item in self.settings], self.seeds]
        return hashlib.sha256(msgspec.json.encode([program_version(), told])).hexdigest()


def make_plan(
    sweep_input: SweepInput, axes: Sequence[search_space.SearchAxis], seeds: int, runs: int | None
) -> SweepPlan:
    """Every combination, or random settings for `runs` runs. InvalidInput for unusable arguments."""
    if seeds < 1:
        raise errors.InvalidInput(f"--seeds: found {seeds}, accepted is 1 or more")
    if runs is not None and runs < 2 * seeds:
        said = f"the current settings and one other with each of {seeds} seeds"
        raise errors.InvalidInput(f"--runs: found {runs}, accepted is {2 * seeds} or more: {said}")
    first = sweep_input.scenario.seed
    found = _all_combinations(axes, seeds) if runs is None else _draw(axes, runs // seeds - 1, first)
    chosen = _drop_equal_settings(sweep_input.scenario, found)
    if len(chosen) < 2:
        raise errors.InvalidInput("--try: found nothing but the current settings, accepted are others")
    return SweepPlan(sweep_input, tuple(axis.flag for axis in axes), tuple(chosen), tuple(range(first, first + seeds)))


def _all_combinations(axes: Sequence[search_space.SearchAxis], seeds: int) -> Iterator[Flags]:
    for axis in axes:
        if axis.grid is None:
            said = "a range with steps, like 1m..20m:5, or --runs for a random search"
            raise errors.InvalidInput(f"--try --{axis.flag}: found a range without steps, accepted is {said}")
    count = math.prod(len(axis.grid or ()) for axis in axes) * seeds
    if count > _MAX_RUNS:
        raise errors.InvalidInput(f"--try: found {count:,} runs, accepted are {_MAX_RUNS:,}; --runs draws some of them")
    return _combine(axes)


def _combine(axes: Sequence[search_space.SearchAxis]) -> Iterator[Flags]:
    names = [axis.flag for axis in axes]
    for values in itertools.product(*(axis.grid or () for axis in axes)):
        yield dict(zip(names, values, strict=True))


def _draw(axes: Sequence[search_space.SearchAxis], count: int, seed: int) -> Iterator[Flags]:
    """Distinct random settings, at most `count`. Each round covers each axis evenly."""
    if count * 2 > _MAX_RUNS:
        raise errors.InvalidInput(f"--runs: found more than {_MAX_RUNS:,}, accepted is less")
    sizes = [len(axis.grid) for axis in axes if axis.grid is not None]
    if len(sizes) == len(axes) and math.prod(sizes) <= count:
        yield from _combine(axes)
        return
    chance, seen = np.random.default_rng(seed), set[tuple[str, ...]]()
    for _ in range(_DRAWS):
        strata = [(chance.permutation(count) + chance.random(count)) / count for _ in axes]
        for shares in zip(*strata, strict=True):
            values = tuple(axis.pick(float(share)) for axis, share in zip(axes, shares, strict=True))
            if values not in seen and len(seen) < count:
                seen.add(values)
                yield dict(zip((axis.flag for axis in axes), values, strict=True))


def _drop_equal_settings(scenario: model.Scenario, found: Iterator[Flags]) -> list[Flags]:
    """The current settings, and those that differ from all before. InvalidInput for invalid flags."""
    written, seen, chosen = format_flags(scenario), set[object](), list[Flags]()
    for given in itertools.chain([{}], found):
        both = {**written, **given}
        meant = flags.parse_settings(both), flags.parse_process_options(both)
        if meant not in seen:
            seen.add(meant)
            chosen.append(given)
    return chosen


def format_flags(scenario: model.Scenario) -> dict[str, str]:
    """A scenario's flags as text."""
    return {name: model.format_flag(value) for name, value in scenario.flags.items()}


def _shorten(flag: flags.Flag) -> str:
    if isinstance(flag.default, float) and flag.field.endswith("_s"):
        return search_space.format_flag_duration(flag.default)
    return command_line.format_value(flag.read, flag.default)


class RunOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored outcome of a run. Without totals it has failed, with the error in `failed`."""

    totals: Totals = {}
    missed: tuple[str, ...] = ()
    """Missed expectations of the scenario."""
    violations: tuple[str, ...] = ()
    """The first violations of invariants."""
    failed: str = ""


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
    head = _Header(plan.fingerprint, plan.sweep_input.scenario.name, program_version())
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
