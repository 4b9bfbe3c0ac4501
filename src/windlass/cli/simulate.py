"""`windlass simulate`: scenarios with the real autoscaler in virtual time.

The dashboard of a simulation is served from a separate thread, because the simulation runs in virtual time.
"""

import asyncio
import contextlib
import os
import queue
import secrets
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from windlass import errors

if TYPE_CHECKING:
    from windlass.simulator.autoscaler_run import AutoscalerRunner, ObservedSimulation
    from windlass.simulator.scenario.model import Scenario
    from windlass.simulator.simulation import ScenarioRun
    from windlass.simulator.workload_trace import Trace

DEFAULT_ADDRESS = "127.0.0.1:8086"

SIMULATION_NICENESS = 10
"""Niceness of the simulation's thread on Linux: the dashboard and a browser on the same machine stay responsive."""


@contextlib.contextmanager
def serve_simulation(watched: "ObservedSimulation", address: str) -> Iterator[str]:
    """Serve the dashboard until the context ends, and return its URL. InvalidInput if the address cannot be used."""
    began: queue.SimpleQueue[str | errors.WindlassError] = queue.SimpleQueue()
    loop, is_over = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(_serve_dashboard(watched, address, began, is_over))
    )
    thread.start()
    try:
        place = began.get()
        if isinstance(place, errors.WindlassError):
            raise place
        _lower_priority()
        yield place
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join()
        loop.close()


