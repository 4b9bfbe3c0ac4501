"""Safe to evict: the annotation `true` overrules every rule after this one, disruption budgets included.

A budget still delays the eviction itself: the API server asks it again.
"""

from windlass.engine import facts, pod_traits
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

MAY_GO = outcome.drain("SafeToEvict", "is annotated {}=true", pod_traits.SAFE_TO_EVICT)


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    return MAY_GO if pod.annotations.get(pod_traits.SAFE_TO_EVICT) == "true" else None
