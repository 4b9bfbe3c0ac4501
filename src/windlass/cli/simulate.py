"""`windlass simulate`: a day of a cluster in a minute, with the real autoscaler in it."""

import contextlib
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from windlass import errors
from windlass.cli import serving

if TYPE_CHECKING:
    from windlass.simulator.reporting.runs import Play, Run
    from windlass.simulator.scenario.model import Scenario
    from windlass.simulator.trace.reading import Trace

_Several = Parameter(negative=(), consume_multiple=False)
_Flags = Annotated[list[str] | None, Parameter(negative=(), consume_multiple=False, allow_leading_hyphen=True)]


def simulate(
    *scenario: Annotated[str, Parameter(name="SCENARIO")],
    compare: _Flags = None,
    seed: int | None = None,
    set_: Annotated[list[str] | None, Parameter(name="--set", negative=(), consume_multiple=False)] = None,
    trace: Path | None = None,
    compress: float = 1.0,
    report: Path = Path("report.html"),
    record: Path | None = None,
    output: Annotated[Literal["table", "json"], Parameter(name=["--output", "-o"])] = "table",
    serve: Annotated[bool, Parameter(negative=())] = False,
    serve_address: str = serving.ADDRESS,
    speed: float = 600.0,
) -> int:
    """Play a scenario with the real autoscaler in virtual time, and say what came of it.

    windlass simulate day --compare "--expander=least-nodes" --compare "--scale-down-unneeded-time=30m"

    Without a scenario and without a trace, those that come with windlass are listed. Nothing outside this process is
    touched, and the same seed gives the same result, to the byte.

    Exit code: 0 if everything came as the scenario expects, 1 if not or if a check was violated, 2 if it could not be
    read.

    Parameters
    ----------
    scenario
        YAML files, or names of scenarios that come with windlass.
    compare
        Play the same world once more with these flags of the autoscaler; may be given several times.
    seed
        Draw other chances than the scenario says.
    set_
        Change a field of the scenario: `groups.general.max=50`, `workloads.0.replicas=9`.
    trace
        Play a recorded workload: a CSV of pods with the machines in nodes.csv beside it, or a folder with both.
    compress
        Divide the times at which a trace's pods come by this.
    report
        Where to write the page with plots; empty writes none. Of several scenarios each gets its name in it.
    record
        Write what the autoscaler saw and decided to this file, for `windlass replay` and `windlass explain
        --recording`. Of several scenarios each gets its name in it.
    output
        `table` for people, `json` for programs.
    serve
        Show the dashboard while it is played, and until Ctrl-C when it is over.
    serve_address
        Where, with --serve. Away from loopback a token is asked for, and printed.
    speed
        How many seconds of the story pass in one, with --serve; 0: as fast as it goes.
    """
    # Not before they are needed: `windlass --help` should answer at once.
    from windlass.cli import scenarios, simulated, style

    if trace is None and compress != 1.0:
        raise errors.InvalidInput("--compress: found without --trace, which it belongs to")
    if not scenario and trace is None:
        print(*simulated.list_scenarios(scenarios.shipped(), style.of_stream(sys.stdout)), sep="\n")
        return 0
    stories = scenarios.read(scenario, set_ or (), seed)
    worlds: list[tuple[Scenario, Trace | None]] = [(story, None) for story in stories]
    if trace is not None:
        worlds.append(scenarios.read_trace(trace, compress, seed or 0))
    settings = scenarios.read_settings([one for one, _ in worlds], compare or ())
    if record is not None and len(settings) > 1:
        raise errors.InvalidInput("--record: found with --compare, accepted is one of both")
    if serve:
        _check_served(len(worlds), len(settings), speed)
    shown = (serve_address, speed) if serve else None
    met = []
    for one, recorded in worlds:
        page, file = (_place(path, one.name, len(worlds)) for path in (report, record))
        met.append(_play(_recorded(one, file), recorded, settings, page, output, shown))
        if file is not None:
            _tell_recording(file, output)
    return 0 if all(met) else 1


def _check_served(worlds: int, settings: int, speed: float) -> None:
    if worlds > 1 or settings > 1:
        raise errors.InvalidInput(f"--serve: found {worlds * settings} runs, accepted is one")
    if not 0.0 <= speed < float("inf"):
        raise errors.InvalidInput(f"--speed: found {speed:g}, accepted are seconds of the story in one, or 0")


def _place(path: Path | None, name: str, worlds: int) -> Path | None:
    """Where this world's page or recording goes; None: nowhere."""
    if path is None or path == Path():
        return None
    return path if worlds == 1 else path.with_name(f"{path.stem}-{name}{path.suffix}")


def _recorded(scenario: "Scenario", file: Path | None) -> "Scenario":
    return scenario if file is None else _with_flags(scenario, {"record": str(file)})


def _tell_recording(file: Path, output: str) -> None:
    said = f"recording: {file}, {file.stat().st_size / 2**20:.2f} MiB; windlass replay {file}"
    print(said, file=sys.stderr if output == "json" else sys.stdout)


def _play(
    scenario: "Scenario", trace: "Trace | None", settings: Sequence[tuple[str, "dict[str, str]"]], place: Path | None,
    output: str, shown: tuple[str, float] | None = None,
) -> bool:  # fmt: skip
    """One world with all settings; did everything come as expected? `shown`: where, and how fast."""
    from windlass.simulator import autoscaling
    from windlass.simulator.watched import Watched

    if shown is None:
        return _tell(_play_all(scenario, trace, settings, autoscaling.play), place, output)
    address, speed = shown
    watched = Watched(scenario.name, float(scenario.duration), speed)
    with serving.serve(watched, address) as page:
        print(f"dashboard: {page}", file=sys.stderr, flush=True)
        is_met = _tell(_play_all(scenario, trace, settings, watched.play), place, output)
        print(f"dashboard: {page} stays until Ctrl-C", file=sys.stderr, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    return is_met


def _play_all(
    scenario: "Scenario", trace: "Trace | None", settings: Sequence[tuple[str, "dict[str, str]"]], play: "Play"
) -> list["Run"]:
    from windlass.cli import progress
    from windlass.simulator.reporting import runs

    played: list[Run] = []
    for label, given in settings:
        title = scenario.name if len(settings) == 1 else f"{scenario.name} ({label})"
        with progress.of_stream(sys.stderr, title, float(scenario.duration)) as watch:
            played.append(runs.play(label, _with_flags(scenario, given), trace, watch.join, play))
    return played


def _tell(played: list["Run"], place: Path | None, output: str) -> bool:
    """What came of it, on standard output and as a page."""
    from windlass.cli import simulated, style
    from windlass.simulator.reporting import page

    if output == "json":
        print(simulated.encode(played))
    else:
        print(*simulated.lines(played, style.of_stream(sys.stdout)), sep="\n")
    if place is not None:
        place.write_text(page.make(played), encoding="utf-8")
        print(f"\nreport: {place}", file=sys.stderr if output == "json" else sys.stdout)
    sys.stdout.flush()
    return all(run.result.is_as_expected for run in played)


def _with_flags(scenario: "Scenario", given: "dict[str, str]") -> "Scenario":
    import msgspec

    return msgspec.structs.replace(scenario, flags={**scenario.flags, **given})