def _lower_priority() -> None:
    """Lower the priority of this thread. It cannot be raised again.

    On other systems than Linux niceness applies to the whole process, the server included, so nothing is changed.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(SIMULATION_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))


async def _serve_dashboard(
    watched: "ObservedSimulation",
    address: str,
    began: "queue.SimpleQueue[str | errors.WindlassError]",
    is_over: asyncio.Event,
) -> None:
    from windlass.observability.options import DashboardOptions
    from windlass.web import dashboard

    token = "" if dashboard.is_loopback(address) else secrets.token_urlsafe()
    allowed = dashboard.TokenAccess(given=token) if token else dashboard.LoopbackAccess()
    try:
        async with dashboard.serve_dashboard(DashboardOptions(address), watched.published, watched, allowed) as place:
            began.put(f"{place}#token={token}" if token else place)
            await is_over.wait()
    except errors.WindlassError as error:
        began.put(error)


_RepeatedOption = Parameter(negative=(), consume_multiple=False)

_FlagsOption = Annotated[list[str] | None, Parameter(negative=(), consume_multiple=False, allow_leading_hyphen=True)]


def simulate(
    *scenario: Annotated[str, Parameter(name="SCENARIO")],
    from_: Annotated[list[Path] | None, Parameter(name="--from", negative=(), consume_multiple=False)] = None,
    compare: _FlagsOption = None,
    seed: int | None = None,
    set_: Annotated[list[str] | None, Parameter(name="--set", negative=(), consume_multiple=False)] = None,
    trace: Path | None = None,
    compress: float = 1.0,
    report: Path | None = None,
    record: Path | None = None,
    output: Annotated[Literal["table", "json"], Parameter(name=["--output", "-o"])] = "table",
    serve: Annotated[bool, Parameter(negative=())] = False,
    serve_address: str = DEFAULT_ADDRESS,
    speed: float = 600.0,
) -> int:
    """Run a scenario with the real autoscaler in virtual time, and print the results.

    windlass simulate day --compare "--expander=least-nodes" --compare "--scale-down-unneeded-time=30m"

    Without a scenario and a trace, lists the scenarios that come with windlass. Nothing outside this process is
    touched, and the same seed gives the same result, to the byte.

    Exit code: 0 if all expectations are met, 1 if one is not or an invariant was violated, 2 if the scenario cannot be
    read.

    Parameters
    ----------
    scenario
        YAML files, or names of scenarios that come with windlass.
    from_
        A file that `windlass capture` wrote, or a recording, which is captured first; may be repeated.
    compare
        Run the scenario once more with these flags of the autoscaler; may be repeated.
    seed
        Seed of the random numbers, instead of the scenario's.
    set_
        Change a field of the scenario: `groups.general.max=50`, `workloads.0.replicas=9`.
    trace
        Run a recorded workload: a CSV of pods with nodes.csv in the same folder, or a folder with both.
    compress
        Divide the arrival times of a trace's pods by this.
    report
        File for the HTML report, report.html by default or, if it exists, report-2.html and so on; empty writes none.
        With several scenarios the name of each is added.
    record
        Record the autoscaler's observations and decisions in this file, for `windlass replay` and `windlass explain
        --recording`. With several scenarios the name of each is added.
    output
        `table` for people, `json` for programs.
    serve
        Serve the dashboard during the run, and after it until Ctrl-C.
    serve_address
        Address of --serve. Other addresses than loopback require a token, which is printed.
    speed
        Scenario seconds per real second, with --serve; 0: as fast as possible.
    """
    # Imported late, so that `windlass --help` starts fast.
    from windlass.cli import output_files, result_text, scenario_input, terminal_output

    if trace is None and compress != 1.0:
        raise errors.InvalidInput("--compress: found without --trace, accepted with it only")
    if not scenario and trace is None and not from_:
        print(
            *result_text.list_scenarios(scenario_input.list_shipped(), terminal_output.style_for(sys.stdout)), sep="\n"
        )
        return 0
    stories = scenario_input.read_scenarios((*scenario, *(from_ or ())), set_ or (), seed)
    worlds: list[tuple[Scenario, Trace | None]] = [(story, None) for story in stories]
    if trace is not None:
        worlds.append(scenario_input.read_trace(trace, compress, seed or 0))
    settings = scenario_input.read_settings([one for one, _ in worlds], compare or ())
    if record is not None and len(settings) > 1:
        raise errors.InvalidInput("--record: found with --compare, accepted is one of both")
    if serve:
        _check_served(len(worlds), len(settings), speed)
    shown = (serve_address, speed) if serve else None
    report = output_files.choose_report() if report is None else report
    outputs = [tuple(_output_path(path, one.name, len(worlds)) for path in (report, record)) for one, _ in worlds]
    _check_names([one.name for one, _ in worlds], any(path for files in outputs for path in files))
    for option, path in (pair for files in outputs for pair in zip(("--report", "--record"), files, strict=True)):
        if path is not None:
            output_files.check(option, path)
    met = []
    for (one, recorded), (page, file) in zip(worlds, outputs, strict=True):
        met.append(_run_scenario(_with_recording(one, file), recorded, settings, page, output, shown))
        if file is not None:
            _print_recording(file, output)
    return 0 if all(met) else 1


def _check_names(names: Sequence[str], is_written: bool) -> None:
    """One report for each: a second one of a name would replace the first."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if is_written and twice:
        raise errors.InvalidInput(
            f"found {twice[0]} twice, expected scenarios of different names, or --report= to write none"
        )


def _check_served(worlds: int, settings: int, speed: float) -> None:
    if worlds > 1 or settings > 1:
        raise errors.InvalidInput(f"--serve: found {worlds * settings} runs, accepted is one")
    if not 0.0 <= speed < float("inf"):
        raise errors.InvalidInput(f"--speed: found {speed:g}, accepted are scenario seconds per real second, or 0")


def _output_path(path: Path | None, name: str, worlds: int) -> Path | None:
    """The file of this scenario's report or recording; None: none is written."""
    if path is None or path == Path():
        return None
    return path if worlds == 1 else path.with_name(f"{path.stem}-{name}{path.suffix}")


def _with_recording(scenario: "Scenario", file: Path | None) -> "Scenario":
    return scenario if file is None else _with_flags(scenario, {"record": str(file)})


def _print_recording(file: Path, output: str) -> None:
    said = f"recording: {file}, {file.stat().st_size / 2**20:.2f} MiB; windlass replay {file}"
    print(said, file=sys.stderr if output == "json" else sys.stdout)


def _run_scenario(
    scenario: "Scenario", trace: "Trace | None", settings: Sequence[tuple[str, "dict[str, str]"]], place: Path | None,
    output: str, shown: tuple[str, float] | None = None,
) -> bool:  # fmt: skip
    """Run a scenario with all settings; True if all is as expected. `shown`: the dashboard's address, and the speed."""
    from windlass.simulator import autoscaler_run
    from windlass.simulator.autoscaler_run import ObservedSimulation

    if shown is None:
        return _print_result(_run_all(scenario, trace, settings, autoscaler_run.run_autoscaler), place, output)
    address, speed = shown
    watched = ObservedSimulation(scenario, speed)
    with serve_simulation(watched, address) as page:
        print(f"dashboard: {page}", file=sys.stderr, flush=True)
        is_met = _print_result(_run_all(scenario, trace, settings, watched.run), place, output)
        print(f"dashboard: {page} stays until Ctrl-C", file=sys.stderr, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    return is_met


def _run_all(
    scenario: "Scenario",
    trace: "Trace | None",
    settings: Sequence[tuple[str, "dict[str, str]"]],
    play: "AutoscalerRunner",
) -> list["ScenarioRun"]:
    from windlass.cli import terminal_output
    from windlass.simulator import autoscaler_run

    played: list[ScenarioRun] = []
    for label, given in settings:
        title = scenario.name if len(settings) == 1 else f"{scenario.name} ({label})"
        with terminal_output.simulation_progress(sys.stderr, title, float(scenario.duration)) as watch:
            played.append(autoscaler_run.run_scenario(label, _with_flags(scenario, given), trace, watch.attach, play))
    return played


def _print_result(played: list["ScenarioRun"], place: Path | None, output: str) -> bool:
    """Print the results and write the report; True if all is as expected."""
    from windlass.cli import result_text, terminal_output
    from windlass.simulator.report import page

    if output == "json":
        print(result_text.encode_runs(played))
    else:
        print(*result_text.run_lines(played, terminal_output.style_for(sys.stdout)), sep="\n")
    if place is not None:
        place.write_text(page.render_report(played), encoding="utf-8")
        print(f"\nreport: {place}", file=sys.stderr if output == "json" else sys.stdout)
    sys.stdout.flush()
    return all(run.result.is_as_expected for run in played)


def _with_flags(scenario: "Scenario", given: "dict[str, str]") -> "Scenario":
    import msgspec

    return msgspec.structs.replace(scenario, flags={**scenario.flags, **given})
