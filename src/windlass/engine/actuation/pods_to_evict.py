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
from windlass.engine.scale_up import pending_pods
from windlass.engine.snapshot.pod_table import pod_identity

_DELETION_TAINT = taints.make_to_be_deleted(0.0)


def find_evictable_rows(name: str, context: ActuationContext) -> list[int]:
    """Rows of the pods on a node that must leave it."""
    snapshot = context.observation.snapshot
    return [row for row in snapshot.pods_on(snapshot.nodes.rows[name]) if _must_leave(snapshot.pod(row), context)]


def find_evictable_uids(name: str, context: ActuationContext) -> frozenset[str]:
    """The same pods by uid."""
    return frozenset(pod_identity(context.observation.snapshot.pod(row)) for row in find_evictable_rows(name, context))


def _must_leave(pod: facts.Pod, context: ActuationContext) -> bool:
    return _is_not_expendable(pod, context) and not well_known.is_mirror(pod) and not well_known.is_daemonset(pod)


def _is_not_expendable(pod: facts.Pod, context: ActuationContext) -> bool:
    return not pending_pods.is_expendable(pod.spec, context.settings.pods.expendable_pods_priority_cutoff)


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


def find_remaining_pods(drain: NodeDrain, evicting: EvictionProgress, context: ActuationContext) -> RemainingPods:
    """Sort out who is still there."""
    snapshot = context.observation.snapshot
    found: dict[str, list[facts.Pod]] = {"holding": [], "agents": [], "late": []}
    for row in snapshot.pods_on(snapshot.nodes.rows[drain.name]):
        pod = snapshot.pod(row)
        part = _classify_pod(pod, drain, evicting, context)
        if part:
            found[part].append(pod)
    return RemainingPods(**{part: tuple(pods) for part, pods in found.items()})


def _classify_pod(pod: facts.Pod, drain: NodeDrain, evicting: EvictionProgress, context: ActuationContext) -> str:
    if not _is_not_expendable(pod, context) or _counts_as_gone(pod, evicting, context):
        return ""
    if well_known.is_daemonset(pod):
        have_turns = context.settings.drain.drain_priority_config and not drain.begun.is_empty
        part = "holding" if have_turns else "agents"
        return part if _is_evicted(pod, drain, evicting, context) else ""
    if not _must_leave(pod, context) or _ends_with_node(pod, context):
        return ""
    if pod_identity(pod) in evicting.known:
        return "holding"
    return "" if any(toleration.tolerates(_DELETION_TAINT) for toleration in pod.spec.tolerations) else "late"


def _ends_with_node(pod: facts.Pod, context: ActuationContext) -> bool:
    """Whether Cluster API's drain behavior of the pod is Skip: it is neither evicted nor waited for."""
    return context.drain_rules.find_behavior(pod) is facts.DrainBehavior.SKIP


def _is_evicted(pod: facts.Pod, drain: NodeDrain, evicting: EvictionProgress, context: ActuationContext) -> bool:
    """Whether this DaemonSet pod is to be evicted. A pod recreated during the drain is not."""
    settings = context.settings.drain
    empty, occupied = settings.daemonset_eviction_for_empty_nodes, settings.daemonset_eviction_for_occupied_nodes
    is_evicted = is_daemonset_pod_evicted(pod, empty if drain.begun.is_empty else occupied)
    return is_evicted and pod.created_s < evicting.began_s


def _counts_as_gone(pod: facts.Pod, evicting: EvictionProgress, context: ActuationContext) -> bool:
    if pod_identity(pod) in evicting.left_behind:
        return True
    counts_stuck = context.settings.deviations.count_stuck_pods_as_gone
    return counts_stuck and well_known.is_long_terminating(pod, context.now_s)


def admit_late_pods(
    drain: NodeDrain, late: Sequence[facts.Pod], evicting: EvictionProgress, context: ActuationContext
) -> EvictionProgress:
    """Add late pods to the pods that must be gone, or fail the drain if one of them may not be evicted."""
    about = make_drain_context(context.observation, context.settings, context.now_s)
    for pod in late:
        outcome = rules.check_pod(pod, about)
        if outcome is not None and outcome.action is DrainAction.SKIP:
            continue
        may_leave = (
            outcome is None or outcome.action is DrainAction.DRAIN or outcome.reason is BlockingPodReason.NOT_ENOUGH_PDB
        )
        if outcome is not None and not may_leave:
            drain.fail(DrainFailureReason.BLOCKED_BY_POD, outcome.text(pod))
        elif drain.begun.is_empty:
            drain.fail(DrainFailureReason.NOT_EMPTY, pod.key)
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
