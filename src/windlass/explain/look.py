"""A look: one moment of a cluster, what would be decided then, and the loop's own view of it to ask more of.

The decision is the engine's. `Look.scene` sets up again what the loop looked at when it scaled up, with the engine's
own parts and in its order: nodes on their way are there, pods worth no node are not, pods that have a place have it.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from windlass.engine import facts, outlook, quarantine, readiness, taints
from windlass.engine.decide import Decision, decide
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation
from windlass.engine.scale_up import helping, pending, proposing, quotas, templates
from windlass.engine.settings import Settings
from windlass.engine.snapshot import Snapshot
from windlass.explain import choices


@dataclass(frozen=True, slots=True)
class Look:
    """What is seen, remembered and chosen at one time, and what is decided on it. Nothing of it is changed."""

    seen: Observation
    """Without what cannot be evaluated."""
    memory: Memory
    """As it was before the decision."""
    settings: Settings
    now_s: float
    decision: Decision
    past: Mapping[str, choices.Past] = field(default_factory=dict)
    """Why groups grew the last time, where someone remembers."""

    @property
    def snapshot(self) -> Snapshot:
        return self.seen.snapshot

    def find_pod(self, namespace: str, name: str) -> int | None:
        """The row of a pod; None if there is none of that name."""
        table = self.snapshot.pods
        rows = (row for row, other in enumerate(table.names) if other == name)
        return next((row for row in rows if table.kind(row).namespace == namespace), None)

    def exists(self, row: int) -> bool:
        """Is it the row of a pod that exists? Those that the loop imagines come after them, and are gone."""
        return row < len(self.snapshot.pods.names)

    @contextlib.contextmanager
    def scene(self) -> Iterator["Scene"]:
        """The cluster as the loop saw it when it scaled up; gone when this ends."""
        with quarantine.hidden(self.seen):
            yield from self._set_scene()

    def _set_scene(self) -> Iterator["Scene"]:
        snapshot, chosen = self.snapshot, self.settings
        made = find_templates(self)
        nodes = passing_nodes(self)
        found = self.decision.story.health
        repaired = self.decision.story.repairs
        groups = tuple(replace(one, target_size=repaired.sizes[one.id].target) for one in self.seen.groups)
        cutoff = chosen.pods.expendable_pods_priority_cutoff
        awaited = outlook.find_awaited(repaired.upcoming, found, made, nodes, self.seen, chosen)
        with outlook.look_ahead(snapshot, nodes, made, awaited, cutoff) as upcoming:
            waiting = pending.arrange(snapshot, chosen)
            rng = np.random.default_rng((chosen.seed, self.memory.durable.loop))
            search = self.memory.volatile.pending.go_on(None if chosen.deviations.tight_packing else rng)
            helping.settle_nominated(snapshot, waiting.nominated, cutoff)
            helpless = helping.find_helpless(snapshot, waiting, search, chosen, self.now_s)
            verdicts = outlook.verdicts_of(found)
            if repaired.uncreated:
                sizes = {one.id: one.target_size for one in groups}
                verdicts = outlook.judge_groups(found, sizes, found.memory.requests, chosen.health)
            seen = proposing.Groups(groups, made, outlook.find_unsafe(found, verdicts), upcoming)
            yield Scene(snapshot, seen, waiting, frozenset(helpless), _count_ready(nodes))


@dataclass(frozen=True, slots=True)
class Scene:
    """What scale-up looks at. True until the look's `scene` ends."""

    snapshot: Snapshot
    groups: proposing.Groups
    waiting: pending.Waiting
    helpless: frozenset[int]
    """Rows of the pods that no node has room for, and that a new node could help now."""
    ready_nodes: int
    """Counted against --max-nodes-total."""

    @property
    def nodes(self) -> list[tuple[facts.Node, str | None]]:
        """Nodes that exist or are on their way; quotas and --max-nodes-total count them."""
        table = self.snapshot.nodes
        upcoming = self.groups.upcoming
        return [
            (node, upcoming.get(node.name))
            for node, alive in zip(table.facts, table.alive.tolist(), strict=True)
            if alive
        ]


def take(seen: Observation, memory: Memory, settings: Settings, now_s: float) -> Look:
    """Look at a cluster: what would the loop do now?"""
    decision = decide(seen, memory, settings, now_s)
    return Look(decision.evaluated, memory, settings, now_s, decision)


def passing_nodes(look: Look) -> list[facts.Node]:
    """The nodes as the loop takes them: one with a startup taint, or without its devices, is not ready as it says."""
    passing = taints.read_settings(look.settings.templates)
    nodes = [passing.judge_starting(node) for node in look.seen.nodes]
    remembered = look.memory.volatile.templates
    return outlook.await_devices(nodes, look.seen.group_of_nodes(), look.seen.snapshot, remembered)


def find_templates(look: Look) -> dict[str, templates.GroupTemplate]:
    """What a new node of each group would look like, by group."""
    made, _ = outlook.find_templates(
        look.seen,
        [node for node in passing_nodes(look) if node.name not in look.seen.left_out.nodes],
        look.seen.group_of_nodes(),
        look.memory.volatile.templates,
        look.settings.templates,
        look.now_s,
    )
    return made


def track_quotas(look: Look, scene: Scene) -> quotas.Tracker:
    """What the cluster's limits leave."""
    own = {name: group.id for name, group in look.seen.group_of_nodes().items()}
    nodes = [(node, own.get(node.name, group)) for node, group in scene.nodes]
    counted = helping.count_with_gpus(look.seen)
    return quotas.track(quotas.Bound.MAXIMUM, [helping.maximum(look.settings), *look.seen.quotas], nodes, counted)


def _count_ready(nodes: list[facts.Node]) -> int:
    return sum(1 for node in nodes if readiness.judge(node).is_ready)
