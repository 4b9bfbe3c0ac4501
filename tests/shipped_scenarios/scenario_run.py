"""One story: played and recorded, decided again from the recording, and played once more."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from windlass.autoscaler.record_replay import replay
from windlass.simulator import autoscaler_run, simulation
from windlass.simulator.report import page
from windlass.simulator.scenario import loader, model


@dataclass(frozen=True, slots=True)
class Telling:
    """What came of it."""

    name: str
    lasts_s: float
    took_s: float
    """Seconds of one core that the first time took, recording included."""
    complaints: tuple[str, ...]
    """Expectations that were not met, breaches, steps that were decided otherwise, reports that differ."""
    steps: int
    """Decisions and looks at drains, all decided again as they were."""
    recording_bytes: int


def report(path: Path) -> Telling:
    """Play it, decide it again and play it once more without recording: the report must be the same, to the byte."""
    story = loader.load_scenario(path)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "recording"
        began_s = time.process_time()
        first = _play(story, str(file))
        took_s = time.process_time() - began_s
        turns = [(turn.step.number, turn.differences) for turn in replay.replay_steps(replay.Recording(file))]
        size_bytes = file.stat().st_size
    complaints = [str(outcome) for outcome in first.result.outcomes if not outcome.is_met]
    complaints += [str(violation) for violation in first.result.violations]
    complaints += [f"step {number} is decided otherwise: {', '.join(found)}" for number, found in turns if found]
    if page.render_report([_play(story)]) != page.render_report([first]):
        complaints.append("played again, it gives another report")
    return Telling(story.name, float(story.duration), took_s, tuple(complaints), len(turns), size_bytes)


def _play(story: model.Scenario, record: str = "") -> simulation.ScenarioRun:
    chosen = {**story.flags, "record": record} if record else story.flags
    return autoscaler_run.run_scenario("", msgspec.structs.replace(story, flags=chosen), None, lambda _: None)
