"""Scale-down planner: which nodes are unneeded, and which of them may be deleted now.

    candidates ──▶ eligible ──▶ removable in simulation = unneeded ──▶ long enough, above minima ──▶ within budgets
      ordered      each alone   one after another                     one after another

`find_candidates` and `evaluate_candidates` run every loop; `select_nodes_to_delete` does not run during a cooldown.

Recently evicted pods: terminating pods that their controllers will recreate, and that need room elsewhere.

Where it is known how many pods a controller lacks, no more than that many of its evicted pods are counted; otherwise
all are. Cluster Autoscaler's planner injects the same pods, but forgets an eviction at once.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from windlass.engine import resource_quotas, time_limits
from windlass.engine.drainability.context import read_delete_options
from windlass.engine.model import arrays, facts, scale_down_state, well_known
from windlass.engine.model.drainability import BlockingPodReason, ControllerKey
from windlass.engine.model.scale_down_state import ScaleDownState, UnremovableNode, UnremovableReason
from windlass.engine.model.settings import Settings, for_group
from windlass.engine.scale_down import (
    candidates,
    cooldown,
    deletion_budgets,
    eligibility,
    removal_simulator,
    unneeded,
    utilization,
)
from windlass.engine.scale_down.removal_simulator import ScaleDownContext
from windlass.engine.snapshot.cluster_snapshot import Snapshot


def find_candidates(
    context: ScaleDownContext,
    state: ScaleDownState,
    activities: Mapping[str, scale_down_state.ScaleActivity],
    settings: Settings,
    now_s: float,
) -> list[str]:
    """The scale-down candidates, in order of simulation. `activities`: by group id."""
    names = candidates.filter_above_min_size(context.names, context.group_of)
    names = candidates.filter_choosable(names, context.group_of, settings.deviations)
    names = candidates.filter_removable_now(names, context.group_of, context.snapshot)
    occupancy = utilization.find_occupancy(context.snapshot, read_delete_options(settings), now_s)
    names = candidates.sort_candidates(names, context.snapshot, occupancy, state.previous)
    if not settings.scale_down.scale_down_delay_type_local:
        return names
    return cooldown.filter_cooling_down(names, context.group_of, activities, settings.scale_down, now_s)


def evaluate_candidates(
    context: ScaleDownContext,
    names: Sequence[str],
    state: ScaleDownState,
    settings: Settings,
    now_s: float,
    budget: time_limits.TimeBudget = removal_simulator.UNLIMITED_BUDGET,
) -> scale_down_state.CandidateEvaluation:
    """Evaluate which candidates are unneeded."""
    tries_all = settings.deviations.try_all_candidates
    pace = state.pace if tries_all else state.pace.record_loop(now_s)
    remembers = not settings.deviations.recheck_unremovable_nodes
    rechecks = eligibility.prune_rechecks(state.rechecks, context.snapshot, now_s) if remembers else {}
    leaving = context.in_progress.nodes
    staying = [name for name in names if name not in leaving]
    checked = eligibility.check_eligibility(
        context.snapshot, staying, context.group_of, rechecks, settings, now_s, context.gpu_label
    )
    eligible = checked.eligible
    unneeded_time_s = settings.groups.scale_down_unneeded_time_s
    parallelism = settings.scale_down.max_scale_down_parallelism
    enough = candidates.limit_simulations(len(state.since), parallelism, unneeded_time_s, pace)
    tried = removal_simulator.simulate_removals(
        context, eligible, len(eligible) if tries_all else enough, settings, budget
    )
    since = unneeded.update_unneeded_since(state.since, (removal.node_name for removal in tried.removals), now_s)
    if remembers:
        until_s = now_s + settings.scale_down.unremovable_node_recheck_timeout_s
        rechecks |= {removal.node_name: until_s for removal in tried.failed}
    after = ScaleDownState(since, frozenset(since), rechecks, pace)
    return scale_down_state.CandidateEvaluation(
        after, checked, tried, min(checked.changes_at_s, _find_change_s(context, tried, after, settings, now_s))
    )


def _find_change_s(
    context: ScaleDownContext,
    tried: scale_down_state.SimulatedRemovals,
    after: ScaleDownState,
    settings: Settings,
    now_s: float,
) -> float:
    """When a new evaluation of the same input would differ."""
    if tried.skipped:
        return now_s  # the next evaluation continues with the skipped candidates
    times = [
        after.rechecks[node_removal.node_name]
        for node_removal in tried.failed
        if node_removal.node_name in after.rechecks
    ]
    for removal in tried.failed:
        blocking = removal.moves.blocking
        if blocking is not None and blocking.outcome.reason is BlockingPodReason.UNMOVABLE_KUBE_SYSTEM_POD:
            created_s = context.snapshot.pod(blocking.pod).created_s
            times.append(created_s + settings.drain.blocking_system_pod_distruption_timeout_s)
    return min(times, default=float("inf"))


def select_nodes_to_delete(
    context: ScaleDownContext,
    evaluation: scale_down_state.CandidateEvaluation,
    minimum: resource_quotas.QuotaTracker,
    settings: Settings,
    now_s: float,
) -> scale_down_state.NodesToDelete:
    """Select the nodes that were unneeded for long enough and whose deletion violates no minimum."""
    removals, since, table = evaluation.trials.removals, evaluation.state.since, context.snapshot.nodes
    groups = [context.group_of.get(removal.node_name) for removal in removals]
    policies = {
        node_group.id: for_group(settings, node_group.options)
        for node_group in {g.id: g for g in groups if g is not None}.values()
    }
    nodes: list[unneeded.UnneededNode] = []
    for removal, group in zip(removals, groups, strict=True):
        node = table.facts[table.rows[removal.node_name]]
        wait_s = unneeded.find_unneeded_time_s(node, policies[group.id]) if group is not None else 0.0
        nodes.append(unneeded.UnneededNode(node, removal, since[node.name], group, wait_s))
    return select_among(nodes, context, minimum, settings, now_s)


def select_among(
    nodes: Sequence[unneeded.UnneededNode],
    context: ScaleDownContext,
    minimum: resource_quotas.QuotaTracker,
    settings: Settings,
    now_s: float,
) -> scale_down_state.NodesToDelete:
    """Select among unneeded nodes. Nodes whose pods need several rounds of evictions come last."""
    removable = unneeded.find_removable_nodes(nodes, context.count_being_deleted(), minimum, now_s)
    by_risk = sorted(removable.drain, key=lambda node: node.removal.is_risky)
    removals = [node.removal for node in (*removable.empty, *by_risk)]
    going, partial = deletion_budgets.split_atomic_groups(
        removals, context.group_of, context.count_registered(), settings
    )
    waiting = [
        UnremovableNode(
            removal.node_name, UnremovableReason.BLOCKED_BY_ON_COMPLETION_POD, len(removal.moves.on_completion)
        )
        for removal in going
        if removal.moves.on_completion
    ]
    now = [node_removal for node_removal in going if not node_removal.moves.on_completion]
    return scale_down_state.NodesToDelete(
        tuple(candidate for candidate in now if not candidate.moves.move),
        tuple(candidate for candidate in now if candidate.moves.move),
        (*removable.kept, *partial, *waiting),
        removable.changes_at_s,
    )


_COUNTING = ("StatefulSet", "Job", "ReplicaSet", "ReplicationController")
"""Kinds of controllers with a replica count."""

ControllersByKey = Mapping[ControllerKey, facts.Controller]


def find_terminating_rows(snapshot: Snapshot, node_names: Iterable[str]) -> list[int]:
    """Rows of the terminating pods on these nodes."""
    times, rows = snapshot.pods.times, list[int]()
    for name in node_names:
        node_row = snapshot.nodes.rows.get(name)
        if node_row is not None and snapshot.nodes.alive[node_row]:
            rows += (row for row in snapshot.pods_on(node_row) if times.get(row, (None, None))[0] is not None)
    return rows


def count_missing_replicas(
    snapshot: Snapshot, rows: Iterable[int], controllers: ControllersByKey
) -> dict[ControllerKey, int]:
    """Missing replicas by controller: desired minus existing pods, terminating ones excluded."""
    table = snapshot.pods
    owners = {key for row in rows if (key := _find_owner(table.fact(row, "", timeless=True))) in controllers}
    if not owners:
        return {}
    counted = np.flatnonzero(table.shape_ids != arrays.ABSENT)
    leaving = [row for row, (deleted_s, _) in table.times.items() if deleted_s is not None]
    counted = counted[~np.isin(counted, leaving)]
    counts = np.bincount(table.template_ids[counted], minlength=len(table.template_keys)).tolist()
    missing = {key: controllers[key].replicas for key in owners if key is not None}
    for kind, count in zip(table.template_keys, counts, strict=True):
        key = None if kind.owner is None else (kind.owner.kind, kind.namespace, kind.owner.name)
        if key is not None and key in missing:
            missing[key] -= count
    return missing


def find_rows_to_recreate(
    snapshot: Snapshot, evicted: Iterable[int], missing: Mapping[ControllerKey, int]
) -> list[int]:
    """Rows of evicted pods that are not recreated yet. `missing`: missing replicas by controller."""
    remaining, rows = dict(missing), list[int]()
    for row in evicted:
        pod = snapshot.pods.fact(row, "", timeless=True)
        if not well_known.is_recreatable(pod):
            continue
        key = _find_owner(pod)
        if key is not None and key in remaining:
            remaining[key] -= 1
            if remaining[key] < 0:
                continue
        rows.append(row)
    return rows


def _find_owner(pod: facts.Pod) -> ControllerKey | None:
    """The pod's controller, if it has a replica count."""
    if pod.owner is None or pod.owner.kind not in _COUNTING:
        return None
    return (pod.owner.kind, pod.namespace, pod.owner.name)
