"""Drain rules on pod annotations: safe-to-evict (true, false, on-completion) and Karpenter's do-not-disrupt.

`safe-to-evict: "true"` overrules every later rule, disruption budgets included; the API server still enforces them at
eviction. `do-not-disrupt` holds for every running pod, DaemonSet pods and pods marked as safe to evict included.
"""

from windlass.engine.drainability.context import DrainContext
from windlass.engine.model import drainability, facts, well_known

DO_NOT_DISRUPT_BLOCKED = drainability.blocked_status(
    "DoNotDisrupt",
    drainability.BlockingPodReason.DO_NOT_DISRUPT_ANNOTATION,
    "is annotated {}=true",
    well_known.DO_NOT_DISRUPT_ANNOTATION,
)


def check_do_not_disrupt(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    if (
        not context.options.respect_do_not_disrupt
        or pod.annotations.get(well_known.DO_NOT_DISRUPT_ANNOTATION) != "true"
    ):
        return None
    has_ended = pod.phase in ("Succeeded", "Failed")
    return None if has_ended or pod.deleted_s is not None else DO_NOT_DISRUPT_BLOCKED


SAFE_TO_EVICT_DRAINABLE = drainability.drainable_status(
    "SafeToEvict", "is annotated {}=true", well_known.SAFE_TO_EVICT_ANNOTATION
)


def check_safe_to_evict(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    return SAFE_TO_EVICT_DRAINABLE if pod.annotations.get(well_known.SAFE_TO_EVICT_ANNOTATION) == "true" else None


ON_COMPLETION_WAIT = drainability.wait_status(
    "OnCompletion", "is annotated {}=on-completion and is left to finish", well_known.SAFE_TO_EVICT_ANNOTATION
)


def check_on_completion(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    return ON_COMPLETION_WAIT if pod.annotations.get(well_known.SAFE_TO_EVICT_ANNOTATION) == "on-completion" else None


NOT_SAFE_TO_EVICT_BLOCKED = drainability.blocked_status(
    "NotSafeToEvict",
    drainability.BlockingPodReason.NOT_SAFE_TO_EVICT_ANNOTATION,
    "is annotated {}=false",
    well_known.SAFE_TO_EVICT_ANNOTATION,
)


def check_not_safe_to_evict(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    return NOT_SAFE_TO_EVICT_BLOCKED if pod.annotations.get(well_known.SAFE_TO_EVICT_ANNOTATION) == "false" else None
