"""Disruption budget: a pod stays while any budget that covers it allows no disruption."""

from windlass.engine import disruption, facts
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    return judge(context.budgets.matching(pod.namespace, pod.labels), context)


def judge(budgets: disruption.Positions, context: Context) -> outcome.Outcome | None:
    """The same of a pod of which only its budgets are known."""
    exhausted = context.budgets.exhausted(budgets)
    if exhausted is None:
        return None
    saying = "is covered by disruption budget {}, which allows no disruption now"
    return outcome.block("PDB", outcome.Reason.NOT_ENOUGH_PDB, saying, exhausted.name)
