"""`windlass sweep`: which settings suit a workload?"""

import contextlib
import sys
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from cyclopts import Parameter

from windlass import errors

if TYPE_CHECKING:
    from windlass.sweep.comparison import SettingsRow
    from windlass.sweep.sweep_plan import OutcomesFile, RunOutcome, SweepInput, SweepPlan, SweepTask

INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""


class RunExecutor(Protocol):
    """Executes the runs of a plan."""

    def run(self, plan: "SweepPlan", tasks: "Sequence[SweepTask]") -> "Generator[tuple[SweepTask, RunOutcome]]":
        """Tasks with their outcomes, in order of completion."""


def sweep(
    scenario: Annotated[str | None, Parameter(name="SCENARIO")] = None,
    /,
    *,
    tried: Annotated[
        list[str] | None, Parameter(name="--try", negative=(), consume_multiple=False, allow_leading_hyphen=True)
    ] = None,
    runs: int | None = None,
    seeds: int = 4,
    seed: int | None = None,
    set_: Annotated[list[str] | None, Parameter(name="--set", negative=(), consume_multiple=False)] = None,
    trace: Path | None = None,
    compress: float = 1.0,
    processes: int | None = None,
    dask: str | None = None,
    out: Path | None = None,
    output: Annotated[Literal["table", "json", "csv"], Parameter(name=["--output", "-o"])] = "table",
) -> int:
    """Run a scenario with many settings, and report which are better than the current ones.

    windlass sweep burst --try --expander=least-waste,price --try --scale-down-unneeded-time=1m..20m --runs 200

    The current settings are the scenario's own. All settings run with the same seeds; differences within the noise
    between seeds are not reported. Ctrl-C interrupts a sweep, and the same command continues it.

    Exit code: 0 if every run completed, 1 if some failed, 2 if the input cannot be used, 130 after Ctrl-C.

    Parameters
    ----------
    scenario
        A YAML file, or the name of a scenario that comes with windlass.
    tried
        A flag of the autoscaler and the values to try: `--expander=least-waste,price`; `--max-nodes-total=10..40:4` for
        four of a range; `--scale-down-unneeded-time=1m..20m` for random values of it, with --runs; a bool without
        value for both. May be repeated.
    runs
        Number of runs, with settings drawn at random; every combination by default.
    seeds
        Number of seeds for each settings.
    seed
        The first seed; the scenario's by default.
    set_
        Change a field of the scenario: `groups.general.max=50`, `flags.expander=price`.
    trace
        Instead of a scenario, a recorded workload, as for `windlass simulate`.
    compress
        Divide the arrival times of a trace's pods by this.
    processes
        Concurrent runs on this machine; one per core by default.
    dask
        Run on a Dask cluster instead: the address of its scheduler, such as tcp://10.0.0.5:8786.
    out
        Folder for runs.jsonl, table.csv, table.json and report.html; sweep-NAME-… by default.
    output
        `table` for people, `json` or `csv` for programs.
    """
    # Imported late, so that `windlass --help` starts fast.
    from windlass.sweep import comparison, sweep_plan

    if processes is not None and processes < 1:
        raise errors.InvalidInput(f"--processes: found {processes}, accepted is 1 or more")
    if processes is not None and dask is not None:
        raise errors.InvalidInput("--processes: found with --dask, accepted is one of both")
    axes = sweep_plan.parse_axes(tried or ())
    plan = sweep_plan.make_plan(_read_input(scenario, set_ or (), seed, trace, compress), axes, seeds, runs)
    folder = out or Path(f"sweep-{plan.sweep_input.scenario.name}-{plan.fingerprint[:8]}")
    with _choose_executor(dask, processes) as executor, sweep_plan.open_outcomes(folder, plan) as kept:
        try:
            _run_plan(plan, executor, kept)
        except KeyboardInterrupt:
            done = sum(not run_outcome.failed for run_outcome in kept.outcomes.values())
            said = f"{done} of {len(plan.tasks)} runs are kept in {folder}; the same command continues them"
            print(f"windlass: interrupted: {said}", file=sys.stderr)
            return INTERRUPTED
        rows = comparison.make_rows(plan, kept.outcomes)
    _print_results(plan, rows, folder, output)
    return 1 if any(row.failed for row in rows) else 0


def _read_input(
    scenario: str | None, changes: Sequence[str], seed: int | None, trace: Path | None, compress: float
) -> "SweepInput":
    from windlass.cli import scenario_input
    from windlass.sweep.sweep_plan import SweepInput

    if (scenario is None) == (trace is None):
        found = "none" if scenario is None else "both"
        raise errors.InvalidInput(f"SCENARIO, --trace: found {found}, accepted is one of both")
    if scenario is not None:
        if compress != 1.0:
            raise errors.InvalidInput("--compress: found without --trace, accepted with it only")
        (story,) = scenario_input.read_scenarios([scenario], changes, seed)
        scenario_input.read_settings([story], ())
        return SweepInput(story)
    assert trace is not None
    if changes:
        raise errors.InvalidInput("--set: found with --trace, accepted with a scenario only")
    return SweepInput(*scenario_input.read_trace(trace, compress, seed or 0))


@contextlib.contextmanager
def _choose_executor(dask: str | None, processes: int | None) -> Iterator[RunExecutor]:
    from windlass.sweep import executors

    if dask is None:
        yield executors.ProcessExecutor(processes or executors.count_cores())
        return
    with executors.connect(dask) as cluster:
        yield cluster


def _run_plan(plan: "SweepPlan", executor: RunExecutor, kept: "OutcomesFile") -> None:
    from windlass.cli import terminal_output

    left = [task for task in plan.tasks if task not in kept.outcomes]
    if len(left) < len(plan.tasks):
        print(
            f"{plan.sweep_input.scenario.name}: {len(plan.tasks) - len(left)} runs were played before", file=sys.stderr
        )
    if not left:
        return
    count = terminal_output.CountProgress(sys.stderr, plan.sweep_input.scenario.name, len(left))
    try:
        with contextlib.closing(executor.run(plan, left)) as completed:
            for task, outcome in completed:
                kept.add(task, outcome)
                count.add()
    finally:
        count.finish()


def _print_results(plan: "SweepPlan", rows: "Sequence[SettingsRow]", folder: Path, output: str) -> None:
    from windlass.cli import result_text, terminal_output
    from windlass.sweep import sweep_report

    told = {"json": sweep_report.encode_json(plan, rows) + "\n", "csv": sweep_report.encode_csv(plan, rows)}
    for kind, text in told.items():
        (folder / f"table.{kind}").write_text(text, encoding="utf-8")
    (folder / "report.html").write_text(sweep_report.render_page(plan, rows), encoding="utf-8")
    if output == "table":
        print(*result_text.sweep_lines(plan, rows, terminal_output.style_for(sys.stdout)), sep="\n")
    else:
        print(told[output], end="")
    said = f"report: {folder / 'report.html'}; all settings: {folder / 'table.csv'}"
    print(f"\n{said}", file=sys.stdout if output == "table" else sys.stderr)
    sys.stdout.flush()
