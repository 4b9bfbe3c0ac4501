"""Best-effort-atomic-scale-up: room for all pods of a request that have none, asked for as a whole or not at all.

One group serves them all, with those similar to it; or, where none can and the user allows it, several groups together:
round after round what one group would bring is taken for granted, until every pod has a place. If one has none, nothing
was asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from windlass.engine import dtypes, placing, searching, time_limits
from windlass.engine.observation import Observation
from windlass.engine.scale_up import balancing, helping, proposing
from windlass.engine.settings import Settings
from windlass.engine.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Scene:
    """What a scale-up for a request looks at."""

    seen: Observation
    snapshot: Snapshot
    groups: proposing.Groups
    settings: Settings
    rng: np.random.Generator
    ledger: time_limits.Ledger

    def make_proposer(self) -> proposing.Proposer:
        return helping.make_proposer(self.seen, self.snapshot, self.groups, self.settings, self.rng, self.ledger)

    def alike(self, rows: Sequence[int]) -> list[proposing.Alike]:
        return helping.group_pods(self.snapshot, rows, self.settings, self.ledger)


def find_homeless(scene: Scene, rows: Sequence[int], search: searching.Search) -> list[int]:
    """Those of the pods that have no place on what there is; the others are put on nodes, in the caller's fork."""
    placer = placing.Placer(scene.snapshot, scene.settings.filters)
    return sorted(searching.find_places(placer, rows, search, scene.snapshot.nodes.alive.copy()).failed)


def propose(scene: Scene, rows: Sequence[int]) -> proposing.Proposal:
    """A scale-up that has room for all of these pods, or none."""
    alone = scene.make_proposer().propose(scene.alike(rows), whole=True)
    if alone.result is not proposing.Result.NO_OPTIONS or not scene.settings.deviations.atomic_across_groups:
        return alone
    together = _propose_together(scene, rows)
    return alone if together is None else together


def _propose_together(scene: Scene, rows: Sequence[int]) -> proposing.Proposal | None:
    scene.snapshot.fork()
    try:
        rounds = _find_rounds(scene, rows)
    finally:
        scene.snapshot.revert()
    if not rounds:
        return None
    increases = _merge([one for proposal in rounds for one in proposal.increases])
    limit = scene.settings.scale_up.max_nodes_per_scaleup
    if 0 < limit < sum(one.added for one in increases):
        return None
    return replace(rounds[-1], increases=increases, helped=tuple(rows), remaining=(), awaiting=())


def _find_rounds(scene: Scene, rows: Sequence[int]) -> list[proposing.Proposal]:
    """What to ask for, group after group, until all pods have a place; nothing if one has none."""
    rounds: list[proposing.Proposal] = []
    groups, left, proposer = scene.groups, list(rows), scene.make_proposer()
    while left:
        proposal = proposer.propose(scene.alike(left))
        if proposal.result is not proposing.Result.SUCCESSFUL or not proposal.increases:
            return []
        rounds.append(proposal)
        groups = helping.take_for_granted(scene.snapshot, groups, proposal, scene.settings)
        where = scene.snapshot.pods.node_rows[left]
        still = [row for row, node in zip(left, where.tolist(), strict=True) if node == dtypes.ABSENT]
        if len(still) == len(left):
            return []
        left = still
        proposer = replace(scene, groups=groups).make_proposer()
    return rounds


def _merge(increases: Sequence[balancing.Increase]) -> tuple[balancing.Increase, ...]:
    """One increase for each group, from where it stands to where it ends."""
    merged: dict[str, balancing.Increase] = {}
    for one in increases:
        first = merged.get(one.group.id, one)
        merged[one.group.id] = balancing.Increase(first.group, one.new_size)
    return tuple(merged.values())
