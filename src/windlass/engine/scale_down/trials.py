"""Trials: which of the eligible nodes can go, their pods finding room on others; tried one after another.

Nodes that can go are gone for those that are tried after them, so that all of them could go together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windlass.engine import dtypes, searching
from windlass.engine.estimator import limits
from windlass.engine.placing import Placer
from windlass.engine.scale_down.removal import Removal, RemovalSimulator
from windlass.engine.scale_down.scene import Scene
from windlass.engine.scale_down.whole_groups import WholeGroups
from windlass.engine.settings import Settings

UNLIMITED = limits.Unlimited()


@dataclass(frozen=True, slots=True)
class Trials:
    """What came of simulating removals, in the order in which they were tried."""

    removals: tuple[Removal, ...] = ()
    failed: tuple[Removal, ...] = ()
    skipped: tuple[str, ...] = ()
    """Not tried: there were enough by then, or no time was left."""


def simulate(
    scene: Scene, names: Sequence[str], enough: int, settings: Settings, budget: limits.Budget = UNLIMITED
) -> Trials:
    """Try to remove these nodes until enough can go.

    Nodes of groups that are all or nothing do not count: half of such a group is of no use.
    """
    snapshot, mark = scene.snapshot, scene.budgets.mark()
    scene.search.pointer = -1  # what comes out depends on no loop before
    try:
        with snapshot.scratch():
            if scene.recently_evicted:
                for row in scene.recently_evicted:
                    if snapshot.pods.node_rows[row] != dtypes.ABSENT:
                        snapshot.lift(row)
                placer, everywhere = Placer(snapshot, settings.filters), snapshot.nodes.alive.copy()
                searching.find_places(placer, scene.recently_evicted, scene.search, everywhere, all_or_nothing=True)
            return _try_all(scene, names, enough, settings, budget)
    finally:
        scene.budgets.undo(mark)
        scene.search.hints.drop_old()


def _try_all(scene: Scene, names: Sequence[str], enough: int, settings: Settings, budget: limits.Budget) -> Trials:
    destinations = _find_destinations(scene)
    simulator = RemovalSimulator(
        scene.snapshot, scene.judge, scene.budgets, destinations, scene.search, settings.filters, scene.expected
    )
    whole = WholeGroups(settings)
    removals: list[Removal] = []
    failed: list[Removal] = []
    counted = 0
    for tried, name in enumerate(names):
        if counted >= enough or budget.exhausted():
            return Trials(tuple(removals), tuple(failed), tuple(names[tried:]))
        removal = simulator.simulate(name)
        if removal.is_removable:
            removals.append(removal)
            counted += not whole.has(scene.group_of.get(name))
        else:
            failed.append(removal)
    return Trials(tuple(removals), tuple(failed))


def _find_destinations(scene: Scene) -> dtypes.Mask:
    """Bool (n_nodes): nodes that exist and stay may take pods."""
    rows, leaving = scene.snapshot.nodes.rows, scene.in_progress.nodes
    destinations = np.zeros(scene.snapshot.nodes.count, bool)
    destinations[[rows[name] for name in scene.names if name in rows and name not in leaving]] = True
    return destinations
