"""Planning a scale-down: which nodes are unneeded, and which of them may go now.

    candidates ──▶ eligible ──▶ removable in trials = unneeded ──▶ long enough, above minima ──▶ within budgets
      in order      each alone   one after another                  one after another

`find_candidates` and `look` are done every loop; `choose` is left out while scale-down pauses; what `deletion_budgets`
lets through of the choice is carried out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.engine.drain.outcome import Reason
from windlass.engine.estimator import limits
from windlass.engine.scale_down import candidates, cooldown, eligibility, trials, unneeded, whole_groups
from windlass.engine.scale_down.kept import Kept
from windlass.engine.scale_down.removal import Removal, Unremovable
from windlass.engine.scale_down.scene import Scene, State, read_drain_options
from windlass.engine.scale_up import quotas
from windlass.engine.settings import Settings, for_group


def find_candidates(
    scene: Scene, state: State, activities: Mapping[str, cooldown.Activity], settings: Settings, now_s: float
) -> list[str]:
    """The nodes that could go at all, in the order in which they are tried. `activities` goes by group id."""
    names = candidates.above_min(scene.names, scene.group_of)
    names = candidates.leave_out_unchosen(names, scene.group_of, settings.deviations)
    names = candidates.leave_out_kept(names, scene.group_of, scene.snapshot)
    occupancy = candidates.find_occupancy(scene.snapshot, read_drain_options(settings), now_s)
    names = candidates.sort(names, scene.snapshot, occupancy, state.previous)
    if not settings.scale_down.scale_down_delay_type_local:
        return names
    return cooldown.leave_out(names, scene.group_of, activities, settings.scale_down, now_s)


# ── Unneeded nodes ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the candidates found."""

    state: State
    eligibility: eligibility.Eligibility
    trials: trials.Trials
    changes_at_s: float
    """The earliest time at which looking again at the same would find something else."""

    @property
    def kept(self) -> list[Kept]:
        """The candidates that are needed, and why."""
        failed = [Kept(one.node_name, one.reason, removal=one) for one in self.trials.failed if one.reason is not None]
        return [*self.eligibility.kept, *failed]


def look(
    scene: Scene,
    names: Sequence[str],
    state: State,
    settings: Settings,
    now_s: float,
    budget: limits.Budget = trials.UNLIMITED,
) -> Look:
    """Find out which candidates are unneeded."""
    tries_all = settings.deviations.try_all_candidates
    pace = state.pace if tries_all else state.pace.look(now_s)
    remembers = not settings.deviations.recheck_unremovable_nodes
    rechecks = eligibility.prune(state.rechecks, scene.snapshot, now_s) if remembers else {}
    leaving = scene.in_progress.nodes
    staying = [name for name in names if name not in leaving]
    checked = eligibility.check(scene.snapshot, staying, scene.group_of, rechecks, settings, now_s, scene.gpu_label)
    eligible = checked.eligible
    unneeded_time_s = settings.groups.scale_down_unneeded_time_s
    parallelism = settings.scale_down.max_scale_down_parallelism
    enough = candidates.limit_trials(len(state.since), parallelism, unneeded_time_s, pace)
    tried = trials.simulate(scene, eligible, len(eligible) if tries_all else enough, settings, budget)
    since = unneeded.update(state.since, (removal.node_name for removal in tried.removals), now_s)
    if remembers:
        until_s = now_s + settings.scale_down.unremovable_node_recheck_timeout_s
        rechecks |= {removal.node_name: until_s for removal in tried.failed}
    after = State(since, frozenset(since), rechecks, pace)
    return Look(after, checked, tried, min(checked.changes_at_s, _find_change_s(scene, tried, after, settings, now_s)))


def _find_change_s(scene: Scene, tried: trials.Trials, after: State, settings: Settings, now_s: float) -> float:
    """When trying again would end otherwise."""
    if tried.skipped:
        return now_s  # the next look goes on where this one ended
    times = [after.rechecks[one.node_name] for one in tried.failed if one.node_name in after.rechecks]
    for removal in tried.failed:
        blocking = removal.moves.blocking
        if blocking is not None and blocking.outcome.reason is Reason.UNMOVABLE_KUBE_SYSTEM_POD:
            created_s = scene.snapshot.pod(blocking.pod).created_s
            times.append(created_s + settings.drain.blocking_system_pod_distruption_timeout_s)
    return min(times, default=float("inf"))


# ── Nodes that may go ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Choice:
    """The nodes that may go now, in the order in which they should, and why other unneeded nodes may not."""

    empty: tuple[Removal, ...] = ()
    drain: tuple[Removal, ...] = ()
    kept: tuple[Kept, ...] = ()
    changes_at_s: float = float("inf")
    """The earliest time at which more nodes may go."""


def choose(scene: Scene, found: Look, minimum: quotas.Tracker, settings: Settings, now_s: float) -> Choice:
    """Pick those of the unneeded nodes that have been for long enough, and whose going leaves no minimum undercut."""
    removals, since, table = found.trials.removals, found.state.since, scene.snapshot.nodes
    groups = [scene.group_of.get(removal.node_name) for removal in removals]
    policies = {one.id: for_group(settings, one.options) for one in {g.id: g for g in groups if g is not None}.values()}
    nodes: list[unneeded.Unneeded] = []
    for removal, group in zip(removals, groups, strict=True):
        node = table.facts[table.rows[removal.node_name]]
        wait_s = unneeded.find_wait_s(node, policies[group.id]) if group is not None else 0.0
        nodes.append(unneeded.Unneeded(node, removal, since[node.name], group, wait_s))
    return choose_among(nodes, scene, minimum, settings, now_s)


def choose_among(
    nodes: Sequence[unneeded.Unneeded], scene: Scene, minimum: quotas.Tracker, settings: Settings, now_s: float
) -> Choice:
    """Pick among unneeded nodes. Nodes whose pods must leave one after another come last: their budgets may recover."""
    removable = unneeded.find_removable(nodes, scene.count_being_deleted(), minimum, now_s)
    by_risk = sorted(removable.drain, key=lambda node: node.removal.is_risky)
    removals = [node.removal for node in (*removable.empty, *by_risk)]
    going, partial = whole_groups.split(removals, scene.group_of, scene.count_registered(), settings)
    waiting = [
        Kept(one.node_name, Unremovable.BLOCKED_BY_ON_COMPLETION_POD, len(one.moves.on_completion))
        for one in going
        if one.moves.on_completion
    ]
    now = [one for one in going if not one.moves.on_completion]
    return Choice(
        tuple(one for one in now if not one.moves.move),
        tuple(one for one in now if one.moves.move),
        (*removable.kept, *partial, *waiting),
        removable.changes_at_s,
    )
