"""Replaying: deciding again what was decided, from the beginning of a file, in the same order.

The same calls with the same values give the same bytes: the plan, what is remembered, the story, and until when it
stands. Where they do not, the program is not the one that recorded, or it is not a pure function.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from windlass import errors
from windlass.autoscaler.recording import digests, files, reading, recorder
from windlass.engine import time_limits
from windlass.engine.advance import Advanced, advance
from windlass.engine.decide import Decision, decide
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings


class Moment(NamedTuple):
    """What there was to decide with at one time."""

    seen: Observation
    memory: Memory
    settings: Settings
    now_s: float
    timer: time_limits.Timer
    """Time is up where it was."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A step, decided again. True until the next one."""

    step: reading.Step
    memory: Memory
    """What it began with."""
    done: Decision | Advanced | None
    """None where it raised an error."""
    error: str
    differences: tuple[str, ...]
    """What is not as it was recorded: `plan`, `memory`, `story`, `until` or `error`."""


def turns(recording: reading.Recording) -> Iterator[Turn]:
    """Every step."""
    before = result = recording.memory
    names: dict[str, tuple[object, bytes]] = {}
    for step in recording:
        memory = reading.restore(step.given, before, result)
        done, error = _take(step, memory, recording.settings)
        yield Turn(step, memory, done, error, tuple(_compare(step.recorded, done, error, names)))
        before, result = memory, memory if done is None else done.memory


def load_until(path: Path | str, at_s: float) -> Moment:
    """What the last decision at that time, or before, began with. InvalidInput if there is none."""
    number = find_last(Path(path), at_s)
    recording = reading.Recording(Path(path))
    turn = next(turn for turn in turns(recording) if turn.step.number == number)
    timer = time_limits.Replayed(turn.step.recorded.ran_out)
    return Moment(turn.step.seen, turn.memory, recording.settings, turn.step.now_s, timer)


def find_beginning_s(path: Path) -> float:
    """When the recording begins."""
    head = next(files.read(path), None)
    if head is None:
        raise errors.InvalidInput(f"{path}: found no whole observation, expected at least one")
    return float(head["at_s"])


def find_last(path: Path, at_s: float) -> int:
    """The number of the last decision at that time, or before. InvalidInput if there is none."""
    last, first_s = 0, math.inf
    for number, frame in enumerate(files.read(path)):
        if number and frame["of"] == recorder.DECIDE:
            first_s = min(first_s, frame["at_s"])
            last = number if frame["at_s"] <= at_s else last
    if first_s == math.inf:
        raise errors.InvalidInput(f"{path}: found no decision, expected at least one")
    if not last:
        raise errors.InvalidInput(f"{path}: found no decision at {at_s:.3f} or before; the first is at {first_s:.3f}")
    return last


def _take(step: reading.Step, memory: Memory, settings: Settings) -> tuple[Decision | Advanced | None, str]:
    try:
        if step.of == recorder.ADVANCE:
            return advance(step.seen, memory, settings, step.now_s), ""
        timer = time_limits.Replayed(step.recorded.ran_out)
        return decide(step.seen, memory, settings, step.now_s, timer), ""
    except Exception as error:
        return None, recorder.spell_error(error)


def _compare(
    recorded: reading.Recorded, done: Decision | Advanced | None, error: str, names: dict[str, tuple[object, bytes]]
) -> Iterator[str]:
    if done is None or recorded.error:
        if error != recorded.error:
            yield "error"
        return
    if done.plan != recorded.plan:
        yield "plan"
    for name, value in ((recorder.REMEMBERED, done.memory.durable), (recorder.story_of(done), done.story)):
        if name not in names or names[name][0] is not value:
            names[name] = value, digests.digest(value)
        if names[name][1] != recorded.digests.get(name):
            yield "memory" if name == recorder.REMEMBERED else "story"
    if (done.quiet_until_s if isinstance(done, Decision) else done.next_s) != recorded.next_s:
        yield "until"
