"""Not safe to evict: the annotation `false` keeps the pod, and with it the node."""

from windlass.engine import facts, pod_traits
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

STAYS = outcome.block(
    "NotSafeToEvict", outcome.Reason.NOT_SAFE_TO_EVICT_ANNOTATION, "is annotated {}=false", pod_traits.SAFE_TO_EVICT
)


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    return STAYS if pod.annotations.get(pod_traits.SAFE_TO_EVICT) == "false" else None
