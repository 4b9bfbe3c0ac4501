"""Sweep plan: every run of a sweep, known before the first begins, and the serialized input of the runs.

The first settings are always the current ones. The same arguments make the same plan. A plan's fingerprint includes
the version and a digest of windlass itself, so that results of another version are not mixed in.

The search space holds for each flag its values, in the notation of `--try`:

    --expander=least-waste,price             each of these
    --expander=priority+price,price          of flags that take several names, + joins those of one value
    --scale-down-unneeded-time=1m..20m       anything between, for a random search
    --scale-down-unneeded-time=1m..20m:5     five of them, both ends included
    --balance-similar-node-groups            a bool alone: true and false

A range is spaced evenly, or geometrically where it spans a factor of ten or more; `:log` and `:linear` override.
"""

import fcntl
import functools
import hashlib
import itertools
import math
import pickle
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np

import windlass
from windlass import errors, product
from windlass.autoscaler.options import command_line, flag_values, flags
from windlass.kube import time_formats
from windlass.simulator.metrics import Totals
from windlass.simulator.scenario import model
from windlass.simulator.workload_trace import Trace

_SIMULATION_FLAGS = ("behavior", "frequent-loops-enabled")
"""Flags that affect a simulation, besides those that affect a decision."""
_LIST_READERS = frozenset({flag_values.read_expanders, flag_values.read_names, flag_values.read_priority_graces})
"""Readers of values with commas."""
_INTEGER_READERS = frozenset({flag_values.read_int, flag_values.read_positive, flag_values.read_verbosity})
_DECADE = 10.0
_MOST_STEPS = 1000
_ZEROS = re.compile(r"(?<=m)0s$|(?<=h)0m0s$")


@dataclass(frozen=True, slots=True)
class ChoiceAxis:
    """One of several values."""

    flag: str
    values: tuple[str, ...]

    @property
    def grid(self) -> tuple[str, ...]:
        return self.values

    def pick(self, share: float) -> str:
        """The value at a share of the axis, 0 ≤ share < 1."""
        return self.values[int(share * len(self.values))]


@dataclass(frozen=True, slots=True)
class RangeAxis:
    """A range of numbers, both ends included."""

    flag: str
    low: float
    high: float
    is_log: bool
    format_number: Callable[[float], str]

    @property
    def grid(self) -> None:
        """A range has no grid."""

    def pick(self, share: float) -> str:
        if self.is_log:
            return self.format_number(self.low * (self.high / self.low) ** share)
        return self.format_number(self.low + (self.high - self.low) * share)


SearchAxis = ChoiceAxis | RangeAxis


def parse_axes(texts: Sequence[str]) -> list[SearchAxis]:
    """Axes of all `--try` options. InvalidInput names the flag, what was found and what is accepted."""
    if not texts:
        raise errors.InvalidInput("--try: found nothing to try, accepted are flags: --try --expander=least-waste,price")
    axes: dict[str, SearchAxis] = {}
    for text in texts:
        axis = _parse_axis(text)
        if axis.flag in axes:
            raise errors.InvalidInput(f"--try {text}: found --{axis.flag} a second time, accepted is each flag once")
        axes[axis.flag] = axis
    return list(axes.values())


def _parse_axis(text: str) -> SearchAxis:
    flag, equals, values = text[2:].partition("=")
    if not text.startswith("--") or not flag:
        raise errors.InvalidInput(
            f"--try: found {text!r}, accepted is a flag with its values: --try --max-nodes-total=9,12"
        )
    name = flag.replace("_", "-")
    read = _check_flag(name)
    if not equals:
        if read not in flag_values.BOOL_READERS:
            raise errors.InvalidInput(f"--try {text}: found no values, accepted are some: --{name}=a,b")
        return ChoiceAxis(name, ("true", "false"))
    if ".." in values:
        return _parse_range(text, name, read, values)
    return _parse_choices(text, name, read, values)


