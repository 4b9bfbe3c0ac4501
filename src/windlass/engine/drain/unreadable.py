"""Unreadable pods stay: of a pod that runs and cannot be read in full, nobody knows what it needs. So its node stays.

A DaemonSet's pod ends with its node, whatever it says.
"""

from windlass.engine import facts, pod_traits
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

RULE = "Unreadable"


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    if not pod.unreadable or pod_traits.is_daemonset(pod):
        return None
    return outcome.block(RULE, outcome.Reason.UNREADABLE_POD, "cannot be read in full: {}", pod.unreadable)
