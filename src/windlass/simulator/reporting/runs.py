"""A run: a scenario played to its end with certain settings, and what was decided meanwhile."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from windlass.autoscaler.published.chronicle import Chronicle, Entry
from windlass.simulator import autoscaling
from windlass.simulator.scenario import model
from windlass.simulator.simulation import Result, Simulation
from windlass.simulator.trace.reading import Trace

Watch = Callable[[Simulation], None]
"""Told of a simulation before it is played."""
Play = Callable[[Simulation, autoscaling.Hear], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Run:
    """What there is to tell."""

    label: str
    """Which settings: as given on the command line, or `as written`."""
    scenario: model.Scenario
    result: Result
    decisions: tuple[Entry, ...]
    fixed_nodes: int = 0
    """Of a recorded workload: how many machines its cluster had, all the time. 0: of no such."""

    @property
    def lasts_s(self) -> float:
        return float(self.scenario.duration)


def play(
    label: str, scenario: model.Scenario, trace: Trace | None, watch: Watch, with_: Play = autoscaling.play
) -> Run:
    """To its end. `with_`: who plays, if not the autoscaler alone."""
    simulation = Simulation(scenario, trace)
    watch(simulation)
    chronicle = Chronicle(simulation.clock.monotonic_s)
    result = simulation.play(lambda story: with_(story, chronicle.hear))
    fixed = 0 if trace is None else trace.machine_count
    return Run(label, scenario, result, tuple(chronicle.entries), fixed)
