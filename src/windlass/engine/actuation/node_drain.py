"""Node drains: one node being drained, the context that drain steps share, and the start of drains."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from windlass.engine import taints
from windlass.engine.drainability import context
from windlass.engine.drainability.context import read_machine_drain_rules
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.drains import (
    ENDED_PHASES,
    DrainFailure,
    DrainFailureReason,
    DrainPhase,
    DrainProgress,
    DrainStatus,
    TaintLatency,
)
from windlass.engine.model.durable_memory import DurableMemory, StartedDrain
from windlass.engine.model.settings import Settings, for_group
from windlass.engine.observation import Observation
from windlass.engine.snapshot.cluster_snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ActuationContext:
    """What all steps of one call look at."""

    observation: Observation
    settings: Settings
    now_s: float
    groups: Mapping[str, node_groups.NodeGroup]
    refused_taints: Mapping[str, str]
    """By node: what was said. The same of deletions; of evictions by pod."""
    refused_evictions: Mapping[str, str]
    refused_deletions: Mapping[str, str]
    held_since: Mapping[str, float] = field(default_factory=dict)
    """Groups that must be left alone, by id: since when, as far as that is remembered."""
    taint_latencies: Sequence[TaintLatency] = ()
    """Measured by earlier calls."""
    drain_rules: context.DrainRules = context.NO_DRAIN_RULES

    def is_atomic(self, group: str) -> bool:
        """Is the group all or nothing?"""
        known = self.groups.get(group)
        return known is not None and for_group(self.settings, known.options).zero_or_max


def read_context(
    observation: Observation, settings: Settings, now_s: float, durable: DurableMemory
) -> ActuationContext:
    """The context of a step: the observation, with the failures of the last plan by node and pod."""
    marks: dict[str, str] = {}
    evictions: dict[str, str] = {}
    deletions: dict[str, str] = {}
    for instruction, message in observation.failed.items():
        match instruction:
            case plan.SetTaint(node=node, key=taints.TO_BE_DELETED_KEY) | plan.Cordon(node=node, cordoned=True):
                marks[node] = message
            case plan.Evict():
                evictions[instruction.identity] = message
            case plan.DeleteNode(node=node):
                deletions[node] = message
    groups = {group.id: group for group in observation.groups}
    return ActuationContext(
        observation,
        settings,
        now_s,
        groups,
        marks,
        evictions,
        deletions,
        durable.held,
        durable.taint_latencies,
        read_machine_drain_rules(observation, settings),
    )


@dataclass(slots=True)
class NodeDrain:
    """One drain during a step of the drain loop. Open until a step sets its phase: waiting, failed or ended."""

    name: str
    begun: StartedDrain
    node: facts.Node | None
    """None where it is gone."""
    now_s: float
    progress: DrainProgress
    instructions: list[plan.Instruction] = field(default_factory=list)
    status: DrainStatus | None = None

    @property
    def is_open(self) -> bool:
        return self.status is None and self.progress.failure is None

    @property
    def has_ended(self) -> bool:
        return self.status is not None and self.status.phase in ENDED_PHASES

    @property
    def is_tainted(self) -> bool:
        return self.node is not None and taints.has_taint(self.node, taints.TO_BE_DELETED_KEY)

    @property
    def has_failed_now(self) -> bool:
        failure = self.progress.failure
        return failure is not None and failure is not self.begun.progress.failure

    def update(self, **changes: Any) -> None:
        """Remember something about it."""
        self.progress = replace(self.progress, **changes)

    def wait(self, phase: DrainPhase, until_s: float = float("inf"), waits_for: Sequence[str] = ()) -> None:
        """Rest until then, or until something changes."""
        failure = self.progress.failure
        self.status = DrainStatus(self.name, self.begun.group, phase, until_s, tuple(waits_for), failure)

    def end(self, phase: DrainPhase) -> None:
        """Forget it."""
        self.status = DrainStatus(self.name, self.begun.group, phase, failure=self.progress.failure)

    def fail(self, reason: DrainFailureReason, *details: str) -> None:
        """Give it up. Nothing else is done to it but undoing."""
        self.update(failure=DrainFailure(reason, self.now_s, details))
        self.instructions.clear()
        self.status = None


def list_node_drains(started: Mapping[str, StartedDrain], context: ActuationContext) -> list[NodeDrain]:
    """All drains, oldest first. Sorted, because a decoded mapping may have lost its order."""
    table, now_s = context.observation.snapshot.nodes, context.now_s
    drains = []
    for name in sorted(started, key=lambda name: (started[name].since_s, name)):
        row = table.rows.get(name)
        node = None if row is None or not table.alive[row] else table.facts[row]
        drains.append(NodeDrain(name, started[name], node, now_s, started[name].progress))
    return drains


def find_open_drains(drains: Sequence[NodeDrain]) -> Iterator[tuple[NodeDrain, facts.Node]]:
    """The drains that no step has settled yet, with their nodes."""
    for drain in drains:
        if drain.is_open and drain.node is not None:
            yield drain, drain.node


@dataclass(frozen=True, slots=True)
class MovedPods:
    """The pods of nodes that leave: those of node i are at `ends[i - 1]` to `ends[i]`."""

    uids: list[str]
    keys: tuple[str, ...]
    places: list[str | None]
    ends: list[int]


def start_drains(
    snapshot: Snapshot,
    moves: Mapping[str, Sequence[int]],
    real: int,
    places: Mapping[str, str],
    group_of: Mapping[str, node_groups.NodeGroup],
    now_s: float,
) -> Iterator[tuple[plan.Drain, StartedDrain]]:
    """The drains of nodes, to be ordered and to be remembered. `moves` gives the rows of the pods to be moved by node.

    Only the first `real` rows are pods that exist, and can be evicted. `places` is by uid.
    """
    leaving = _find_moved_pods(snapshot, moves, real, places)
    start = 0
    for (name, moved), end in zip(moves.items(), leaving.ends, strict=True):
        pairs = zip(leaving.uids[start:end], leaving.places[start:end], strict=True)
        there = {uid: place for uid, place in pairs if place is not None}
        node = snapshot.nodes.facts[snapshot.nodes.rows[name]]
        was_cordoned = node.unschedulable and not taints.has_taint(node, taints.TO_BE_DELETED_KEY)
        begun = StartedDrain(group_of[name].id, now_s, not moved, there, node.uid, was_cordoned)
        yield plan.Drain(name, begun.group, leaving.keys[start:end]), begun
        start = end


def _find_moved_pods(
    snapshot: Snapshot, moves: Mapping[str, Sequence[int]], real: int, places: Mapping[str, str]
) -> MovedPods:
    """Pods of nodes tried before it may have gone through a node in thought: they are none of its own."""
    homes = [snapshot.nodes.rows[name] for name in moves]
    lengths = [len(moved) for moved in moves.values()]
    rows = np.fromiter(chain.from_iterable(moves.values()), np.intp, sum(lengths))
    is_own = (snapshot.pods.node_rows[rows] == np.repeat(homes, lengths)) & (rows < real)
    own = rows[is_own].tolist()
    uids = list(map(snapshot.pods.uids.__getitem__, own))
    ends = np.append(0, np.cumsum(is_own))[np.cumsum(lengths)].tolist()
    return MovedPods(uids, snapshot.pods.keys(own), list(map(places.get, uids)), ends)
