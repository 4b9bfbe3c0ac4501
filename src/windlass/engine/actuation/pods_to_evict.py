"""Pods to evict from a draining node: which must be gone, which are evicted only, and which came late.

Static, DaemonSet and expendable pods end with the node. DaemonSet pods are evicted where flags or their annotation
say so, and not waited for, except with --drain-priority-config. Pods that Cluster API's label or a MachineDrainRule
skips are neither evicted nor waited for. Pods that came after revalidation are evicted too, if drain rules allow it;
else the drain fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from windlass.engine import taints
from windlass.engine.actuation.node_drain import ActuationContext, NodeDrain
from windlass.engine.drainability import rules
from windlass.engine.drainability.context import make_drain_context
from windlass.engine.model import facts, well_known
from windlass.engine.model.drainability import BlockingPodReason, DrainAction
from windlass.engine.model.drains import DrainFailureReason, EvictionProgress
from windlass.engine.scale_up import pod_list
from windlass.engine.snapshot.pod_table import pod_identity

_DELETION_TAINT = taints.make_to_be_deleted(0.0)


def find_evictable_rows(name: str, situation: ActuationContext) -> list[int]:
    """Rows of the pods on a node that must leave it."""
    snapshot = situation.observation.snapshot
    return [row for row in snapshot.pods_on(snapshot.nodes.rows[name]) if _must_leave(snapshot.pod(row), situation)]


def find_evictable_uids(name: str, situation: ActuationContext) -> frozenset[str]:
    """The same pods by uid."""
    return frozenset(
        pod_identity(situation.observation.snapshot.pod(row)) for row in find_evictable_rows(name, situation)
    )


def _must_leave(pod: facts.Pod, situation: ActuationContext) -> bool:
    return _is_not_expendable(pod, situation) and not well_known.is_mirror(pod) and not well_known.is_daemonset(pod)


def _is_not_expendable(pod: facts.Pod, situation: ActuationContext) -> bool:
    return not pod_list.is_expendable(pod.spec, situation.settings.pods.expendable_pods_priority_cutoff)


@dataclass(frozen=True, slots=True)
class RemainingPods:
    """The pods that are left on a node."""

    holding: tuple[facts.Pod, ...] = ()
    """Those that must be gone before the node goes."""
    agents: tuple[facts.Pod, ...] = ()
    """Those of DaemonSets that are asked to leave and not waited for."""
    late: tuple[facts.Pod, ...] = ()
    """Those that came after the node was checked. One that tolerates the mark is none of them: it knew what it came
    to, and would come back if it were made to leave."""


def find_remaining_pods(case: NodeDrain, evicting: EvictionProgress, situation: ActuationContext) -> RemainingPods:
    """Sort out who is still there."""
    snapshot = situation.observation.snapshot
    found: dict[str, list[facts.Pod]] = {"holding": [], "agents": [], "late": []}
    for row in snapshot.pods_on(snapshot.nodes.rows[case.name]):
        pod = snapshot.pod(row)
        part = _classify_pod(pod, case, evicting, situation)
        if part:
            found[part].append(pod)
    return RemainingPods(**{part: tuple(pods) for part, pods in found.items()})


def _classify_pod(pod: facts.Pod, case: NodeDrain, evicting: EvictionProgress, situation: ActuationContext) -> str:
    if not _is_not_expendable(pod, situation) or _counts_as_gone(pod, evicting, situation):
        return ""
    if well_known.is_daemonset(pod):
        have_turns = situation.settings.drain.drain_priority_config and not case.begun.is_empty
        part = "holding" if have_turns else "agents"
        return part if _is_evicted(pod, case, evicting, situation) else ""
    if not _must_leave(pod, situation) or _ends_with_node(pod, situation):
        return ""
    if pod_identity(pod) in evicting.known:
        return "holding"
    return "" if any(one.tolerates(_DELETION_TAINT) for one in pod.spec.tolerations) else "late"


def _ends_with_node(pod: facts.Pod, situation: ActuationContext) -> bool:
    """Does the user want it not to be evicted, nor waited for? Its controller starts it again once the node is gone."""
    return situation.drain_rules.find_behavior(pod) is facts.DrainBehavior.SKIP


def _is_evicted(pod: facts.Pod, case: NodeDrain, evicting: EvictionProgress, situation: ActuationContext) -> bool:
    """Is this pod of a DaemonSet to be evicted? Not one that has come back since."""
    drain = situation.settings.drain
    empty, occupied = drain.daemonset_eviction_for_empty_nodes, drain.daemonset_eviction_for_occupied_nodes
    is_evicted = is_daemonset_pod_evicted(pod, empty if case.begun.is_empty else occupied)
    return is_evicted and pod.created_s < evicting.began_s


def _counts_as_gone(pod: facts.Pod, evicting: EvictionProgress, situation: ActuationContext) -> bool:
    if pod_identity(pod) in evicting.left_behind:
        return True
    counts_stuck = situation.settings.deviations.count_stuck_pods_as_gone
    return counts_stuck and well_known.is_long_terminating(pod, situation.now_s)


def admit_late_pods(
    case: NodeDrain, late: Sequence[facts.Pod], evicting: EvictionProgress, situation: ActuationContext
) -> EvictionProgress:
    """Count them among those that must leave, or fail the case."""
    about = make_drain_context(situation.observation, situation.settings, situation.now_s)
    for pod in late:
        outcome = rules.check_pod(pod, about)
        if outcome is not None and outcome.action is DrainAction.SKIP:
            continue
        may_leave = (
            outcome is None or outcome.action is DrainAction.DRAIN or outcome.reason is BlockingPodReason.NOT_ENOUGH_PDB
        )
        if outcome is not None and not may_leave:
            case.fail(DrainFailureReason.BLOCKED_BY_POD, outcome.text(pod))
        elif case.begun.is_empty:
            case.fail(DrainFailureReason.NOT_EMPTY, pod.key)
        else:
            evicting = replace(evicting, known=evicting.known | {pod_identity(pod)})
            continue
        return evicting
    return evicting


ENABLE_DS_EVICTION = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
"""`true` on a DaemonSet's pod: evict it. Any other value: do not."""


def is_daemonset_pod_evicted(pod: facts.Pod, by_default: bool) -> bool:
    """Is this DaemonSet pod evicted? `by_default` is what holds for its kind of node."""
    own = pod.annotations.get(ENABLE_DS_EVICTION)
    return by_default if own is None else own == "true"
