"""Do not disrupt: Karpenter's annotation keeps a pod that has not ended, and with it the node.

A DaemonSet's pod, too, and one that Cluster Autoscaler's annotation calls safe to evict: as with Karpenter, the
annotation holds for every pod that runs.
"""

from windlass.engine import facts, pod_traits
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

STAYS = outcome.block(
    "DoNotDisrupt", outcome.Reason.DO_NOT_DISRUPT_ANNOTATION, "is annotated {}=true", pod_traits.DO_NOT_DISRUPT
)


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    if not context.options.respect_do_not_disrupt or pod.annotations.get(pod_traits.DO_NOT_DISRUPT) != "true":
        return None
    has_ended = pod.phase in ("Succeeded", "Failed")
    return None if has_ended or pod.deleted_s is not None else STAYS
