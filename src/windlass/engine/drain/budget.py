"""Disruption budget: a pod stays while any budget that covers it allows no disruption."""

from windlass.engine import facts
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    exhausted = context.budgets.exhausted(pod)
    if exhausted is None:
        return None
    saying = "is covered by disruption budget {}, which allows no disruption now"
    return outcome.block("PDB", outcome.Reason.NOT_ENOUGH_PDB, saying, exhausted.name)
