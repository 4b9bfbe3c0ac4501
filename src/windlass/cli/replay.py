"""`windlass replay`: repeat the recorded decisions, with the recorded or with other settings."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from windlass import errors
from windlass.cli import query_source, terminal_output

if TYPE_CHECKING:
    from windlass.autoscaler.record_replay import replay
    from windlass.engine.model import plan
    from windlass.engine.model.settings import Settings

DIFFERENT = 1
"""Exit code if a decision differs from the recorded one."""


def replay_(
    file: Annotated[Path, Parameter(name="FILE")],
    /,
    *,
    with_: Annotated[list[str] | None, Parameter(name="--with", negative=())] = None,
    at: str | None = None,
) -> int:
    """Repeat the decisions that an autoscaler recorded with --record, step by step, and compare them.

    Exit code: 0 if all decisions are equal, or with other settings (--with); 1 if one differs; 2 if the file cannot be
    used.

    Parameters
    ----------
    file
        A file written by --record. Earlier records are in FILE.1.
    with_
        FLAG=VALUE: decide with this flag of the autoscaler, and show the differences. May be repeated. The cluster's
        state stays as recorded; each decision is compared on its own.
    at
        Stop at this time and show the cluster: 2026-11-16T08:30:00Z, or 1h30m after the beginning.
    """
    # Imported late, so that `windlass --help` does not load NumPy.
    from windlass.autoscaler.record_replay import replay

    style = terminal_output.style_for(sys.stdout)
    if at is not None:
        at_s = query_source.parse_time(at, file)
        moment = replay.load_inputs_at(file, at_s)
        print(f"windlass: {query_source.describe_moment(file, moment.now_s, at_s)}", file=sys.stderr)
        _print_lines(_show_decision(moment, _change_settings(moment.settings, with_ or ())))
        return 0
    recording = replay.Recording(file)
    if with_:
        _print_lines(_describe_differences(recording, _change_settings(recording.settings, with_), style))
        _report_cut(file, recording)
        return 0
    return _replay_steps(file, recording, style)


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


# With the recorded settings


def _replay_steps(file: Path, recording: "replay.Recording", style: terminal_output.TextStyle) -> int:
    from windlass.autoscaler.record_replay import replay
    from windlass.kube import time_formats

    counts, first_s, last_s = {"decide": 0, "advance": 0}, 0.0, 0.0
    for replayed in replay.replay_steps(recording):
        counts[replayed.step.of] += 1
        first_s, last_s = first_s or replayed.step.now_s, replayed.step.now_s
        if replayed.differences:
            _print_lines(_describe_first(replayed, style))
            print(f"{file} was recorded by windlass {recording.windlass}.")
            return DIFFERENT
    _report_cut(file, recording)
    print(
        f"{file}: {_count(counts['decide'], 'decision')} and {_count(counts['advance'], 'drain loop')}, "
        f"from {time_formats.format_time(first_s)} to {time_formats.format_time(last_s)}: "
        f"{style.good('replayed, every result is equal')}"
    )
    return 0


def _report_cut(file: Path, recording: "replay.Recording") -> None:
    """Say that a recording is not whole: what was decided later is not in it."""
    if recording.is_cut:
        print(
            f"windlass: {file}: ends within a step: it was cut, or is being written; read up to there", file=sys.stderr
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _describe_first(replayed: "replay.ReplayedStep", style: terminal_output.TextStyle) -> Iterator[str]:
    from windlass.kube import time_formats

    step = replayed.step
    found = ", ".join(replayed.differences)
    at = time_formats.format_time(step.now_s)
    yield f"Step {step.number} ({step.of}, {at}): {style.bad('differs from the recording')}: {found}"
    recorded, now = step.recorded, replayed.done
    if recorded.error or replayed.error:
        yield f"  recorded: {recorded.error or 'no error'}"
        yield f"  now:      {replayed.error or 'no error'}"
    elif "plan" in replayed.differences and now is not None:
        yield from _format_changes(
            "recorded", [instruction for instruction in recorded.plan if instruction not in now.plan]
        )
        yield from _format_changes("now", [one for one in now.plan if one not in recorded.plan])


def _format_changes(title: str, instructions: "list[plan.Instruction]") -> Iterator[str]:
    yield f"  {title}: {'' if instructions else 'nothing else'}"
    yield from (f"    {instruction}" for instruction in instructions)


# With other settings


def _change_settings(settings: "Settings", given: Iterable[str]) -> "Settings":
    from windlass.autoscaler.options import flags

    changes: dict[str, list[str]] = {}
    for item in given:
        name, equals, value = item.removeprefix("--").partition("=")
        if not equals:
            raise errors.InvalidInput(f"--with: found {item!r}, expected FLAG=VALUE")
        changes.setdefault(name.replace("_", "-"), []).append(value)
    return flags.override_settings(settings, changes)


def _describe_differences(
    recording: "replay.Recording", settings: "Settings", style: terminal_output.TextStyle
) -> Iterator[str]:
    from windlass.autoscaler.record_replay import replay

    decisions = different = 0
    for decision_comparison in replay.compare_decisions(recording, settings):
        decisions += 1
        different += decision_comparison.is_different
        yield from _describe_difference(decision_comparison, style)
    if not different:
        yield f"no difference: with these settings {_count(decisions, 'decision')} would be as recorded"
    else:
        marks = "+ only with these settings, - only as recorded"
        yield f"{different} of {_count(decisions, 'decision')} would differ; {marks}"


def _describe_difference(comparison: "replay.DecisionComparison", style: terminal_output.TextStyle) -> Iterator[str]:
    from windlass.kube import time_formats

    if comparison.wanted or comparison.left:
        yield style.strong(
            f"{time_formats.format_time(comparison.turn.step.now_s)}  loop {comparison.turn.memory.durable.loop}"
        )
    for step in comparison.wanted:
        yield f"  {style.good('+')} {step.text}{f': {step.why}' if step.why else ''}"
    for step in comparison.left:
        yield f"  {style.bad('-')} {step.text}{f': {step.why}' if step.why else ''}"


# At one moment


def _show_decision(moment: "replay.ReplayInputs", settings: "Settings") -> Iterator[str]:
    from windlass.explain import cluster, explain_context, render_cluster

    yield from render_cluster.render_cluster_explanation(
        cluster.explain_cluster(explain_context.evaluate(*moment._replace(settings=settings)))
    )
