"""One run: a world with certain flags and a certain seed, and what is kept of it."""

import threading
import traceback

import msgspec

from windlass.simulator import autoscaling
from windlass.simulator.measure.totals import Totals
from windlass.simulator.simulation import Simulation
from windlass.sweep import worlds

_ALONE = threading.Lock()
"""A process plays one run at a time: a simulation sets how often the whole process collects garbage."""
_TOLD = 5
"""Violations that are kept in words; all are counted."""


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a run. Without totals it has failed, and `failed` says how."""

    totals: Totals = {}
    missed: tuple[str, ...] = ()
    """Expectations of the scenario that were not met."""
    violations: tuple[str, ...] = ()
    """The first breaches of what must hold whatever an autoscaler does."""
    failed: str = ""


def play(packed: bytes, flags: dict[str, str], seed: int) -> Outcome:
    """The same outcome wherever it is played. A run that cannot be played says why, and stops no other."""
    try:
        with _ALONE:
            return _play(worlds.unpack(packed), flags, seed)
    except Exception as error:  # whatever it is, it concerns this run
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(failed=f"{type(error).__name__}: {error} ({where.name})")


def _play(world: worlds.World, flags: dict[str, str], seed: int) -> Outcome:
    scenario = msgspec.structs.replace(world.scenario, seed=seed, flags={**world.scenario.flags, **flags})
    result = Simulation(scenario, world.trace).play(autoscaling.play)
    return Outcome(
        result.totals,
        tuple(str(one) for one in result.outcomes if not one.is_met),
        tuple(str(one) for one in result.violations[:_TOLD]),
    )