def _check_flag(name: str) -> flag_values.ValueReader:
    """The reader of a flag. InvalidInput if the flag cannot change a simulation."""
    if name not in flags.READERS:
        raise errors.InvalidInput(f"--{name}: unknown flag{flags.suggest_flag(name)}")
    if name in flags.IGNORED_FLAGS:
        raise errors.InvalidInput(f"--{name}: trying it changes nothing: {flags.IGNORED_FLAGS[name].why}")
    new = {**flags.RENAMED_FLAGS, **flags.FLAG_ALIASES}.get(name)
    if new is not None:
        raise errors.InvalidInput(f"--{name}: found an old name, accepted is --{new}")
    if name not in flags.DECISION_FLAGS and name not in _SIMULATION_FLAGS:
        raise errors.InvalidInput(f"--{name}: trying it changes nothing, for no decision depends on it")
    return flags.READERS[name]


def _parse_choices(text: str, name: str, read: flag_values.ValueReader, values: str) -> ChoiceAxis:
    choices = [part.replace("+", ",") if read in _LIST_READERS else part for part in values.split(",")]
    for value in choices:
        if not value and read is not flag_values.read_text:
            raise errors.InvalidInput(f"--try {text}: found an empty value, accepted are values like --{name}=a,b")
        _check_value(name, read, value)
    return ChoiceAxis(name, tuple(dict.fromkeys(choices)))


def _check_value(name: str, read: flag_values.ValueReader, value: str) -> object:
    try:
        return read([value])
    except ValueError as error:
        raise errors.InvalidInput(f"--{name}: found {value!r}, expected {error}") from None


def _parse_range(text: str, name: str, read: flag_values.ValueReader, values: str) -> SearchAxis:
    format_number = _find_formatter(read)
    if format_number is None:
        takes = flag_values.VALUE_KINDS[read]
        raise errors.InvalidInput(f"--try {text}: found a range, accepted are single values, for it takes {takes}")
    least, _, rest = values.partition("..")
    most, *options = rest.split(":")
    low, high = (float(str(_check_value(name, read, end))) for end in (least, most))
    if not low < high:
        raise errors.InvalidInput(f"--try {text}: found {most} as the end, accepted is more than {least}")
    steps, is_log = _parse_options(text, options)
    if is_log and low <= 0:
        raise errors.InvalidInput(f"--try {text}: found {least} as the beginning, accepted for log is more than 0")
    range_axis = RangeAxis(
        name, low, high, low > 0 and high >= _DECADE * low if is_log is None else is_log, format_number
    )
    if steps is None:
        return range_axis
    return ChoiceAxis(name, tuple(dict.fromkeys(range_axis.pick(step / (steps - 1)) for step in range(steps))))


def _parse_options(text: str, options: Sequence[str]) -> tuple[int | None, bool | None]:
    """Number of steps and scale; None where not given."""
    steps, is_log = None, None
    for option in options:
        if option in ("log", "linear") and is_log is None:
            is_log = option == "log"
        elif option.isascii() and option.isdigit() and 2 <= int(option) <= _MOST_STEPS and steps is None:
            steps = int(option)
        else:
            accepted = f"a number of steps from 2 to {_MOST_STEPS}, log or linear"
            raise errors.InvalidInput(f"--try {text}: found {option!r} after the range, accepted is {accepted}")
    return steps, is_log


def _find_formatter(read: flag_values.ValueReader) -> Callable[[float], str] | None:
    """The formatter of a flag's numbers; None: it takes no numbers."""
    if read is flag_values.read_duration_s:
        return format_flag_duration
    if read in _INTEGER_READERS:
        return _format_whole
    return _format_number if read is flag_values.read_float else None


def format_flag_duration(seconds: float) -> str:
    """Whole seconds from a minute on, three figures below: `2m7s`, `10m`, `1.25s`."""
    kept = round(seconds) if seconds >= 60 else _round(seconds)
    return _ZEROS.sub("", time_formats.format_duration(kept))


def _format_whole(number: float) -> str:
    return str(round(number))


