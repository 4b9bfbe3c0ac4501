"""A look: one moment of a cluster, what would be decided then, and the loop's own view of it to ask more of.

The decision is the engine's. `Look.scene` sets up again what the loop looked at when it scaled up, with the engine's
own parts and in its order: nodes on their way are there, pods worth no node are not, pods that have a place have it.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from windlass.engine import dtypes, facts, health, readiness, repairs, taints
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

    @contextlib.contextmanager
    def scene(self) -> Iterator["Scene"]:
        """The cluster as the loop saw it when it scaled up; gone when this ends."""
        snapshot, chosen = self.snapshot, self.settings
        made = find_templates(self)
        nodes = passing_nodes(self)
        found = self.decision.story.health
        repaired = self.decision.story.repairs
        groups = tuple(replace(one, target_size=repaired.sizes[one.id].target) for one in self.seen.groups)
        snapshot.fork()
        try:
            for node in nodes:
                if node is not snapshot.nodes.facts[snapshot.nodes.rows[node.name]]:
                    snapshot.restate(snapshot.nodes.rows[node.name], node)
            helping.drop_expendable(snapshot, chosen.pods.expendable_pods_priority_cutoff)
            upcoming = _add_upcoming(snapshot, made, repaired.upcoming)
            waiting = pending.arrange(
                snapshot, chosen.pods.bypassed_scheduler_names, chosen.pods.allowed_scheduler_names
            )
            rng = np.random.default_rng((chosen.seed, self.memory.durable.loop))
            search = self.memory.volatile.pending.go_on(None if chosen.deviations.tight_packing else rng)
            cutoff = chosen.pods.expendable_pods_priority_cutoff
            helping.settle_nominated(snapshot, waiting.nominated, cutoff)
            helpless = helping.find_helpless(snapshot, waiting, search, chosen, self.now_s)
            unsafe = _find_unsafe(found, repaired, groups, chosen)
            seen = proposing.Groups(groups, made, unsafe, upcoming)
            yield Scene(snapshot, seen, waiting, frozenset(helpless), _count_ready(nodes))
        finally:
            snapshot.revert()


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
    return Look(seen, memory, settings, now_s, decide(seen, memory, settings, now_s))


def passing_nodes(look: Look) -> list[facts.Node]:
    """The nodes as the loop takes them: one with a startup taint is not ready, whatever it says."""
    passing = taints.read_settings(look.settings.templates)
    return [passing.judge_starting(node) for node in look.seen.nodes]


def find_templates(look: Look) -> dict[str, templates.GroupTemplate]:
    """What a new node of each group would look like, by group."""
    snapshot, chosen = look.snapshot, look.settings.templates
    passing = taints.read_settings(chosen)
    made, _ = templates.find_templates(
        look.seen.groups,
        passing_nodes(look),
        look.seen.group_of_nodes(),
        lambda name: [snapshot.pod(row) for row in snapshot.pods_on(snapshot.nodes.rows[name])],
        look.seen.daemon_sets,
        look.memory.volatile.templates,
        lambda node: taints.sanitize(node, passing),
        chosen.force_ds,
        look.now_s,
    )
    for template in made.values():
        for pod in template.pods:
            snapshot.shape_of(pod)  # inside a fork no selector may appear that nobody knew
    return made


def track_quotas(look: Look, scene: Scene) -> quotas.Tracker:
    """What the cluster's limits leave."""
    own = {name: group.id for name, group in look.seen.group_of_nodes().items()}
    nodes = [(node, own.get(node.name, group)) for node, group in scene.nodes]
    counted = helping.count_with_gpus(look.seen)
    return quotas.track(quotas.Bound.MAXIMUM, [helping.maximum(look.settings)], nodes, counted)


def _count_ready(nodes: list[facts.Node]) -> int:
    return sum(1 for node in nodes if readiness.judge(node).is_ready)


def _add_upcoming(
    snapshot: Snapshot, made: Mapping[str, templates.GroupTemplate], upcoming: Mapping[str, health.Upcoming]
) -> dict[str, str]:
    """Nodes that are on their way, as their template says; (group by name)."""
    names: dict[str, str] = {}
    for group, one in upcoming.items():
        for name in one.not_started:
            snapshot.retire(snapshot.nodes.rows[name])
        if group not in made:
            continue
        fresh = [f"{made[group].node.name}-upcoming-{number}" for number in range(one.nodes)]
        rows = np.array(snapshot.append(made[group].node, fresh))
        for pod in made[group].pods:
            snapshot.place_many(snapshot.shape_of(pod), rows, np.ones(len(rows), dtypes.RESOURCE))
        names |= dict.fromkeys(fresh, group)
    return names


def _find_unsafe(
    found: health.Health, repaired: repairs.Repairs, groups: tuple[facts.NodeGroup, ...], chosen: Settings
) -> dict[str, proposing.Skip]:
    """Groups that must not grow now; judged by the sizes that repairs lead to, as the loop does after some."""
    verdicts = {group: each.verdict for group, each in found.groups.items()}
    if repaired.uncreated:
        seen = {group: each.readiness for group, each in found.groups.items() if each.readiness is not None}
        ranges = health.find_ranges({one.id: one.target_size for one in groups}, seen, found.memory.requests)
        verdicts = {one.id: health.judge_group(seen.get(one.id), ranges[one.id], chosen.health) for one in groups}
    unsafe: dict[str, proposing.Skip] = {}
    for group, each in found.groups.items():
        if not verdicts[group].is_healthy:
            unsafe[group] = proposing.Skip.NOT_READY
        elif each.backoff is not None:
            unsafe[group] = proposing.Skip.BACKOFF
    return unsafe
