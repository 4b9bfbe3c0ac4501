"""Who leaves: the pods of a node that must be gone before it goes, and those that are merely asked to end in order.

Pods that belong to the node (static pods, DaemonSets') end with it, and so do pods that are worth no node. Pods of
DaemonSets are asked to leave where the user wants it, and not waited for; but with --drain-priority-config they have
their turns like all others. A pod that Cluster API's label, or a MachineDrainRule, lets end with its node is neither
asked nor waited for.
"""

from dataclasses import dataclass

from windlass.engine import facts, pod_traits, taints
from windlass.engine.draining.case import Case, Situation
from windlass.engine.draining.progress import Evicting
from windlass.engine.pods import identity
from windlass.engine.scale_down import daemonset_eviction
from windlass.engine.scale_up import pending

_MARK = taints.to_be_deleted(0.0)


def find_rows(name: str, situation: Situation) -> list[int]:
    """Rows of the pods on a node that must leave it."""
    snapshot = situation.seen.snapshot
    return [row for row in snapshot.pods_on(snapshot.nodes.rows[name]) if _must_leave(snapshot.pod(row), situation)]


def find_uids(name: str, situation: Situation) -> frozenset[str]:
    """The same pods by uid."""
    return frozenset(identity(situation.seen.snapshot.pod(row)) for row in find_rows(name, situation))


def _must_leave(pod: facts.Pod, situation: Situation) -> bool:
    return _is_worth_a_node(pod, situation) and not pod_traits.is_mirror(pod) and not pod_traits.is_daemonset(pod)


def _is_worth_a_node(pod: facts.Pod, situation: Situation) -> bool:
    return not pending.is_expendable(pod.spec, situation.settings.pods.expendable_pods_priority_cutoff)


@dataclass(frozen=True, slots=True)
class Left:
    """The pods that are left on a node."""

    holding: tuple[facts.Pod, ...] = ()
    """Those that must be gone before the node goes."""
    agents: tuple[facts.Pod, ...] = ()
    """Those of DaemonSets that are asked to leave and not waited for."""
    late: tuple[facts.Pod, ...] = ()
    """Those that came after the node was checked. One that tolerates the mark is none of them: it knew what it came
    to, and would come back if it were made to leave."""


def find_left(case: Case, evicting: Evicting, situation: Situation) -> Left:
    """Sort out who is still there."""
    snapshot = situation.seen.snapshot
    found: dict[str, list[facts.Pod]] = {"holding": [], "agents": [], "late": []}
    for row in snapshot.pods_on(snapshot.nodes.rows[case.name]):
        pod = snapshot.pod(row)
        part = _find_part(pod, case, evicting, situation)
        if part:
            found[part].append(pod)
    return Left(**{part: tuple(pods) for part, pods in found.items()})


def _find_part(pod: facts.Pod, case: Case, evicting: Evicting, situation: Situation) -> str:
    if not _is_worth_a_node(pod, situation) or _counts_as_gone(pod, evicting, situation):
        return ""
    if pod_traits.is_daemonset(pod):
        have_turns = situation.settings.drain.drain_priority_config and not case.begun.is_empty
        part = "holding" if have_turns else "agents"
        return part if _is_asked(pod, case, evicting, situation) else ""
    if not _must_leave(pod, situation) or _ends_with_node(pod, situation):
        return ""
    if identity(pod) in evicting.known:
        return "holding"
    return "" if any(one.tolerates(_MARK) for one in pod.spec.tolerations) else "late"


def _ends_with_node(pod: facts.Pod, situation: Situation) -> bool:
    """Does the user want it not to be evicted, nor waited for? Its controller starts it again once the node is gone."""
    return situation.drain_rules.find_behavior(pod) is facts.DrainBehavior.SKIP


def _is_asked(pod: facts.Pod, case: Case, evicting: Evicting, situation: Situation) -> bool:
    """Is this pod of a DaemonSet to be evicted? Not one that has come back since."""
    drain = situation.settings.drain
    empty, occupied = drain.daemonset_eviction_for_empty_nodes, drain.daemonset_eviction_for_occupied_nodes
    is_evicted = daemonset_eviction.is_evicted(pod, empty if case.begun.is_empty else occupied)
    return is_evicted and pod.created_s < evicting.began_s


def _counts_as_gone(pod: facts.Pod, evicting: Evicting, situation: Situation) -> bool:
    if identity(pod) in evicting.left_behind:
        return True
    counts_stuck = situation.settings.deviations.count_stuck_pods_as_gone
    return counts_stuck and pod_traits.is_long_terminating(pod, situation.now_s)
