"""Replicated: a pod without a controller stays, because nothing would start it again elsewhere.

With `skip_custom_controllers`, only Kubernetes' own controllers count as such.
"""

from windlass.engine import facts
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

RULE = "Replicated"
BUILT_IN = frozenset({"ReplicationController", "Job", "ReplicaSet", "StatefulSet"})

ALONE = outcome.block(
    RULE, outcome.Reason.NOT_REPLICATED, "has no controller: nothing would start it again on another node"
)


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    if pod.owner is None:
        return ALONE
    if context.options.skip_custom_controllers and pod.owner.kind not in BUILT_IN:
        saying = "is owned by {} {}, which is not a controller of Kubernetes' own"
        return outcome.block(RULE, outcome.Reason.NOT_REPLICATED, saying, pod.owner.kind, pod.owner.name)
    return None
