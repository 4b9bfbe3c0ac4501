"""`windlass replay`: decide again what was recorded, as it was or with other settings."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from windlass import errors
from windlass.cli import terminal_output

if TYPE_CHECKING:
    from windlass.autoscaler.recording import replay
    from windlass.engine.model import plan
    from windlass.engine.model.settings import Settings

DIFFERENT = 1
"""Exit code where a decision is not the one that was recorded."""


def replay_(
    file: Annotated[Path, Parameter(name="FILE")],
    /,
    *,
    with_: Annotated[list[str] | None, Parameter(name="--with", negative=())] = None,
    at: str | None = None,
) -> int:
    """Decide again, step by step, what an autoscaler recorded with --record, and tell whether it is the same.

    Exit code: 0 if all is the same, or other settings were asked for; 1 if a step is decided otherwise; 2 if the file
    cannot be used.

    Parameters
    ----------
    file
        What --record wrote. What came before it is in FILE.1.
    with_
        FLAG=VALUE: decide with this flag of the autoscaler's, and show what would have been done otherwise. May be
        given several times. The cluster goes on as it was recorded; each decision says what would have been done then.
    at
        Stop there and show how the cluster stood: a time as 2026-11-16T08:30:00Z, or as 1h30m after the beginning.
    """
    # Not before they are needed: `windlass --help` should not wait for NumPy.
    from windlass.autoscaler.recording import replay

    tones = terminal_output.style_for(sys.stdout)
    if at is not None:
        moment = replay.load_inputs_at(file, _parse_time(at, file))
        _print_lines(_show_decision(moment, _change_settings(moment.settings, with_ or ())))
        return 0
    recording = replay.Recording(file)
    if with_:
        _print_lines(_describe_differences(recording, _change_settings(recording.settings, with_), tones))
        return 0
    return _replay_steps(file, recording, tones)


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


# As it was


def _replay_steps(file: Path, recording: "replay.Recording", tones: terminal_output.TextStyle) -> int:
    from windlass.autoscaler.recording import replay
    from windlass.kube import time_formats

    counts, first_s, last_s = {"decide": 0, "advance": 0}, 0.0, 0.0
    for turn in replay.replay_steps(recording):
        counts[turn.step.of] += 1
        first_s, last_s = first_s or turn.step.now_s, turn.step.now_s
        if turn.differences:
            _print_lines(_describe_first(turn, tones))
            print(f"{file} was recorded by windlass {recording.windlass}.")
            return DIFFERENT
    print(
        f"{file}: {counts['decide']} decisions and {counts['advance']} looks at drains, from {time_formats.format_time(first_s)} "
        f"to {time_formats.format_time(last_s)}: {tones.good('all decided again as they were')}"
    )
    return 0


def _describe_first(turn: "replay.ReplayedStep", tones: terminal_output.TextStyle) -> Iterator[str]:
    from windlass.kube import time_formats

    step = turn.step
    found = ", ".join(turn.differences)
    yield f"Step {step.number} ({step.of}, {time_formats.format_time(step.now_s)}): {tones.bad('not as recorded')}: {found}"
    recorded, now = step.recorded, turn.done
    if recorded.error or turn.error:
        yield f"  recorded: {recorded.error or 'no error'}"
        yield f"  now:      {turn.error or 'no error'}"
    elif "plan" in turn.differences and now is not None:
        yield from _format_changes("recorded", [one for one in recorded.plan if one not in now.plan])
        yield from _format_changes("now", [one for one in now.plan if one not in recorded.plan])


def _format_changes(title: str, found: "list[plan.Instruction]") -> Iterator[str]:
    yield f"  {title}: {'' if found else 'nothing else'}"
    yield from (f"    {one}" for one in found)


# With other settings


def _change_settings(settings: "Settings", given: Iterable[str]) -> "Settings":
    from windlass.autoscaler.options import flags

    changes: dict[str, list[str]] = {}
    for one in given:
        name, equals, value = one.removeprefix("--").partition("=")
        if not equals:
            raise errors.InvalidInput(f"--with: found {one!r}, expected FLAG=VALUE")
        changes.setdefault(name.replace("_", "-"), []).append(value)
    return flags.override_settings(settings, changes)


def _describe_differences(
    recording: "replay.Recording", settings: "Settings", tones: terminal_output.TextStyle
) -> Iterator[str]:
    from windlass.autoscaler.recording import replay

    decisions = different = 0
    for one in replay.compare_decisions(recording, settings):
        decisions += 1
        different += one.is_different
        yield from _describe_difference(one, tones)
    if not different:
        yield f"{decisions} decisions, and with these settings none of them would have been different."
    else:
        yield f"{different} of {decisions} decisions would have been different. + would have been done, - was done"


def _describe_difference(one: "replay.DecisionComparison", tones: terminal_output.TextStyle) -> Iterator[str]:
    from windlass.kube import time_formats

    if one.wanted or one.left:
        yield tones.strong(f"{time_formats.format_time(one.turn.step.now_s)}  loop {one.turn.memory.durable.loop}")
    for step in one.wanted:
        yield f"  {tones.good('+')} {step.text}{f': {step.why}' if step.why else ''}"
    for step in one.left:
        yield f"  {tones.bad('-')} {step.text}{f': {step.why}' if step.why else ''}"


# At one time


def _parse_time(text: str, file: Path) -> float:
    from windlass.autoscaler.recording import replay
    from windlass.kube import time_formats

    try:
        return time_formats.parse_time(text)
    except ValueError:
        pass
    try:
        return replay.find_start_s(file) + time_formats.parse_duration(text)
    except ValueError:
        raise errors.InvalidInput(f"--at: found {text!r}, expected 2026-11-16T08:30:00Z or 1h30m") from None


def _show_decision(moment: "replay.ReplayInputs", settings: "Settings") -> Iterator[str]:
    from windlass.explain import cluster, explain_context, render_cluster

    yield from render_cluster.render_cluster_explanation(
        cluster.explain_cluster(explain_context.evaluate(*moment._replace(settings=settings)))
    )
