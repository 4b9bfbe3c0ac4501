"""Readings: what the gauges show after a decision, as values."""

from collections import Counter
from collections.abc import Iterable, Mapping

from windlass.autoscaler.report import dra, families
from windlass.autoscaler.report.families import PEER
from windlass.autoscaler.report.skipped_nodes import SkippedNodes
from windlass.engine import advance, backoff, decide, facts, taints
from windlass.engine.draining.story import ENDED
from windlass.engine.equivalence import MAX_GROUPS_PER_CONTROLLER
from windlass.engine.memory import DrainBegun
from windlass.engine.observation import Observation
from windlass.engine.repairs import NOT_ACTIONABLE
from windlass.engine.scale_down.removal import Unremovable
from windlass.engine.scale_up import pending
from windlass.engine.settings import Settings
from windlass.engine.story import ScaleDownResult, ScaleDownStory

Values = Mapping[tuple[str, ...], float]
"""By the values of the labels, in the family's order; `()` where it has none."""
Readings = Mapping[str, Values]
"""By the name of the metric. A metric that is not here keeps what it shows."""

NODE_STATES = ("ready", "unready", "notStarted", "suspended", "longUnregistered", "unregistered")
FILTER_OUT_SCHEDULABLE = "filter-out-pod-list-processor"


def read_settings(settings: Settings) -> Readings:
    """What does not change while the process runs."""
    limits = settings.limits
    cores, memory = limits.cores_total, limits.memory_total_bytes
    return _prefix(
        cpu_limits_cores={("minimum",): cores.min, ("maximum",): cores.max},
        memory_limits_bytes={("minimum",): memory.min, ("maximum",): memory.max},
        nodes_count={(state,): 0 for state in NODE_STATES},
    )


def read_decision(seen: Observation, decision: decide.Decision, settings: Settings, now_s: float) -> Readings:
    """What a loop found. Gauges of parts that it did not come to are left as they are."""
    return {
        **_read_cluster(seen, decision, settings, now_s),
        **_read_pods(seen, settings),
        **_read_scale_down(decision),
        **_read_groups(seen.groups, decision, now_s),
        **_read_drains(decision.memory.durable.drains.values()),
    }


def read_advance(advanced: advance.Advanced) -> Readings:
    """How drains stand."""
    phases = Counter(str(one.phase) for one in advanced.story if one.phase not in ENDED)
    return {
        families.DRAINS.name: {(phase,): float(count) for phase, count in phases.items()},
        **_read_drains(advanced.memory.durable.drains.values()),
    }


def _prefix(**values: Mapping[tuple[str, ...], float]) -> Readings:
    return {PEER + name: {labels: float(value) for labels, value in found.items()} for name, found in values.items()}


