"""On completion: the annotation `on-completion` asks to let the pod finish before its node goes."""

from windlass.engine import facts, pod_traits
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

UNTIL_DONE = outcome.wait(
    "OnCompletion", "is annotated {}=on-completion and is left to finish", pod_traits.SAFE_TO_EVICT
)


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    return UNTIL_DONE if pod.annotations.get(pod_traits.SAFE_TO_EVICT) == "on-completion" else None
