"""Mirror pods stay: the kubelet runs them from a file on the node, and evicting the API's copy moves nothing."""

from windlass.engine import facts, pod_traits
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

LEFT = outcome.skip("Mirror", "mirrors a static pod of the kubelet and goes with its node")


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    return LEFT if pod_traits.is_mirror(pod) else None
