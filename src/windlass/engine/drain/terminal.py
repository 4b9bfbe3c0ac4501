"""Terminal pods have ended: they failed, or succeeded and are not to be started again. Nothing is lost with them."""

from windlass.engine import facts
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

MAY_GO = outcome.drain("Terminal", "has ended and will not be started again")


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    return MAY_GO if _has_ended(pod) else None


def _has_ended(pod: facts.Pod) -> bool:
    if pod.phase == "Failed":  # whatever the restart policy: a kubelet that rejects a pod does not start it again
        return True
    return pod.phase == "Succeeded" and pod.restart_policy in ("Never", "OnFailure")