def _read_cluster(seen: Observation, decision: decide.Decision, settings: Settings, now_s: float) -> Readings:
    story = decision.story
    total, nodes = story.health.total, seen.nodes
    states = (
        total.ready, total.unready, total.not_started, total.suspended, total.long_unregistered, total.unregistered
    )  # fmt: skip
    # Counted by what they have: most nodes are like many others.
    staying = Counter(node.capacity for node in nodes if not (node.taints and taints.is_being_deleted(node, now_s)))
    amounts = [(dict(capacity), count) for capacity, count in staying.items()]
    most = sum(group.max_size for group in seen.groups if group.exists)
    limit = settings.limits.max_nodes_total
    passing = taints.read_settings(settings.templates, settings.deviations.readiness_taints)
    types = Counter(type_of_taint(taint.key, passing) for node in nodes for taint in node.taints)
    return _prefix(
        cluster_safe_to_autoscale={(): story.health.verdict.is_healthy and story.repairs.stop not in NOT_ACTIONABLE},
        nodes_count={(state,): len(names) for state, names in zip(NODE_STATES, states, strict=True)},
        node_groups_count={("autoscaled",): len(seen.groups), ("autoprovisioned",): 0},
        max_nodes_count={(): min(limit, most) if limit > 0 else most},
        cluster_cpu_current_cores={(): sum(-(-has.get(facts.CPU, 0) // 1000) * count for has, count in amounts)},
        cluster_memory_current_bytes={(): sum(has.get(facts.MEMORY, 0) * count for has, count in amounts)},
        node_taints_count={(name,): count for name, count in types.items()},
        dra_node_template_resources_mismatch=dra.count_mismatches(seen, decision),
    )


def type_of_taint(key: str, passing: taints.Passing) -> str:
    """Under what a taint is counted: keys that the autoscaler or Kubernetes gives a meaning by themselves."""
    old = taints.STARTUP_PREFIXES[0]
    if key.startswith(old):
        return old
    if key in taints.CONDITIONS or key in (taints.TO_BE_DELETED, taints.DELETION_CANDIDATE):
        return key
    if passing.is_startup(key):
        return "startup-taint"
    return "status-taint" if passing.is_status(key) else "other"


def _read_pods(seen: Observation, settings: Settings) -> Readings:
    waiting = pending.arrange(seen.snapshot, settings)
    rows = (*waiting.unschedulable, *waiting.unprocessed)
    overflowing = 0 if settings.deviations.group_pods_by_likeness else _count_overflowing(seen, rows)
    return _prefix(
        unschedulable_pods_count={
            ("unschedulable",): len(waiting.unschedulable),
            ("scheduler_unprocessed",): len(waiting.unprocessed),
        },
        skipped_pods_count={(FILTER_OUT_SCHEDULABLE,): 0},
        overflowing_controllers_count={(): overflowing},
    )


def _count_overflowing(seen: Observation, rows: Iterable[int]) -> int:
    table = seen.snapshot.pods
    kinds: dict[str, set[tuple[str, tuple[str, ...]]]] = {}
    for row in rows:
        kind = table.kind(row)
        if kind.owner is not None:
            kinds.setdefault(kind.owner.uid, set()).add((kind.digest, table.labels[row]))
    return sum(1 for found in kinds.values() if len(found) > MAX_GROUPS_PER_CONTROLLER)


def _read_scale_down(decision: decide.Decision) -> Readings:
    story = decision.story.scale_down
    if story.look is None:
        return {}
    return _prefix(
        unneeded_nodes_count={(): len(decision.memory.durable.scale_down.since)},
        unremovable_nodes_count={(str(reason),): count for reason, count in count_kept(story).items()},
        scale_down_in_cooldown={(): story.result is ScaleDownResult.IN_COOLDOWN},
    )


def read_skipped_nodes(skipped: SkippedNodes) -> Readings:
    return _prefix(max_node_skip_eval_duration_seconds={(): skipped.longest_s})


def count_kept(story: ScaleDownStory) -> Counter[Unremovable]:
    """How many nodes cannot go, by reason."""
    counts: Counter[Unremovable] = Counter()
    if story.look is not None:
        counts.update(reason for reason in story.look.eligibility.reasons if reason is not None)
        counts.update(one.reason for one in story.look.trials.failed if one.reason is not None)
    if story.choice is not None:
        counts.update(one.reason for one in story.choice.kept)
    return counts


def _read_groups(groups: Iterable[facts.NodeGroup], decision: decide.Decision, now_s: float) -> Readings:
    existing = [group for group in groups if group.exists]
    backoffs = decision.memory.durable.health.backoffs
    waiting: dict[tuple[str, ...], float] = {}
    for group in existing:
        waiting[group.id, ""] = 0.0
        if group.id in backoffs:
            code = backoffs[group.id].error.code or "unknown"
            waiting[group.id, code] = float(backoff.find(backoffs, group.id, now_s) is not None)
    return _prefix(
        node_group_min_count={(group.id,): group.min_size for group in existing},
        node_group_max_count={(group.id,): group.max_size for group in existing},
        node_group_target_count={(group.id,): group.target_size for group in existing},
        node_group_healthiness={(group.id,): group.id not in decision.story.unhealthy for group in existing},
        node_group_backoff_status=waiting,
    )


def _read_drains(drains: Iterable[DrainBegun]) -> Readings:
    """Nodes that only wait for others of their group."""
    progress = [drain.progress for drain in drains]
    gathered = [one for one in progress if one.ready_s is not None and one.deleting_s is None and one.failure is None]
    return _prefix(pending_node_deletions={(): len(gathered)})
