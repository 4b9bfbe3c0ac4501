"""`windlass replay`: decide again what was recorded, as it was or with other settings."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from windlass import errors
from windlass.cli import style

if TYPE_CHECKING:
    from windlass.autoscaler.recording import reading, replay, what_if
    from windlass.engine import plan
    from windlass.engine.settings import Settings

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
    from windlass.autoscaler.recording import reading, replay

    tones = style.of_stream(sys.stdout)
    if at is not None:
        moment = replay.load_until(file, _read_time(at, file))
        _print(_show(moment, _change(moment.settings, with_ or ())))
        return 0
    recording = reading.Recording(file)
    if with_:
        _print(_tell_differences(recording, _change(recording.settings, with_), tones))
        return 0
    return _repeat(file, recording, tones)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


# As it was


def _repeat(file: Path, recording: "reading.Recording", tones: style.Style) -> int:
    from windlass.autoscaler.recording import replay
    from windlass.kube import times

    counts, first_s, last_s = {"decide": 0, "advance": 0}, 0.0, 0.0
    for turn in replay.turns(recording):
        counts[turn.step.of] += 1
        first_s, last_s = first_s or turn.step.now_s, turn.step.now_s
        if turn.differences:
            _print(_tell_first(turn, tones))
            print(f"{file} was recorded by windlass {recording.windlass}.")
            return DIFFERENT
    print(
        f"{file}: {counts['decide']} decisions and {counts['advance']} looks at drains, from {times.spell(first_s)} "
        f"to {times.spell(last_s)}: {tones.good('all decided again as they were')}"
    )
    return 0


def _tell_first(turn: "replay.Turn", tones: style.Style) -> Iterator[str]:
    from windlass.kube import times

    step = turn.step
    found = ", ".join(turn.differences)
    yield f"Step {step.number} ({step.of}, {times.spell(step.now_s)}): {tones.bad('not as recorded')}: {found}"
    recorded, now = step.recorded, turn.done
    if recorded.error or turn.error:
        yield f"  recorded: {recorded.error or 'no error'}"
        yield f"  now:      {turn.error or 'no error'}"
    elif "plan" in turn.differences and now is not None:
        yield from _list("recorded", [one for one in recorded.plan if one not in now.plan])
        yield from _list("now", [one for one in now.plan if one not in recorded.plan])


def _list(title: str, found: "list[plan.Instruction]") -> Iterator[str]:
    yield f"  {title}: {'' if found else 'nothing else'}"
    yield from (f"    {one}" for one in found)


# With other settings


def _change(settings: "Settings", given: Iterable[str]) -> "Settings":
    from windlass.autoscaler import flags

    changes: dict[str, list[str]] = {}
    for one in given:
        name, equals, value = one.removeprefix("--").partition("=")
        if not equals:
            raise errors.InvalidInput(f"--with: found {one!r}, expected FLAG=VALUE")
        changes.setdefault(name.replace("_", "-"), []).append(value)
    return flags.change(settings, changes)


def _tell_differences(recording: "reading.Recording", settings: "Settings", tones: style.Style) -> Iterator[str]:
    from windlass.autoscaler.recording import what_if

    decisions = different = 0
    for one in what_if.compare(recording, settings):
        decisions += 1
        different += one.is_different
        yield from _tell(one, tones)
    if not different:
        yield f"{decisions} decisions, and with these settings none of them would have been different."
    else:
        yield f"{different} of {decisions} decisions would have been different. + would have been done, - was done"


def _tell(one: "what_if.Comparison", tones: style.Style) -> Iterator[str]:
    from windlass.kube import times

    if one.wanted or one.left:
        yield tones.strong(f"{times.spell(one.turn.step.now_s)}  loop {one.turn.memory.durable.loop}")
    for step in one.wanted:
        yield f"  {tones.good('+')} {step.text}{f': {step.why}' if step.why else ''}"
    for step in one.left:
        yield f"  {tones.bad('-')} {step.text}{f': {step.why}' if step.why else ''}"


# At one time


def _read_time(text: str, file: Path) -> float:
    from windlass.autoscaler.recording import replay
    from windlass.kube import durations, times

    try:
        return times.parse(text)
    except ValueError:
        pass
    try:
        return replay.find_beginning_s(file) + durations.parse(text)
    except ValueError:
        raise errors.InvalidInput(f"--at: found {text!r}, expected 2026-11-16T08:30:00Z or 1h30m") from None


def _show(moment: "replay.Moment", settings: "Settings") -> Iterator[str]:
    from windlass.explain import cluster, look
    from windlass.explain.telling import cluster as words

    yield from words.tell(cluster.describe(look.take(*moment._replace(settings=settings))))
