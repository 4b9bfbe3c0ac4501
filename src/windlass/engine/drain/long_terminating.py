"""Pods that should long be gone count as gone: past their grace period and 30 s, they hold up no drain."""

from windlass.engine import facts, pod_traits
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

LEFT = outcome.skip("LongTerminating", "has been terminating for longer than its grace period and counts as gone")


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    return LEFT if pod.deleted_s is not None and pod_traits.is_long_terminating(pod, context.now_s) else None
