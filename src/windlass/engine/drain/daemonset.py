"""DaemonSet pods never block: one runs on every node, so it has nowhere to go and nothing to lose."""

from windlass.engine import facts, pod_traits
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

MAY_GO = outcome.drain("DaemonSet", "belongs to a DaemonSet and ends with its node")


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    return MAY_GO if pod_traits.is_daemonset(pod) else None
