"""Drain rules of Cluster API: the pod label cluster.x-k8s.io/drain and MachineDrainRules.

`skip`: the pod is not evicted and ends with its Machine; its controller recreates it elsewhere, so it needs room
there. `wait-completed`: the pod is left to finish. The label overrules a MachineDrainRule; `safe-to-evict: "false"`
overrules both. While it is unknown which MachineDrainRules select a Machine, its node stays: Cluster API would not
drain it either.
"""

from windlass.engine.drainability.context import DrainContext
from windlass.engine.model import drainability, facts, node_groups, well_known


def check_unreadable_drain_rules(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    if not context.drain_rules:
        return None
    reason = context.drain_rules.on_node(pod.node_name).unreadable
    return unreadable_drain_rules_status(reason) if reason else None


def unreadable_drain_rules_status(reason: str) -> drainability.DrainabilityStatus:
    return drainability.blocked_status(
        "UnreadableDrainRules",
        drainability.BlockingPodReason.UNREADABLE_DRAIN_RULES,
        "may be the subject of a MachineDrainRule: {}",
        reason,
    )


DRAIN_LABEL_SKIPPED = drainability.drainable_status(
    "DrainLabel", "is labelled {}=skip: it is not evicted, and ends with its node", well_known.DRAIN_LABEL
)

DRAIN_LABEL_WAIT = drainability.wait_status(
    "DrainLabel", "is labelled {}=wait-completed and is left to finish", well_known.DRAIN_LABEL
)


def check_drain_label(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    if (
        not context.options.respect_machine_drain_rules
        or pod.annotations.get(well_known.SAFE_TO_EVICT_ANNOTATION) == "false"
    ):
        return None
    match pod.drain_behavior:
        case facts.DrainBehavior.SKIP:
            return DRAIN_LABEL_SKIPPED
        case facts.DrainBehavior.WAIT_COMPLETED:
            return DRAIN_LABEL_WAIT
        case facts.DrainBehavior.DRAIN:
            return None


MACHINE_DRAIN_RULE = "MachineDrainRule"


def check_machine_drain_rule(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    if not context.drain_rules or pod.annotations.get(well_known.SAFE_TO_EVICT_ANNOTATION) == "false":
        return None
    rule = context.drain_rules.find(pod)
    return None if rule is None else machine_drain_rule_status(rule)


def machine_drain_rule_status(rule: node_groups.MachineDrainRule) -> drainability.DrainabilityStatus | None:
    match rule.behavior:
        case facts.DrainBehavior.SKIP:
            return drainability.drainable_status(
                MACHINE_DRAIN_RULE,
                "is skipped by MachineDrainRule {}: it is not evicted, and ends with its node",
                rule.key,
            )
        case facts.DrainBehavior.WAIT_COMPLETED:
            return drainability.wait_status(MACHINE_DRAIN_RULE, "is left to finish by MachineDrainRule {}", rule.key)
        case facts.DrainBehavior.DRAIN:
            return None
