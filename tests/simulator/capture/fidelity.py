"""How near a captured scenario comes to the run that was recorded: nodes and pending pods over time.

`python -m tests.simulator.capture.fidelity [SCENARIO …]` records each scenario, captures it, plays the result and
prints the differences: the area between both curves, as a share of the area under the original's.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from windlass.cli import scenario_input
from windlass.simulator import autoscaler_run
from windlass.simulator.capture import cluster_history, scenario_writer
from windlass.simulator.capture.anonymizer import Anonymizer
from windlass.simulator.scenario import loader, model
from windlass.simulator.simulation import ScenarioRun

SAMPLE_S = 10.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run, and the run of what was captured from its recording."""

    original: ScenarioRun
    captured: ScenarioRun
    text: str

    @property
    def nodes(self) -> float:
        return _compare(_nodes(self.original), _nodes(self.captured))

    @property
    def pending(self) -> float:
        return _compare(self.original.result.series.pending, self.captured.result.series.pending)


def compare(name: str, recording: Path, key: bytes = b"") -> Comparison:
    """Play a scenario, capture it from its recording (with a key: anonymized) and play that."""
    scenario = scenario_input.read_scenarios([name], (), None)[0]
    original = _play(msgspec.structs.replace(scenario, flags={**scenario.flags, "record": str(recording)}))
    captured = scenario_writer.write_scenario(*cluster_history.read_history(recording), name)
    if key:
        plain, left_out = Anonymizer(key).anonymize(captured.plain, captured.left_out)
        captured = scenario_writer.CapturedScenario(plain, left_out)
    text = captured.render()
    return Comparison(original, _play(loader.parse_scenario(text, name)), text)


def _play(scenario: model.Scenario) -> ScenarioRun:
    sampled = msgspec.structs.replace(scenario, sample=model.Seconds(SAMPLE_S))
    return autoscaler_run.run_scenario("", sampled, None, lambda simulation: None)


def _nodes(run: ScenarioRun) -> list[int]:
    return [sum(counts) for counts in zip(*run.result.series.nodes.values(), strict=True)]


def _compare(original: Sequence[int], captured: Sequence[int]) -> float:
    """The area between both, as a share of the original's; within the time that was captured."""
    pairs = list(zip(original, captured, strict=False))
    between, under = sum(abs(a - b) for a, b in pairs), sum(a for a, _ in pairs)
    return between / under if under else float(between)


def main(names: Sequence[str]) -> None:
    print(f"{'scenario':18} {'nodes':>7} {'pending':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names or scenario_input.list_shipped():
            found = compare(name, Path(folder) / f"{name}.rec")
            unmet = [str(outcome) for outcome in found.captured.result.outcomes if not outcome.is_met]
            problems = "; ".join([*unmet, *map(str, found.captured.result.violations)])
            print(f"{name:18} {found.nodes:7.2%} {found.pending:8.2%}  {problems or 'as expected'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
