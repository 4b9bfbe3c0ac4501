"""Drain rules on what a pod is: mirror, long-terminating, unreadable, DaemonSet and terminal pods.

Mirror pods and pods past their grace period plus 30 s are skipped. A running pod that cannot be read in full blocks
its node, because its requirements are unknown. DaemonSet pods and pods that have ended never block.
"""

from windlass.engine.drainability.context import DrainContext
from windlass.engine.model import drainability, facts, well_known

MIRROR_SKIPPED = drainability.skip_status("Mirror", "mirrors a static pod of the kubelet and goes with its node")


def check_mirror(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    return MIRROR_SKIPPED if well_known.is_mirror(pod) else None


LONG_TERMINATING_SKIPPED = drainability.skip_status(
    "LongTerminating", "has been terminating for longer than its grace period and counts as gone"
)


def check_long_terminating(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    return (
        LONG_TERMINATING_SKIPPED
        if pod.deleted_s is not None and well_known.is_long_terminating(pod, context.now_s)
        else None
    )


UNREADABLE_RULE = "Unreadable"


def check_unreadable(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    if not pod.unreadable or well_known.is_daemonset(pod):
        return None
    return drainability.blocked_status(
        UNREADABLE_RULE, drainability.BlockingPodReason.UNREADABLE_POD, "cannot be read in full: {}", pod.unreadable
    )


DAEMONSET_DRAINABLE = drainability.drainable_status("DaemonSet", "belongs to a DaemonSet and ends with its node")


def check_daemonset(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    return DAEMONSET_DRAINABLE if well_known.is_daemonset(pod) else None


TERMINAL_DRAINABLE = drainability.drainable_status("Terminal", "has ended and will not be started again")


def check_terminal(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    return TERMINAL_DRAINABLE if _has_ended(pod) else None


def _has_ended(pod: facts.Pod) -> bool:
    if pod.phase == "Failed":  # whatever the restart policy: a kubelet that rejects a pod does not start it again
        return True
    return pod.phase == "Succeeded" and pod.restart_policy in ("Never", "OnFailure")
