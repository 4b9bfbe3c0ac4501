"""Drain label: `cluster.x-k8s.io/drain` tells Cluster API, which drains a Machine's node, how the pod leaves it.

`skip`: the pod is not evicted and ends with its Machine. Like `safe-to-evict: "true"` that overrules every rule after
this one. Its controller starts it again elsewhere, so there must be room for it.
`wait-completed`: the pod is left to finish, whatever else says that it may be evicted.
`safe-to-evict: "false"` keeps the pod, and its node, all the same.
"""

from windlass.engine import facts, pod_traits
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

ENDS_WITH_NODE = outcome.drain(
    "DrainLabel", "is labelled {}=skip: it is not evicted, and ends with its node", pod_traits.DRAIN_LABEL
)
UNTIL_DONE = outcome.wait("DrainLabel", "is labelled {}=wait-completed and is left to finish", pod_traits.DRAIN_LABEL)


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    if not context.options.respect_machine_drain_rules or pod.annotations.get(pod_traits.SAFE_TO_EVICT) == "false":
        return None
    match pod.drain_behavior:
        case facts.DrainBehavior.SKIP:
            return ENDS_WITH_NODE
        case facts.DrainBehavior.WAIT_COMPLETED:
            return UNTIL_DONE
        case facts.DrainBehavior.DRAIN:
            return None
