"""Unreadable drain rules: while it is not known which MachineDrainRules select a Machine, its node stays.

Cluster API does not drain such a Machine either: its deletion would wait until the rule can be read.
"""

from windlass.engine import facts
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    if not context.drain_rules:
        return None
    why = context.drain_rules.on_node(pod.node_name).unreadable
    return tell(why) if why else None


def tell(why: str) -> outcome.Outcome:
    return outcome.block(
        "UnreadableDrainRules",
        outcome.Reason.UNREADABLE_DRAIN_RULES,
        "may be the subject of a MachineDrainRule: {}",
        why,
    )
