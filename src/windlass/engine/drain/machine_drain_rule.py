"""MachineDrainRule: a rule of Cluster API says of a pod what the drain label says, and comes to the same.

`Skip`: the pod is not evicted and ends with its Machine; `WaitCompleted`: it is left to finish; `Drain`: no opinion.
The pod's label says more than a rule, and `safe-to-evict: "false"` keeps the pod, and its node, all the same.
"""

from windlass.engine import facts, pod_traits
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

RULE = "MachineDrainRule"


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    if not context.drain_rules or pod.annotations.get(pod_traits.SAFE_TO_EVICT) == "false":
        return None
    rule = context.drain_rules.find(pod)
    return None if rule is None else tell(rule)


def tell(rule: facts.MachineDrainRule) -> outcome.Outcome | None:
    match rule.behavior:
        case facts.DrainBehavior.SKIP:
            return outcome.drain(
                RULE, "is skipped by MachineDrainRule {}: it is not evicted, and ends with its node", rule.key
            )
        case facts.DrainBehavior.WAIT_COMPLETED:
            return outcome.wait(RULE, "is left to finish by MachineDrainRule {}", rule.key)
        case facts.DrainBehavior.DRAIN:
            return None
