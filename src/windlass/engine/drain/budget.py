"""Disruption budget: a pod stays while any budget that covers it allows no disruption.

The eviction API refuses pods that more than one budget covers: they stay as long as that is so. It lets pods go that
have not started, and those that run and are not Ready as far as their budget's unhealthyPodEvictionPolicy says.
"""

from windlass.engine import disruption, facts
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

_SPARED = {
    facts.Health.READY: "is terminating",
    facts.Health.UNREADY: "is not Ready",
    facts.Health.NOT_STARTED: "has not started",
}
_UNHEALTHY = (
    "is not Ready, and covered by disruption budget {}, which allows no disruption now and lets unhealthy pods go only "
    "while enough others are healthy; with unhealthyPodEvictionPolicy: AlwaysAllow it would let this one go"
)


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    return judge(context.budgets.charged_for(pod), context, pod.health)


def judge(
    budgets: disruption.Positions, context: Context, health: facts.Health = facts.Health.READY
) -> outcome.Outcome | None:
    """The same of a pod of which only the budgets that are charged for it, and its health, are known."""
    exhausted = context.budgets.exhausted(budgets)
    if exhausted is None:
        return None
    if context.budgets.are_too_many(budgets):
        names = ", ".join(context.budgets.budgets[position].name for position in budgets)
        saying = "is covered by more than one disruption budget ({}): the API does not evict such a pod"
        return outcome.block("PDB", outcome.Reason.NOT_ENOUGH_PDB, saying, names)
    if context.budgets.spares_unhealthy and health is facts.Health.UNREADY and len(budgets) == 1:
        return outcome.block("PDB", outcome.Reason.NOT_ENOUGH_PDB, _UNHEALTHY, exhausted.name)
    saying = "is covered by disruption budget {}, which allows no disruption now"
    return outcome.block("PDB", outcome.Reason.NOT_ENOUGH_PDB, saying, exhausted.name)


def explain_spared(pod: facts.Pod, context: Context) -> str:
    """Why a pod may go although the budgets that cover it would keep another one; empty where they would not."""
    covering = context.budgets.matching(pod.namespace, pod.labels)
    exhausted = context.budgets.exhausted(covering)
    if exhausted is None or context.budgets.charged_for(pod):
        return ""
    condition = _SPARED[facts.Health.READY if pod.is_terminating else pod.health]
    if context.budgets.are_too_many(covering):
        return f"{condition}: the API evicts it although more than one disruption budget covers it"
    return f"{condition}: the API evicts it although disruption budget {exhausted.name} allows no disruption now"
