"""System pods: pods of kube-system stay until a budget says how many may go, or until they have run long enough.

Only with `skip_system_pods`. Older than `system_pod_timeout_s`, a pod may go, and the rules after this one, local
storage among them, are not asked. A pod whose age is not known never gets that old.
"""

from windlass.engine import facts
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

RULE = "System"
NAMESPACE = "kube-system"


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    if pod.namespace != NAMESPACE or not context.options.skip_system_pods:
        return None
    if context.budgets.matching(pod.namespace, pod.labels):
        return None
    timeout_s = context.options.system_pod_timeout_s
    if pod.created_s and pod.created_s + timeout_s < context.now_s:
        return outcome.drain(RULE, "is a pod of kube-system without a disruption budget, older than {:g} s", timeout_s)
    return outcome.block(
        RULE,
        outcome.Reason.UNMOVABLE_KUBE_SYSTEM_POD,
        "is a pod of kube-system that no disruption budget covers, not yet older than {:g} s",
        timeout_s,
    )