def _format_number(number: float) -> str:
    return f"{_round(number):g}"


def _round(number: float) -> float:
    """Three figures."""
    return round(number, 2 - math.floor(math.log10(abs(number)))) if number else 0.0


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
        flag_ = {**flags.DECISION_FLAGS, **flags.PROCESS_FLAGS}.get(flag)
        return "windlass" if flag_ is None else _shorten(flag_)

    @property
    def fingerprint(self) -> str:
        """Identifies the plan, and the version of windlass."""
        told = [input_digest(self.sweep_input), self.tried, [dict(item) for item in self.settings], self.seeds]
        return hashlib.sha256(msgspec.json.encode([program_version(), told])).hexdigest()


def make_plan(sweep_input: SweepInput, axes: Sequence[SearchAxis], seeds: int, runs: int | None) -> SweepPlan:
    """Every combination, or random settings for `runs` runs. InvalidInput for unusable arguments."""
    if seeds < 1:
        raise errors.InvalidInput(f"--seeds: found {seeds}, accepted is 1 or more")
    if runs is not None and runs < 2 * seeds:
        message = f"the current settings and one other with each of {seeds} seeds"
        raise errors.InvalidInput(f"--runs: found {runs}, accepted is {2 * seeds} or more: {message}")
    first = sweep_input.scenario.seed
    found = _all_combinations(axes, seeds) if runs is None else _draw(axes, runs // seeds - 1, first)
    settings_list = _drop_equal_settings(sweep_input.scenario, found)
    if len(settings_list) < 2:
        raise errors.InvalidInput("--try: found nothing but the current settings, accepted are others")
    return SweepPlan(
        sweep_input, tuple(axis.flag for axis in axes), tuple(settings_list), tuple(range(first, first + seeds))
    )


def _all_combinations(axes: Sequence[SearchAxis], seeds: int) -> Iterator[Flags]:
    for axis in axes:
        if axis.grid is None:
            message = "a range with steps, like 1m..20m:5, or --runs for a random search"
            raise errors.InvalidInput(f"--try --{axis.flag}: found a range without steps, accepted is {message}")
    count = math.prod(len(axis.grid or ()) for axis in axes) * seeds
    if count > _MAX_RUNS:
        raise errors.InvalidInput(f"--try: found {count:,} runs, accepted are {_MAX_RUNS:,}; --runs draws some of them")
    return _combine(axes)


def _combine(axes: Sequence[SearchAxis]) -> Iterator[Flags]:
    names = [axis.flag for axis in axes]
    for values in itertools.product(*(axis.grid or () for axis in axes)):
        yield dict(zip(names, values, strict=True))


def _draw(axes: Sequence[SearchAxis], count: int, seed: int) -> Iterator[Flags]:
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
    written, seen, selected = format_flags(scenario), set[object](), list[Flags]()
    for given in itertools.chain([{}], found):
        both = {**written, **given}
        meant = flags.parse_settings(both), flags.parse_process_options(both)
        if meant not in seen:
            seen.add(meant)
            selected.append(given)
    return selected


def format_flags(scenario: model.Scenario) -> dict[str, str]:
    """A scenario's flags as text."""
    return {name: model.format_flag(value) for name, value in scenario.flags.items()}


def _shorten(flag: flags.Flag) -> str:
    if isinstance(flag.default, float) and flag.field.endswith("_s"):
        return format_flag_duration(flag.default)
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
        message = f"runs of windlass {header.windlass}, and this is {head.windlass}"
        raise errors.InvalidInput(f"{path}: found {message}; accepted is another --out, or none of these runs")
    if header.sweep != head.sweep:
        message = f"a sweep of {header.scenario} with other arguments"
        raise errors.InvalidInput(f"{path}: found {message}; accepted are the same, or another --out")


def _write_line(file: BinaryIO, line: msgspec.Struct) -> None:
    file.write(msgspec.json.encode(line) + b"\n")
    file.flush()
