"""Scale-down planner: which nodes are unneeded, and which of them may be deleted now.

    candidates ──▶ eligible ──▶ removable in simulation = unneeded ──▶ long enough, above minima ──▶ within budgets
      ordered      each alone   one after another                     one after another

`find_candidates` and `evaluate_candidates` run every loop; `select_nodes_to_delete` does not run during a cooldown.
"""

from collections.abc import Mapping, Sequence

from windlass.engine import time_limits
from windlass.engine.drainability.context import read_delete_options
from windlass.engine.model import scale_down_state
from windlass.engine.model.drainability import BlockingPodReason
from windlass.engine.model.scale_down_state import ScaleDownState, UnremovableNode, UnremovableReason
from windlass.engine.model.settings import Settings, for_group
from windlass.engine.scale_down import (
    candidates,
    cooldown,
    deletion_budgets,
    eligibility,
    pod_classification,
    simulation,
    unneeded,
)
from windlass.engine.scale_down.simulation import ScaleDownContext
from windlass.engine.scale_up import quotas


def find_candidates(
    scene: ScaleDownContext,
    state: ScaleDownState,
    activities: Mapping[str, scale_down_state.ScaleActivity],
    settings: Settings,
    now_s: float,
) -> list[str]:
    """The nodes that could go at all, in the order in which they are tried. `activities` goes by group id."""
    names = candidates.filter_above_min_size(scene.names, scene.group_of)
    names = candidates.filter_choosable(names, scene.group_of, settings.deviations)
    names = candidates.filter_removable_now(names, scene.group_of, scene.snapshot)
    occupancy = pod_classification.find_occupancy(scene.snapshot, read_delete_options(settings), now_s)
    names = candidates.sort_candidates(names, scene.snapshot, occupancy, state.previous)
    if not settings.scale_down.scale_down_delay_type_local:
        return names
    return cooldown.filter_cooling_down(names, scene.group_of, activities, settings.scale_down, now_s)


def evaluate_candidates(
    scene: ScaleDownContext,
    names: Sequence[str],
    state: ScaleDownState,
    settings: Settings,
    now_s: float,
    budget: time_limits.TimeBudget = simulation.UNLIMITED_BUDGET,
) -> scale_down_state.CandidateEvaluation:
    """Find out which candidates are unneeded."""
    tries_all = settings.deviations.try_all_candidates
    pace = state.pace if tries_all else state.pace.record_loop(now_s)
    remembers = not settings.deviations.recheck_unremovable_nodes
    rechecks = eligibility.prune_rechecks(state.rechecks, scene.snapshot, now_s) if remembers else {}
    leaving = scene.in_progress.nodes
    staying = [name for name in names if name not in leaving]
    checked = eligibility.check_eligibility(
        scene.snapshot, staying, scene.group_of, rechecks, settings, now_s, scene.gpu_label
    )
    eligible = checked.eligible
    unneeded_time_s = settings.groups.scale_down_unneeded_time_s
    parallelism = settings.scale_down.max_scale_down_parallelism
    enough = candidates.limit_simulations(len(state.since), parallelism, unneeded_time_s, pace)
    tried = simulation.simulate_removals(scene, eligible, len(eligible) if tries_all else enough, settings, budget)
    since = unneeded.update_unneeded_since(state.since, (removal.node_name for removal in tried.removals), now_s)
    if remembers:
        until_s = now_s + settings.scale_down.unremovable_node_recheck_timeout_s
        rechecks |= {removal.node_name: until_s for removal in tried.failed}
    after = ScaleDownState(since, frozenset(since), rechecks, pace)
    return scale_down_state.CandidateEvaluation(
        after, checked, tried, min(checked.changes_at_s, _find_change_s(scene, tried, after, settings, now_s))
    )


def _find_change_s(
    scene: ScaleDownContext,
    tried: scale_down_state.SimulatedRemovals,
    after: ScaleDownState,
    settings: Settings,
    now_s: float,
) -> float:
    """When trying again would end otherwise."""
    if tried.skipped:
        return now_s  # the next look goes on where this one ended
    times = [after.rechecks[one.node_name] for one in tried.failed if one.node_name in after.rechecks]
    for removal in tried.failed:
        blocking = removal.moves.blocking
        if blocking is not None and blocking.outcome.reason is BlockingPodReason.UNMOVABLE_KUBE_SYSTEM_POD:
            created_s = scene.snapshot.pod(blocking.pod).created_s
            times.append(created_s + settings.drain.blocking_system_pod_distruption_timeout_s)
    return min(times, default=float("inf"))


def select_nodes_to_delete(
    scene: ScaleDownContext,
    found: scale_down_state.CandidateEvaluation,
    minimum: quotas.QuotaTracker,
    settings: Settings,
    now_s: float,
) -> scale_down_state.NodesToDelete:
    """Pick those of the unneeded nodes that have been for long enough, and whose going leaves no minimum undercut."""
    removals, since, table = found.trials.removals, found.state.since, scene.snapshot.nodes
    groups = [scene.group_of.get(removal.node_name) for removal in removals]
    policies = {one.id: for_group(settings, one.options) for one in {g.id: g for g in groups if g is not None}.values()}
    nodes: list[unneeded.UnneededNode] = []
    for removal, group in zip(removals, groups, strict=True):
        node = table.facts[table.rows[removal.node_name]]
        wait_s = unneeded.find_unneeded_time_s(node, policies[group.id]) if group is not None else 0.0
        nodes.append(unneeded.UnneededNode(node, removal, since[node.name], group, wait_s))
    return select_among(nodes, scene, minimum, settings, now_s)


def select_among(
    nodes: Sequence[unneeded.UnneededNode],
    scene: ScaleDownContext,
    minimum: quotas.QuotaTracker,
    settings: Settings,
    now_s: float,
) -> scale_down_state.NodesToDelete:
    """Pick among unneeded nodes. Nodes whose pods must leave one after another come last: their budgets may recover."""
    removable = unneeded.find_removable_nodes(nodes, scene.count_being_deleted(), minimum, now_s)
    by_risk = sorted(removable.drain, key=lambda node: node.removal.is_risky)
    removals = [node.removal for node in (*removable.empty, *by_risk)]
    going, partial = deletion_budgets.split_atomic_groups(removals, scene.group_of, scene.count_registered(), settings)
    waiting = [
        UnremovableNode(one.node_name, UnremovableReason.BLOCKED_BY_ON_COMPLETION_POD, len(one.moves.on_completion))
        for one in going
        if one.moves.on_completion
    ]
    now = [one for one in going if not one.moves.on_completion]
    return scale_down_state.NodesToDelete(
        tuple(one for one in now if not one.moves.move),
        tuple(one for one in now if one.moves.move),
        (*removable.kept, *partial, *waiting),
        removable.changes_at_s,
    )
